use pretty_assertions::assert_eq;
use threadline_app::api::Away;
use threadline_contract::{
    Code, ResultCode, UpdateKind, Who,
    thread::{QueuedTurn, TaskThread},
};

use super::*;
use crate::screen::fixtures::{association, key, message, question, request, run, thread, view};

fn update(run_id: &str, event: &str) -> SessionUpdate {
    SessionUpdate::new(&key(), &run(run_id), UpdateKind::Task, event, Millis(1))
}

fn delta(run_id: &str, text: &str) -> SessionUpdate {
    SessionUpdate {
        text: Some(text.into()),
        ..update(run_id, "delta")
    }
}

fn step(id: &str, title: &str, state: StepState) -> Step {
    Step {
        step_id: id.into(),
        title: title.into(),
        tool: None,
        state,
        detail: None,
        duration_ms: None,
    }
}

fn stepped(step: Step) -> SessionUpdate {
    SessionUpdate {
        step: Some(step),
        ..update("r1", "task.step")
    }
}

fn at(no: i64, update: SessionUpdate) -> AppEvent {
    AppEvent::Update(no, Box::new(update))
}

fn seen(thread: TaskThread) -> AppEvent {
    AppEvent::Thread(Box::new(view(thread)))
}

fn running(run_id: Option<&str>) -> TaskThread {
    let mut thread = thread();
    thread.lifecycle_state.status = Lifecycle::Running;
    thread.lifecycle_state.last_result_code = None;
    thread.context_state.task_association = Some(association("q1", run_id));
    thread.context_state.last_artifact_sync_status = Some(SyncStatus::Running);
    thread
}

fn doing(what: &str) -> Say {
    Say::Doing(what.into())
}

#[test]
fn a_run_is_told_from_its_first_step_to_its_last_file() {
    let mut story = Story::new(Which::Of(request("q1")), view(running(None)));
    // Its events can be quicker than the news which run it is.
    assert_eq!(
        story.hear(at(1, stepped(step("a", "Writing", StepState::Running)))),
        []
    );
    assert_eq!(story.hear(seen(running(Some("r1")))), [doing("Writing")]);
    let done = step("a", "Wrote notes.md", StepState::Done);
    assert_eq!(
        story.hear(at(2, stepped(done.clone()))),
        [Say::Step(done), doing("Working")]
    );
    assert_eq!(
        story.hear(at(3, delta("r1", "Hel"))),
        [Say::Text("Hel".into())]
    );
    assert_eq!(story.hear(at(4, delta("r0", "not ours"))), []);

    let mut syncing = thread();
    syncing.context_state.last_artifact_sync_status = Some(SyncStatus::Syncing);
    syncing
        .context_state
        .task_association
        .as_mut()
        .unwrap()
        .last_event_id = 5;
    assert_eq!(
        story.hear(seen(syncing.clone())),
        [],
        "what it did has not all been told yet"
    );
    assert_eq!(
        story.hear(at(5, update("r1", "completed"))),
        [doing("Syncing the files")]
    );
    assert!(!story.is_over(&view(syncing.clone())));
    let file = FileProgress {
        thread_id: key(),
        path: "notes.md".into(),
        done: 1,
        total: 2,
        verified: false,
    };
    assert_eq!(story.hear(AppEvent::File(file.clone())), [Say::File(file)]);

    let mut synced = syncing;
    synced.context_state.last_artifact_sync_status = Some(SyncStatus::Synced);
    assert_eq!(story.hear(seen(synced.clone())), [doing("")]);
    let mut last = view(synced);
    assert!(story.is_over(&last) && story.is_told(&last));
    let task = last.thread.context_state.task_association.as_mut();
    task.unwrap().last_event_id = 6;
    assert!(!story.is_told(&last), "the log lags behind");
    story.hear(at(6, update("r1", "completed")));
    assert!(story.is_told(&last));
}

#[test]
fn a_turn_that_waits_is_not_told_by_the_one_before_it() {
    let mut busy = running(Some("r1"));
    let turn = QueuedTurn {
        request_id: request("q2"),
        prompt: "p".into(),
        deliverables: vec![],
        load_class: None,
        attachments: vec![],
        queued_at_ms: Millis(2),
    };
    busy.context_state.queued_turns = vec![turn];
    let mut story = Story::new(Which::Of(request("q2")), view(busy.clone()));
    assert_eq!(
        story.hear(seen(busy.clone())),
        [doing("Waiting for the turn before it")]
    );
    assert_eq!(story.hear(at(1, delta("r1", "theirs"))), []);
    let mut queued = view(busy.clone());
    queued.queue = Some(QueuePlace {
        position: 2,
        queued: 3,
    });
    assert_eq!(
        story.hear(AppEvent::Thread(Box::new(queued))),
        [doing("Waiting for a free place: 2 of 3 in line")]
    );

    // The one before it ends: that is not our end.
    let mut between = thread();
    between.context_state.queued_turns = busy.context_state.queued_turns;
    story.hear(seen(between.clone()));
    assert!(!story.is_over(&view(between)));

    let mut ours = running(None);
    ours.context_state.task_association = Some(association("q2", Some("r2")));
    assert_eq!(story.hear(at(2, delta("r2", "ours"))), []);
    assert_eq!(
        story.hear(seen(ours.clone())),
        [Say::Text("ours".into()), doing("Working")]
    );
    assert!(!story.is_over(&view(ours)));

    // The thread moved on before we saw our end: then it was one.
    let mut next = running(None);
    next.context_state.task_association = Some(association("q3", None));
    assert_eq!(story.hear(seen(next.clone())), []);
    assert!(story.is_over(&view(next)));
    assert_eq!(
        story
            .view()
            .thread
            .context_state
            .task_association
            .as_ref()
            .unwrap()
            .request_id,
        request("q2")
    );
}

#[test]
fn a_dropped_turn_is_over() {
    let mut queued = running(Some("r1"));
    queued.context_state.queued_turns = vec![];
    let story = Story::new(Which::Of(request("q2")), view(queued.clone()));
    assert!(!story.is_over(&view(queued)), "it may be about to start");
    assert!(story.is_over(&view(thread())), "nobody has it any more");
    let mut unsent = thread();
    unsent.context_state.task_association = None;
    assert!(story.is_over(&view(unsent)), "it could not even be sent");
}

#[test]
fn a_turn_that_is_dropped_while_another_runs_is_over() {
    let mut busy = running(Some("r1"));
    let turn = QueuedTurn {
        request_id: request("q2"),
        prompt: "p".into(),
        deliverables: vec![],
        load_class: None,
        attachments: vec![],
        queued_at_ms: Millis(2),
    };
    let asked = |state| Message {
        timestamp_ms: Millis(2),
        state: Some(state),
        ..message(Role::User, "p")
    };
    busy.context_state.queued_turns = vec![turn];
    busy.context_state.messages = vec![asked(TurnState::Queued)];
    let mut story = Story::new(Which::Of(request("q2")), view(busy.clone()));
    story.hear(seen(busy.clone()));
    assert!(story.waits(&view(busy.clone())) && !story.is_over(&view(busy.clone())));
    busy.context_state.queued_turns = vec![];
    busy.context_state.messages = vec![asked(TurnState::Dropped)];
    story.hear(seen(busy.clone()));
    assert!(story.is_dropped(&view(busy.clone())) && story.is_over(&view(busy)));
}

#[test]
fn an_answer_that_no_event_told_is_told_before_its_files_are_here() {
    let mut syncing = running(Some("r1"));
    syncing.lifecycle_state.status = Lifecycle::Ready;
    syncing.lifecycle_state.last_result_code = Some(ResultCode::Success);
    syncing.context_state.last_artifact_sync_status = Some(SyncStatus::Syncing);
    syncing.context_state.messages = vec![Message {
        run_id: Some(run("r1")),
        ..message(Role::Assistant, "Here it is.")
    }];
    let mut story = Story::new(Which::Current, view(syncing.clone()));
    let answer = Say::Text("Here it is.\n".into());
    assert_eq!(
        story.hear(seen(syncing.clone())),
        [answer, doing("Syncing the files")]
    );
    assert_eq!(story.hear(seen(syncing.clone())), []);
    // Who knows it already is not told again.
    let known = view(syncing.clone());
    let mut again = Story::new(Which::Current, known.clone()).knowing(Some(&known));
    assert_eq!(
        again.hear(seen(syncing.clone())),
        [doing("Syncing the files")]
    );
    // One that was told word by word is not told again; and as long as words may come, they come first.
    let mut told = Story::new(Which::Current, view(running(Some("r1"))));
    told.hear(seen(running(Some("r1"))));
    let late = syncing.context_state.task_association.as_mut().unwrap();
    late.last_event_id = 7;
    told.hear(seen(syncing.clone()));
    assert_eq!(
        told.hear(at(6, delta("r1", "Here it is."))),
        [Say::Text("Here it is.".into())]
    );
    assert_eq!(
        told.hear(at(7, update("r1", "task.ended"))),
        [doing("Syncing the files")]
    );
}

#[test]
fn whoever_watches_sees_the_current_run_and_the_next() {
    let mut story = Story::new(Which::Current, view(running(Some("r2"))));
    story.hear(seen(running(Some("r2"))));
    assert_eq!(story.hear(at(1, delta("r1", "long ago"))), []);
    assert_eq!(
        story.hear(at(2, delta("r2", "now"))),
        [Say::Text("now".into())]
    );
    assert_eq!(story.hear(at(3, delta("r3", "next"))), []);
    assert_eq!(
        story.hear(seen(running(Some("r3")))),
        [Say::Text("next".into())]
    );
    assert!(story.is_over(&view(thread())));
}

#[test]
fn a_question_is_asked_once_and_closed_once() {
    let mut story = Story::new(Which::Current, view(running(Some("r1"))));
    story.hear(seen(running(Some("r1"))));
    let asked = question("q-1");
    let mut waiting = view(running(Some("r1")));
    waiting.questions = vec![asked.clone()];
    assert_eq!(
        story.hear(AppEvent::Thread(Box::new(waiting))),
        [Say::Asked(Box::new(asked.clone()))]
    );
    let again = SessionUpdate {
        question: Some(asked.clone()),
        ..update("r1", "task.question_asked")
    };
    assert_eq!(story.hear(at(1, again)), []);
    assert_eq!(story.question(), Some(&asked));
    let closed = Question {
        state: QuestionState::Withdrawn,
        ..asked
    };
    let event = SessionUpdate {
        question: Some(closed.clone()),
        ..update("r1", "task.question_closed")
    };
    assert_eq!(story.hear(at(2, event)), [Say::Closed(Box::new(closed))]);
    assert_eq!(story.question(), None);

    // The thread's state comes by another way, and can be older.
    let mut late = view(running(Some("r1")));
    late.questions = vec![question("q-1")];
    assert_eq!(story.hear(AppEvent::Thread(Box::new(late))), []);
    assert_eq!(story.question(), None);
}

#[test]
fn nobody_is_asked_what_a_policy_has_answered_or_what_is_long_over() {
    let answered = Question {
        state: QuestionState::Answered,
        closed_by: Some("policy:allow".into()),
        closed_by_principal: Some(Who::Server),
        ..question("q-1")
    };
    let event = |name: &str, question: &Question| SessionUpdate {
        question: Some(question.clone()),
        ..update("r1", name)
    };
    let mut story = Story::new(Which::Current, view(running(Some("r1"))));
    story.hear(seen(running(Some("r1"))));
    let by_policy = event("task.question_asked", &answered);
    assert_eq!(story.hear(at(1, by_policy)), []);
    let closed = event("task.question_closed", &answered);
    assert_eq!(
        story.hear(at(2, closed.clone())),
        [Say::Answered(Box::new(answered.clone()))]
    );

    // Watched from its beginning, by a thread whose state is of now.
    let mut now = running(Some("r1"));
    let task = now.context_state.task_association.as_mut();
    task.expect("a task").last_event_id = 2;
    let mut story = Story::new(Which::Current, view(now.clone()));
    story.hear(seen(now));
    let as_it_was = event("task.question_asked", &question("q-1"));
    assert_eq!(story.hear(at(1, as_it_was)), []);
    assert_eq!(
        story.hear(at(2, closed)),
        [Say::Answered(Box::new(answered))]
    );
}

#[test]
fn a_run_that_has_used_up_its_time_says_so() {
    let mut story = Story::new(Which::Current, view(running(Some("r1"))));
    story.hear(seen(running(Some("r1"))));
    let event = SessionUpdate {
        message: Some("It goes on.".into()),
        ..update("r1", "task.deadline_exceeded")
    };
    assert_eq!(story.hear(at(1, event)), [Say::Note("It goes on.".into())]);
}

#[test]
fn why_a_run_failed_is_remembered() {
    let mut story = Story::new(Which::Current, view(running(Some("r1"))));
    story.hear(seen(running(Some("r1"))));
    let ended = SessionUpdate {
        status: Some(RunStatus::Failed),
        message: Some("The model is away.".into()),
        ..update("r1", "task.ended")
    };
    story.hear(at(1, ended));
    let completed = SessionUpdate {
        status: Some(RunStatus::Failed),
        ..update("r1", "completed")
    };
    story.hear(at(2, completed));
    assert_eq!(story.last_words(), Some("The model is away."));
}

#[test]
fn a_task_that_nobody_has_taken_is_being_handed_over() {
    let mut story = Story::new(Which::Of(request("q1")), view(running(None)));
    assert!(!story.is_unheard(), "nothing was seen yet");
    assert_eq!(
        story.hear(seen(running(None))),
        [doing("Handing the task over")]
    );
    assert!(story.is_unheard());
    assert_eq!(story.hear(seen(running(Some("r1")))), [doing("Working")]);
    assert!(!story.is_unheard());
}

#[test]
fn words_that_are_withdrawn_are_told_only_if_they_were_said() {
    let mut story = Story::new(Which::Current, view(running(Some("r1"))));
    story.hear(seen(running(Some("r1"))));
    story.hear(at(1, delta("r1", "Hello wo")));
    let reset = |keep| SessionUpdate {
        keep: Some(keep),
        ..update("r1", "delta.reset")
    };
    assert_eq!(story.hear(at(2, reset(8))), []);
    assert_eq!(story.hear(at(3, reset(6))), [Say::Withdrawn]);
    assert_eq!(
        story.hear(at(4, delta("r1", "world"))),
        [Say::Text("world".into())]
    );
    assert_eq!(story.hear(at(5, reset(11))), []);
}

#[test]
fn a_bridge_that_is_away_is_told_once_each_time() {
    let mut story = Story::new(Which::Current, view(running(Some("r1"))));
    story.hear(seen(running(Some("r1"))));
    let gone = |since| Away {
        code: ResultCode::Code(Code::ConnectFailed),
        message: "The bridge cannot be reached.".into(),
        since_ms: Millis(since),
        gives_up_at_ms: Millis(since + 120_000),
    };
    let away = |since| {
        let mut view = view(running(Some("r1")));
        view.away = Some(gone(since));
        AppEvent::Thread(Box::new(view))
    };
    assert_eq!(story.hear(away(5)), [Say::Away(gone(5))]);
    assert_eq!(story.hear(away(5)), []);
    assert_eq!(story.hear(seen(running(Some("r1")))), []);
    assert_eq!(story.hear(away(9)), [Say::Away(gone(9))]);
    assert!(story.is_away());
}

#[test]
fn what_a_run_waits_for_is_told_once_each_time() {
    let mut story = Story::new(Which::Current, view(running(Some("r1"))));
    story.hear(seen(running(Some("r1"))));
    let waits = |message: Option<&str>| {
        let mut view = view(running(Some("r1")));
        view.progress = Some(Progress {
            stage: Stage::Working,
            message: message.map(str::to_owned),
            elapsed_ms: None,
        });
        AppEvent::Thread(Box::new(view))
    };
    let full = "The disk is full: it waits for room, just now.";
    let later = "The disk is full: it waits for room, for 1 minute.";
    assert_eq!(
        story.hear(waits(Some(full))),
        [Say::Note(full.into()), doing(full)]
    );
    assert_eq!(story.hear(waits(Some(later))), [doing(later)]);
    assert_eq!(story.hear(waits(None)), [doing("Working")]);
    assert_eq!(
        story.hear(waits(Some(full))),
        [Say::Note(full.into()), doing(full)]
    );
}
