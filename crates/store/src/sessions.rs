//! The durable mapping from owners to sessions on runtimes.

use threadline_contract::{AccountId, Actor, Millis, Owner, RuntimeId, SessionKey};

use crate::{Rank, Result, Store, StoreError, Tx, json, open::read, sql, tx::on};

/// Whether a session takes turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// It does.
    Open,
    /// It was ended.
    Closed,
}

impl SessionState {
    /// Its spelling in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

/// An owner's session on a runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The account.
    pub account: AccountId,
    /// Whose it is.
    pub owner: Owner,
    /// Where it runs.
    pub runtime: RuntimeId,
    /// Which of the owner's sessions there it is: 1, 2, 3…
    pub version: u32,
    /// Its name there. No two owners share one, whatever their accounts.
    pub session_key: SessionKey,
    /// Where the app expects files, as the last turn said.
    pub expected_dirs: Vec<String>,
    /// The user's own folder, when one was named at the beginning.
    pub working_directory: Option<String>,
    /// Whether it takes turns.
    pub state: SessionState,
    /// The node whose data folder holds it. None where any can go on with it, or none was noted yet.
    pub node: Option<String>,
    /// Who closed it, where it is closed and that is known.
    pub closed_by: Option<Actor>,
    /// When it was made.
    pub created_at: Millis,
    /// When it was last bound or changed.
    pub updated_at: Millis,
}

/// A mapping to be made, or to be confirmed.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// The account.
    pub account: AccountId,
    /// Whose it is.
    pub owner: Owner,
    /// Where it runs.
    pub runtime: RuntimeId,
    /// Which of the owner's sessions there it is: 1, unless the owner begins one anew.
    pub version: u32,
    /// Its name there.
    pub session_key: SessionKey,
    /// Where the app expects files; replaces what an earlier turn said.
    pub expected_dirs: Vec<String>,
    /// The user's own folder. `None` on an existing session means that this turn did not say.
    pub working_directory: Option<String>,
    /// The node that holds it from now on; an existing session stays where it is.
    pub node: Option<String>,
    /// Now.
    pub at: Millis,
}

/// What [`Store::bind_session`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The mapping is new.
    Made(Session),
    /// The same mapping was there.
    Existing(Session),
}

impl Bound {
    /// The session, new or not.
    pub fn session(self) -> Session {
        match self {
            Self::Made(session) | Self::Existing(session) => session,
        }
    }
}

#[derive(sqlx::FromRow)]
pub(crate) struct SessionRow {
    account: String,
    owner: String,
    runtime: String,
    version: i64,
    session_key: String,
    expected_dirs: String,
    working_directory: Option<String>,
    state: String,
    node: Option<String>,
    closed_by: Option<String>,
    created_at: i64,
    updated_at: i64,
}

impl TryFrom<SessionRow> for Session {
    type Error = StoreError;
    fn try_from(row: SessionRow) -> Result<Self> {
        Ok(Self {
            account: json::id("sessions.account", &row.account)?,
            owner: json::id("sessions.owner", &row.owner)?,
            runtime: json::id("sessions.runtime", &row.runtime)?,
            version: u32::try_from(row.version)
                .map_err(|e| StoreError::corrupt("sessions.version", e))?,
            session_key: json::id("sessions.session_key", &row.session_key)?,
            expected_dirs: json::from_text("sessions.expected_dirs", &row.expected_dirs)?,
            working_directory: row.working_directory,
            state: match row.state.as_str() {
                "open" => SessionState::Open,
                "closed" => SessionState::Closed,
                other => return Err(StoreError::corrupt("sessions.state", other)),
            },
            node: row.node,
            closed_by: json::maybe_from_text("sessions.closed_by", row.closed_by.as_deref())?,
            created_at: Millis(row.created_at),
            updated_at: Millis(row.updated_at),
        })
    }
}

impl Store {
    /// Makes the mapping from owner to session, or confirms the same one.
    ///
    /// `KeyTaken` when the key belongs to another owner or account; `Conflict` when this owner
    /// has another session of this version on this runtime, or the session has another working
    /// directory: that is fixed for life.
    pub async fn bind_session(&self, new: NewSession) -> Result<Bound> {
        self.transact(move |mut tx| Box::pin(async move { tx.bind_session(new).await }))
            .await
    }

    /// An owner's newest session on a runtime.
    pub async fn session(
        &self,
        account: &AccountId,
        owner: &Owner,
        runtime: &RuntimeId,
    ) -> Result<Session> {
        let (owner, runtime) = (owner.to_string(), runtime.to_string());
        let row: SessionRow = read!(self, |db| sqlx::query_as(sql::SESSION)
            .bind(account.as_str())
            .bind(owner.as_str())
            .bind(runtime.as_str())
            .fetch_one(db)
            .await)?;
        row.try_into()
    }

    /// The session with this key, when it is the account's.
    pub async fn session_by_key(&self, account: &AccountId, key: &SessionKey) -> Result<Session> {
        let row: SessionRow = read!(self, |db| sqlx::query_as(sql::SESSION_BY_KEY)
            .bind(account.as_str())
            .bind(key.as_str())
            .fetch_one(db)
            .await)?;
        row.try_into()
    }

    /// An owner's sessions on all runtimes, newest first.
    pub async fn sessions_of_owner(
        &self,
        account: &AccountId,
        owner: &Owner,
    ) -> Result<Vec<Session>> {
        let owner = owner.to_string();
        let rows: Vec<SessionRow> = read!(self, |db| sqlx::query_as(sql::SESSIONS_OF_OWNER)
            .bind(account.as_str())
            .bind(owner.as_str())
            .fetch_all(db)
            .await)?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Opens or closes a session of an account. Who closed it is kept as long as it is closed.
    pub async fn set_session_state(
        &self,
        account: &AccountId,
        session: &SessionKey,
        state: SessionState,
        by: &Actor,
        at: Millis,
    ) -> Result<Session> {
        let (account, session, by) = (account.clone(), session.clone(), by.clone());
        self.transact(move |mut tx| {
            Box::pin(async move {
                tx.set_session_state(&account, &session, state, &by, at)
                    .await
            })
        })
        .await
    }
}

impl Tx<'_> {
    /// Makes the mapping from owner to session, or confirms the same one (see [`Store::bind_session`]).
    pub async fn bind_session(&mut self, new: NewSession) -> Result<Bound> {
        self.locks(Rank::Session, new.session_key.as_str())?;
        let dirs = json::to_text("expected directories", &new.expected_dirs)?;
        let runtime = new.runtime.to_string();
        self.stays(&new.account, &new.owner).await?;
        let owner = new.owner.to_string();
        let made: Option<SessionRow> = on!(self, |c| sqlx::query_as(sql::BIND_SESSION)
            .bind(new.account.as_str())
            .bind(owner.as_str())
            .bind(runtime.as_str())
            .bind(i64::from(new.version))
            .bind(new.session_key.as_str())
            .bind(dirs.as_str())
            .bind(new.working_directory.as_deref())
            .bind(new.at.0)
            .bind(new.node.as_deref())
            .fetch_optional(c)
            .await)?;
        if let Some(made) = made {
            return Ok(Bound::Made(made.try_into()?));
        }
        let there: Option<SessionRow> = on!(self, |c| sqlx::query_as(sql::SESSION_OF_VERSION)
            .bind(new.account.as_str())
            .bind(owner.as_str())
            .bind(runtime.as_str())
            .bind(i64::from(new.version))
            .fetch_optional(c)
            .await)?;
        // Only the key can have been in the way of an owner that has no such session here.
        let Some(there) = there else {
            return Err(StoreError::KeyTaken);
        };
        if there.session_key != new.session_key.as_str() {
            return Err(StoreError::Conflict(match new.owner {
                Owner::Thread(_) => "the thread has another session on this runtime",
                _ => "its owner has another session on this runtime",
            }));
        }
        if new.working_directory.is_some() && there.working_directory != new.working_directory {
            return Err(StoreError::Conflict(
                "the session has another working directory, which is fixed for its life",
            ));
        }
        let again: SessionRow = on!(self, |c| sqlx::query_as(sql::REBIND_SESSION)
            .bind(new.session_key.as_str())
            .bind(dirs.as_str())
            .bind(new.at.0)
            .fetch_one(c)
            .await)?;
        Ok(Bound::Existing(again.try_into()?))
    }

    /// Opens or closes a session.
    pub async fn set_session_state(
        &mut self,
        account: &AccountId,
        session: &SessionKey,
        state: SessionState,
        by: &Actor,
        at: Millis,
    ) -> Result<Session> {
        self.locks(Rank::Session, session.as_str())?;
        let closed_by = Some(by).filter(|_| state == SessionState::Closed);
        let closed_by = json::maybe_to_text("closed by", closed_by)?;
        let row: SessionRow = on!(self, |c| sqlx::query_as(sql::SET_SESSION_STATE)
            .bind(account.as_str())
            .bind(session.as_str())
            .bind(state.as_str())
            .bind(at.0)
            .bind(closed_by.as_deref())
            .fetch_one(c)
            .await)?;
        row.try_into()
    }
}
