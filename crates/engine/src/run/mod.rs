//! One run, from admission to its last record.

mod begin;
mod collect;
mod drive;
mod end;
mod follow;
pub(crate) mod kept;
pub(crate) mod lane;
mod patience;
mod phase;
pub(crate) mod update;
pub(crate) mod view;

use threadline_contract::{Code, Fault};

pub(crate) use drive::Driver;

/// What a failure of the disk is called.
pub(crate) fn disk_fault(e: &threadline_files::Error) -> Fault {
    use threadline_files::Reason;
    match e.reason() {
        Reason::NoSpace => Fault::new(Code::StorageFull, Code::StorageFull.advice()),
        Reason::ReadOnly | Reason::Denied => Fault::new(
            Code::StorageReadOnly,
            format!("{e}. {}", Code::StorageReadOnly.advice()),
        ),
        _ => {
            tracing::error!(error = %e, "The disk failed");
            Fault::internal()
        }
    }
}
