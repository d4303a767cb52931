//! Threads and questions for tests.

use threadline_app::api::ThreadView;
use threadline_contract::{
    AppThreadKey, ArtifactPath, Millis, Question, QuestionId, QuestionKind, QuestionOption,
    QuestionState, RequestId, ResultCode, RunId, RuntimeId, Sha256,
    thread::{
        ContextState, ExecutionBinding, ExecutionMode, Lifecycle, LifecycleState, Message, Role,
        SCHEMA_VERSION, SyncStatus, SyncedFile, TaskAssociation, TaskThread, WorkspaceBinding,
    },
};

pub(crate) fn key() -> AppThreadKey {
    AppThreadKey::new("draft:1-1").unwrap()
}

pub(crate) fn request(text: &str) -> RequestId {
    RequestId::new(text).unwrap()
}

pub(crate) fn run(text: &str) -> RunId {
    RunId::new(text).unwrap()
}

pub(crate) fn file(path: &str, size: u64) -> SyncedFile {
    SyncedFile {
        path: ArtifactPath::new(path).unwrap(),
        size,
        sha256: Sha256([0xab; 32]),
        content_type: "text/plain".into(),
        changed: false,
        missing: false,
    }
}

pub(crate) fn association(request_id: &str, run_id: Option<&str>) -> TaskAssociation {
    TaskAssociation {
        app_thread_key: key(),
        request_id: request(request_id),
        run_id: run_id.map(run),
        session_key: None,
        remote_working_directory: None,
        artifact_scope: None,
        started_at_ms: Millis(1_000),
        last_event_id: 0,
        cancel_requested: false,
        usage: None,
        wall_ms: None,
        waited_ms: None,
    }
}

pub(crate) fn message(role: Role, text: &str) -> Message {
    Message {
        role,
        text: text.into(),
        timestamp_ms: Millis(1_000),
        run_id: None,
        error: false,
        unfinished: false,
        warnings: vec![],
        state: None,
        request_id: None,
        result: None,
    }
}

/// A thread whose run `r1` of request `q1` ended well, without files.
pub(crate) fn thread() -> TaskThread {
    TaskThread {
        schema_version: SCHEMA_VERSION,
        thread_id: key(),
        name: "river-report".into(),
        title: "Write about rivers".into(),
        workspace_binding: WorkspaceBinding {
            workspace_kind: "localFs".into(),
            workspace_path: "/home/me/.xworkmate/threads/river-report".into(),
            working_directory: None,
        },
        execution_binding: ExecutionBinding {
            execution_mode: ExecutionMode::Agent,
            runtime: Some(RuntimeId::Builtin),
            endpoint_id: "local".into(),
        },
        context_state: ContextState {
            messages: vec![
                message(Role::User, "Write about rivers"),
                message(Role::Assistant, "Done."),
            ],
            task_association: Some(association("q1", Some("r1"))),
            last_artifact_sync_status: Some(SyncStatus::NoExportedArtifacts),
            ..ContextState::default()
        },
        lifecycle_state: LifecycleState {
            status: Lifecycle::Ready,
            last_run_at_ms: Some(Millis(1_000)),
            last_result_code: Some(ResultCode::Success),
        },
        created_at_ms: Millis(1_000),
        updated_at_ms: Millis(1_000),
    }
}

pub(crate) fn view(thread: TaskThread) -> ThreadView {
    ThreadView {
        thread,
        questions: vec![],
        progress: None,
        queue: None,
        away: None,
        notice: None,
        earlier: vec![],
    }
}

/// A question with two options.
pub(crate) fn question(id: &str) -> Question {
    let option = |id: &str, label: &str| QuestionOption {
        option_id: id.into(),
        label: label.into(),
        kind: None,
    };
    Question {
        question_id: QuestionId::new(id).unwrap(),
        thread_id: key(),
        run_id: run("r1"),
        kind: QuestionKind::Question,
        text: "Which colour?".into(),
        options: vec![option("r", "Red"), option("b", "Blue")],
        free_text: true,
        tool: None,
        state: QuestionState::Open,
        asked_at: Millis(1_000),
        closed_at: None,
        answer: None,
        closed_by: None,
        closed_by_principal: None,
    }
}
