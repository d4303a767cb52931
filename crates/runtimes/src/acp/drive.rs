//! Carrying entries from the host into the run's journal, and what is due to the agent.

use std::{collections::HashSet, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use threadline_contract::{Code, Fault, Millis};
use threadline_files::Durability;
use threadline_host::{Control, Entry, HostError, RefusalCode, Standing};
use threadline_retry::table;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{
    Shared,
    bind::{Kept, Link},
    due::{Due, due},
    end,
    hear::hear,
    past::{Heard, Line, Past},
    watch::report,
};
use crate::{Frame as Told, Update, journaled};

/// How long an agent may take to stop when it was asked to, before it is ended.
const GRACE: Duration = Duration::from_secs(15);
/// How long an agent may be silent after a last word that could not be read.
const SILENCE: Duration = Duration::from_secs(120);
/// How long an agent is silent before its host is asked whether it waits for room on the disk.
const LOOK_AT_HOST: Duration = Duration::from_secs(3);
/// Entries that are taken in with one write at most.
const BATCH: usize = 64;

type Record = journaled::Record<Past>;

/// Why a run's host is not followed any more.
enum Trouble {
    /// The run is to end so.
    Fails(Fault),
    /// The host is gone, and the agent with it.
    Lost,
    /// The agent does not know the session any more, and has done nothing of the turn.
    SessionGone,
    /// It may be reached again.
    Away(String),
    /// What it does cannot be written down now.
    NotWritten(Fault),
}

impl From<Fault> for Trouble {
    /// A journal that cannot be written, as on a full disk, may be writable again.
    fn from(fault: Fault) -> Self {
        Self::NotWritten(fault)
    }
}

impl From<HostError> for Trouble {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Lost | HostError::NotThere { .. } => Self::Lost,
            HostError::Version { .. } => {
                Self::Fails(Fault::new(Code::AgentLost, format!("{error}.")))
            }
            other => Self::Away(other.to_string()),
        }
    }
}

impl journaled::Work for Shared {
    type Past = Past;

    async fn drive(&self, record: &Arc<Record>, _cancel: &CancellationToken, _resumed: bool) {
        let worked = AssertUnwindSafe(self.work(record)).catch_unwind().await;
        self.waits_for_room(record, None);
        let is_fit = match worked {
            Ok(is_fit) => is_fit,
            // The panic itself is in the log already; the run must not be resumed into it for ever.
            Err(_) => {
                let text =
                    "Threadline broke while it followed this turn. The server's log says where.";
                let fault = Fault::new(Code::ExecutionFailed, text);
                self.fail(record, fault).await;
                false
            }
        };
        if !is_fit {
            self.end_host(record).await;
        }
    }
}

impl Shared {
    /// Follows a run to its end, whatever becomes of the way to its host. Tells whether the agent is of
    /// use to the next turn.
    async fn work(&self, record: &Arc<Record>) -> bool {
        let mut pauses = table::AGENT_HOST_AWAY.pauses();
        loop {
            match self.turn(record).await {
                Ok(()) => {
                    let is_fit = |past: &Past| past.session.is_some() && !past.is_broken;
                    return record.look(|past| past.bound.is_none() || is_fit(past));
                }
                Err(Trouble::SessionGone) => {
                    self.end_host(record).await;
                    match record.write(Line::Restarted, Durability::Now).await {
                        Ok(()) => continue,
                        Err(fault) => self.not_written(record, &fault),
                    }
                }
                Err(Trouble::Fails(fault)) => {
                    // First, because a host whose agent does not answer never ends by itself.
                    self.end_host(record).await;
                    self.fail(record, fault).await;
                    return true;
                }
                Err(Trouble::Lost) => {
                    // What a killed host left running must be gone before anybody uses the folder.
                    self.clean_up(record).await;
                    let ended = record.decide(Durability::Now, |past| {
                        Ok(Some(Line::Ended(Box::new(end::lost(past)))))
                    });
                    match ended.await {
                        Ok(()) => return true,
                        Err(fault) => self.not_written(record, &fault),
                    }
                }
                Err(Trouble::Away(_) | Trouble::NotWritten(_))
                    if record.look(|past| past.run.ended.is_some()) =>
                {
                    return true;
                }
                Err(Trouble::Away(why)) => {
                    tracing::warn!(path = %record.path().display(), "A run's agent cannot be followed; it is tried again: {why}");
                }
                Err(Trouble::NotWritten(fault)) => self.not_written(record, &fault),
            }
            sleep(pauses.next_pause()).await;
        }
    }

    /// What the run does could not be written down, and is tried again.
    fn not_written(&self, record: &Arc<Record>, fault: &Fault) {
        tracing::warn!(path = %record.path().display(), %fault, "A run's journal cannot be written; it is tried again");
        if fault.code == Code::StorageFull {
            self.waits_for_room(record, Some(Millis::now()));
        }
    }

    /// Notes since when the run waits for room, or that it does not.
    fn waits_for_room(&self, record: &Arc<Record>, since: Option<Millis>) {
        let run = record.look(|past| past.run.begun.as_ref().map(|begun| begun.plan.run_ref()));
        if let Some(run) = run {
            self.no_room.set(&run, since);
        }
    }

    async fn fail(&self, record: &Arc<Record>, fault: Fault) {
        let failed = record.decide(Durability::Now, move |past| {
            let end = match past.run.cancel_asked {
                true => end::cancelled(past),
                false => end::failed(past, fault.code, fault.message),
            };
            Ok(past.run.ended.is_none().then(|| Line::Ended(Box::new(end))))
        });
        if let Err(fault) = failed.await {
            // Without a recorded end the run did not end: it goes on when it is followed again.
            tracing::error!(path = %record.path().display(), %fault, "the end of a run could not be recorded");
        }
    }

    /// Ends what the run's host left, which was killed.
    async fn clean_up(&self, record: &Arc<Record>) {
        let session = record.look(|past| Some(past.run.begun.as_ref()?.plan.session.clone()));
        let Some(session) = session else {
            return;
        };
        match self.hosts().sweep_session(session.as_str()).await {
            Ok(swept) => swept.iter().for_each(report),
            Err(e) => {
                tracing::error!(error = %e, "what a killed host left could not be ended");
            }
        }
    }

    /// Ends the run's host, unless the next turn has brought another one already.
    async fn end_host(&self, record: &Arc<Record>) {
        let host = record.look(|past| {
            let session = past.run.begun.as_ref()?.plan.session.clone();
            Some((session, past.bound.as_ref()?.boot.clone()))
        });
        let Some((session, boot)) = host else {
            return;
        };
        let _binding = self.config.hosts.binding.lock().await;
        let ended = match self.hosts().look(session.as_str()).await {
            Ok(Standing::Alive(state)) if state.boot == boot => {
                self.hosts().stop(session.as_str()).await
            }
            Ok(_) => Ok(()),
            Err(e) => Err(e),
        };
        if let Err(e) = ended {
            tracing::error!(error = %e, "an agent that is not needed could not be ended");
        }
    }

    /// Attaches to the run's host, and gets it one if it has none.
    async fn link(&self, record: &Arc<Record>) -> Result<Link, Trouble> {
        let (begun, bound, heard) =
            record.look(|past| (past.run.begun.clone(), past.bound.clone(), past.heard));
        let Some(begun) = begun else {
            return Err(Trouble::Fails(Fault::internal()));
        };
        // Until it is attached, so that nobody takes the host for one that has nothing to do.
        let _binding = self.config.hosts.binding.lock().await;
        let bound = match bound {
            Some(bound) => bound,
            None => {
                let bound = self.choose(&begun).await.map_err(Trouble::Fails)?;
                let line = Line::Bound(Box::new(bound.clone()));
                // A power cut that takes this line takes the host as well.
                record.write(line, Durability::Later).await?;
                bound
            }
        };
        let session = begun.plan.session.as_str();
        match self.attach(session, &bound, heard).await {
            Err(HostError::Gap {
                expected,
                found: Some(found),
            }) => {
                skip(record, expected, found).await?;
                Ok(self.attach(session, &bound, found - 1).await?)
            }
            linked => Ok(linked?),
        }
    }

    async fn turn(&self, record: &Arc<Record>) -> Result<(), Trouble> {
        let stop = |past: &Past| past.run.cancel_asked && past.bound.is_none();
        if record.look(stop) {
            let end = record.look(end::cancelled);
            record
                .write(Line::Ended(Box::new(end)), Durability::Now)
                .await?;
        }
        if record.look(|past| past.run.ended.is_some()) {
            return Ok(());
        }
        if record.look(|past| past.session_gone) {
            return Err(Trouble::SessionGone);
        }
        match self.link(record).await? {
            Link::Live(attached, after) => {
                let known = attached.hello.last;
                let mut talk = Talk {
                    shared: self,
                    record,
                    control: attached.control,
                    handed: HashSet::new(),
                    // A session that the agent had before is kept already.
                    is_kept: record.look(Kept::is_there),
                    began: Instant::now(),
                    heard: Instant::now(),
                    looked: Instant::now(),
                    stopped: None,
                };
                let (mut frames, mut bell) = (attached.frames, record.bell());
                // First everything that was said before: only then is it known what is due.
                while record.look(|past| past.run.ended.is_none() && !past.session_gone) {
                    bell.borrow_and_update();
                    let heard = record.look(|past| past.heard).max(after);
                    let wake = match heard < known {
                        true => Instant::now() + Duration::from_secs(24 * 60 * 60),
                        false => talk.act().await?,
                    };
                    tokio::select! {
                        entry = frames.next() => {
                            let Some(entry) = entry? else {
                                return Err(Trouble::Lost);
                            };
                            let batch = more(entry, || frames.next().now_or_never());
                            talk.take(batch).await?;
                        }
                        _ = bell.changed() => {}
                        () = sleep_until(wake) => {}
                    }
                }
                if record.look(|past| past.session_gone) {
                    return Err(Trouble::SessionGone);
                }
                // What it has cost so far is known only now.
                if let Some(kept) = record.look(Kept::of)
                    && record.look(|past| past.cost.is_some() || is_instructed(past))
                {
                    self.keep_session(kept).await?;
                }
                Ok(())
            }
            Link::Rest(mut frames) => {
                while let Some(entry) = frames.next().await? {
                    let batch = more(entry, || frames.next().now_or_never());
                    take_in(self, record, batch).await?;
                    if record.look(|past| past.run.ended.is_some()) {
                        return Ok(());
                    }
                    if record.look(|past| past.session_gone) {
                        return Err(Trouble::SessionGone);
                    }
                }
                Err(Trouble::Lost)
            }
        }
    }
}

type Next = Result<Option<Entry>, HostError>;

/// An entry and those that wait behind it. An error behind them comes again.
fn more(first: Entry, mut next: impl FnMut() -> Option<Next>) -> Vec<Entry> {
    let mut batch = vec![first];
    while batch.len() < BATCH {
        match next() {
            Some(Ok(Some(entry))) => batch.push(entry),
            _ => break,
        }
    }
    batch
}

/// Writes down what entries mean, each by what those before it mean. Gives the last one.
async fn take_in(shared: &Shared, record: &Arc<Record>, batch: Vec<Entry>) -> Result<u64, Fault> {
    let secrets = Arc::clone(&shared.secrets);
    let last = batch.last().map_or(0, |entry| entry.no);
    let take = move |past: &Past, entry| Ok(line_of(past, &entry, last, &secrets));
    record.decide_each(Durability::Later, batch, take).await?;
    if record.look(|past| past.run.ended.is_some()) {
        record.sync().await?;
    }
    Ok(last)
}

/// The line that an entry of a batch becomes, by what those before it mean. One without a meaning becomes none,
/// unless it is the batch's last.
pub(super) fn line_of(past: &Past, entry: &Entry, last: u64, secrets: &[String]) -> Option<Line> {
    // After the end nothing is this run's any more, nor of an agent that is given up.
    if past.run.ended.is_some() || past.session_gone {
        return None;
    }
    let mut heard = hear(past, entry);
    if let Some(message) = heard.end.as_mut().and_then(|end| end.message.as_mut()) {
        *message = without(secrets, message);
    }
    let is_empty = heard.frames.is_empty() && heard.facts.is_empty() && heard.end.is_none();
    (!is_empty || entry.no == last).then(|| Line::Heard(Box::new(heard)))
}

/// A text without the keys that the agent was given: it may quote them when it fails.
fn without(secrets: &[String], text: &str) -> String {
    let hide = |text: String, secret: &String| text.replace(secret.as_str(), "(…)");
    secrets.iter().fold(text.to_owned(), hide)
}

/// Entries are gone that nobody has seen. That must not happen; where it does, everybody is told.
async fn skip(record: &Arc<Record>, expected: u64, found: u64) -> Result<(), Fault> {
    let skip = move |past: &Past| {
        let note = format!(
            "{} events of the agent are missing here: its host has lost them.",
            found - expected
        );
        Ok(Some(Line::Heard(Box::new(Heard {
            no: found - 1,
            at: Millis::now().0,
            frames: vec![Told {
                no: past.run.frames + 1,
                update: Update::Note(note),
            }],
            ..Heard::default()
        }))))
    };
    record.decide(Durability::Now, skip).await
}

/// Talking to an agent that is there.
struct Talk<'a> {
    shared: &'a Shared,
    record: &'a Arc<Record>,
    control: Control,
    /// What was handed in already and is not heard back yet.
    handed: HashSet<String>,
    is_kept: bool,
    began: Instant,
    /// When something was last heard.
    heard: Instant,
    /// When the host was last asked how it stands.
    looked: Instant,
    /// When the agent was asked to stop.
    stopped: Option<Instant>,
}

impl Talk<'_> {
    async fn take(&mut self, batch: Vec<Entry>) -> Result<(), Trouble> {
        self.heard = Instant::now();
        let last = take_in(self.shared, self.record, batch).await?;
        self.shared.waits_for_room(self.record, None);
        self.control.ack(last).await;
        Ok(())
    }

    /// Asks a host that is silent whether it can write down what its agent says, and tells when to ask again.
    async fn look_at_host(&mut self) -> Instant {
        let silent_since = self.heard.max(self.looked);
        if silent_since.elapsed() < LOOK_AT_HOST {
            return silent_since + LOOK_AT_HOST;
        }
        self.looked = Instant::now();
        let session = self
            .record
            .look(|past| past.run.begun.as_ref().map(|b| b.plan.session.clone()));
        if let Some(session) = session
            && let Ok(hello) = self.shared.hosts().inspect(session.as_str()).await
        {
            let since = hello.no_room_since.map(Millis);
            self.shared.waits_for_room(self.record, since);
        }
        self.looked + LOOK_AT_HOST
    }

    /// Does what is due, and tells when to look again at the latest.
    async fn act(&mut self) -> Result<Instant, Trouble> {
        let far = Instant::now() + Duration::from_secs(24 * 60 * 60);
        if !self.is_kept
            && let Some(kept) = self.record.look(Kept::of)
        {
            // Before the prompt goes out: a session that was talked to is never forgotten.
            self.shared.keep_session(kept).await?;
            self.is_kept = true;
        }
        let prompted = self.handed.iter().any(|key| key.starts_with("prompt:"));
        let never = |past: &Past| past.stops() && past.prompted.is_none() && !prompted;
        if self.record.look(never) {
            let message = "The turn was stopped before it began.";
            return Err(Trouble::Fails(Fault::new(Code::BudgetExceeded, message)));
        }
        let mut wake = far;
        for (key, frame) in self.record.look(due) {
            if self.handed.contains(&key) {
                continue;
            }
            match self.hand_in((key, frame)).await? {
                true => {}
                false => wake = wake.min(Instant::now() + Duration::from_millis(200)),
            }
        }
        Ok(wake
            .min(self.look_at_host().await)
            .min(self.budgets().await?))
    }

    /// Hands a frame in. `false`: the agent takes nothing at the moment.
    async fn hand_in(&mut self, (key, frame): Due) -> Result<bool, Trouble> {
        match self.control.send(&key, &frame).await {
            Ok(_) => {}
            Err(HostError::Refused(refusal)) => match refusal.code {
                RefusalCode::AgentBusy | RefusalCode::NotJournaled => return Ok(false),
                RefusalCode::AgentDeaf => {
                    let message = "The agent has closed its input and takes nothing any more.";
                    return Err(Trouble::Fails(Fault::new(Code::AgentLost, message)));
                }
                // It has an answer already, or its end is on its way.
                _ => {
                    tracing::debug!(%key, "An agent's host did not take a frame: {}", refusal.message)
                }
            },
            // What became of the host is told by what is heard of it.
            Err(e) => tracing::debug!(error = %e, "an agent's host could not be told something"),
        }
        if key.starts_with("cancel:") {
            self.stopped = Some(Instant::now());
        }
        self.handed.insert(key);
        Ok(true)
    }

    /// Keeps to the limits of time, and tells when the next one is reached.
    async fn budgets(&mut self) -> Result<Instant, Trouble> {
        let agent = &self.shared.config.agent;
        let now = Instant::now();
        let mut next = now + Duration::from_secs(60 * 60);
        if self.record.look(|past| past.session.is_none()) {
            let until = self.began + agent.startup;
            if now >= until {
                let message = format!(
                    "{} did not have a session ready after {} seconds.",
                    agent.label,
                    agent.startup.as_secs()
                );
                let fault = Fault::new(Code::ProviderUnavailable, message);
                return Err(Trouble::Fails(fault));
            }
            next = next.min(until);
        }
        if let Some(since) = self.stopped {
            let until = since + GRACE;
            if now >= until {
                self.end_agent().await;
                self.stopped = Some(now);
            }
            next = next.min(self.stopped.unwrap_or(since) + GRACE);
        }
        if self.record.look(Past::may_be_over) {
            let until = self.heard + SILENCE;
            if now >= until {
                let message = "The agent's last word could not be read, and nothing came after it for two minutes.";
                return Err(Trouble::Fails(Fault::new(Code::ExecutionFailed, message)));
            }
            next = next.min(until);
        }
        if let Some(turn) = agent.turn {
            let spent = self.record.look(|past| {
                let counts = past.prompted.is_some() && past.open_since.is_none() && !past.stops();
                counts.then(|| past.spent(Millis::now().0))
            });
            if let Some(spent) = spent {
                let spent = Duration::from_millis(u64::try_from(spent).unwrap_or_default());
                match turn.checked_sub(spent) {
                    Some(left) if !left.is_zero() => next = next.min(now + left),
                    _ => {
                        self.record.write(Line::OutOfTime, Durability::Now).await?;
                        next = now;
                    }
                }
            }
        }
        Ok(next)
    }

    /// An agent that does not stop when it is asked to is ended; its end then comes as an entry.
    async fn end_agent(&self) {
        let session = self
            .record
            .look(|past| past.run.begun.as_ref().map(|b| b.plan.session.clone()));
        if let Some(session) = session
            && let Err(e) = self.shared.hosts().stop(session.as_str()).await
        {
            tracing::error!(error = %e, "an agent that did not stop could not be ended");
        }
    }
}

/// Whether the turn brought instructions: the session is remembered to have them.
fn is_instructed(past: &Past) -> bool {
    let begun = past.run.begun.as_ref();
    begun.is_some_and(|begun| begun.plan.instructions.is_some())
}
