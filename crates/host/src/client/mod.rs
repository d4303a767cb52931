//! The bridge's side of its agents' hosts.

mod attach;
mod connect;
mod control;
mod frames;
mod hosts;
mod launch;
mod sweep;

pub use attach::Attached;
pub use control::{Control, Sent};
pub use frames::Frames;
pub use hosts::{Hosts, Standing};
pub use launch::Launch;
pub use sweep::{Sweep, Swept};
