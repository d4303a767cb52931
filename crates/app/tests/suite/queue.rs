//! Turns that wait, one by one: seen, dropped, edited, and stopped without touching the others.

use pretty_assertions::assert_eq;
use threadline_app::api::{
    EditTurnParams, Queue, QueueParams, QueuedTurnView, SendParams, TurnParams, WaitsFor,
};
use threadline_contract::{
    Code, Deliverable, QueuePlace, RequestId, ResultCode, context, method,
    thread::{Lifecycle, SyncStatus, TaskThread, TurnState},
    turn::InlineAttachment,
};

use crate::support::{Plan, World, eventually, id, prompt_of, settled, standing, wait_for_run};

/// A thread with a run that goes on, and these turns behind it.
async fn busy(world: &World, waiting: &[&str]) -> TaskThread {
    world
        .bridge
        .plan(|turn| match turn.prompt.ends_with("first") {
            true => Plan::hold(),
            false => Plan::done("ok"),
        });
    let thread = world.send("first").await.thread;
    wait_for_run(world, &thread).await;
    for prompt in waiting {
        world.send_to(id(&thread), prompt).await;
    }
    world.thread(id(&thread)).await
}

fn request(thread: &TaskThread, at: usize) -> RequestId {
    thread.context_state.queued_turns[at].request_id.clone()
}

fn turn(thread: &TaskThread, at: usize) -> TurnParams {
    TurnParams {
        thread: thread.name.clone(),
        request_id: request(thread, at),
    }
}

/// What the user said, and what became of it.
fn asked(thread: &TaskThread) -> Vec<(&str, Option<TurnState>)> {
    let messages = thread.context_state.messages.iter();
    let asked = messages.filter(|m| m.state.is_some());
    asked.map(|m| (m.text.as_str(), m.state)).collect()
}

/// The words of the turns that reached the bridge.
fn sent(world: &World) -> Vec<String> {
    let words = |call: crate::support::Call| {
        let prompt = call.params["prompt"].as_str().unwrap();
        context::split(prompt).1.to_owned()
    };
    world.bridge.turns().into_iter().map(words).collect()
}

#[tokio::test]
async fn every_turn_that_waits_is_listed_with_its_place() {
    let world = World::with_lane(1, 9).await;
    world.bridge.always(Plan::hold());
    let first = world.send_to_openclaw("first").await.thread;
    let other = world.send_to_openclaw("other").await.thread;
    let more = SendParams {
        thread: Some(first.name.clone()),
        inline: vec![InlineAttachment {
            name: "a.csv".to_owned(),
            mime_type: None,
            content: "YSxi".to_owned(),
            size_bytes: None,
            sha256: None,
        }],
        expect: vec![Deliverable {
            glob: "*.md".to_owned(),
            content_type: None,
            min_bytes: None,
            min_count: None,
        }],
        ..prompt_of("more")
    };
    let first = world.app.send(more).await.unwrap().thread;
    let other = world.thread(id(&other)).await;
    let list = |thread: Option<&str>| {
        world.app.queue_list(QueueParams {
            thread: thread.map(str::to_owned),
        })
    };
    let row = |thread: &TaskThread, position: u32, waits_for: WaitsFor| {
        let turn = &thread.context_state.queued_turns[0];
        QueuedTurnView {
            thread_id: thread.thread_id.clone(),
            thread_name: thread.name.clone(),
            request_id: turn.request_id.clone(),
            prompt: turn.prompt.clone(),
            waits_for,
            position,
            queued: 2,
            attachments: u32::try_from(turn.attachments.len()).unwrap(),
            expect: turn.deliverables.clone(),
            queued_at_ms: turn.queued_at_ms,
        }
    };
    let all = Queue {
        turns: vec![
            row(&other, 1, WaitsFor::Place),
            row(&first, 2, WaitsFor::OwnThread),
        ],
        queued_at_bridge: 0,
    };
    assert_eq!(all.turns[1].attachments, 1);
    assert_eq!(list(None).await.unwrap(), all);
    let own = Queue {
        turns: vec![row(&first, 2, WaitsFor::OwnThread)],
        queued_at_bridge: 0,
    };
    assert_eq!(list(Some(&first.name)).await.unwrap(), own);
    assert_eq!(
        list(Some("nobody")).await.unwrap_err().code,
        Code::ThreadNotFound
    );
}

#[tokio::test]
async fn a_turn_that_waits_at_its_bridge_is_told_apart_from_one_that_runs() {
    let world = World::new().await;
    let thread = busy(&world, &[]).await;
    let run = world.bridge.run_of(&thread.thread_id).unwrap();
    let place = QueuePlace {
        position: 1,
        queued: 2,
    };
    let listed = async || world.app.list(&Default::default()).await.unwrap().threads[0].queue;
    let at_bridge = async || {
        let queue = world.app.queue_list(QueueParams::default()).await.unwrap();
        (queue.turns.len(), queue.queued_at_bridge)
    };
    assert_eq!((listed().await, at_bridge().await), (None, (0, 0)));
    world.bridge.emit(&run, |update| {
        update.event = "queued".to_owned();
        update.queue = Some(place);
    });
    eventually("it is queued", || async { listed().await == Some(place) }).await;
    assert_eq!(at_bridge().await, (0, 1));
    world
        .bridge
        .emit(&run, |update| update.event = "started".to_owned());
    eventually("it runs", || async { listed().await.is_none() }).await;
    assert_eq!(at_bridge().await, (0, 0));
}

#[tokio::test]
async fn one_waiting_turn_is_dropped_and_nothing_else() {
    let world = World::new().await;
    let thread = busy(&world, &["two", "three"]).await;
    let run = world.bridge.run_of(&thread.thread_id).unwrap();
    let two = turn(&thread, 0);
    let after = world.app.queue_drop(two.clone()).await.unwrap().thread;
    let running = (Lifecycle::Running, None, Some(SyncStatus::Running));
    assert_eq!(standing(&after), running);
    assert_eq!(
        asked(&after),
        [
            ("first", Some(TurnState::Running)),
            ("two", Some(TurnState::Dropped)),
            ("three", Some(TurnState::Queued)),
        ]
    );
    // It is gone: it cannot be dropped, edited or cancelled any more.
    let edit = EditTurnParams {
        thread: two.thread.clone(),
        request_id: two.request_id.clone(),
        prompt: "x".to_owned(),
    };
    let refused = [
        world.app.queue_drop(two.clone()).await.unwrap_err().code,
        world.app.queue_edit(edit).await.unwrap_err().code,
        world
            .app
            .cancel_turn(&two.thread, &two.request_id)
            .await
            .unwrap_err()
            .code,
    ];
    assert_eq!(refused, [Code::TurnNotWaiting; 3]);
    assert_eq!(world.bridge.calls(method::TASKS_CANCEL).len(), 0);
    world.bridge.complete(&run, Plan::done("1"));
    let done = world.until(id(&thread), |t| {
        settled(t) && t.context_state.queued_turns.is_empty()
    });
    let done = done.await;
    assert_eq!(
        asked(&done),
        [
            ("first", Some(TurnState::Done)),
            ("two", Some(TurnState::Dropped)),
            ("three", Some(TurnState::Done)),
        ]
    );
    assert_eq!(sent(&world), ["first", "three"]);
}

#[tokio::test]
async fn the_only_turn_of_a_thread_that_waits_leaves_it_ready_when_it_is_dropped() {
    let world = World::with_lane(1, 9).await;
    world.bridge.always(Plan::hold());
    world.send_to_openclaw("first").await;
    let second = world.send_to_openclaw("second").await.thread;
    let after = world.app.queue_drop(turn(&second, 0)).await.unwrap();
    assert_eq!(
        standing(&after.thread),
        (
            Lifecycle::Ready,
            Some(ResultCode::Aborted),
            Some(SyncStatus::NoArtifacts)
        )
    );
    let none = world.app.queue_list(QueueParams::default()).await.unwrap();
    assert_eq!(
        none,
        Queue {
            turns: vec![],
            queued_at_bridge: 0
        }
    );
    assert_eq!(world.app.busy(), 1);
    let left = std::fs::read_dir(world.config.data.join("outbox")).unwrap();
    assert_eq!(left.count(), 1);
}

#[tokio::test]
async fn a_waiting_turn_is_sent_with_its_new_words() {
    let mut world = World::with_lane(1, 9).await;
    world
        .bridge
        .plan(|turn| match turn.prompt.ends_with("first") {
            true => Plan::hold(),
            false => Plan::done("ok"),
        });
    let first = world.send_to_openclaw("first").await.thread;
    let second = world.send_to_openclaw("secnod").await.thread;
    world.send_to(id(&second), "third").await;
    let edit = EditTurnParams {
        thread: second.name.clone(),
        request_id: request(&second, 0),
        prompt: "second\n  with more".to_owned(),
    };
    let empty = EditTurnParams {
        prompt: " \n".to_owned(),
        ..edit.clone()
    };
    assert_eq!(
        world.app.queue_edit(empty).await.unwrap_err().code,
        Code::PromptRequired
    );
    let after = world.app.queue_edit(edit).await.unwrap();
    // A thread is named by its first message.
    assert_eq!(after.thread.title, "second");
    assert_eq!(after.queue.map(|q| (q.position, q.queued)), Some((1, 2)));
    let third = EditTurnParams {
        thread: second.name.clone(),
        request_id: request(&after.thread, 1),
        prompt: "the third".to_owned(),
    };
    let after = world.app.queue_edit(third).await.unwrap();
    assert_eq!(after.thread.title, "second");
    world.restart().await;
    let run = wait_for_run(&world, &first).await;
    world.bridge.complete(&run, Plan::done("1"));
    let done = world.until(id(&second), |t| {
        settled(t) && t.context_state.queued_turns.is_empty()
    });
    assert_eq!(
        asked(&done.await),
        [
            ("second\n  with more", Some(TurnState::Done)),
            ("the third", Some(TurnState::Done)),
        ]
    );
    let mut words = sent(&world);
    words.dedup();
    assert_eq!(words, ["first", "second\n  with more", "the third"]);
}

#[tokio::test]
async fn stopping_the_turn_that_runs_lets_the_waiting_ones_go_on() {
    let world = World::new().await;
    let thread = busy(&world, &["two"]).await;
    let first = thread.context_state.task_association.as_ref().unwrap();
    let first = first.request_id.clone();
    let stopped = world.app.cancel_turn(id(&thread), &first).await.unwrap();
    assert_eq!(stopped.thread.context_state.queued_turns.len(), 1);
    let done = world.until(id(&thread), |t| {
        settled(t) && t.context_state.queued_turns.is_empty()
    });
    assert_eq!(
        asked(&done.await),
        [
            ("first", Some(TurnState::Cancelled)),
            ("two", Some(TurnState::Done)),
        ]
    );
    assert_eq!(sent(&world), ["first", "two"]);
}

#[tokio::test]
async fn stopping_a_waiting_turn_does_not_stop_the_run_before_it() {
    let world = World::new().await;
    let thread = busy(&world, &["two"]).await;
    let two = turn(&thread, 0);
    let after = world.app.cancel_turn(id(&thread), &two.request_id).await;
    let after = after.unwrap().thread;
    assert_eq!(
        asked(&after),
        [
            ("first", Some(TurnState::Running)),
            ("two", Some(TurnState::Dropped)),
        ]
    );
    let task = after.context_state.task_association.unwrap();
    assert!(!task.cancel_requested);
    assert_eq!(world.bridge.calls(method::TASKS_CANCEL).len(), 0);
}

#[tokio::test]
async fn one_turn_that_was_stopped_before_a_crash_does_not_take_the_waiting_ones_with_it() {
    let mut world = World::new().await;
    let thread = busy(&world, &["two"]).await;
    let task = thread.context_state.task_association.clone().unwrap();
    // As if the app had been killed between the note and the record.
    world.app.close().await.unwrap();
    let note = serde_json::json!({
        "threadId": thread.thread_id, "runId": task.run_id, "keepsWaiting": true,
    });
    let folder = {
        use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
        URL_SAFE_NO_PAD.encode(task.request_id.as_str())
    };
    let place = world.config.data.join("outbox").join(folder).join("cancel");
    std::fs::write(place, note.to_string()).unwrap();
    world.app = threadline_app::App::open(world.config.clone())
        .await
        .unwrap();
    eventually("the bridge is told", || async {
        world.bridge.calls(method::TASKS_CANCEL).len() == 1
    })
    .await;
    let done = world.until(id(&thread), |t| {
        settled(t) && t.context_state.queued_turns.is_empty()
    });
    assert_eq!(
        asked(&done.await),
        [
            ("first", Some(TurnState::Cancelled)),
            ("two", Some(TurnState::Done)),
        ]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_sent_is_what_the_transcript_says_however_an_edit_and_the_start_meet() {
    let world = World::new().await;
    let thread = busy(&world, &[]).await;
    let mut run = world.bridge.run_of(&thread.thread_id).unwrap();
    for n in 0..20 {
        // The next one holds too, so that the one after it waits.
        world.bridge.always(Plan::hold());
        let waiting = world
            .send_to(id(&thread), &format!("before {n}"))
            .await
            .thread;
        let edit = EditTurnParams {
            thread: thread.name.clone(),
            request_id: request(&waiting, 0),
            prompt: format!("after {n}"),
        };
        let app = world.app.clone();
        let editing = tokio::spawn(async move {
            tokio::time::sleep(std::time::Duration::from_millis(n)).await;
            app.queue_edit(edit).await
        });
        world.bridge.complete(&run, Plan::done("ok"));
        let edited = match editing.await.unwrap() {
            Ok(_) => true,
            Err(fault) => {
                assert_eq!(fault.code, Code::TurnNotWaiting);
                false
            }
        };
        eventually("the next run", || async {
            world.bridge.run_of(&thread.thread_id).as_ref() != Some(&run)
        })
        .await;
        run = world.bridge.run_of(&thread.thread_id).unwrap();
        let wanted = match edited {
            true => format!("after {n}"),
            false => format!("before {n}"),
        };
        let said = world.thread(id(&thread)).await;
        let said = asked(&said).last().unwrap().0.to_owned();
        assert_eq!(
            (sent(&world).pop().unwrap(), said),
            (wanted.clone(), wanted)
        );
    }
}
