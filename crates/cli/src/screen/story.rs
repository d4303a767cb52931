//! What a run does, told in order: from events to things worth saying. Decides; prints nothing.

use std::collections::{BTreeMap, BTreeSet};

use threadline_app::api::{AppEvent, Away, FileProgress, ThreadView};
use threadline_contract::{
    Millis, Progress, Question, QuestionId, QuestionState, QueuePlace, RequestId, ResultCode,
    RunId, RunStatus, SessionUpdate, Stage, Step, StepState,
    thread::{Lifecycle, Message, Role, SyncStatus, TurnState},
};

/// Something worth saying.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Say {
    /// What goes on now; it replaces what was going on before.
    Doing(String),
    /// A step ended.
    Step(Step),
    /// Words of the answer.
    Text(String),
    /// Words of the answer that were said are withdrawn, and will be said anew.
    Withdrawn,
    /// Something a person should read.
    Note(String),
    /// The bridge cannot be heard, and is tried again.
    Away(Away),
    /// A person is asked.
    Asked(Box<Question>),
    /// A question that was asked ended, here or elsewhere.
    Closed(Box<Question>),
    /// A question that nobody had to be asked any more, with how it ended.
    Answered(Box<Question>),
    /// A file came closer.
    File(FileProgress),
}

/// Which run is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// The one that this request started, and no other.
    Of(RequestId),
    /// Whatever the thread is doing.
    Current,
}

/// A run being told.
pub(crate) struct Story {
    which: Which,
    /// The run, once it is known.
    run: Option<RunId>,
    /// It has been seen to be the thread's current one.
    began: bool,
    /// When it was asked for, once it was seen waiting: that finds its message.
    asked_at: Option<Millis>,
    /// The run's last word about itself while it was the thread's current one.
    view: ThreadView,
    /// What was heard of a run that is perhaps ours, and newer than what we know.
    early: Option<(RunId, Vec<SessionUpdate>)>,
    /// The last event of the thread's log that was heard.
    heard: i64,
    /// Characters of the answer that were told.
    told: u64,
    /// The run whose answer was there before, and is not told again.
    answered: Option<RunId>,
    running: Vec<Step>,
    asked: BTreeMap<QuestionId, Question>,
    /// Questions that ended. The thread's state can be older than that.
    closed: BTreeSet<QuestionId>,
    doing: String,
    noticed: Option<String>,
    /// Since when its bridge could not be heard, as it was told last.
    away: Option<Millis>,
    /// It was told that the run waits for something.
    waits: bool,
    /// What the run said about its end.
    last_words: Option<String>,
}

impl Story {
    pub(crate) fn new(which: Which, view: ThreadView) -> Self {
        Self {
            which,
            run: None,
            began: false,
            asked_at: None,
            view,
            early: None,
            heard: 0,
            told: 0,
            answered: None,
            running: Vec::new(),
            asked: BTreeMap::new(),
            closed: BTreeSet::new(),
            doing: String::new(),
            noticed: None,
            away: None,
            waits: false,
            last_words: None,
        }
    }

    /// The same, by somebody who knows already what stands in this thread.
    pub(crate) fn knowing(self, before: Option<&ThreadView>) -> Self {
        let answered = before.and_then(|before| {
            let context = &before.thread.context_state;
            let run = context.task_association.as_ref()?.run_id.clone()?;
            let mut messages = context.messages.iter();
            messages.any(|m| is_answer(m, &run)).then_some(run)
        });
        Self { answered, ..self }
    }

    /// What the run said about its end, if it did not succeed.
    pub(crate) fn last_words(&self) -> Option<&str> {
        self.last_words.as_deref()
    }

    /// The request whose run is told; none, where it is whatever the thread does.
    pub(crate) fn request(&self) -> Option<&RequestId> {
        match &self.which {
            Which::Of(request) => Some(request),
            Which::Current => None,
        }
    }

    /// Whether the turn waits, and has not begun.
    pub(crate) fn waits(&self, latest: &ThreadView) -> bool {
        let request = self.request();
        !self.began && request.is_some_and(|request| is_waiting(latest, request))
    }

    /// Whether somebody dropped the turn while it waited.
    pub(crate) fn is_dropped(&self, latest: &ThreadView) -> bool {
        let mut messages = latest.thread.context_state.messages.iter();
        let dropped = |m: &Message| {
            m.role == Role::User
                && Some(m.timestamp_ms) == self.asked_at
                && m.state == Some(TurnState::Dropped)
        };
        !self.began && messages.any(dropped)
    }

    /// The thread as it was last seen while it was busy with this run.
    pub(crate) fn view(&self) -> &ThreadView {
        &self.view
    }

    /// The question that waits longest.
    pub(crate) fn question(&self) -> Option<&Question> {
        self.asked.values().min_by_key(|q| q.asked_at)
    }

    /// What to say about an event.
    pub(crate) fn hear(&mut self, event: AppEvent) -> Vec<Say> {
        let mut out = Vec::new();
        match event {
            AppEvent::Thread(view) => self.see(*view, &mut out),
            AppEvent::Update(id, update) => {
                self.heard = self.heard.max(id);
                self.update(*update, &mut out);
            }
            AppEvent::File(file) if self.began => out.push(Say::File(file)),
            AppEvent::File(_) | AppEvent::Changed(_) | AppEvent::Removed(_) => {}
        }
        out
    }

    /// Looks at the thread's state.
    pub(crate) fn see(&mut self, view: ThreadView, out: &mut Vec<Say>) {
        if let Some(request) = self.request() {
            let mut waiting = view.thread.context_state.queued_turns.iter();
            let own = waiting.find(|turn| turn.request_id == *request);
            self.asked_at = own.map(|turn| turn.queued_at_ms).or(self.asked_at);
        }
        let (ours, run) = {
            let current = view.thread.context_state.task_association.as_ref();
            let ours = current.is_some_and(|task| match &self.which {
                Which::Of(request) => task.request_id == *request,
                Which::Current => true,
            });
            (
                ours,
                current
                    .and_then(|task| task.run_id.clone())
                    .filter(|_| ours),
            )
        };
        if let Some(notice) = &view.notice
            && self.noticed.as_ref() != Some(notice)
        {
            self.noticed = Some(notice.clone());
            out.push(Say::Note(notice.clone()));
        }
        if let Some(away) = view.away.as_ref().filter(|_| ours)
            && self.away != Some(away.since_ms)
        {
            self.away = Some(away.since_ms);
            out.push(Say::Away(away.clone()));
        }
        let waits = view.progress.as_ref().filter(|_| ours);
        let waits = waits.and_then(|progress| progress.message.clone());
        if waits.is_some() && !self.waits {
            out.extend(waits.clone().map(Say::Note));
        }
        self.waits = waits.is_some();
        if ours {
            self.began = true;
        } else if self.began {
            // The thread has moved on to its next turn; ours has ended.
            return;
        }
        let questions = if ours { view.questions.clone() } else { vec![] };
        self.view = view;
        if run.is_some() && run != self.run {
            self.running.clear();
            self.told = 0;
            self.run = run;
            let early = self
                .early
                .take()
                .filter(|(run, _)| Some(run) == self.run.as_ref());
            for update in early.into_iter().flat_map(|(_, updates)| updates) {
                self.update(update, out);
            }
        }
        for question in questions {
            self.ask(question, out);
        }
        self.answer(out);
        let doing = self.going_on();
        self.now(doing, out);
    }

    /// An answer that no event told, as soon as the thread has it.
    fn answer(&mut self, out: &mut Vec<Say>) {
        let Some(run) = self.run.as_ref().filter(|_| self.told == 0) else {
            return;
        };
        if self.answered.as_ref() == Some(run) || !self.is_told(&self.view) {
            return;
        }
        let mut messages = self.view.thread.context_state.messages.iter();
        if let Some(answer) = messages.find(|m| is_answer(m, run)) {
            self.told = answer.text.chars().count() as u64;
            out.push(Say::Text(format!("{}\n", answer.text.trim_end())));
        }
    }

    fn update(&mut self, update: SessionUpdate, out: &mut Vec<Say>) {
        if self.run.as_ref() != Some(&update.run_id) {
            return self.keep(update);
        }
        match update.event.as_str() {
            "delta" => {
                let text = update.text.filter(|t| !t.is_empty());
                self.told += text.as_ref().map_or(0, |t| t.chars().count() as u64);
                out.extend(text.map(Say::Text));
            }
            "delta.reset" => {
                let keep = update.keep.unwrap_or(0);
                if keep < self.told {
                    self.told = keep;
                    out.push(Say::Withdrawn);
                }
            }
            "task.step" => out.extend(update.step.and_then(|step| self.step(step))),
            "task.note" | "task.deadline_exceeded" => out.extend(update.message.map(Say::Note)),
            "task.question_asked" => {
                if let Some(question) = update.question.filter(|q| !self.is_past(q)) {
                    self.ask(question, out);
                }
            }
            "task.question_closed" => {
                if let Some(question) = update.question {
                    let asked = self.asked.remove(&question.question_id).is_some();
                    self.closed.insert(question.question_id.clone());
                    out.push(match asked {
                        true => Say::Closed(Box::new(question)),
                        false => Say::Answered(Box::new(question)),
                    });
                }
            }
            "task.ended" | "completed" => {
                let words = update
                    .message
                    .filter(|_| update.status != Some(RunStatus::Completed));
                self.last_words = words.or(self.last_words.take());
            }
            _ => {}
        }
        if let Some(progress) = update.progress {
            self.view.progress = Some(progress);
        }
        self.view.queue = update.queue;
        self.answer(out);
        let doing = self.going_on();
        self.now(doing, out);
    }

    /// Keeps news of a run whose number we may yet learn to be ours. Numbers grow with time, so only
    /// the newest can be.
    fn keep(&mut self, update: SessionUpdate) {
        let settled = self.began && self.run.is_some() && self.which != Which::Current;
        let newest = self
            .early
            .as_ref()
            .map(|(run, _)| run)
            .max(self.run.as_ref());
        if settled || newest.is_some_and(|newest| *newest > update.run_id) {
            return;
        }
        match &mut self.early {
            Some((run, updates)) if *run == update.run_id => updates.push(update),
            early => *early = Some((update.run_id.clone(), vec![update])),
        }
    }

    /// Whether the thread's state is newer than what was heard last, and knows the question no more.
    fn is_past(&self, question: &Question) -> bool {
        let task = self.view.thread.context_state.task_association.as_ref();
        let newer = task.is_some_and(|task| task.last_event_id >= self.heard);
        let mut open = self.view.questions.iter();
        newer && open.all(|q| q.question_id != question.question_id)
    }

    fn ask(&mut self, question: Question, out: &mut Vec<Say>) {
        let id = &question.question_id;
        let known = self.asked.contains_key(id) || self.closed.contains(id);
        if question.state == QuestionState::Open && !known {
            self.asked
                .insert(question.question_id.clone(), question.clone());
            out.push(Say::Asked(Box::new(question)));
        }
    }

    fn step(&mut self, step: Step) -> Option<Say> {
        self.running.retain(|s| s.step_id != step.step_id);
        match step.state {
            StepState::Running => {
                self.running.push(step);
                None
            }
            StepState::Done | StepState::Failed => Some(Say::Step(step)),
        }
    }

    fn now(&mut self, doing: String, out: &mut Vec<Say>) {
        if doing != self.doing {
            self.doing.clone_from(&doing);
            out.push(Say::Doing(doing));
        }
    }

    fn going_on(&self) -> String {
        let state = &self.view.thread;
        if !self.began {
            return match &self.view.queue {
                Some(place) => waiting(*place),
                None => "Waiting for the turn before it".into(),
            };
        }
        if let Some(step) = self.running.last() {
            return step.title.clone();
        }
        if state.lifecycle_state.status == Lifecycle::Ready {
            return match state.context_state.last_artifact_sync_status {
                // Its state is known before all that it did has been told.
                Some(SyncStatus::Syncing) if !self.is_told(&self.view) => "Working".into(),
                Some(SyncStatus::Syncing)
                    if state
                        .lifecycle_state
                        .last_result_code
                        .is_some_and(ResultCode::is_cancelled) =>
                {
                    "Looking at what it left".into()
                }
                Some(SyncStatus::Syncing) => "Syncing the files".into(),
                _ => String::new(),
            };
        }
        if self.is_unheard() {
            return "Handing the task over".into();
        }
        let asked = state
            .context_state
            .task_association
            .as_ref()
            .is_some_and(|t| t.cancel_requested);
        match (asked, &self.view.progress, &self.view.queue) {
            (true, ..) => "Cancelling".into(),
            (
                _,
                Some(Progress {
                    stage: Stage::Queued,
                    ..
                }),
                Some(place),
            ) => waiting(*place),
            (_, Some(progress), _) => stage(progress),
            (_, None, Some(place)) => waiting(*place),
            (_, None, None) => "Working".into(),
        }
    }

    /// Whether it was told that the bridge cannot be heard.
    pub(crate) fn is_away(&self) -> bool {
        self.away.is_some()
    }

    /// Whether the task was sent, and nobody has said yet that there is a run.
    pub(crate) fn is_unheard(&self) -> bool {
        let thread = &self.view.thread;
        let task = thread.context_state.task_association.as_ref();
        self.began
            && thread.lifecycle_state.status == Lifecycle::Running
            && task.is_some_and(|task| task.run_id.is_none() && !task.cancel_requested)
    }

    /// Whether every event that the thread itself knows of has been heard: its state and its log
    /// come by two ways, and the state can be quicker.
    pub(crate) fn is_told(&self, latest: &ThreadView) -> bool {
        let task = latest.thread.context_state.task_association.as_ref();
        task.is_none_or(|task| self.heard >= task.last_event_id)
    }

    /// Whether the run has ended and its files are here, or as many as will come.
    pub(crate) fn is_over(&self, latest: &ThreadView) -> bool {
        let thread = &latest.thread;
        let turn = self.request().and_then(|request| thread.turn(request));
        if let Some(result) = turn.and_then(|turn| turn.result.as_deref()) {
            return result.is_settled();
        }
        let idle = !matches!(
            thread.lifecycle_state.status,
            Lifecycle::Running | Lifecycle::Queued
        );
        let synced = !matches!(
            thread.context_state.last_artifact_sync_status,
            Some(SyncStatus::Queued | SyncStatus::Running | SyncStatus::Syncing)
        );
        let current = thread.context_state.task_association.as_ref();
        match &self.which {
            Which::Current => idle && synced && thread.context_state.queued_turns.is_empty(),
            Which::Of(request) if current.is_some_and(|task| task.request_id == *request) => {
                idle && synced
            }
            // A later turn is the thread's current one; or ours was dropped, or never got so far.
            Which::Of(request) => {
                self.began && turn.is_none()
                    || self.is_dropped(latest)
                    || !is_waiting(latest, request) && idle
            }
        }
    }
}

fn is_answer(message: &Message, run: &RunId) -> bool {
    message.role == Role::Assistant && !message.error && message.run_id.as_ref() == Some(run)
}

fn is_waiting(view: &ThreadView, request: &RequestId) -> bool {
    view.thread
        .context_state
        .queued_turns
        .iter()
        .any(|turn| turn.request_id == *request)
}

fn waiting(place: QueuePlace) -> String {
    match (place.position, place.queued) {
        (1, 1) => "Waiting for a free place: next in line".into(),
        (position, queued) => format!("Waiting for a free place: {position} of {queued} in line"),
    }
}

fn stage(progress: &Progress) -> String {
    let plain = match progress.stage {
        Stage::Queued => "Waiting for a free place",
        Stage::Preparing => "Preparing the folders",
        Stage::Working => "Working",
        Stage::Waiting => "Waiting for an answer",
        Stage::Verifying => "Looking for what must be delivered",
        Stage::Collecting => "Collecting the files",
        Stage::Unknown => "Working",
    };
    progress.message.clone().unwrap_or_else(|| plain.to_owned())
}

#[cfg(test)]
#[path = "story_tests.rs"]
mod tests;
