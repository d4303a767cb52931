//! `xworkmate.operator.*`: how runs, sessions, runtimes and hosts stand, and why. Every account sees its
//! own. Lists come page by page from indexes, so that nothing grows with what has ended.

mod standing;

use std::collections::HashMap;

use threadline_contract::{
    AccountId, Fault, Millis, Principal, RunId, RuntimeId,
    operator::{
        HostLine, LastError, OperatorStatus, RunLine, RunsPage, RunsParams, RuntimeLine,
        SessionLine, SessionsPage, SessionsParams, Standing,
    },
};
use threadline_runtimes::AgentHost;
use threadline_store::{
    Phase, RunOverview, Session, SessionState, StoreError, StoredQuestion, Whose,
};

use self::standing::{Around, Offer, Seen, SessionSeen, short};
use crate::{
    Engine,
    capabilities::Stand,
    run::lane::{self, Entry, Place},
    wire,
};

/// Lines of one page, when nothing else is asked for.
const PAGE: u32 = 50;
/// Lines of one page at most.
const MOST: u32 = 200;
/// Open questions that are looked at: as many as a list of them shows.
const QUESTIONS: u32 = 500;
/// Hosts that are listed.
const HOSTS: usize = 200;

impl Engine {
    /// `xworkmate.operator.status`.
    pub async fn operator_status(&self, caller: &Principal) -> Result<OperatorStatus, Fault> {
        let account = &caller.account;
        let mut runtimes = vec![];
        for Stand {
            runtime,
            state,
            place,
        } in self.stand().await?
        {
            // Where the machine's own things lie is for who runs it.
            let place = place.filter(|_| caller.is_operator());
            let last_error = self.0.store.last_failure(account, &runtime).await?;
            let since = self.lane(&runtime).and_then(|lane| lane.stands_since());
            runtimes.push(RuntimeLine {
                standing: standing::of_runtime(
                    &state,
                    &Offer {
                        place: place.as_deref(),
                        since,
                        is_waited_for: self.awaited(&runtime).is_some(),
                        queue_wait: self.0.config.rules.queue_wait,
                    },
                ),
                last_error: last_error.map(last_error_of),
                runtime,
                state,
            });
        }
        let open = self.0.store.open_runs_of_account(account).await?;
        let questions = self
            .0
            .store
            .questions(account, Whose::Everyone, false, QUESTIONS);
        let questions = questions.await?.len() as u32;
        Ok(OperatorStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            at: Millis::now(),
            open,
            questions,
            runtimes,
            hosts: self.host_lines(account).await?,
        })
    }

    /// `xworkmate.operator.runs`.
    pub async fn operator_runs(
        &self,
        caller: &Principal,
        params: &RunsParams,
    ) -> Result<RunsPage, Fault> {
        let limit = page_size(params.limit)?;
        let before = cursor(params.cursor.as_deref())?;
        let store = &self.0.store;
        let listed = store.runs_of_account(&caller.account, params.which, before, limit + 1);
        let (runs, next_cursor) = page(listed.await?, limit, |run| run.num);
        let around = self.around(&caller.account, &runs).await?;
        let mut lines = vec![];
        for run in runs {
            lines.push(self.run_line(&caller.account, run, &around).await?);
        }
        Ok(RunsPage {
            runs: lines,
            next_cursor,
        })
    }

    /// `xworkmate.operator.sessions`.
    pub async fn operator_sessions(
        &self,
        caller: &Principal,
        params: &SessionsParams,
    ) -> Result<SessionsPage, Fault> {
        let limit = page_size(params.limit)?;
        let before = cursor(params.cursor.as_deref())?;
        let store = &self.0.store;
        let listed = store.sessions_of_account(&caller.account, before, limit + 1);
        let (sessions, next_cursor) = page(listed.await?, limit, |(num, _)| *num);
        let going = store.deletions().await?;
        let mut lines = vec![];
        for (_, session) in sessions {
            let last = store.latest_run_of_session(&session).await?;
            let is_going = going
                .iter()
                .any(|d| d.account == session.account && d.owner == session.owner)
                || self.is_being_removed(&session.account, &session.owner);
            let away = self.away_server_of(&session).await?;
            let seen = SessionSeen {
                last: last.as_ref(),
                is_going,
                away: away.as_deref(),
            };
            let standing = standing::of_session(&session, &seen);
            lines.push(self.session_line(caller, session, last, standing));
        }
        Ok(SessionsPage {
            sessions: lines,
            next_cursor,
        })
    }

    /// What open runs are held against: lanes, runtimes and questions, each looked up once for a page.
    async fn around(&self, account: &AccountId, runs: &[RunOverview]) -> Result<Looked, Fault> {
        let mut looked = Looked::default();
        if runs.iter().all(|run| run.phase == Phase::Closed) {
            return Ok(looked);
        }
        for Stand { runtime, state, .. } in self.stand().await? {
            looked
                .lanes
                .insert(runtime.clone(), self.lane_entries(&runtime).await?);
            looked.runtimes.insert(runtime, state);
        }
        let open = self
            .0
            .store
            .questions(account, Whose::Everyone, false, QUESTIONS);
        for question in open.await? {
            looked.questions.insert(question.run.clone(), question);
        }
        Ok(looked)
    }

    async fn run_line(
        &self,
        account: &AccountId,
        run: RunOverview,
        looked: &Looked,
    ) -> Result<RunLine, Fault> {
        let heard = match run.phase {
            // Nothing is heard of a run that waits, and of one that ended the record tells all.
            Phase::Queued | Phase::Closed => None,
            _ => self.0.store.last_event(account, &run).await?,
        };
        let question = looked.questions.get(&run.id);
        let no_room_since = self.waits_for_room(&run.runtime, &run.session_key, &run.id);
        let wait = self.waits(&run, looked);
        let away = self.away_server_of_run(account, &run).await?;
        let seen = Seen {
            now: Millis::now(),
            node: &self.0.config.node,
            away: away.as_deref(),
            runtime: looked.runtimes.get(&run.runtime),
            wait,
            question,
            heard,
            no_room_since,
            awaited: self.awaited(&run.runtime),
            queue_wait: self.0.config.rules.queue_wait,
        };
        Ok(RunLine {
            stage: standing::stage(&run, question.is_some()),
            standing: standing::of_run(&run, &seen),
            queue: wait.map(|wait| wait.place),
            run_id: run.id,
            thread_id: wire::name(&run.owner),
            runtime: run.runtime,
            session_key: run.session_key,
            status: run.status,
            code: run.code,
            cancel_requested: run.cancel_requested_at.is_some(),
            cancel_requested_by: run.cancel_requested_by,
            begun_by: run.begun_by,
            created_at: run.created_at,
            started_at: run.started_at,
            ended_at: run.ended_at,
            usage: run.usage,
        })
    }

    /// The server that has a session, when that one is away.
    async fn away_server_of(&self, session: &Session) -> Result<Option<String>, Fault> {
        let lane = self.lane(&session.runtime);
        let kept_by_one = lane.is_none_or(|lane| lane.runtime.keeps_sessions());
        match session.node.as_deref().filter(|_| kept_by_one) {
            Some(node) if self.is_away(node).await? => Ok(Some(node.to_owned())),
            _ => Ok(None),
        }
    }

    /// The server that has an open run, or the files of a closed one, when that one is away.
    async fn away_server_of_run(
        &self,
        account: &AccountId,
        run: &RunOverview,
    ) -> Result<Option<String>, Fault> {
        let Some(driver) = run.lease_owner.as_deref() else {
            return Ok(None);
        };
        if !self.is_away(driver).await? {
            return Ok(None);
        }
        if run.phase != Phase::Closed {
            return Ok(Some(driver.to_owned()));
        }
        // Its session may have moved since: a data folder can get another name.
        match self.0.store.session_by_key(account, &run.session_key).await {
            Ok(session) => self.away_server_of(&session).await,
            Err(StoreError::NotFound) => Ok(None),
            Err(other) => Err(other.into()),
        }
    }

    /// What keeps turns of a runtime from beginning just now, if they wait for it.
    fn awaited(&self, runtime: &RuntimeId) -> Option<String> {
        self.lane(runtime)?.runtime.waits_for()
    }

    fn waits(&self, run: &RunOverview, looked: &Looked) -> Option<Around> {
        let entries = looked.lanes.get(&run.runtime)?;
        let size = self.lane(&run.runtime)?.runtime.lane();
        if run.phase != Phase::Queued {
            return None;
        }
        let own = lane::waits_for_own_turn(entries, &run.id);
        match lane::place(entries, &run.id, size) {
            Place::Wait(place) => Some(Around { place, own }),
            Place::Go => None,
        }
    }

    fn session_line(
        &self,
        caller: &Principal,
        session: Session,
        last: Option<RunOverview>,
        standing: Standing,
    ) -> SessionLine {
        let lane = self.lane(&session.runtime);
        let page = lane.and_then(|lane| lane.runtime.page(&session.session_key));
        SessionLine {
            standing,
            // It holds the gateway's address, which is for who runs the machine.
            page: page.filter(|_| caller.is_operator()),
            open: session.state == SessionState::Open,
            closed_by: session.closed_by,
            thread_id: wire::name(&session.owner),
            runtime: session.runtime,
            session_key: session.session_key,
            working_directory: session.working_directory,
            last_run: last.map(|run| run.id),
            created_at: session.created_at,
        }
    }

    /// The hosts of the account's sessions. One of another account is not there.
    async fn host_lines(&self, account: &AccountId) -> Result<Vec<HostLine>, Fault> {
        let mut found: HashMap<String, AgentHost> = HashMap::new();
        for lane in self.lanes() {
            // Hosts that cannot be looked at must not hide everything else.
            match lane.runtime.hosts().await {
                Ok(hosts) => {
                    found.extend(hosts.into_iter().map(|h| (h.session.to_string(), h)));
                }
                Err(fault) => {
                    tracing::warn!(code = %fault.code, "The agents' hosts cannot be looked at: {}", fault.message)
                }
            }
        }
        let mut lines = vec![];
        for host in found.into_values() {
            let session = match self.0.store.session_by_key(account, &host.session).await {
                Ok(session) => session,
                Err(StoreError::NotFound) => continue,
                Err(other) => return Err(other.into()),
            };
            let last = self.0.store.latest_run_of_session(&session).await?;
            lines.push(HostLine {
                standing: standing::of_host(&host, last.as_ref()),
                session_key: session.session_key,
                thread_id: wire::name(&session.owner),
                runtime: session.runtime,
                state: host.state,
                pid: host.pid,
                agent_pid: host.agent_pid,
                started_at: host.began,
            });
        }
        lines.sort_by_key(|line| (line.started_at, line.pid));
        lines.truncate(HOSTS);
        Ok(lines)
    }
}

/// What a page of runs is held against.
#[derive(Default)]
struct Looked {
    lanes: HashMap<RuntimeId, Vec<Entry>>,
    runtimes: HashMap<RuntimeId, threadline_contract::method::ProviderState>,
    questions: HashMap<RunId, StoredQuestion>,
}

fn last_error_of(run: RunOverview) -> LastError {
    let told = run.message.as_deref().map(short);
    let advice = run.code.map_or("It gave no reason.", |code| code.advice());
    LastError {
        message: told.unwrap_or_else(|| advice.to_owned()),
        at: run.ended_at.unwrap_or(run.created_at),
        run_id: run.id,
        thread_id: wire::name(&run.owner),
        code: run.code,
    }
}

fn page_size(wanted: Option<u32>) -> Result<u32, Fault> {
    match wanted.unwrap_or(PAGE) {
        0 => Err(Fault::invalid("`limit` must be at least 1.")),
        limit => Ok(limit.min(MOST)),
    }
}

fn cursor(text: Option<&str>) -> Result<Option<i64>, Fault> {
    let read = |text: &str| {
        let num = text.parse().ok().filter(|num: &i64| *num > 0);
        num.ok_or_else(|| Fault::invalid("`cursor` is not one that this server gave."))
    };
    text.map(read).transpose()
}

/// A page out of one line more than it has, and the cursor that goes on after it.
fn page<T>(mut lines: Vec<T>, limit: u32, num: impl Fn(&T) -> i64) -> (Vec<T>, Option<String>) {
    let more = lines.len() > limit as usize;
    lines.truncate(limit as usize);
    let next = lines
        .last()
        .filter(|_| more)
        .map(|last| num(last).to_string());
    (lines, next)
}
