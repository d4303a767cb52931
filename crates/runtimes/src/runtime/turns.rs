//! Turns on a runtime, and what is heard of them.

use threadline_contract::{Code, Fault, Millis, QuestionId, RunId, SessionKey, ToolResult};
use tokio::sync::mpsc;

use super::{End, Frame, Pending, Places, TurnPlan};

/// Turns on a runtime, which is the only voice that can end them.
pub trait Turns: Send + Sync + 'static {
    /// Makes the run's scope and the session's work folder, lists the work folder as it is before
    /// this turn, and puts the attachments in place. Can be repeated.
    fn prepare<'a>(&'a self, plan: &'a TurnPlan) -> Pending<'a, Result<Places, Fault>>;

    /// Begins the turn. Called again for the same run it never executes the turn twice: it finds
    /// the run that is there.
    fn start<'a>(
        &'a self,
        plan: &'a TurnPlan,
        places: &'a Places,
    ) -> Pending<'a, Result<(), Fault>>;

    /// Whether [`follow`](Self::follow) must be told which text the log has.
    fn needs_logged_text(&self) -> bool {
        false
    }

    /// Hands over the run's frames after those that are logged, in order, then its end. What was handed over
    /// before is not handed over again, also when a power cut took it from the runtime's own record.
    /// A run that was interrupted by our crash goes on. The channel is bounded: a slow reader
    /// loses nothing and fills no memory. A channel that closes without [`Signal::End`] means
    /// that the runtime cannot be heard; the registry is asked again later.
    fn follow<'a>(&'a self, run: &'a RunRef, logged: Logged) -> Pending<'a, Result<Follow, Fault>>;

    /// What the registry says about a run. `Err` when it cannot be asked.
    fn ask_registry<'a>(&'a self, run: &'a RunRef) -> Pending<'a, Result<Registry, Fault>>;

    /// The end of a run of which the registry has no trace.
    fn lost_run(&self) -> End {
        End::failed(
            Code::RunLost,
            "The runtime has no trace of this run. What it did until then is in its work folder.",
        )
    }

    /// Since when a run waits for room on a disk: what it does cannot be written down until then.
    fn waits_for_room(&self, _run: &RunRef) -> Option<Millis> {
        None
    }

    /// Asks the run to stop. A request, not proof; the registry confirms. Can be repeated.
    fn cancel<'a>(&'a self, run: &'a RunRef) -> Pending<'a, Result<(), Fault>>;

    /// Hands an answer to the run that asked. `None` means declined. Can be repeated.
    fn answer<'a>(
        &'a self,
        run: &'a RunRef,
        question: &'a QuestionId,
        answer: Option<&'a str>,
    ) -> Pending<'a, Result<(), Fault>>;

    /// Hands the result of a tool call to the run that made it. Can be repeated: the same result changes
    /// nothing, and another one is refused.
    fn tool_result<'a>(
        &'a self,
        _run: &'a RunRef,
        _call: &'a str,
        _result: &'a ToolResult,
    ) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async { Err(takes_no_tools()) })
    }

    /// Lets go of every run and waits until nothing is written any more. Runs go on when they are followed again,
    /// by this process or the next.
    fn stop(&self) -> Pending<'_, ()> {
        Box::pin(async {})
    }
}

/// How a registry knows a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunRef {
    /// The session.
    pub session: SessionKey,
    /// The run.
    pub run: RunId,
}

/// What the log has of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logged {
    /// The number of its last frame; 0 if it has none.
    pub frame: i64,
    /// What its texts add up to, for a runtime that [needs it](Turns::needs_logged_text).
    pub text: String,
}

impl Logged {
    /// Frames up to this number, and no text that matters.
    pub fn up_to(frame: i64) -> Self {
        Self {
            frame,
            text: String::new(),
        }
    }
}

/// What the registry says about a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Registry {
    /// It goes on, or can go on.
    Running,
    /// It ended.
    Ended(End),
    /// It was never there, or is forgotten.
    NoRecord,
}

/// What comes out of [`Turns::follow`].
#[derive(Clone, Debug, PartialEq)]
pub enum Signal {
    /// The next frame.
    Frame(Frame),
    /// The end, after the last frame.
    End(End),
}

/// A run being followed.
pub type Follow = mpsc::Receiver<Signal>;

/// What whoever hands a result to a runtime without tools is told.
pub(crate) fn takes_no_tools() -> Fault {
    Fault::new(
        Code::UnsupportedByRuntime,
        "This runtime takes no tools with a turn.",
    )
}
