//! Which session a turn is one of: from the mapping, or made once by the runtime's creation policy.

use std::{ops::Range, path::Path};

use serde_json::json;
use threadline_contract::{
    Code, Fault, Millis, NewKey, Owner, Principal, RuntimeId, SessionKey, canonical,
};
use threadline_store::{Bound, NewSession, Session, SessionState, StoreError};

use crate::{
    Engine,
    engine::Lane,
    turn::{Here, NewTurn, SessionUse, refused},
    wire,
};

/// Case twins and other accounts' keys that a new session key steps around at most.
const MAX_TWINS: u32 = 64;
/// The numbers in the keys of accounts other than the machine's own begin here.
const FIRST_ACCOUNT_TWIN: u32 = 1_000_000_000;

impl Engine {
    /// An owner's newest session on a runtime.
    pub(crate) async fn session_of(
        &self,
        caller: &Principal,
        owner: &Owner,
        runtime: &RuntimeId,
    ) -> Result<Option<Session>, Fault> {
        match self.0.store.session(&caller.account, owner, runtime).await {
            Ok(session) => Ok(Some(session)),
            Err(StoreError::NotFound) => Ok(None),
            Err(other) => Err(other.into()),
        }
    }

    /// The session of a turn. One that goes on never makes one: that would be a silent restart.
    pub(crate) async fn bind(
        &self,
        caller: &Principal,
        here: &Here,
        turn: &NewTurn,
    ) -> Result<Session, Fault> {
        let folder = turn.working_directory.as_deref();
        self.takes(&here.runtime, folder)?;
        match turn.session {
            SessionUse::Continue => self.open_session(here, folder).await,
            SessionUse::Start { version } => {
                let existing = here.session.as_ref().filter(|s| s.version == version);
                if let Some(session) = existing {
                    keeps_folder(session, folder)?;
                }
                let session = match existing {
                    Some(session) => {
                        let key = session.session_key.clone();
                        let mapped = self.map(caller, here, turn, version, key).await;
                        mapped.map_err(refused)?
                    }
                    None => self.new_session(caller, here, turn, version).await?,
                };
                self.opened(caller, session).await
            }
        }
    }

    async fn open_session(&self, here: &Here, folder: Option<&Path>) -> Result<Session, Fault> {
        let open = |s: &&Session| s.state == SessionState::Open;
        let session = here.session.as_ref().filter(open).ok_or_else(|| {
            let (owner, runtime) = (wire::at_beginning(&here.owner), &here.runtime);
            Fault::new(
                Code::ContinuationUnavailable,
                format!(
                    "{owner} has no open session on {runtime}. Start a new one with session.start."
                ),
            )
        })?;
        keeps_folder(session, folder)?;
        let lane = self.runtime(&here.runtime)?;
        self.check_continuation(session, &*lane.runtime, None)
            .await?;
        Ok(session.clone())
    }

    /// Makes a key that nobody has, and its mapping.
    async fn new_session(
        &self,
        caller: &Principal,
        here: &Here,
        turn: &NewTurn,
        version: u32,
    ) -> Result<Session, Fault> {
        let lane = self.runtime(&here.runtime)?;
        for twin in twins(caller, &here.owner) {
            let key = lane.runtime.new_session_key(&NewKey {
                account: &caller.account,
                owner: &here.owner,
                version,
                agent: turn.agent.as_deref(),
                twin,
            });
            SessionKey::new(key.as_str())
                .map_err(|e| Fault::invalid(format!("The thread's key is too long: {e}.")))?;
            // Told now rather than by a run that was accepted: another's folder stays another's.
            lane.runtime.reserve(&key).await?;
            match self.map(caller, here, turn, version, key).await {
                Err(StoreError::KeyTaken) => {}
                other => return other.map_err(refused),
            }
        }
        let owner = wire::called(&here.owner);
        Err(Fault::new(
            Code::Conflict,
            format!("No session key is free for {owner}. Use another thread key."),
        ))
    }

    /// Makes the mapping from owner to session, or confirms it.
    async fn map(
        &self,
        caller: &Principal,
        here: &Here,
        turn: &NewTurn,
        version: u32,
        session_key: SessionKey,
    ) -> Result<Session, StoreError> {
        let keeps = |lane: &Lane| lane.runtime.keeps_sessions();
        let new = NewSession {
            account: caller.account.clone(),
            owner: here.owner.clone(),
            runtime: here.runtime.clone(),
            version,
            session_key,
            expected_dirs: turn.expected_dirs.clone(),
            working_directory: turn
                .working_directory
                .as_ref()
                .map(|folder| folder.display().to_string()),
            node: (self.lane(&here.runtime).is_some_and(keeps)).then(|| self.0.config.node.clone()),
            at: Millis::now(),
        };
        self.0.store.bind_session(new).await.map(Bound::session)
    }

    async fn opened(&self, caller: &Principal, session: Session) -> Result<Session, Fault> {
        if session.state == SessionState::Open {
            return Ok(session);
        }
        let (store, key) = (&self.0.store, &session.session_key);
        let opened = store
            .set_session_state(
                &caller.account,
                key,
                SessionState::Open,
                &caller.actor(),
                Millis::now(),
            )
            .await?;
        Ok(opened)
    }
}

/// The numbers that an owner's key is tried with. Threads have names that people choose: others may have the same.
/// Every key of a thread of another account has one, made from its own name: whether a key without one is taken must
/// not tell it what the machine's own account has. Any other owner's key names its account.
fn twins(caller: &Principal, owner: &Owner) -> Range<u32> {
    let Some(thread) = owner.thread() else {
        return 1..2;
    };
    let first = if caller.account.is_local() {
        1
    } else {
        let named = canonical::digest(&json!([caller.account, thread]));
        let [a, b, c, d, ..] = named.0;
        FIRST_ACCOUNT_TWIN + u32::from_be_bytes([a, b, c, d]) % FIRST_ACCOUNT_TWIN
    };
    first..first + MAX_TWINS
}

/// Refuses a folder other than the session's own.
fn keeps_folder(session: &Session, folder: Option<&Path>) -> Result<(), Fault> {
    let held = session.working_directory.as_deref();
    if folder.is_none() || folder == held.map(Path::new) {
        return Ok(());
    }
    let held = held.unwrap_or("its own folder");
    Err(Fault::new(
        Code::Conflict,
        format!("This session works in {held} for life. Start a new thread to work elsewhere."),
    ))
}
