//! From the record of a run to the snapshot that its caller sees.

use threadline_contract::{
    ArtifactScope, ArtifactSet, Code, Fault, Millis, Progress, QuestionState, QueuePlace,
    RunStatus, RunWarning, Snapshot, Source,
};
use threadline_store::{Phase, Run, StoredQuestion};

use crate::wire;

use super::{kept::Kept, phase, stall, time::Times, wording};

/// What the record does not hold.
#[derive(Default)]
pub(crate) struct Around {
    pub(crate) queue: Option<QueuePlace>,
    /// Everything that it asked.
    pub(crate) questions: Vec<StoredQuestion>,
    pub(crate) artifacts: Option<ArtifactSet>,
    pub(crate) asked: Asked,
    /// Since when it waits for room on a disk.
    pub(crate) no_room_since: Option<Millis>,
}

/// What a run's registry has to do with a snapshot.
#[derive(Clone, Copy, Default)]
pub(crate) enum Asked {
    /// Nobody asked it.
    #[default]
    No,
    /// It was asked just now.
    Now,
    /// It could not be asked: why, and when it last said something.
    InVain(Code, Millis),
}

/// What a run's runtime told beside that it completed.
fn warnings(run: &Run) -> Vec<RunWarning> {
    let told = run
        .message
        .iter()
        .filter(|_| run.status == RunStatus::Completed);
    let warning = |message: &String| RunWarning {
        code: Code::AnswerIncomplete,
        message: message.clone(),
    };
    told.map(warning).collect()
}

/// The snapshot of a run.
pub(crate) fn snapshot(run: &Run, kept: Kept, around: Around) -> Result<Snapshot, Fault> {
    let declared = !kept.plan.deliverables.is_empty();
    let ended = run.status.is_terminal();
    let now = Millis::now();
    let gateway = run.runtime.is_gateway();
    let questions = &around.questions;
    let waiting = !ended && questions.iter().any(|q| q.state == QuestionState::Open);
    let times = Times::of(run, kept.budget_minutes, questions, now);
    let deadline = times.and_then(|t| t.deadline);
    let overdue = !ended && !waiting && deadline.is_some_and(|deadline| now >= deadline);
    let unheard = match around.asked {
        Asked::InVain(code, heard) if !ended => Some((code, heard)),
        _ => None,
    };
    let no_room_since = around.no_room_since.filter(|_| !ended);
    let name = wire::name(&run.owner);
    Ok(Snapshot {
        success: !ended || run.status == RunStatus::Completed,
        status: run.status,
        session_id: name.clone(),
        thread_id: name.clone(),
        app_thread_key: name,
        run_id: run.id.clone(),
        turn_id: run.id.clone(),
        session_key: run.session_key.clone(),
        openclaw_session_key: gateway.then(|| run.session_key.clone()),
        runtime: run.runtime.clone(),
        mode: if gateway {
            "gateway-chat"
        } else {
            "agent-chat"
        }
        .to_owned(),
        text: run.text.clone(),
        code: run
            .code
            .or(no_room_since.map(|_| Code::StorageFull))
            .or(overdue.then_some(Code::RunDeadlineExceeded)),
        message: run.message.clone(),
        warnings: warnings(run),
        progress: (!ended).then(|| Progress {
            stage: phase::stage(run.phase, waiting, declared),
            message: no_room_since.map(|since| stall::sentence(since, now)),
            elapsed_ms: Some(now.since(run.created_at)),
        }),
        queue: around.queue,
        artifact_scope: ArtifactScope::of(&run.session_key, &run.id)?,
        artifact_directory: kept.artifact_directory,
        artifacts: around.artifacts,
        artifacts_pending: ended && run.phase != Phase::Closed,
        artifacts_failed: (kept.artifacts_failed.as_deref())
            .filter(|_| run.phase == Phase::Closed)
            .map(|why| wording::for_account(&run.account, why)),
        missing: run.missing.clone(),
        usage: run.usage,
        wall_ms: times.map(|t| t.wall),
        waited_ms: times.map(|t| t.waited).filter(|waited| *waited > 0),
        task_load_class: kept.load_class,
        runtime_budget_minutes: kept.budget_minutes,
        deadline_at: deadline,
        permission_policy: kept.policy,
        created_at: run.created_at,
        started_at: run.started_at,
        ended_at: run.ended_at,
        cancel_requested: run.cancel_requested_at.is_some(),
        deadline_exceeded: overdue,
        transport_degraded: unheard.is_some(),
        transport_degraded_code: unheard.map(|(code, _)| code),
        source: match around.asked {
            Asked::Now if !ended => Source::Registry,
            Asked::Now | Asked::No | Asked::InVain(..) => Source::Stored,
        },
        observed_at: run.ended_at.unwrap_or(match around.asked {
            Asked::Now => now,
            Asked::InVain(_, heard) => heard,
            Asked::No => run.started_at.unwrap_or(run.created_at),
        }),
        registry: None,
    })
}
