//! What a turn's request says: the user's words with the machine's context in front, the routing and
//! the artifact contract. The transcript gets the user's words alone.

use threadline_contract::{
    Routing, RuntimeId, SessionKey, context, method,
    thread::{QueuedTurn, TaskThread},
    turn::{ArtifactContract, DEFAULT_ARTIFACT_DIRS, Metadata, TurnParams},
};

use crate::outbox::Sealed;

/// The session that a bridge is asked by for a thread's run: a gateway's alone.
pub(crate) fn gateway_session(record: &TaskThread) -> Option<SessionKey> {
    let runtime = record.execution_binding.runtime.as_ref();
    let association = record.context_state.task_association.as_ref();
    let session = association.and_then(|a| a.session_key.clone());
    session.filter(|_| runtime.is_some_and(RuntimeId::is_gateway))
}

/// Builds the request of a turn, without its attachments.
pub(crate) fn build(record: &TaskThread, turn: &QueuedTurn, session: Session) -> Sealed {
    let thread = &record.thread_id;
    let folder = record.workspace_binding.working_directory.clone();
    let contract = ArtifactContract {
        schema_version: 1,
        app_thread_key: thread.clone(),
        expected_artifact_dirs: DEFAULT_ARTIFACT_DIRS.map(str::to_owned).into(),
        current_task_workspace: Some(folder.clone().unwrap_or_default()),
        deliverables: turn.deliverables.clone(),
        required_artifact_extensions: Vec::new(),
        openclaw_session_key: None,
        session_key: None,
    };
    let params = TurnParams {
        session_id: thread.clone(),
        thread_id: Some(thread.clone()),
        request_id: Some(turn.request_id.clone()),
        prompt: Some(prompt(record, turn)),
        task_prompt: None,
        message: None,
        messages: None,
        input: None,
        content: None,
        working_directory: folder,
        remote_working_directory_hint: remote(record).map(str::to_owned),
        routing: Some(match &record.execution_binding.runtime {
            Some(runtime) => Routing::to(runtime),
            None => Routing {
                routing_mode: Some("auto".into()),
                ..Routing::default()
            },
        }),
        execution_target: None,
        requested_execution_target: None,
        provider: None,
        agent_id: None,
        inline_attachments: Vec::new(),
        metadata: Some(Metadata {
            xworkmate_task_artifact_contract: Some(contract),
            permission_policy: record.context_state.permission_policy.clone(),
            task_load_class: turn.load_class,
            ..Metadata::default()
        }),
        openclaw_session_key: None,
    };
    Sealed {
        asked_at_ms: turn.queued_at_ms,
        method: match session {
            Session::New => method::START,
            Session::Known => method::MESSAGE,
        }
        .to_owned(),
        params,
    }
}

/// Whether the thread has a session on its runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Session {
    /// A first turn begins one.
    New,
    /// A turn was accepted on it; it is continued, never silently begun again.
    Known,
}

impl Session {
    pub(crate) fn of(record: &TaskThread) -> Self {
        match &record.context_state.task_association {
            Some(a) if a.session_key.is_some() || a.run_id.is_some() => Self::Known,
            _ => Self::New,
        }
    }
}

/// Where the thread's session works on the runtime's host, once its bridge has said so.
fn remote(record: &TaskThread) -> Option<&str> {
    let association = record.context_state.task_association.as_ref();
    association?.remote_working_directory.as_deref()
}

fn prompt(record: &TaskThread, turn: &QueuedTurn) -> String {
    let binding = &record.workspace_binding;
    let folder = binding.working_directory.as_deref().unwrap_or_default();
    let hint = remote(record).map(|folder| {
        // One line of the context, whatever a bridge said.
        let folder = folder.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("Remote workspace hint: {folder} (on the runtime's host; where this thread's turns have worked)")
    });
    let key = [
        format!("Session key: {}", record.thread_id),
        format!(
            "Local workspace: {} (on the user's machine; delivered files are copied there afterwards)",
            binding.workspace_path
        ),
    ];
    let rules = [
        format!("{} {folder}", context::WORKSPACE).trim_end().to_owned(),
        "Isolation: this task is separate from all others. Do not read, move or deliver files of other tasks, other sessions or earlier runs.".to_owned(),
        "Isolation: work inside the current task workspace. Do not use shared caches or the root of a global workspace for results.".to_owned(),
        "Final files: only real files that exist in the artifact folder when this turn ends are delivered. Put every file the user should get there, finished.".to_owned(),
        "Final files: a path or file name in the answer is not a file. Do not claim a file that you have not written, and do not write placeholders.".to_owned(),
        "Final files: leave drafts, logs and other intermediate files out of the artifact folder.".to_owned(),
    ];
    let lines = key.iter().chain(&hint).chain(&rules);
    context::join(lines.map(String::as_str), &turn.prompt)
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
