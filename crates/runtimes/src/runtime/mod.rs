//! What callers ask of a runtime, split by what they need.
//!
//! | trait | asked by |
//! | --- | --- |
//! | [`RuntimeInfo`] | whoever routes, counts places or shows how things stand |
//! | [`Sessions`] | whoever binds, closes or deletes a conversation |
//! | [`Turns`] | the driver of a run |
//! | [`Files`] | whoever collects, downloads or removes files |

mod files;
mod info;
mod plan;
mod sessions;
mod turns;
mod update;

use std::{future::Future, pin::Pin};

pub use self::{
    files::{Body, Files, Manifest, ReadAt, Room, RoomRules, Stands},
    info::{AgentHost, Availability, HostCleanup, LaneSize, Readiness, RuntimeInfo},
    plan::{Attachment, Places, TurnPlan},
    sessions::Sessions,
    turns::{Follow, Logged, Registry, RunRef, Signal, Turns},
    update::{Ask, End, EndStatus, Frame, LAST_WORDS, Update},
};

pub(crate) use self::turns::takes_no_tools;

/// An answer that is on its way.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where turns really run: one object that does all of it.
pub trait Runtime: RuntimeInfo + Sessions + Turns + Files {}

impl<R: RuntimeInfo + Sessions + Turns + Files> Runtime for R {}
