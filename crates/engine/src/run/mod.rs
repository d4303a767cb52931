//! One run, from admission to its last record.

mod attend;
mod begin;
pub(crate) mod cancel;
mod collect;
mod drive;
mod end;
mod follow;
pub(crate) mod kept;
pub(crate) mod lane;
mod lane_clock;
mod neighbour;
mod pause;
pub(crate) mod phase;
mod policy;
pub(crate) mod stall;
pub(crate) mod time;
mod tool_calls;
pub(crate) mod unstored_cancel;
pub(crate) mod update;
pub(crate) mod view;
mod wording;

pub(crate) use drive::Driver;
pub use time::Budgets;
