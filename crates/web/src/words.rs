//! Plain words for what the records say: states, reasons, sizes, times. Every state has a word and
//! a shape; none is told by colour alone.

use jiff::{Timestamp, tz::TimeZone};
use maud::{Markup, html};
use threadline_app::api::{FilesNow, Summary, ThreadView};
use threadline_contract::{
    Code, Millis, ResultCode, RuntimeId, Stage, Usage, amounts,
    thread::{Lifecycle, SyncStatus},
};
pub(crate) use threadline_contract::{
    amounts::{count, duration, size},
    code::beside,
};

/// Characters of a title that stands beside other words.
const TITLE: usize = 60;

/// How something stands: a look, and a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) look: Look,
    pub(crate) word: String,
}

/// The five looks of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It goes on.
    Running,
    /// It waits for the person.
    Waiting,
    /// It went wrong.
    Failed,
    /// It went well.
    Done,
    /// Nothing to see to.
    Quiet,
}

impl Look {
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Running => "state running",
            Self::Waiting => "state waiting",
            Self::Failed => "state failed",
            Self::Done => "state done",
            Self::Quiet => "state",
        }
    }
}

impl State {
    pub(crate) fn new(look: Look, word: impl Into<String>) -> Self {
        Self {
            look,
            word: word.into(),
        }
    }
}

impl maud::Render for State {
    fn render(&self) -> Markup {
        html! { span class=(self.look.class()) { span.dot aria-hidden="true" {} (self.word) } }
    }
}

/// How a thread in a list stands.
pub(crate) fn state_of(thread: &Summary) -> State {
    let quietly = thread.open_questions == 0 && !thread.away;
    if thread.queue.is_some() && quietly {
        return State::new(Look::Quiet, "queued");
    }
    state(
        thread.lifecycle_status,
        thread.last_result_code,
        thread.last_artifact_sync_status,
        thread.files_now,
        thread.open_questions > 0,
        thread.away,
    )
}

/// How a thread stands, as far as its page knows.
pub(crate) fn state_of_view(view: &ThreadView) -> State {
    let record = &view.thread;
    let context = &record.context_state;
    let running = record.lifecycle_state.status == Lifecycle::Running;
    let run = context.task_association.as_ref();
    // As in a list: until the bridge says that it has the run, that is what is waited for.
    let away = view.away.is_some() || run.is_some_and(|run| run.run_id.is_none());
    let works = running && view.questions.is_empty();
    if works && run.is_some_and(|run| run.cancel_requested) {
        return State::new(Look::Running, "cancelling");
    }
    if works && !away {
        if view.progress.as_ref().is_some_and(|p| p.message.is_some()) {
            return State::new(Look::Waiting, "waiting");
        }
        match view.progress.as_ref().map(|p| p.stage) {
            Some(Stage::Queued) => return State::new(Look::Quiet, "queued"),
            Some(Stage::Preparing) => return State::new(Look::Running, "getting ready"),
            Some(Stage::Verifying) => return State::new(Look::Running, "looking for its files"),
            Some(Stage::Collecting) => return State::new(Look::Running, "collecting its files"),
            Some(Stage::Working | Stage::Waiting | Stage::Unknown) | None => {}
        }
    }
    state(
        record.lifecycle_state.status,
        record.lifecycle_state.last_result_code,
        context.last_artifact_sync_status,
        Some(FilesNow::of(&context.last_artifacts)),
        !view.questions.is_empty(),
        away,
    )
}

fn state(
    lifecycle: Lifecycle,
    result: Option<ResultCode>,
    sync: Option<SyncStatus>,
    files: Option<FilesNow>,
    asked: bool,
    away: bool,
) -> State {
    match lifecycle {
        Lifecycle::Archived => State::new(Look::Quiet, "archived"),
        Lifecycle::Running if away => State::new(Look::Waiting, "waiting for its bridge"),
        Lifecycle::Running | Lifecycle::Queued if asked => {
            State::new(Look::Waiting, "waiting for you")
        }
        Lifecycle::Running => State::new(Look::Running, "working"),
        Lifecycle::Queued => State::new(Look::Quiet, "queued"),
        Lifecycle::Ready => match (result, sync) {
            (None, _) => State::new(Look::Quiet, "ready"),
            (Some(ResultCode::Success), Some(SyncStatus::Syncing)) => {
                State::new(Look::Running, "syncing files")
            }
            (Some(ResultCode::Success), Some(SyncStatus::Partial | SyncStatus::Failed)) => {
                State::new(Look::Waiting, "done, files missing")
            }
            (Some(ResultCode::Success), _) => match files {
                Some(FilesNow::Missing) => State::new(Look::Waiting, "done, files missing"),
                Some(FilesNow::Changed) => State::new(Look::Waiting, "done, files changed"),
                Some(FilesNow::AsDelivered) | None => State::new(Look::Done, "done"),
            },
            (Some(code), _) if code.is_cancelled() => State::new(Look::Quiet, "cancelled"),
            (
                Some(ResultCode::ArtifactMissing | ResultCode::Code(Code::RequiredArtifactMissing)),
                _,
            ) => State::new(Look::Failed, "not delivered"),
            (Some(_), _) => State::new(Look::Failed, "failed"),
        },
    }
}

/// What a result means: a title and what to do. `None` for the two that need nothing.
pub(crate) fn outcome(result: ResultCode) -> Option<(&'static str, String)> {
    Some(match result {
        ResultCode::Success => return None,
        ResultCode::Aborted => (
            "Cancelled",
            "You cancelled this run. None of its files were brought here.".into(),
        ),
        ResultCode::Failed => (
            "It did not work",
            "The run failed and gave no reason. Retry it, or ask in other words.".into(),
        ),
        ResultCode::ArtifactMissing => (
            "A promised file is missing",
            "The run ended, but something it had to deliver is not there.".into(),
        ),
        ResultCode::Code(code) => (title(code), code.advice().to_owned()),
        ResultCode::AcpHttp(status) => (
            "The bridge refused",
            format!("The bridge answered with HTTP status {status}. Its log says more."),
        ),
    })
}

/// The first sentence of an advice, where there is no room for more.
pub(crate) fn briefly(advice: &str) -> &str {
    advice
        .split_inclusive(". ")
        .next()
        .unwrap_or(advice)
        .trim_end()
}

/// A sentence without the numbers that a system gives its errors: the words before them say it.
fn without_numbers(text: &str) -> String {
    const BEFORE: &str = " (os error ";
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEFORE) {
        out.push_str(before);
        let end = after.find(|c: char| !c.is_ascii_digit());
        rest = match end.filter(|end| *end > 0 && after[*end..].starts_with(')')) {
            Some(end) => &after[end + 1..],
            None => {
                out.push_str(BEFORE);
                after
            }
        };
    }
    out + rest
}

/// A sentence in which backticks stand around what is code.
pub(crate) fn ticked(text: &str) -> Markup {
    let text = &without_numbers(text);
    let parts: Vec<&str> = text.split('`').collect();
    // A backtick without its other half is only a backtick.
    let whole = parts.len() % 2 == 1;
    html! {
        @if !whole { (text) } @else {
            @for (n, part) in parts.iter().enumerate() {
                @if n % 2 == 0 || part.is_empty() { (part) } @else { code { (part) } }
            }
        }
    }
}

fn title(code: Code) -> &'static str {
    match code {
        Code::RequiredArtifactMissing => "A promised file is missing",
        Code::AgentLost | Code::RunLost => "The agent is gone",
        Code::TurnDeclined => "Declined",
        Code::StoppedAtGateway => "Stopped at the gateway",
        Code::BudgetExceeded => "It used up its limit",
        Code::ContinuationUnavailable => "This conversation cannot go on",
        Code::StorageFull => "The disk is full",
        Code::ModelUnreachable => "The model could not be reached",
        Code::ModelFailed => "The model answered with an error",
        Code::ModelRefusesTools => "The model cannot use tools",
        Code::GatewayBusy | Code::RuntimeBusy | Code::QueueFull => "Too much at once",
        Code::ConnectFailed => "The bridge could not be reached",
        code if is_unheard(code) => "The result did not arrive",
        _ => "It did not work",
    }
}

/// Whether the run may have ended well without us hearing it, so that a sync may help.
pub(crate) fn may_be_synced(result: ResultCode) -> bool {
    match result {
        ResultCode::Code(code) => is_unheard(code),
        ResultCode::AcpHttp(_) => true,
        ResultCode::Success
        | ResultCode::Failed
        | ResultCode::Aborted
        | ResultCode::ArtifactMissing => false,
    }
}

fn is_unheard(code: Code) -> bool {
    matches!(
        code,
        Code::ConnectFailed
            | Code::ConnectTimeout
            | Code::ConnectionClosed
            | Code::SseNoResult
            | Code::BadBridgeAnswer
            | Code::PollTimeout
    )
}

/// Where a thread runs.
pub(crate) fn runtime(id: &RuntimeId) -> &str {
    match id {
        RuntimeId::OpenClaw => "OpenClaw",
        RuntimeId::Builtin => "builtin",
        RuntimeId::Acp(agent) => agent,
    }
}

/// A title beside other words: as much of it as tells it from others.
pub(crate) fn shortly(title: &str) -> String {
    match title.char_indices().nth(TITLE) {
        Some((end, _)) => format!("{}…", title[..end].trim_end()),
        None => title.to_owned(),
    }
}

/// What a run used, as far as that was reported.
pub(crate) fn used(usage: Option<&Usage>) -> Markup {
    match usage.and_then(Usage::in_words) {
        Some(used) => html! { (used) },
        None => html! { span.muted { "not reported" } },
    }
}

/// How long ago something was, as an element that the page keeps right.
pub(crate) fn ago(at: Millis) -> Markup {
    let text = amounts::ago(Millis::now(), at, &TimeZone::system());
    html! { time datetime=(iso(at)) data-ago aria-live="off" { (text) } }
}

/// The time of day, as an element.
pub(crate) fn clock(at: Millis) -> Markup {
    html! { time datetime=(iso(at)) data-clock { (local(at, "%H:%M")) } }
}

/// Day and time, as an element.
pub(crate) fn moment(at: Millis) -> Markup {
    html! { time datetime=(iso(at)) data-moment { (local(at, "%-d %b, %H:%M:%S")) } }
}

/// How long something has been going on, as an element that counts.
pub(crate) fn since(at: Millis) -> Markup {
    html! { span.num data-since=(at.0) { (duration(Millis::now().since(at) / 1000 * 1000)) } }
}

fn iso(at: Millis) -> String {
    Timestamp::from_millisecond(at.0)
        .map(|t| t.to_string())
        .unwrap_or_default()
}

fn local(at: Millis, format: &str) -> String {
    let zoned = Timestamp::from_millisecond(at.0).map(|t| t.to_zoned(TimeZone::system()));
    zoned
        .map(|z| z.strftime(format).to_string())
        .unwrap_or_default()
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
