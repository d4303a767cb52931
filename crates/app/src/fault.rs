//! From what broke to the one error that crosses a boundary.

use threadline_contract::{Code, Fault};
use threadline_files::{Error, Reason};

/// A disk that does not take what it must.
pub(crate) fn storage(e: Error) -> Fault {
    match e.reason() {
        Reason::NoSpace => Fault::new(
            Code::StorageFull,
            format!(
                "The disk is full ({e}). Nothing half-written was kept; make room and try again."
            ),
        ),
        Reason::ReadOnly | Reason::Denied => Fault::new(
            Code::StorageReadOnly,
            format!("The folder cannot be written ({e}). Mend its permissions and try again."),
        ),
        Reason::Symlink | Reason::NotRegular | Reason::NotDirectory | Reason::HardLinked => {
            Fault::new(
                Code::StateDamaged,
                format!(
                    "Something else stands where Threadline keeps files of its own ({e}). Move it away and try again."
                ),
            )
        }
        _ => {
            tracing::error!("A file could not be used: {e}");
            Fault::new(Code::Internal, format!("A file could not be used: {e}."))
        }
    }
}

/// Something of ours broke; the cause goes to the log, once, here.
pub(crate) fn internal(cause: impl std::fmt::Display) -> Fault {
    tracing::error!("The app broke: {cause}");
    Fault::internal()
}
