//! How a run ended, for people: its files, what was not taken, and the way on.

use threadline_app::api::ThreadView;
use threadline_contract::{
    Code, Fault, Omitted, ResultCode,
    thread::{Role, SyncStatus, SyncedFile},
};

use super::{
    Terminal,
    words::{clean, count, line, quoted, reason, size},
};

/// Files of one kind that are listed one by one before the rest is counted.
const LISTED: usize = 30;

/// What stands at the end of a run, line by line.
pub(crate) fn summary(view: &ThreadView, to: Terminal, home: Option<&str>) -> String {
    let context = &view.thread.context_state;
    let name = &view.thread.name;
    let mut out = files(&context.last_artifacts, to);
    if context.last_artifacts.is_empty()
        && context.last_artifact_sync_status == Some(SyncStatus::NoExportedArtifacts)
    {
        out.push_str(&format!("{}\n", to.dim("No files.")));
    }
    out.push_str(&not_taken(&context.last_omitted, to));
    let result = view.thread.lifecycle_state.last_result_code;
    let files_missing = result == Some(ResultCode::Success)
        && matches!(
            context.last_artifact_sync_status,
            Some(SyncStatus::Partial | SyncStatus::Failed)
        );
    // What a failed run says about its files only repeats why it failed.
    if let (Some(ResultCode::Success), Some(detail)) = (result, &context.last_artifact_sync_detail)
    {
        for text in detail.lines() {
            out.push_str(&format!("{} {}\n", to.warn("!"), clean(text)));
        }
    }
    if !out.is_empty() {
        out.push('\n');
    }
    let mut ways: Vec<(&str, String)> = Vec::new();
    if !context.last_artifacts.is_empty() {
        ways.push((
            "Folder",
            to.path(&view.thread.workspace_binding.workspace_path, home),
        ));
    }
    match result {
        Some(ResultCode::Success) if files_missing => {
            ways.push(("Fetch", format!("threadline sync {name}")))
        }
        Some(ResultCode::Success) | None => {}
        Some(_) => ways.push(("Again", format!("threadline retry {name}"))),
    }
    ways.push((
        "Go on",
        format!("threadline run --thread {} \"…\"", quoted(name)),
    ));
    for (what, way) in ways {
        out.push_str(&format!("{}  {way}\n", to.dim(&format!("{what:6}"))));
    }
    out
}

/// One line per file: path, size, and the beginning of the digest that was computed here.
pub(crate) fn files(files: &[SyncedFile], to: Terminal) -> String {
    let names: Vec<String> = files.iter().map(|f| line(f.path.as_str())).collect();
    let shown = names.iter().take(LISTED);
    let width = shown.map(|n| n.chars().count()).max().unwrap_or(0).min(60);
    let mut out = String::new();
    for (name, file) in names.iter().zip(files).take(LISTED) {
        let digest = &file.sha256.to_hex()[..12];
        let size = size(file.size);
        out.push_str(&format!(
            "{} {name:width$}  {size:>7}  {}\n",
            to.good("✓"),
            to.dim(digest)
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
fn not_taken(omitted: &[Omitted], to: Terminal) -> String {
    let mut out = String::new();
    for Omitted { path, reason: why } in omitted.iter().take(LISTED) {
        out.push_str(&format!(
            "{} {}  {}\n",
            to.warn("–"),
            line(path),
            to.dim(&format!("not taken: {}", reason(*why)))
        ));
    }
    if let Some(rest) = omitted.get(LISTED..).filter(|rest| !rest.is_empty()) {
        out.push_str(&format!("{} {} more not taken\n", to.warn("–"), rest.len()));
    }
    out
}

/// Why a run did not succeed, as an error; `None` when it did.
///
/// `last_words` are the run's own about its end; the transcript may not have them yet.
pub(crate) fn trouble(view: &ThreadView, last_words: Option<&str>) -> Option<String> {
    let result = view.thread.lifecycle_state.last_result_code?;
    let messages = &view.thread.context_state.messages;
    let written = messages
        .iter()
        .rev()
        .take_while(|m| m.role == Role::Assistant)
        .find(|m| m.error);
    let told = written.map(|m| m.text.as_str()).or(last_words).map(clean);
    let (sentence, code) = match result {
        ResultCode::Success => return None,
        ResultCode::Aborted => return Some(told.unwrap_or_else(|| "The run was stopped.".into())),
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

/// An error, and what to do.
pub(crate) fn error(fault: &Fault, to: Terminal) -> String {
    let message = clean(&fault.message);
    let (first, rest) = message.split_once('\n').unwrap_or((&message, ""));
    let mut out = format!(
        "{} {first} {}\n",
        to.bad("error:"),
        to.dim(&format!("[{}]", fault.code))
    );
    if !rest.is_empty() {
        out.push_str(&format!("{rest}\n"));
    }
    let advice = fault.code.advice();
    // Not twice: often the message has the code's own words in it, or the command to go on with.
    let said = advice
        .split(". ")
        .any(|part| message.contains(part.trim_end_matches('.')));
    if !said && !message.contains("threadline ") && fault.code != Code::InvalidRequest {
        out.push_str(&format!("  {advice}\n"));
    }
    out
}

#[cfg(test)]
#[path = "ending_tests.rs"]
mod tests;
