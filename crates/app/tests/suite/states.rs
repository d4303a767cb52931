//! What became of each turn, of each question, and of a bridge that cannot be heard.

use std::time::Duration;

use pretty_assertions::assert_eq;
use threadline_app::api::{AppEvent, Begin, ListParams, RetryParams};
use threadline_contract::{
    Code, QuestionState, RequestId, ResultCode, RunStatus,
    method::AnswerParams,
    thread::{Lifecycle, Role, TaskThread, TurnState},
};
use tokio_stream::StreamExt as _;

use crate::support::{Plan, World, eventually, prompt_of};

/// The user's messages, each with what became of it.
fn turns(thread: &TaskThread) -> Vec<(&str, Option<TurnState>)> {
    let messages = thread.context_state.messages.iter();
    let asked = messages.filter(|m| m.role == Role::User);
    asked.map(|m| (m.text.as_str(), m.state)).collect()
}

fn retry(thread: &str) -> RetryParams {
    RetryParams {
        thread: thread.into(),
        ..RetryParams::default()
    }
}

async fn run_of(world: &World, thread: &TaskThread) -> threadline_contract::RunId {
    let key = thread.thread_id.clone();
    eventually("the run", || async { world.bridge.run_of(&key).is_some() }).await;
    world.bridge.run_of(&key).unwrap()
}

#[tokio::test]
async fn every_turn_says_what_became_of_it() {
    use TurnState::{Cancelled, Done, Dropped, Failed, Queued, Running};
    let world = World::new().await;
    let thread = world.done("one").await;
    world
        .bridge
        .always(Plan::ended(RunStatus::Failed, None, "no"));
    world.send_to(&thread.name, "two").await;
    world.settled(&thread.name).await;
    world.bridge.always(Plan::hold());
    world.send_to(&thread.name, "three").await;
    world
        .until(&thread.name, |t| {
            turns(t).last() == Some(&("three", Some(Running)))
        })
        .await;
    let waiting = world.send_to(&thread.name, "four").await.thread;
    assert_eq!(
        turns(&waiting),
        [
            ("one", Some(Done)),
            ("two", Some(Failed)),
            ("three", Some(Running)),
            ("four", Some(Queued)),
        ]
    );
    world.app.cancel(&thread.name).await.unwrap();
    let stopped = world.settled(&thread.name).await;
    assert_eq!(
        turns(&stopped)[2..],
        [("three", Some(Cancelled)), ("four", Some(Dropped))]
    );
}

#[tokio::test]
async fn a_retry_takes_the_last_turn_that_ran_and_not_one_that_was_dropped() {
    let world = World::new().await;
    world.bridge.always(Plan::hold());
    let thread = world.send("ran").await.thread;
    run_of(&world, &thread).await;
    world.send_to(&thread.name, "never ran").await;
    world.app.cancel(&thread.name).await.unwrap();
    eventually("the lane is free", || async { world.app.busy() == 0 }).await;
    world.bridge.always(Plan::done("ok"));
    world.app.retry(retry(&thread.name)).await.unwrap();
    let done = world.settled(&thread.name).await;
    assert_eq!(turns(&done).last(), Some(&("ran", Some(TurnState::Done))));
    let sent = world.bridge.turns().pop().unwrap();
    let prompt = sent.params["prompt"].as_str().unwrap().to_owned();
    assert!(prompt.ends_with("\n\nran"), "{prompt}");
}

#[tokio::test]
async fn a_retry_that_is_sent_again_is_the_same_retry() {
    let world = World::new().await;
    let thread = world.done("go").await;
    world.bridge.always(Plan::hold());
    let again = RetryParams {
        request_id: Some(RequestId::new("again-1").unwrap()),
        ..retry(&thread.name)
    };
    let (one, two) = tokio::join!(
        world.app.retry(again.clone()),
        world.app.retry(again.clone())
    );
    assert_eq!(one.unwrap().thread.thread_id, thread.thread_id);
    assert_eq!(two.unwrap().thread.thread_id, thread.thread_id);
    world.app.retry(again).await.unwrap();
    eventually("the turn", || async { world.bridge.turns().len() == 2 }).await;
    assert_eq!(turns(&world.thread(&thread.name).await).len(), 2);
}

#[tokio::test]
async fn a_retry_of_a_turn_that_never_arrived_is_the_same_retry_too() {
    let world = World::with(|c| {
        c.timings.patience = Duration::ZERO;
        c.timings.failures = 2;
    })
    .await;
    world.bridge.down().await;
    let thread = world.send("once").await.thread;
    world.settled(&thread.name).await;
    world.bridge.up().await;
    world.bridge.always(Plan::hold());
    let again = RetryParams {
        request_id: Some(RequestId::new("again-1").unwrap()),
        ..retry(&thread.name)
    };
    world.app.retry(again.clone()).await.unwrap();
    let second = world.app.retry(again).await.unwrap().thread;
    assert_eq!(second.lifecycle_state.status, Lifecycle::Running);
    assert_eq!(turns(&second), [("once", Some(TurnState::Running))]);
}

#[tokio::test]
async fn a_question_that_was_answered_stays_with_its_answer() {
    let mut world = World::new().await;
    world.bridge.always(Plan::hold());
    let thread = world.send_elsewhere(prompt_of("go")).await.thread;
    let run = run_of(&world, &thread).await;
    let asked = world.bridge.ask(&run, "Which?");
    let answer = AnswerParams {
        question_id: asked.clone(),
        option_id: None,
        text: Some("that one".into()),
    };
    eventually("the question", || async {
        !world
            .app
            .show(&thread.name)
            .await
            .unwrap()
            .questions
            .is_empty()
    })
    .await;
    world.app.answer_elsewhere(answer).await.unwrap();
    world.bridge.complete(&run, Plan::done("ok"));
    let done = world.settled(&thread.name).await;
    let told = |thread: &TaskThread| {
        let closed = &thread.context_state.closed_questions;
        let told = closed.iter().map(|q| {
            (
                q.question_id.clone(),
                q.state,
                q.answer_text().map(str::to_owned),
            )
        });
        told.collect::<Vec<_>>()
    };
    let want = vec![(asked, QuestionState::Answered, Some("that one".to_owned()))];
    assert_eq!(told(&done), want);
    world.restart().await;
    assert_eq!(told(&world.thread(&thread.name).await), want);
}

#[tokio::test]
async fn a_bridge_that_cannot_be_heard_is_named_while_it_is_waited_for() {
    let world = World::new().await;
    world.bridge.down().await;
    let thread = world.send("go").await.thread;
    let mut events = world.watch(&thread, Begin::After(0)).await;
    let mut next = async |wanted: bool| {
        loop {
            match events.next().await.unwrap() {
                AppEvent::Thread(view) if view.away.is_some() == wanted => return view,
                _ => {}
            }
        }
    };
    let view = tokio::time::timeout(Duration::from_secs(10), next(true));
    let away = view.await.unwrap().away.unwrap();
    assert_eq!(away.code, ResultCode::Code(Code::ConnectFailed));
    assert!(
        away.message.starts_with("The bridge cannot be reached ("),
        "{}",
        away.message
    );
    assert_eq!(away.gives_up_at_ms.since(away.since_ms), 20_000);
    world.bridge.always(Plan::hold());
    world.bridge.up().await;
    let back = tokio::time::timeout(Duration::from_secs(10), next(false));
    let back = back.await.unwrap();
    assert_eq!(back.thread.lifecycle_state.status, Lifecycle::Running);
}

#[tokio::test]
async fn threads_are_found_by_any_word_of_what_was_asked() {
    let world = World::new().await;
    let long =
        "Summarise what a lighthouse keeper does in a day, and draw the tower\nMention Fastnet.";
    let one = world.done(long).await;
    let two = world.done("Something else").await;
    world.send_to(&two.name, "now about whales").await;
    world.settled(&two.name).await;
    let found = async |text: &str| {
        let params = ListParams {
            text: Some(text.into()),
            ..ListParams::default()
        };
        let list = world.app.list(&params).await.unwrap();
        let mut names: Vec<String> = list.threads.into_iter().map(|t| t.name).collect();
        names.sort();
        names
    };
    let [one, two] = [one, two].map(|t| vec![t.name]);
    assert_eq!(found("TOWER keeper").await, one);
    assert_eq!(found("fastnet").await, one);
    assert_eq!(found("whales something").await, two);
    assert_eq!(found("whales tower").await, Vec::<String>::new());
    assert_eq!(found(&two[0]).await, two);
    let mut all = [one, two].concat();
    all.sort();
    assert_eq!(found("  ").await, all);
    let page = ListParams {
        text: Some("th".into()),
        limit: Some(1),
        ..ListParams::default()
    };
    let first = world.app.list(&page).await.unwrap();
    let rest = ListParams {
        before: first.next.clone(),
        ..page
    };
    let second = world.app.list(&rest).await.unwrap();
    assert_eq!(
        (first.threads.len(), second.threads.len(), second.next),
        (1, 1, None)
    );
}
