//! What a terminal snapshot means for a thread. Decides; does nothing.

use serde_json::Value;
use threadline_contract::{
    ArtifactItem, ArtifactScope, Code, Fault, OmitReason, Omitted, ResultCode, RunStatus, scope,
    thread::SyncStatus,
};

use crate::bridge::{
    snapshot::{self, Snapshot},
    strange,
    trouble::Trouble,
};

/// A snapshot as it came, with the items of its file list read one by one: a bad one spoils itself
/// and not the result.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// The snapshot; its own list of items is empty.
    pub(crate) snapshot: Snapshot,
    /// The files that can be fetched.
    pub(crate) items: Vec<ArtifactItem>,
    /// Entries that cannot: what they were called, and why.
    pub(crate) refused: Vec<(String, String)>,
}

/// Reads a bridge's answer about a run.
pub(crate) fn read(mut value: Value) -> Result<Told, Trouble> {
    if let Some(fault) = refusal(&value) {
        return Err(fault.into());
    }
    snapshot::normalize(&mut value);
    let raw = value
        .pointer_mut("/artifacts/items")
        .map(|items| std::mem::replace(items, Value::Array(Vec::new())));
    known_code(&mut value);
    let snapshot: Snapshot =
        serde_json::from_value(value).map_err(|e| strange(&format!("a snapshot: {e}")))?;
    let mut told = Told {
        snapshot,
        items: Vec::new(),
        refused: Vec::new(),
    };
    for item in raw.as_ref().and_then(Value::as_array).into_iter().flatten() {
        match serde_json::from_value::<ArtifactItem>(item.clone()) {
            Ok(item) => told.items.push(item),
            Err(e) => {
                let name = item.get("path").and_then(Value::as_str).unwrap_or("?");
                told.refused.push((name.to_owned(), e.to_string()));
            }
        }
    }
    Ok(told)
}

/// Answers that are not a snapshot: a lookup that failed, or a runtime that cannot take the turn.
fn refusal(value: &Value) -> Option<Fault> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    if value.get("ok") == Some(&Value::Bool(false)) {
        let code = text("code").and_then(|c| Code::find(&c));
        let message = text("message").unwrap_or_else(|| "The bridge does not know the run.".into());
        return Some(Fault::new(code.unwrap_or(Code::TaskNotFound), message));
    }
    if text("status").as_deref() == Some("unavailable") {
        let code = text("unavailableCode").and_then(|c| Code::find(&c));
        let message = text("unavailableMessage")
            .unwrap_or_else(|| "The runtime cannot take work now.".into());
        return Some(Fault::new(
            code.unwrap_or(Code::ProviderUnavailable),
            message,
        ));
    }
    None
}

/// A code that a newer or foreign bridge knows and we do not: keep it readable, not fatal.
pub(crate) fn known_code(value: &mut Value) {
    let Some(map) = value.as_object_mut() else {
        return;
    };
    let unknown = match map.get("code") {
        Some(Value::String(code)) if Code::find(code).is_none() => code.clone(),
        _ => return,
    };
    let message = match map.get("message").and_then(Value::as_str) {
        Some(message) => format!("{message} ({unknown})"),
        None => unknown,
    };
    map.insert("code".into(), Code::ExecutionFailed.as_str().into());
    map.insert("message".into(), message.into());
}

/// What a run's end means for its thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) code: ResultCode,
    pub(crate) sync: SyncStatus,
    /// Why the sync stands so.
    pub(crate) detail: Option<String>,
    /// What the runtime said.
    pub(crate) text: Option<String>,
    /// What went wrong, for the user.
    pub(crate) error: Option<String>,
    /// What the run made, as it is named where none of it is brought: of one that did not succeed, or
    /// that was cancelled, whatever became of it then.
    pub(crate) left: Vec<Omitted>,
}

/// The verdict on a terminal snapshot.
pub(crate) fn verdict(told: &Told) -> Verdict {
    let snapshot = &told.snapshot;
    let code = code(snapshot.status, snapshot.code);
    let (sync, detail) = if snapshot.status == RunStatus::Completed {
        files(told)
    } else {
        (without_success(snapshot.status), snapshot.message.clone())
    };
    Verdict {
        code,
        sync,
        detail,
        text: snapshot.text.clone().filter(|t| !t.trim().is_empty()),
        error: match code {
            ResultCode::Success => None,
            _ => Some(sentence(snapshot)),
        },
        left: left(told),
    }
}

fn left(told: &Told) -> Vec<Omitted> {
    let reason = match told.snapshot.status {
        RunStatus::Completed | RunStatus::Cancelled => OmitReason::RunCancelled,
        _ => OmitReason::RunFailed,
    };
    let items = told.items.iter().map(|item| Omitted {
        path: item.artifact.path.to_string(),
        reason,
    });
    items.collect()
}

/// What an ended run's status is called in the thread.
pub(crate) fn code(status: RunStatus, code: Option<Code>) -> ResultCode {
    match (status, code) {
        (RunStatus::Completed, _) => ResultCode::Success,
        // Whoever stopped it at its runtime is not the user.
        (RunStatus::Cancelled, Some(code @ Code::StoppedAtGateway)) => ResultCode::Code(code),
        (RunStatus::Cancelled, _) => ResultCode::Aborted,
        (_, Some(code)) => ResultCode::Code(code),
        (RunStatus::ArtifactMissing, None) => ResultCode::ArtifactMissing,
        (RunStatus::Failed | RunStatus::Running, None) => ResultCode::Failed,
    }
}

/// The sync status of a run that did not succeed.
fn without_success(status: RunStatus) -> SyncStatus {
    match status {
        RunStatus::Cancelled => SyncStatus::NoArtifacts,
        _ => SyncStatus::Failed,
    }
}

fn files(told: &Told) -> (SyncStatus, Option<String>) {
    let snapshot = &told.snapshot;
    let any = !told.items.is_empty() || !told.refused.is_empty();
    if any || snapshot.artifacts_pending {
        return (SyncStatus::Syncing, None);
    }
    match &snapshot.artifacts_failed {
        Some(why) => (
            SyncStatus::Failed,
            Some(format!("The run's files could not be collected: {why}")),
        ),
        None => (SyncStatus::NoExportedArtifacts, None),
    }
}

fn sentence(snapshot: &Snapshot) -> String {
    if let Some(message) = snapshot.message.as_ref().filter(|m| !m.trim().is_empty()) {
        return message.clone();
    }
    match (snapshot.status, snapshot.code) {
        (RunStatus::Cancelled, None) => "The run was stopped.".into(),
        (_, Some(code)) => code.advice().into(),
        (RunStatus::ArtifactMissing, None) => Code::RequiredArtifactMissing.advice().into(),
        _ => "The run failed, and the runtime did not say why.".into(),
    }
}

/// Whether a list of files belongs to the run: the scope that the run was announced with, or else
/// the one that follows from its session and id.
pub(crate) fn check_scope(told: &Told, announced: Option<&ArtifactScope>) -> Result<(), Fault> {
    let snapshot = &told.snapshot;
    let mismatch = |scope: &ArtifactScope| {
        Fault::new(
            Code::ScopeMismatch,
            format!(
                "The bridge offered files of `{scope}`, which is not this run's folder. They were refused."
            ),
        )
    };
    let Some(set) = &snapshot.artifacts else {
        return Ok(());
    };
    let told = set.scope.as_str().trim_end_matches('/');
    let run = &snapshot.run_id;
    let own = match (announced, &snapshot.session_key) {
        (Some(scope), _) => scope.as_str().trim_end_matches('/') == told,
        (None, Some(session)) => ArtifactScope::check(told, session, run).is_ok(),
        // A bridge that never named the session: the run must be the right one.
        (None, None) => {
            let parts: Vec<&str> = told.split('/').collect();
            let of_run = [
                scope::segment(run.as_str()),
                scope::peer_segment(run.as_str()),
            ];
            matches!(parts[..], ["tasks", session, last]
                if !matches!(session, "" | "." | "..") && of_run.iter().any(|own| own == last))
        }
    };
    if own {
        Ok(())
    } else {
        Err(mismatch(&set.scope))
    }
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
