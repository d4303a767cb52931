//! How a run ended, for people: its files, what was not taken, and the way on.

use threadline_app::api::{ThreadView, TurnView};
use threadline_contract::{
    Code, Fault, Omitted, ResultCode, RunWarning,
    thread::{Lifecycle, SyncStatus, SyncedFile},
};

use super::{
    Terminal,
    words::{clean, columns, count, duration, line, quoted, size},
    wrap::hanging,
};
use crate::exit::Exit;

/// Files of one kind that are listed one by one before the rest is counted.
const LISTED: usize = 30;

/// What went with a task, and where its files went beside the thread's folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    /// The names of the attached files.
    pub(crate) attached: Vec<String>,
    /// What was copied, and to where.
    pub(crate) copied: Option<String>,
}

/// What stands at the end of a turn, line by line.
pub(crate) fn summary(
    view: &ThreadView,
    turn: &TurnView,
    given: &Given,
    to: Terminal,
    home: Option<&str>,
) -> String {
    let result = &turn.result;
    let mut out = files(&result.artifacts, to);
    if result.artifacts.is_empty()
        && result.artifact_sync_status == Some(SyncStatus::NoExportedArtifacts)
    {
        let none = match view.earlier.is_empty() {
            true => "No files.",
            false => "No files of the last run.",
        };
        out.push_str(&format!("{}\n", to.dim(none)));
    }
    out.push_str(&not_taken(&result.omitted, to));
    // What a failed run says about its files only repeats why it failed.
    if let (Some(ResultCode::Success), Some(detail)) =
        (result.result_code, &result.artifact_sync_detail)
    {
        for text in detail.lines() {
            let text = hanging(&clean(text), to.width, 2);
            out.push_str(&format!("{} {text}\n", to.warn("!")));
        }
    }
    let ways = ways(view, turn, given, to, home);
    if !out.is_empty() && !ways.is_empty() {
        out.push('\n');
    }
    for (what, way) in ways {
        out.push_str(&format!("{}{:2$}{way}\n", to.dim(what), "", 8 - what.len()));
    }
    out
}

/// Where things are, and how it goes on.
fn ways(
    view: &ThreadView,
    turn: &TurnView,
    given: &Given,
    to: Terminal,
    home: Option<&str>,
) -> Vec<(&'static str, String)> {
    let thread = &view.thread;
    let context = &thread.context_state;
    let name = quoted(&thread.name);
    let mut ways: Vec<(&str, String)> = Vec::new();
    if let Some(folder) = turn.folders.last().filter(|_| turn.result.files > 0) {
        ways.push(("Folder", to.path(folder, home)));
    }
    if let Some(copied) = &given.copied {
        ways.push(("Copied", clean(copied)));
    }
    if let Some(folder) = &thread.workspace_binding.working_directory {
        ways.push(("Worked", format!("in {}", to.path(folder, home))));
    }
    if !given.attached.is_empty() {
        ways.push(("Given", line(&given.attached.join(", "))));
    }
    if let Some(used) = used(turn) {
        ways.push(("Used", used));
    }
    if let Some(policy) = &context.permission_policy {
        ways.push(("Policy", format!("permissions: {policy}")));
    }
    if thread.lifecycle_state.status == Lifecycle::Archived {
        ways.push(("Restore", format!("threadline restore {name}")));
        return ways;
    }
    let waiting = context.queued_turns.len() as u64;
    if waiting > 0 {
        let what = count(waiting, "message");
        ways.push(("Waiting", format!("{what}: threadline queue list {name}")));
    }
    if matches!(
        thread.lifecycle_state.status,
        Lifecycle::Running | Lifecycle::Queued
    ) {
        ways.push(("Watch", format!("threadline watch {name}")));
        ways.push(("Cancel", format!("threadline cancel {name}")));
        return ways;
    }
    let result = turn.result.result_code;
    let sync = turn.result.artifact_sync_status;
    match Exit::of_result(result, sync) {
        // The same would be refused again.
        Exit::Usage => return ways,
        // What is gone from the bridge is not there to be brought.
        Exit::FilesIncomplete if is_removed(turn.result.artifact_sync_detail.as_deref()) => {
            ways.push(("Retry", format!("threadline retry {name}")));
        }
        Exit::FilesIncomplete => ways.push(("Sync", format!("threadline sync {name}"))),
        _ if matches!(result, None | Some(ResultCode::Success)) => {}
        _ => ways.push(("Retry", format!("threadline retry {name}"))),
    }
    ways.push(("Go on", format!("threadline run --thread {name} \"…\"")));
    ways
}

/// How long a run took, and what it used as far as that was reported.
fn used(turn: &TurnView) -> Option<String> {
    let run = &turn.result;
    let waited = run
        .waited_ms
        .map(|ms| format!("{} of it for an answer", duration(ms)));
    let parts: Vec<String> = run
        .wall_ms
        .map(duration)
        .into_iter()
        .chain(waited)
        .chain(run.usage.and_then(|usage| usage.in_words()))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn is_removed(detail: Option<&str>) -> bool {
    detail.is_some_and(|detail| detail.starts_with(Code::ArtifactsRemoved.as_str()))
}

/// One line per file: path, size, and the beginning of the digest that was computed here.
pub(crate) fn files(files: &[SyncedFile], to: Terminal) -> String {
    let names: Vec<String> = files.iter().map(|f| line(f.path.as_str())).collect();
    let shown = names.iter().take(LISTED);
    let room = to.width.saturating_sub(25).min(60);
    let width = shown.map(|n| columns(n)).max().unwrap_or(0).min(room);
    let mut out = String::new();
    for (name, file) in names.iter().zip(files).take(LISTED) {
        let digest = &file.sha256.to_hex()[..12];
        let size = size(file.size);
        let (sign, digest) = match (file.missing, file.changed) {
            (true, _) => (to.bad("✗"), "missing here".to_owned()),
            (false, true) => (to.warn("!"), "changed since".to_owned()),
            (false, false) => (to.good("✓"), to.dim(digest)),
        };
        out.push_str(&format!(
            "{sign} {name}{:1$}  {size:>7}  {digest}\n",
            "",
            width.saturating_sub(columns(name))
        ));
    }
    if let Some(rest) = files.get(LISTED..).filter(|rest| !rest.is_empty()) {
        let bytes = rest.iter().map(|f| f.size).sum();
        let more = format!(
            "and {} more, {}",
            count(rest.len() as u64, "file"),
            size(bytes)
        );
        out.push_str(&format!("{} {}\n", to.good("✓"), more));
    }
    out
}

/// What was seen and not taken, each with its reason.
pub(crate) fn not_taken(omitted: &[Omitted], to: Terminal) -> String {
    let mut out = String::new();
    for Omitted { path, reason } in omitted.iter().take(LISTED) {
        out.push_str(&format!(
            "{} {}  {}\n",
            to.warn("–"),
            line(path),
            to.dim(&format!("not taken: it {}", reason.in_words()))
        ));
    }
    if let Some(rest) = omitted.get(LISTED..).filter(|rest| !rest.is_empty()) {
        out.push_str(&format!("{} {} more not taken\n", to.warn("–"), rest.len()));
    }
    out
}

/// What a person should know of an answer although its run completed, line by line.
pub(crate) fn warnings(warnings: &[RunWarning], to: Terminal) -> String {
    let one = |warning: &RunWarning| {
        let code = format!("[{}]", warning.code);
        let text = format!("{} {code}", clean(&warning.message));
        let text = hanging(&text, broken_at(to), 2).replace(&code, &to.dim(&code));
        format!("{} {text}\n", to.warn("!"))
    };
    warnings.iter().map(one).collect()
}

/// Why a run did not succeed, as an error; `None` when it did.
///
/// `last_words` are the run's own about its end; the transcript may not have them yet.
pub(crate) fn trouble(turn: &TurnView, last_words: Option<&str>) -> Option<String> {
    let result = turn.result.result_code?;
    let told = turn.error.as_deref().or(last_words).map(clean);
    let (sentence, code) = match result {
        ResultCode::Success => return None,
        ResultCode::Aborted => {
            return Some(told.unwrap_or_else(|| "The run was cancelled.".into()));
        }
        ResultCode::Failed => ("The run failed.".to_owned(), "failed".to_owned()),
        ResultCode::ArtifactMissing => (
            "The run ended, but something it had to deliver is not there.".to_owned(),
            "artifact_missing".to_owned(),
        ),
        ResultCode::Code(code) => (code.advice().to_owned(), code.to_string()),
        ResultCode::AcpHttp(status) => (
            format!("The bridge answered HTTP {status}."),
            result.to_string(),
        ),
    };
    let sentence = told.unwrap_or(sentence);
    Some(match sentence.contains(&code) {
        true => sentence,
        false => format!("{sentence} [{code}]"),
    })
}

/// What a thread goes on with after one of its messages was dropped.
pub(crate) fn goes_on(view: &ThreadView) -> String {
    let name = quoted(&view.thread.name);
    let task = view.thread.context_state.task_association.as_ref();
    match view.thread.lifecycle_state.status {
        Lifecycle::Running if task.is_some_and(|task| task.cancel_requested) => {
            "The run before it is being cancelled too.".to_owned()
        }
        Lifecycle::Running => format!("The run before it goes on: threadline watch {name}"),
        Lifecycle::Queued => "The messages before it still wait.".to_owned(),
        Lifecycle::Ready | Lifecycle::Archived => {
            format!("To send another: threadline run --thread {name} \"…\"")
        }
    }
}

/// What became of a run that was cancelled while its bridge could not be asked; `None` when it could.
pub(crate) fn given_up(before: &ThreadView) -> Option<String> {
    let task = before.thread.context_state.task_association.as_ref();
    let running = before.thread.lifecycle_state.status == Lifecycle::Running;
    match (&before.away, task) {
        (Some(away), _) if running => Some(format!(
            "the run is given up here; its bridge could not be told: {} It will be when it can be reached",
            line(&away.message)
        )),
        (None, Some(task)) if running && task.run_id.is_none() => Some(
            "the run is given up here; its bridge had not confirmed it yet, and is told".to_owned(),
        ),
        _ => None,
    }
}

/// An error, and what to do: one hint, and only where the error itself has none.
pub(crate) fn error(fault: &Fault, to: Terminal) -> String {
    let message = clean(&fault.message);
    let (first, rest) = message.split_once('\n').unwrap_or((&message, ""));
    let (said, hint) = match hint(fault.code) {
        Some(hint) if !advises(&message, &hint) => (first, Some(hint)),
        // What the API advises is said in words of the command line.
        Some(hint) if matches!(fault.code, Code::ThreadBusy | Code::ThreadArchived) => (
            first.split_inclusive(". ").next().unwrap_or(first),
            Some(hint),
        ),
        _ => (first, None),
    };
    let (label, code) = ("error:", format!("[{}]", fault.code));
    let text = format!("{label} {} {code}", said.trim_end());
    let text = hanging(&text, broken_at(to), 2);
    // Painted only now: a colour takes no room.
    let text = text.replacen(label, &to.bad(label), 1);
    let mut out = format!("{}\n", text.replace(&code, &to.dim(&code)));
    for text in rest.lines().filter(|l| !l.trim().is_empty()) {
        let indent = text.chars().take_while(|c| *c == ' ').count();
        let text = hanging(text.trim(), broken_at(to), indent + 2);
        out.push_str(&format!("{:indent$}{}\n", "", text.trim_end()));
    }
    if let Some(hint) = hint {
        out.push_str(&format!("  {}\n", hanging(&hint, broken_at(to), 2)));
    }
    out
}

/// What to do about a fault, where its message does not say so itself.
pub(crate) fn advice(fault: &Fault) -> Option<String> {
    hint(fault.code).filter(|hint| !advises(&fault.message, hint))
}

/// A log is read by programs too, which want one line to be one line.
fn broken_at(to: Terminal) -> usize {
    match to.person {
        true => to.width,
        false => usize::MAX,
    }
}

/// Whether a message says by itself what to do.
fn advises(message: &str, hint: &str) -> bool {
    let command = ["threadline ", "kill "].iter().any(|c| message.contains(c));
    let words = hint.split(". ").map(|part| part.trim_end_matches('.'));
    command
        || words.into_iter().any(|part| message.contains(part))
        || ["first.", "instead.", "Choose "]
            .iter()
            .any(|word| message.contains(word))
}

/// What to do about a code, in words of the command line. The advice of most codes says in its first
/// sentence what is, which the message said already, and after it what to do.
fn hint(code: Code) -> Option<String> {
    let own = match code {
        // The message names the flag, or the list its settings.
        Code::InvalidRequest | Code::ConfigInvalid | Code::PromptRequired => return None,
        Code::ProviderNotFound => "`threadline doctor` lists the runtimes there are.",
        Code::WorkdirNotAllowed => "Choose another folder, or add one above it to `work_roots`.",
        Code::ThreadBusy => "`threadline watch` waits for its end, `threadline cancel` ends it.",
        Code::ThreadArchived => "`threadline restore` brings it back.",
        Code::ThreadAmbiguous => "Type more of the name.",
        _ => {
            let mut rest = code.advice().split(". ").skip(1);
            // About an error's own sentence, which is what was just read.
            let about = |part: &&str| !part.starts_with("The sentence") && !part.contains("acp.");
            let rest: Vec<&str> = rest.by_ref().filter(about).collect();
            return (!rest.is_empty()).then(|| rest.join(". "));
        }
    };
    Some(own.to_owned())
}

#[cfg(test)]
#[path = "ending_tests.rs"]
mod tests;
