//! Asking a run to stop: before it began, while it works, after it ended.

use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use threadline_retry::Backoff;
use threadline_runtimes::{End, EndStatus, Logged, Registry, Turns as _, Update};

use crate::world::{World, begin, completed, files, finish, plan, rest, until};

fn cancelled(text: Option<&str>, wrote: &[&str]) -> End {
    End {
        status: EndStatus::Cancelled,
        text: text.map(str::to_owned),
        ..completed("", wrote)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_dropped_at_once() {
    let world = World::with_model("no-usage").await;
    let builtin = world.builtin();
    let words = "word ".repeat(1000);
    let plan = plan(
        "run-1",
        &format!("[[write a.md = kept]] [[slow 20]] [[say {words}]]"),
    );
    let mut follow = begin(&builtin, &plan).await;
    until(&mut follow, |u| matches!(u, Update::Text(_)).then_some(())).await;
    assert_eq!(world.seen.open(), 1);
    let asked = Instant::now();
    builtin.cancel(&plan.run_ref()).await.unwrap();
    let (_, end) = rest(follow).await;
    let end = end.unwrap();
    assert_eq!(end, cancelled(None, &["a.md"]));
    assert!(asked.elapsed() < Duration::from_secs(2));
    while world.seen.open() > 0 {
        assert!(
            asked.elapsed() < Duration::from_secs(2),
            "the request goes on"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // What it did before is still its own.
    assert_eq!(files(&builtin, &plan, &end).await["a.md"], "kept");
    assert_eq!(builtin.cancel(&plan.run_ref()).await, Ok(()));
    let registry = builtin.ask_registry(&plan.run_ref()).await.unwrap();
    assert_eq!(registry, Registry::Ended(end));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_model_and_a_waiting_question_can_be_left() {
    for prompt in [
        "[[hang]]",
        "[[sleep 20000]] [[say x]]",
        "[[ask Why?]]",
        "[[fail 503]] [[say x]]",
    ] {
        let mut world = World::with_model("no-usage").await;
        world.config.limits.backoff = Backoff::from_millis(20_000, 20_000);
        let builtin = world.builtin();
        let plan = plan("run-1", prompt);
        let follow = begin(&builtin, &plan).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        builtin.cancel(&plan.run_ref()).await.unwrap();
        let (_, end) = rest(follow).await;
        assert_eq!(end, Some(cancelled(None, &[])), "{prompt}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_stopped_before_it_begins_does_nothing() {
    let world = World::with_model("no-usage").await;
    let builtin = world.builtin();
    let plan = plan("run-1", "[[write a.md = x]]");
    for _ in 0..2 {
        builtin.cancel(&plan.run_ref()).await.unwrap();
    }
    let registry = builtin.ask_registry(&plan.run_ref()).await.unwrap();
    assert_eq!(registry, Registry::NoRecord);
    let (frames, end) = finish(&builtin, &plan).await;
    assert_eq!((frames, end), (vec![], cancelled(None, &[])));
    assert_eq!(world.seen.requests().len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_done_stays_done() {
    let world = World::new();
    let builtin = world.builtin();
    let plan = plan("run-1", "hello");
    let (_, end) = finish(&builtin, &plan).await;
    builtin.cancel(&plan.run_ref()).await.unwrap();
    let registry = builtin.ask_registry(&plan.run_ref()).await.unwrap();
    assert_eq!(registry, Registry::Ended(end));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_to_stop_survives_a_restart() {
    let world = World::with_model("no-usage").await;
    let plan = plan("run-1", "[[hang]]");
    let before = world.builtin();
    drop(begin(&before, &plan).await);
    drop(before);
    let after = world.builtin();
    after.cancel(&plan.run_ref()).await.unwrap();
    let (_, end) = rest(
        after
            .follow(&plan.run_ref(), Logged::up_to(0))
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(end, Some(cancelled(None, &[])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_demonstration_can_be_stopped_between_its_steps() {
    let mut world = World::new();
    world.config.pause = Duration::from_secs(20);
    let builtin = world.builtin();
    let plan = plan("run-1", "hello");
    let mut follow = begin(&builtin, &plan).await;
    until(&mut follow, |u| matches!(u, Update::Note(_)).then_some(())).await;
    builtin.cancel(&plan.run_ref()).await.unwrap();
    let (_, end) = rest(follow).await;
    assert_eq!(end, Some(cancelled(None, &[])));
}
