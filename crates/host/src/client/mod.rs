//! The bridge's side of its agents' hosts.

mod attach;
mod connect;
mod control;
mod frames;
mod hosts;
mod launch;

pub use attach::Attached;
pub use control::{Control, Sent};
pub use frames::Frames;
pub use hosts::{Hosts, Standing, Swept};
pub use launch::Launch;
