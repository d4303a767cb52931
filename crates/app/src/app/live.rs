//! What is known of a running thread beside its record: its stage, its place, its open questions.

use threadline_contract::{
    AppThreadKey, Progress, Question, QuestionId, QuestionState, QueuePlace, RunStatus,
    SessionUpdate, Stage,
};

use super::Core;
use crate::{api::Away, bridge::snapshot::Snapshot, records::lock};

/// The live state of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) progress: Option<Progress>,
    pub(crate) queue: Option<QueuePlace>,
    pub(crate) questions: Vec<Question>,
    pub(crate) away: Option<Away>,
}

impl Live {
    /// Takes in an event.
    fn hear(&mut self, update: &SessionUpdate) {
        match update.event.as_str() {
            "queued" => self.queue = update.queue,
            "started" => self.queue = None,
            _ => {}
        }
        if update.progress.is_some() {
            self.progress.clone_from(&update.progress);
            if update
                .progress
                .as_ref()
                .is_some_and(|p| p.stage != Stage::Queued)
            {
                self.queue = None;
            }
        }
        if let Some(question) = &update.question {
            self.ask(question);
        }
        if update.status.is_some_and(RunStatus::is_terminal) {
            self.questions.clear();
        }
    }

    fn ask(&mut self, question: &Question) {
        self.questions
            .retain(|q| q.question_id != question.question_id);
        if question.state == QuestionState::Open {
            self.questions.push(question.clone());
        }
    }
}

impl Core {
    /// Changes the live state and tells followers if it did.
    fn live(&self, thread: &AppThreadKey, change: impl FnOnce(&mut Live)) {
        let changed = {
            let mut all = lock(&self.live);
            let live = all.entry(thread.clone()).or_default();
            let before = live.clone();
            change(live);
            *live != before
        };
        if changed {
            self.records.touch(thread);
        }
    }

    pub(crate) fn live_update(&self, thread: &AppThreadKey, update: &SessionUpdate) {
        self.live(thread, |live| live.hear(update));
    }

    pub(crate) fn live_handle(&self, thread: &AppThreadKey, snapshot: &Snapshot) {
        self.live(thread, |live| {
            live.progress.clone_from(&snapshot.progress);
            live.queue = snapshot.queue;
        });
    }

    /// The bridge cannot be heard, or can again.
    pub(crate) fn live_away(&self, thread: &AppThreadKey, away: Option<Away>) {
        self.live(thread, |live| live.away = away);
    }

    pub(crate) fn live_questions(&self, thread: &AppThreadKey, questions: Vec<Question>) {
        self.live(thread, |live| live.questions = questions);
    }

    /// A question that is open, by its id.
    pub(crate) fn open_question(&self, id: &QuestionId) -> Option<Question> {
        let live = lock(&self.live);
        let mut open = live.values().flat_map(|live| &live.questions);
        open.find(|q| q.question_id == *id).cloned()
    }

    /// A question was answered here; its event may come later or not at all.
    pub(crate) fn live_answered(&self, question: &Question) {
        if lock(&self.live).contains_key(&question.thread_id) {
            self.live(&question.thread_id, |live| live.ask(question));
        }
    }

    pub(crate) fn live_end(&self, thread: &AppThreadKey) {
        if lock(&self.live).remove(thread).is_some() {
            self.records.touch(thread);
        }
    }
}
