//! One turn of a thread, with what came of it.

use serde::{Deserialize, Serialize};
use threadline_contract::{
    AppThreadKey, RequestId, RunId, RunWarning,
    thread::{Message, Role, TurnResult, TurnState},
};

use super::ThreadView;

/// One turn of a thread, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnView {
    /// The thread.
    pub thread_id: AppThreadKey,
    /// The id that it was sent with; absent where a thread has no turn yet.
    pub request_id: Option<RequestId>,
    /// Its run, once it is known.
    pub run_id: Option<RunId>,
    /// What became of it.
    pub state: Option<TurnState>,
    /// What came of it. Its files are all of them, and say how they are now.
    pub result: TurnResult,
    /// Why it did not succeed, in a sentence.
    pub error: Option<String>,
    /// What a person should know of its answer.
    pub warnings: Vec<RunWarning>,
    /// Where its files lie: in the thread's folder, and below it once a later run delivered files.
    pub folders: Vec<String>,
}

impl TurnView {
    /// The thread's current turn, as the thread's own fields tell it.
    pub fn current(view: &ThreadView) -> Self {
        let thread = &view.thread;
        let association = thread.context_state.task_association.as_ref();
        let request = association.map(|a| a.request_id.clone());
        let messages = thread.context_state.messages.iter().rev();
        let answers: Vec<&Message> = messages.take_while(|m| m.role == Role::Assistant).collect();
        Self {
            thread_id: thread.thread_id.clone(),
            run_id: association.and_then(|a| a.run_id.clone()),
            state: request
                .as_ref()
                .and_then(|request| thread.turn(request)?.state),
            request_id: request,
            result: crate::change::result::of_thread(thread),
            error: error(&answers),
            warnings: warnings(&answers),
            folders: vec![thread.workspace_binding.workspace_path.clone()],
        }
    }
}

/// Why a turn did not succeed, from what was said in it, newest first.
pub(crate) fn error(answers: &[&Message]) -> Option<String> {
    let error = answers.iter().find(|m| m.error);
    error.map(|m| m.text.clone())
}

/// The warnings about a turn's answer, from what was said in it, newest first.
pub(crate) fn warnings(answers: &[&Message]) -> Vec<RunWarning> {
    let warned = answers.iter().find(|m| !m.warnings.is_empty());
    warned.map_or_else(Vec::new, |m| m.warnings.clone())
}
