//! An account's runs and sessions as an operator lists them: page by page, newest first, without what a
//! run said. Nothing here reads more than its page.

use threadline_contract::{
    AccountId, Actor, Code, Millis, Owner, RunId, RunStatus, RuntimeId, SessionKey, Usage,
    operator::{OpenRuns, WhichRuns},
};

use crate::{
    ArtifactState, Phase, Result, Session, Store, StoreError, StreamId, json, open::read,
    sessions::SessionRow, sql,
};

/// A run in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOverview {
    /// Its place in the order of all runs: where the next page goes on.
    pub num: i64,
    /// Its id.
    pub id: RunId,
    /// Whose it is.
    pub owner: Owner,
    /// Where it runs.
    pub runtime: RuntimeId,
    /// The session that it is a turn of.
    pub session_key: SessionKey,
    /// How far its driver has come.
    pub phase: Phase,
    /// How it stands.
    pub status: RunStatus,
    /// Why it did not complete.
    pub code: Option<Code>,
    /// The same, as a sentence.
    pub message: Option<String>,
    /// What it used.
    pub usage: Option<Usage>,
    /// Who began it, where that is known.
    pub begun_by: Option<Actor>,
    /// When somebody asked for it to stop.
    pub cancel_requested_at: Option<Millis>,
    /// Who asked, where that is known.
    pub cancel_requested_by: Option<Actor>,
    /// When it was accepted.
    pub created_at: Millis,
    /// When the runtime began.
    pub started_at: Option<Millis>,
    /// When it ended.
    pub ended_at: Option<Millis>,
    /// How its files stand.
    pub artifact_state: ArtifactState,
    /// Who drives it.
    pub lease_owner: Option<String>,
    /// Until when.
    pub lease_until: Millis,
    /// The last number of the owner's log before the run.
    pub log_from: i64,
}

#[derive(sqlx::FromRow)]
struct OverviewRow {
    num: i64,
    id: String,
    owner: String,
    runtime: String,
    session_key: String,
    phase: String,
    status: String,
    code: Option<String>,
    message: Option<String>,
    usage: Option<String>,
    begun_by: Option<String>,
    cancel_requested_at: Option<i64>,
    cancel_requested_by: Option<String>,
    created_at: i64,
    started_at: Option<i64>,
    ended_at: Option<i64>,
    artifact_state: String,
    lease_owner: Option<String>,
    lease_until: i64,
    log_from: i64,
}

impl TryFrom<OverviewRow> for RunOverview {
    type Error = StoreError;
    fn try_from(row: OverviewRow) -> Result<Self> {
        Ok(Self {
            num: row.num,
            id: json::id("runs.id", &row.id)?,
            owner: json::id("runs.owner", &row.owner)?,
            runtime: json::id("runs.runtime", &row.runtime)?,
            session_key: json::id("runs.session_key", &row.session_key)?,
            phase: Phase::find("runs.phase", &row.phase)?,
            status: RunStatus::find(&row.status)
                .ok_or_else(|| StoreError::corrupt("runs.status", &row.status))?,
            code: row
                .code
                .map(|c| json::from_word("runs.code", &c))
                .transpose()?,
            message: json::maybe_from_text("runs.message", row.message.as_deref())?,
            usage: json::maybe_from_text("runs.usage", row.usage.as_deref())?,
            begun_by: json::maybe_from_text("runs.begun_by", row.begun_by.as_deref())?,
            cancel_requested_at: json::millis(row.cancel_requested_at),
            cancel_requested_by: json::maybe_from_text(
                "runs.cancel_requested_by",
                row.cancel_requested_by.as_deref(),
            )?,
            created_at: Millis(row.created_at),
            started_at: json::millis(row.started_at),
            ended_at: json::millis(row.ended_at),
            artifact_state: ArtifactState::find("runs.artifact_state", &row.artifact_state)?,
            lease_owner: row.lease_owner,
            lease_until: Millis(row.lease_until),
            log_from: row.log_from,
        })
    }
}

/// The last that was logged about a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastEvent {
    /// Its number in the owner's log.
    pub seq: i64,
    /// What happened.
    pub kind: String,
    /// When.
    pub at: Millis,
}

#[derive(sqlx::FromRow)]
pub(crate) struct NumberedSession {
    num: i64,
    #[sqlx(flatten)]
    session: SessionRow,
}

impl NumberedSession {
    pub(crate) fn read(self) -> Result<(i64, Session)> {
        Ok((self.num, self.session.try_into()?))
    }
}

impl Store {
    /// An account's runs before this place in their order (`None`: from the newest on), newest first.
    pub async fn runs_of_account(
        &self,
        account: &AccountId,
        which: WhichRuns,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<RunOverview>> {
        let statement = match which {
            WhichRuns::All => sql::RUNS_OF_ACCOUNT,
            WhichRuns::Open => sql::OPEN_RUNS_OF_ACCOUNT,
            WhichRuns::Failed => sql::FAILED_RUNS_OF_ACCOUNT,
        };
        let rows: Vec<OverviewRow> = read!(self, |db| sqlx::query_as(statement)
            .bind(account.as_str())
            .bind(before.unwrap_or(i64::MAX))
            .bind(i64::from(limit))
            .fetch_all(db)
            .await)?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// The newest run of an account that failed on a runtime.
    pub async fn last_failure(
        &self,
        account: &AccountId,
        runtime: &RuntimeId,
    ) -> Result<Option<RunOverview>> {
        let runtime = runtime.to_string();
        let row: Option<OverviewRow> = read!(self, |db| sqlx::query_as(sql::LAST_FAILURE)
            .bind(account.as_str())
            .bind(runtime.as_str())
            .fetch_optional(db)
            .await)?;
        row.map(TryInto::try_into).transpose()
    }

    /// The newest run of a session.
    pub async fn latest_run_of_session(&self, session: &Session) -> Result<Option<RunOverview>> {
        let owner = session.owner.to_string();
        let row: Option<OverviewRow> =
            read!(self, |db| sqlx::query_as(sql::LATEST_RUN_OF_SESSION)
                .bind(session.account.as_str())
                .bind(owner.as_str())
                .bind(session.session_key.as_str())
                .fetch_optional(db)
                .await)?;
        row.map(TryInto::try_into).transpose()
    }

    /// How many runs of an account are not closed.
    pub async fn open_runs_of_account(&self, account: &AccountId) -> Result<OpenRuns> {
        let rows: Vec<(String, i64)> = read!(self, |db| sqlx::query_as(sql::COUNT_OPEN_RUNS)
            .bind(account.as_str())
            .fetch_all(db)
            .await)?;
        let mut open = OpenRuns::default();
        for (phase, count) in rows {
            let count = u64::try_from(count).unwrap_or(0);
            match Phase::find("runs.phase", &phase)? {
                Phase::Queued => open.queued += count,
                Phase::Preparing | Phase::Starting | Phase::Running => open.running += count,
                Phase::Collecting | Phase::Closed => open.collecting += count,
            }
        }
        Ok(open)
    }

    /// The last that was logged about a run of an account.
    pub async fn last_event(
        &self,
        account: &AccountId,
        run: &RunOverview,
    ) -> Result<Option<LastEvent>> {
        let stream = StreamId::of(account, &run.owner);
        let row: Option<(i64, String, i64)> = read!(self, |db| sqlx::query_as(sql::LAST_EVENT)
            .bind(stream.as_str())
            .bind(run.log_from)
            .bind(run.id.as_str())
            .fetch_optional(db)
            .await)?;
        Ok(row.map(|(seq, kind, at)| LastEvent {
            seq,
            kind,
            at: Millis(at),
        }))
    }

    /// An account's sessions before this place in their order (`None`: from the newest on), newest first,
    /// each with its place.
    pub async fn sessions_of_account(
        &self,
        account: &AccountId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<(i64, Session)>> {
        let rows: Vec<NumberedSession> =
            read!(self, |db| sqlx::query_as(sql::SESSIONS_OF_ACCOUNT)
                .bind(account.as_str())
                .bind(before.unwrap_or(i64::MAX))
                .bind(i64::from(limit))
                .fetch_all(db)
                .await)?;
        rows.into_iter().map(NumberedSession::read).collect()
    }
}
