//! The conversations on a runtime.

use threadline_contract::{Fault, NewKey, RunId, SessionKey};

use super::Pending;

/// The conversations on a runtime, each with one owner for life.
pub trait Sessions: Send + Sync + 'static {
    /// The key of a session that has no mapping yet. After the mapping is made, the mapping alone is read.
    fn new_session_key(&self, new: &NewKey<'_>) -> SessionKey;

    /// Whether a turn of this session was ever prepared on this host.
    fn has_session<'a>(&'a self, _session: &'a SessionKey) -> Pending<'a, Result<bool, Fault>> {
        Box::pin(async { Ok(false) })
    }

    /// Makes the session's folder its own, before its first turn is admitted: `CONFLICT` when
    /// another session's key leads to the same folder. Can be repeated.
    fn reserve<'a>(&'a self, session: &'a SessionKey) -> Pending<'a, Result<(), Fault>>;

    /// The session was closed: ends what is kept running for it and has nothing to do. Can be repeated.
    fn close<'a>(&'a self, _session: &'a SessionKey) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async { Ok(()) })
    }

    /// Removes everything of a session for good: its folders, and the records of its runs, all of
    /// which have ended. A folder of the user's own is not touched. Can be repeated.
    fn forget<'a>(
        &'a self,
        session: &'a SessionKey,
        runs: &'a [RunId],
    ) -> Pending<'a, Result<(), Fault>>;

    /// The page of a session in the runtime's own interface, where it has one.
    fn page(&self, _session: &SessionKey) -> Option<String> {
        None
    }
}
