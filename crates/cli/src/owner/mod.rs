//! The one process that owns a data folder: bridge, app and pages, behind one socket.

mod agents;
mod compose;
mod listen;
mod log;
mod node;
mod places;
mod process;
mod runtimes;
mod state;
mod stop;
pub(crate) mod token;

/// How a background owner ends that found the folder owned: not an error, somebody was quicker.
pub(crate) const OUTRUN: u8 = 75;

pub(crate) use self::{
    agents::hosts,
    compose::{Parent, Started, run},
    listen::{allowed, bind, url as url_of},
    log::{open as open_log, to_stderr as log_to_stderr},
    places::{Places, storage},
    process::{is_stopped, silent, stopped},
    state::{Mode, Owner, State, VERSION, look},
    stop::Signals,
};
