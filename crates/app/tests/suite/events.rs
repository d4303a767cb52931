//! What a page or a terminal that watches gets to see.

use std::time::Duration;

use futures_util::StreamExt as _;
use pretty_assertions::assert_eq;
use threadline_app::api::{AppEvent, Begin, Summary};
use threadline_contract::thread::Lifecycle;

use crate::support::{Events, Plan, World, deletion, eventually, prompt_of, settled};

async fn next(events: &mut Events) -> AppEvent {
    let event = tokio::time::timeout(Duration::from_secs(10), events.next()).await;
    event.expect("an event comes").expect("the stream goes on")
}

/// Reads until an event is as wanted, and gives it back.
async fn until<T>(events: &mut Events, mut wanted: impl FnMut(&AppEvent) -> Option<T>) -> T {
    loop {
        let event = next(events).await;
        if let Some(found) = wanted(&event) {
            return found;
        }
    }
}

#[tokio::test]
async fn a_watcher_sees_the_whole_log_the_state_and_the_files() {
    let world = World::new().await;
    world.bridge.always(Plan::hold());
    let thread = world.send("go").await.thread;
    let mut events = world.watch(&thread, Begin::After(0)).await;
    eventually("the run", || async {
        world.bridge.run_of(&thread.thread_id).is_some()
    })
    .await;
    let run = world.bridge.run_of(&thread.thread_id).unwrap();
    world
        .bridge
        .emit(&run, |u| u.message = Some("reading".into()));
    world
        .bridge
        .complete(&run, Plan::done("ok").file("a.txt", "abc"));
    let (mut updates, mut states, mut files) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        match next(&mut events).await {
            AppEvent::Update(id, update) => updates.push((id, update.event.clone())),
            AppEvent::Thread(view) => {
                states.push(view.thread.lifecycle_state.status);
                if settled(&view.thread) && updates.len() == 3 {
                    break;
                }
            }
            AppEvent::File(file) => files.push((file.path, file.done, file.total, file.verified)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        updates,
        [
            (1, "started".into()),
            (2, "task.note".into()),
            (3, "task.ended".into())
        ]
    );
    states.dedup();
    assert_eq!(states, [Lifecycle::Running, Lifecycle::Ready]);
    assert_eq!(files.last(), Some(&("a.txt".to_owned(), 3, 3, true)));

    // Another turn goes into the same log; a late watcher resumes from where it was.
    world.bridge.always(Plan::done("more"));
    world.send_to(&thread.name, "again").await;
    let mut late = world.watch(&thread, Begin::After(3)).await;
    let first = until(&mut late, |event| event.id()).await;
    assert_eq!(first, 4);
    let mut all = world.watch(&thread, Begin::After(0)).await;
    let mut seen = Vec::new();
    while seen.len() < 5 {
        seen.push(until(&mut all, |event| event.id()).await);
    }
    assert_eq!(seen, [1, 2, 3, 4, 5]);

    // A page begins with the end of the log, and is told on from there whatever happens to the bridge.
    let mut last = world.watch(&thread, Begin::Last(2)).await;
    assert_eq!(until(&mut last, |event| event.id()).await, 4);
    let mut news = world.watch(&thread, Begin::Last(0)).await;
    until(&mut news, |event| {
        matches!(event, AppEvent::Thread(_)).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    world.bridge.down().await;
    let run = world.bridge.run_of(&thread.thread_id).unwrap();
    world.bridge.emit(&run, |_| {});
    world.bridge.up().await;
    assert_eq!(until(&mut news, |event| event.id()).await, 6);
}

#[tokio::test]
async fn a_watcher_outlives_the_bridge() {
    let world = World::new().await;
    world.bridge.always(Plan::hold());
    let thread = world.send("go").await.thread;
    let mut events = world.watch(&thread, Begin::After(0)).await;
    assert_eq!(until(&mut events, |event| event.id()).await, 1);
    let run = world.bridge.run_of(&thread.thread_id).unwrap();
    for n in 2..6 {
        world.bridge.down().await;
        world.bridge.emit(&run, |_| {});
        world.bridge.up().await;
        assert_eq!(until(&mut events, |event| event.id()).await, n);
    }
}

#[tokio::test]
async fn questions_show_and_go_when_they_are_answered() {
    let world = World::new().await;
    world.bridge.always(Plan::hold());
    let thread = world.send_elsewhere(prompt_of("go")).await.thread;
    let mut events = world.watch(&thread, Begin::After(0)).await;
    until(&mut events, |event| event.id()).await;
    let run = world.bridge.run_of(&thread.thread_id).unwrap();
    let asked = world.bridge.ask(&run, "Which?");
    let shown = until(&mut events, |event| match event {
        AppEvent::Thread(view) => view.questions.first().map(|q| q.question_id.clone()),
        _ => None,
    })
    .await;
    assert_eq!(shown, asked);
    let list = world.app.list(&Default::default()).await.unwrap();
    assert_eq!(list.threads[0].open_questions, 1);
    let found = world.app.questions_elsewhere().await;
    assert_eq!(
        (found.questions[0].text.as_str(), found.unreachable),
        ("Which?", vec![])
    );
    let known = world.app.known(std::slice::from_ref(&thread.thread_id));
    let name = threadline_app::api::ThreadName {
        name: thread.name.clone(),
        title: "go".into(),
    };
    assert_eq!(known.names, [(thread.thread_id.clone(), name)].into());
    let answer = threadline_contract::method::AnswerParams {
        question_id: asked,
        option_id: None,
        text: Some("that one".into()),
    };
    let answered = world.app.answer_elsewhere(answer).await.unwrap();
    assert_eq!(answered.answer_text(), Some("that one"));
    until(&mut events, |event| match event {
        AppEvent::Thread(view) if view.questions.is_empty() => Some(()),
        _ => None,
    })
    .await;
    assert_eq!(world.app.questions_elsewhere().await.questions, []);
}

#[tokio::test]
async fn everybody_hears_what_changes_and_a_removal_ends_the_stream() {
    let world = World::new().await;
    world.bridge.always(Plan::hold());
    let working = world.send("working").await.thread;
    let mut changes: Events = Box::pin(world.app.changes());
    let changed = |event: &AppEvent| match event {
        AppEvent::Changed(summary) => Some(summary.clone()),
        _ => None,
    };
    let first: Summary = until(&mut changes, changed).await;
    assert_eq!(first.thread_id, working.thread_id);
    world.bridge.always(Plan::done("ok"));
    let thread = world.done("other").await;
    let done = until(&mut changes, |event| {
        changed(event).filter(|s| s.thread_id == thread.thread_id && s.last_result_code.is_some())
    })
    .await;
    assert_eq!(done.title, "other");
    let mut own = world.watch(&thread, Begin::After(0)).await;
    world.app.archive(&thread.name).await.unwrap();
    world.app.delete(deletion(&thread)).await.unwrap();
    let gone = until(&mut changes, |event| match event {
        AppEvent::Removed(key) => Some(key.clone()),
        _ => None,
    })
    .await;
    assert_eq!(gone, thread.thread_id);
    until(&mut own, |event| {
        matches!(event, AppEvent::Removed(_)).then_some(())
    })
    .await;
    assert_eq!(own.next().await, None);
    assert!(
        world
            .app
            .events(&thread.name, Begin::After(0))
            .await
            .is_err()
    );
}

#[tokio::test]
async fn events_come_back_from_the_wire_as_they_went() {
    let world = World::new().await;
    world.bridge.always(Plan::done("ok").file("a.txt", "a"));
    let thread = world.done("go").await;
    let mut events = world.watch(&thread, Begin::After(0)).await;
    for _ in 0..3 {
        let event = next(&mut events).await;
        let data = event.data().unwrap().to_string();
        let back = AppEvent::read(event.name(), event.id(), &data).unwrap();
        assert_eq!(back, Some(event));
    }
    assert_eq!(AppEvent::read("of-the-future", None, "{}").unwrap(), None);
    assert!(AppEvent::read("thread", None, "{}").is_err());
}

#[tokio::test]
async fn a_watcher_that_goes_leaves_nothing_behind() {
    let world = World::new().await;
    let thread = world.done("go").await;
    for _ in 0..50 {
        let mut events = world.watch(&thread, Begin::After(0)).await;
        next(&mut events).await;
    }
    // Closing waits for every task that is left; one that hung on a watcher would hang it.
    tokio::time::timeout(Duration::from_secs(5), world.app.close())
        .await
        .expect("all are gone")
        .unwrap();
}
