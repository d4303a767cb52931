//! One run, from admission to its last record.

mod begin;
mod collect;
mod drive;
mod end;
mod follow;
pub(crate) mod kept;
pub(crate) mod lane;
pub(crate) mod patience;
pub(crate) mod phase;
pub(crate) mod update;
pub(crate) mod view;

pub(crate) use drive::Driver;
