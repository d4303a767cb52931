//! Whether a session can be gone on with: what its last turn left must still be in the data folder.

use threadline_contract::{Code, Fault, RunId, SessionKey};
use threadline_runtimes::{Registry, RunRef, Runtime};
use threadline_store::Session;

use crate::Engine;

impl Engine {
    /// Refuses a follow-up, of this run where it has one already, whose conversation is gone from the data
    /// folder: an empty one in its place would be a silent restart. Turns that never began left nothing.
    pub(crate) async fn check_continuation(
        &self,
        session: &Session,
        runtime: &dyn Runtime,
        run: Option<&RunId>,
    ) -> Result<(), Fault> {
        if !runtime.keeps_sessions() {
            return Ok(());
        }
        let Session {
            account,
            owner,
            session_key,
            ..
        } = session;
        let last = self
            .0
            .store
            .last_begun_run(account, owner, session_key, run);
        let Some(last) = last.await? else {
            return Ok(());
        };
        let asked = RunRef {
            session: session_key.clone(),
            run: last.id,
        };
        match runtime.ask_registry(&asked).await? {
            Registry::Running | Registry::Ended(_) => Ok(()),
            Registry::NoRecord => Err(lost(session_key, &asked.run)),
        }
    }
}

fn lost(session: &SessionKey, run: &RunId) -> Fault {
    Fault::new(
        Code::ContinuationUnavailable,
        format!(
            "The conversation of session `{session}` is not in the server's data folder any more: the record of its last turn, {run}, is missing. Put the data folder back from a back-up, or begin a new conversation: session.start, or `--new-session` on the command line."
        ),
    )
}
