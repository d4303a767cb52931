//! The run state machine: which phase follows which, decided without doing anything.
//!
//! | phase | meanwhile |
//! | --- | --- |
//! | queued | it waits for a place in the lane, or for the turn before it on its session |
//! | preparing | its scope is being made |
//! | starting | its id is persisted and the runtime is being asked to begin |
//! | running | the runtime works; frames arrive |
//! | collecting | the registry ended it; its files are brought into the scope and listed |
//! | closed | everything about it is recorded |
//!
//! The status that callers see is `running` until an end is confirmed.

use threadline_contract::{Code, Missing, RunStatus, Stage};
use threadline_runtimes::{End, EndStatus};
use threadline_store::Phase;

/// What moves a run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The lane has a place for it.
    Admitted,
    /// The scope is there.
    Prepared,
    /// The runtime has it.
    Started,
    /// The registry ended it.
    Ended,
    /// It ended before the runtime ever had it: nothing to collect.
    NeverRan,
    /// Its files are listed, or known not to be listable.
    Collected,
}

/// A move that the machine does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a run in phase {0:?} cannot take {1:?}")]
pub(crate) struct Illegal(pub(crate) Phase, pub(crate) Event);

/// The only way a run moves.
pub(crate) fn after(phase: Phase, event: Event) -> Result<Phase, Illegal> {
    use {Event::*, Phase::*};
    match (phase, event) {
        (Queued, Admitted) => Ok(Preparing),
        (Preparing, Prepared) => Ok(Starting),
        (Starting, Started) => Ok(Running),
        (Running, Ended) => Ok(Collecting),
        (Queued | Preparing | Starting, NeverRan) | (Collecting, Collected) => Ok(Closed),
        _ => Err(Illegal(phase, event)),
    }
}

/// Whether a run in this phase takes one of the lane's places.
pub(crate) const fn holds_place(phase: Phase) -> bool {
    matches!(phase, Phase::Preparing | Phase::Starting | Phase::Running)
}

/// What a person is told. `waiting`: a question is open. `declared`: deliverables are looked for.
pub(crate) const fn stage(phase: Phase, waiting: bool, declared: bool) -> Stage {
    match phase {
        Phase::Queued => Stage::Queued,
        Phase::Preparing | Phase::Starting => Stage::Preparing,
        Phase::Running if waiting => Stage::Waiting,
        Phase::Running => Stage::Working,
        Phase::Collecting | Phase::Closed if declared => Stage::Verifying,
        Phase::Collecting | Phase::Closed => Stage::Collecting,
    }
}

/// What a run's end comes to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    /// The terminal status.
    pub(crate) status: RunStatus,
    /// Why it is not `completed`.
    pub(crate) code: Option<Code>,
    /// The same, as a sentence.
    pub(crate) message: Option<String>,
}

/// Judges an end: the registry's word, and whether somebody asked for the stop. Only a *declared*
/// deliverable that is missing changes a result.
pub(crate) fn verdict(end: &End, cancel_requested: bool, missing: &[Missing]) -> Verdict {
    match end.status {
        EndStatus::Completed if missing.is_empty() => Verdict {
            status: RunStatus::Completed,
            code: None,
            // What is missing from it all the same.
            message: end.message.clone(),
        },
        EndStatus::Completed => {
            let list: Vec<&str> = missing
                .iter()
                .map(|m| m.deliverable.glob.as_str())
                .collect();
            Verdict {
                status: RunStatus::ArtifactMissing,
                code: Some(Code::RequiredArtifactMissing),
                message: Some(format!(
                    "The run said it was done, but it did not deliver: {}.",
                    list.join(", ")
                )),
            }
        }
        EndStatus::Cancelled if cancel_requested => Verdict {
            status: RunStatus::Cancelled,
            code: None,
            // Who else stopped it does not matter to whoever asked for it.
            message: end.message.clone().filter(|_| end.code.is_none()),
        },
        // Somebody else stopped it at its runtime, which says so.
        EndStatus::Cancelled if end.code.is_some() => Verdict {
            status: RunStatus::Cancelled,
            code: end.code,
            message: end.message.clone(),
        },
        // `cancelled` that nobody asked for: the agent stopped by itself after a refused permission.
        EndStatus::Cancelled => Verdict {
            status: RunStatus::Failed,
            code: Some(Code::TurnDeclined),
            message: end
                .message
                .clone()
                .or_else(|| Some("The agent stopped the turn by itself.".into())),
        },
        EndStatus::Failed => Verdict {
            status: RunStatus::Failed,
            code: Some(end.code.unwrap_or(Code::ExecutionFailed)),
            message: end.message.clone(),
        },
    }
}

#[cfg(test)]
#[path = "phase_tests.rs"]
mod tests;
