//! Why something stands as it does, since when, how that is known, and what happens next: decided from
//! what was looked up, for people to read.

use std::time::Duration;

use threadline_contract::{
    Code, Millis, QueuePlace, RunStatus, SetBy, Stage,
    code::beside,
    method::ProviderState,
    operator::{HostState, Standing},
};
use threadline_runtimes::AgentHost;
use threadline_store::{
    ArtifactState, LastEvent, Phase, RunOverview, Session, SessionState, StoredQuestion,
};

use crate::run::{phase, update};

/// Characters of a reason; the snapshot has it whole.
const REASON: usize = 500;

/// What becomes of a run that failed.
const AGAIN: &str = "Nothing by itself; it can be sent again as a new run.";

/// What was looked up about an open run.
pub(super) struct Seen<'a> {
    pub(super) now: Millis,
    /// This server.
    pub(super) node: &'a str,
    /// The server that has it, and its files, when that one is away.
    pub(super) away: Option<&'a str>,
    /// `None`: it is not configured here.
    pub(super) runtime: Option<&'a ProviderState>,
    pub(super) wait: Option<Around>,
    pub(super) question: Option<&'a StoredQuestion>,
    pub(super) heard: Option<LastEvent>,
    /// Since when it waits for room on a disk.
    pub(super) no_room_since: Option<Millis>,
    /// What keeps its runtime's turns from beginning.
    pub(super) awaited: Option<String>,
    /// How long a turn may wait for a place.
    pub(super) queue_wait: Option<Duration>,
}

/// What was looked up about a runtime.
pub(super) struct Offer<'a> {
    /// Its address, or where its program lies.
    pub(super) place: Option<&'a str>,
    /// Since when it stands so.
    pub(super) since: Option<Millis>,
    /// A turn that is sent while it is away waits for it.
    pub(super) is_waited_for: bool,
    /// How long a turn may wait for a place.
    pub(super) queue_wait: Option<Duration>,
}

/// Why a run waits.
#[derive(Clone, Copy)]
pub(super) struct Around {
    pub(super) place: QueuePlace,
    /// An earlier turn of its own session has not ended.
    pub(super) own: bool,
}

pub(super) fn stage(run: &RunOverview, waiting: bool) -> Option<Stage> {
    let verifies = !run.status.is_terminal();
    (run.phase != Phase::Closed).then(|| phase::stage(run.phase, waiting, verifies))
}

pub(super) fn of_run(run: &RunOverview, seen: &Seen<'_>) -> Standing {
    match run.phase {
        Phase::Closed => closed(run, seen.away),
        _ => open(run, seen),
    }
}

fn open(run: &RunOverview, seen: &Seen<'_>) -> Standing {
    let (evidence, seen_at) = evidence(run, seen);
    let told = |why: String, since: Millis, next: String| Standing {
        why,
        since,
        evidence,
        seen_at,
        next,
    };
    let began = run.started_at.unwrap_or(run.created_at);
    let ended = run.ended_at.unwrap_or(seen_at);
    if let Some(node) = seen.away {
        return told(
            format!("Its server {node} is away, and only that server knows how it stands."),
            seen_at,
            "It goes on when that server is back. If that takes more than an hour, it counts as lost."
                .into(),
        );
    }
    let Some(runtime) = seen.runtime else {
        return told(
            format!("Its runtime {} is not configured here.", run.runtime),
            run.created_at,
            "It goes on when that runtime is configured and the server is started again.".into(),
        );
    };
    let name = &runtime.provider.label;
    if let Some(since) = seen.no_room_since {
        return told(
            "The disk is full: it waits for room, because what it does cannot be written down. Whether its agent has finished meanwhile is not known.".into(),
            since,
            "Make room on the disk of the data folder (`threadline doctor` names it); it goes on by itself, and nothing is lost.".into(),
        );
    }
    match run.phase {
        Phase::Queued => {
            let (why, next) = waits(runtime, seen);
            told(why, run.created_at, next)
        }
        Phase::Preparing if seen.awaited.is_some() => told(
            seen.awaited.clone().unwrap_or_default(),
            run.created_at,
            format!("It begins when {name} can be reached, and fails if that takes too long."),
        ),
        Phase::Preparing => told(
            "Its folders are being made.".into(),
            run.created_at,
            format!("{name} is asked to begin."),
        ),
        Phase::Starting => told(
            format!("{name} is being asked to begin."),
            run.created_at,
            format!("It works as soon as {name} has it; if {name} refuses, it fails and says why."),
        ),
        Phase::Collecting if run.status.is_terminal() => told(
            "It ended; its files are being collected.".into(),
            ended,
            "Its files are listed, and then it is closed.".into(),
        ),
        Phase::Collecting => told(
            "It says that it is done; what it had to deliver is being looked for.".into(),
            seen_at,
            "It is completed when everything is there, and not delivered when something is missing.".into(),
        ),
        Phase::Running | Phase::Closed => match (run.cancel_requested_at, seen.question) {
            (Some(asked), _) => told(
                format!("Somebody asked it to stop, and {name} has not confirmed it yet."),
                asked,
                format!("It ends when {name} says that it stopped."),
            ),
            (None, Some(question)) => told(
                "It asked something and waits for the answer.".into(),
                question.asked_at,
                "It goes on as soon as somebody answers. The time until then counts against no limit.".into(),
            ),
            (None, None) if !runtime.available => told(
                format!("It goes on as far as anybody knows, but {name} cannot be asked: {}", short(&runtime.about)),
                began,
                format!("{name} is asked again until it answers; only {name} can end the run."),
            ),
            (None, None) => told(
                format!("{name} works on it."),
                began,
                format!("It ends when {name} says so. Until then it can be cancelled."),
            ),
        },
    }
}

fn waits(runtime: &ProviderState, seen: &Seen<'_>) -> (String, String) {
    let most = runtime.provider.max_active;
    let limit = seen.queue_wait.map(|limit| {
        format!(
            " If it waits here for more than {}, it fails (`lanes.queue_minutes`).",
            update::span(limit)
        )
    });
    match seen.wait {
        Some(Around { own: true, .. }) => (
            "It waits for the turn before it on its session.".into(),
            "It begins by itself when that turn has ended.".into(),
        ),
        Some(Around { place, .. }) => (
            format!(
                "All {most} places of {} are taken. It is number {} of {} in line.",
                runtime.provider.label, place.position, place.queued
            ),
            format!(
                "It begins by itself when a place is free and it is its turn.{}",
                limit.unwrap_or_default()
            ),
        ),
        None => (
            "A place is free for it.".into(),
            "It begins at once.".into(),
        ),
    }
}

/// How it is known that an open run stands as it does, and when that was seen.
fn evidence(run: &RunOverview, seen: &Seen<'_>) -> (String, Millis) {
    let who = match run.lease_owner.as_deref() {
        _ if seen.away.is_some() => String::new(),
        Some(node) if node != seen.node && run.lease_until <= seen.now => {
            format!(" The server {node} drove it last and is waited for.")
        }
        _ if run.lease_until <= seen.now => {
            " No server drives it just now; one takes it up within a minute.".to_owned()
        }
        Some(node) if node != seen.node => format!(" The server {node} drives it."),
        _ => String::new(),
    };
    match (&seen.heard, run.phase) {
        (Some(event), _) => (
            format!(
                "Event {} of its thread: {}.{who}",
                event.seq,
                word(&event.kind)
            ),
            event.at,
        ),
        (None, Phase::Queued) => (format!("The lane, as it stands now.{who}"), seen.now),
        (None, _) => (
            format!("Its record; nothing was heard of it yet.{who}"),
            run.started_at.unwrap_or(run.created_at),
        ),
    }
}

fn word(kind: &str) -> String {
    match kind {
        "queued" => "its place in line changed".into(),
        "started" => "it started".into(),
        "delta" | "delta.reset" => "it said something".into(),
        "task.step" => "a step of it began or ended".into(),
        "task.question_asked" => "it asked something".into(),
        "task.question_closed" => "a question of it was closed".into(),
        "task.note" => "it noted something".into(),
        "task.usage" => "it told what it used".into(),
        "task.cancel_requested" => "somebody asked it to stop".into(),
        "task.verifying" | "task.ended" | "completed" => "it ended".into(),
        other => format!("`{other}`"),
    }
}

fn closed(run: &RunOverview, away: Option<&str>) -> Standing {
    let at = run.ended_at.unwrap_or(run.created_at);
    let told = run.message.as_deref().map(short);
    let advice = run.code.map(|code| code.advice().to_owned());
    let (why, next) = match run.status {
        RunStatus::Completed => (
            "Its runtime said that it is done.".to_owned(),
            match (run.artifact_state, away) {
                (ArtifactState::Failed, _) => "Nothing. Its files could not be listed.".to_owned(),
                (ArtifactState::Done | ArtifactState::Pending, None) => {
                    "Nothing. Its files can be fetched.".to_owned()
                }
                (ArtifactState::Done | ArtifactState::Pending, Some(node)) => format!(
                    "Nothing. Its server {node} is away; its files can be fetched when that server is back."
                ),
            },
        ),
        RunStatus::Cancelled => (
            told.unwrap_or_else(|| "Somebody asked it to stop, and it did.".into()),
            "Nothing. A new message goes on with its session.".to_owned(),
        ),
        RunStatus::Failed | RunStatus::ArtifactMissing | RunStatus::Running => (
            told.clone()
                .or_else(|| advice.clone())
                .unwrap_or_else(|| "It failed and gave no reason.".into()),
            // What was told already is not said twice.
            match advice.filter(|_| told.is_some()).map(|text| beside(&text)) {
                Some(advice) if !advice.is_empty() => format!("{AGAIN} {advice}"),
                _ => AGAIN.to_owned(),
            },
        ),
    };
    Standing {
        why,
        since: at,
        evidence: witness(run).into(),
        seen_at: at,
        next,
    }
}

/// Who knows that a run ended as it did.
fn witness(run: &RunOverview) -> &'static str {
    match run.code {
        _ if run.started_at.is_none() => "The record: the runtime never had it.",
        Some(Code::AgentLost) => {
            "Its agent's process, which was looked for then and was gone; it had said nothing of an end."
        }
        Some(code) if code.set_by() != SetBy::Runtime => {
            "The bridge's own record of what it found then; the runtime did not say it."
        }
        _ => "Its runtime's own word, which was recorded then and stands.",
    }
}

/// What was looked up about a session.
#[derive(Default)]
pub(super) struct SessionSeen<'a> {
    /// Its newest run.
    pub(super) last: Option<&'a RunOverview>,
    /// Its thread is being deleted.
    pub(super) is_going: bool,
    /// The server that has it, when that one is away.
    pub(super) away: Option<&'a str>,
}

pub(super) fn of_session(session: &Session, seen: &SessionSeen<'_>) -> Standing {
    let last = seen.last;
    let away_why = seen
        .away
        .map_or_else(String::new, |node| format!("Its server {node} is away."));
    let away_next;
    let (why, since, next) = match (session.state, last) {
        _ if seen.is_going => (
            "It is being deleted.",
            session.updated_at,
            match seen.away {
                None => {
                    "It goes for good when its runs have stopped. Until then its thread takes no turn."
                }
                Some(_) => {
                    away_next = format!(
                        "{away_why} It goes for good when that server is back. Until then its thread takes no turn."
                    );
                    &away_next
                }
            },
        ),
        (SessionState::Closed, _) => (
            "It was ended.",
            session.updated_at,
            "Messages no longer go on with it; only a new start opens it again.",
        ),
        (SessionState::Open, _) if seen.away.is_some() => (
            away_why.as_str(),
            last.map_or(session.created_at, |run| {
                run.ended_at.unwrap_or(run.created_at)
            }),
            "Turns of its thread are refused until that server is back; then they go on with it.",
        ),
        (SessionState::Open, Some(run)) if run.phase != Phase::Closed => (
            "It has a turn that has not ended.",
            run.created_at,
            "Further turns wait until that one has ended.",
        ),
        (SessionState::Open, _) => (
            "It takes turns.",
            last.and_then(|run| run.ended_at)
                .unwrap_or(session.created_at),
            "The next message of its thread goes on with it.",
        ),
    };
    Standing {
        why: why.into(),
        since,
        evidence: "The stored mapping of the thread, which never changes.".into(),
        seen_at: session.updated_at,
        next: next.into(),
    }
}

pub(super) fn of_runtime(state: &ProviderState, offer: &Offer<'_>) -> Standing {
    let place = offer
        .place
        .map_or(String::new(), |place| format!(" ({place})"));
    let (max, queued) = (state.provider.max_active, state.provider.max_queued);
    let next: String = match (state.available, state.active >= max) {
        (false, _) if offer.is_waited_for => "A turn that is sent now waits for it, for two minutes at most, and then fails. It is looked at again whenever somebody asks.".into(),
        (false, _) => "Turns for it are turned away until it can be reached. It is looked at again whenever somebody asks.".into(),
        (true, true) if state.queued >= queued => "Every place is taken and the line is full: further turns are turned away until one ends.".into(),
        (true, true) => "Every place is taken: further turns wait in line.".into(),
        (true, false) => format!("It takes {} more at once.", max.saturating_sub(state.active)),
    };
    let next = match offer.queue_wait {
        Some(limit) => format!(
            "{next} A turn that waits for a place for more than {} fails (`lanes.queue_minutes`).",
            update::span(limit)
        ),
        None => next,
    };
    Standing {
        why: match state.available {
            true => format!(
                "It can take work: {}{place}.",
                state.about.trim_end_matches('.')
            ),
            false => format!("{}{place}", state.about),
        },
        since: offer.since.unwrap_or(state.probed_at),
        evidence: "It was looked at just now; since when it stands so is as this process saw it."
            .into(),
        seen_at: state.probed_at,
        next,
    }
}

pub(super) fn of_host(host: &AgentHost, last: Option<&RunOverview>) -> Standing {
    let began = last.and_then(|run| run.started_at).unwrap_or(host.began);
    let rests = last.and_then(|run| run.ended_at).unwrap_or(host.began);
    let (why, since, next) = match host.state {
        HostState::Working | HostState::Waiting if host.no_room_since.is_some() => (
            "The disk is full: what its agent says cannot be written down, so the agent waits.",
            host.no_room_since.unwrap_or(began),
            "It goes on by itself when there is room on the disk of the data folder.",
        ),
        HostState::Working => (
            "Its agent works on a turn.",
            began,
            "It stays until the turn has ended, also when the server is stopped.",
        ),
        HostState::Waiting => (
            "Its agent waits for an answer.",
            began,
            "It stays until the question is answered, also when the server is stopped.",
        ),
        HostState::Idle => (
            "Its agent has nothing to do.",
            rests,
            "It ends by itself when nobody needs it for a while; the next message then starts another.",
        ),
        HostState::Silent => (
            "It lives, and does not answer.",
            host.began,
            "It is asked again. `threadline doctor` says what to do if it stays so.",
        ),
        HostState::Lost => return lost_host(host, last),
    };
    Standing {
        why: why.into(),
        since,
        evidence: format!(
            "Process {} and its socket, with the agent in process {}.",
            host.pid, host.agent_pid
        ),
        seen_at: host.seen_at,
        next: next.into(),
    }
}

/// A host that was killed: what is left of it, and what became of its session's last turn.
fn lost_host(host: &AgentHost, last: Option<&RunOverview>) -> Standing {
    let why = match host.cleanup.map(|done| done.ended) {
        Some(0) => "It was killed. Nothing of it is left.".to_owned(),
        Some(1) => "It was killed. One process that it left was ended.".to_owned(),
        Some(n) => format!("It was killed. {n} processes that it left were ended."),
        None => "It was killed. What it left running is not ended yet.".to_owned(),
    };
    let its_turn = last.filter(|run| run.ended_at.is_none_or(|ended| ended >= host.began));
    let turn = match its_turn.map(|run| (run.phase, run.status, run.code)) {
        Some((Phase::Queued, ..)) | None => "It had no turn.",
        Some((phase, RunStatus::Running, _)) if phase != Phase::Closed => {
            "Its turn fails as AGENT_LOST."
        }
        Some((_, _, Some(Code::AgentLost))) => "Its turn failed as AGENT_LOST.",
        Some((_, RunStatus::Completed, _)) => "Its last turn had completed before.",
        Some(_) => "Its last turn had ended before.",
    };
    let next = match host.cleanup {
        Some(_) => "The next message of its thread starts another and goes on with the session.",
        None => {
            "The next message of its thread, or the next start of the server, tries to end the rest again."
        }
    };
    Standing {
        why,
        since: host.cleanup.map_or(host.seen_at, |done| done.at),
        evidence: format!(
            "Process {} is gone and wrote down no end; its agent was process {}.",
            host.pid, host.agent_pid
        ),
        seen_at: host.seen_at,
        next: format!("{turn} {next}"),
    }
}

/// A reason that fits into a line.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(REASON) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[path = "standing_tests.rs"]
mod tests;
