//! Stopping a turn: a request until the agent confirms.

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use threadline_contract::{Code, EmptyReason};
use threadline_runtimes::{EndStatus, Logged, Registry, Turns as _, Update};

use crate::world::*;

#[tokio::test]
async fn a_stop_is_confirmed_by_the_agent() {
    for agent in ["plain", "codex", "gemini", "hermes", "opencode"] {
        let world = World::like(&["--like", agent]);
        let acp = world.acp();
        let plan = plan("r1", "!say working\n!hang");
        let mut follow = begin(&acp, &plan).await;
        assert_eq!(said(&mut follow).await, "working");
        assert_eq!(
            acp.ask_registry(&plan.run_ref()).await.unwrap(),
            Registry::Running
        );
        acp.cancel(&plan.run_ref()).await.unwrap();
        acp.cancel(&plan.run_ref()).await.unwrap();
        let (_, end) = rest(follow).await;
        let end = end.unwrap();
        assert_eq!(
            (end.status, end.code),
            (EndStatus::Cancelled, None),
            "{agent}"
        );
        assert_eq!(end.text.as_deref(), Some("working"));
        // After its end a stop changes nothing, and the agent is there for the next turn.
        acp.cancel(&plan.run_ref()).await.unwrap();
        assert_eq!(
            acp.ask_registry(&plan.run_ref()).await.unwrap(),
            Registry::Ended(end)
        );
        assert_eq!(world.standing(&plan).await, "alive");
    }
}

#[tokio::test]
async fn a_stop_at_a_question_takes_the_question_back() {
    // One of them answers its own cancel with an error.
    for agent in ["plain", "codex", "gemini", "hermes", "opencode"] {
        let world = World::like(&["--like", agent]);
        let acp = world.acp();
        let plan = plan("r1", "!write a.md words");
        let mut follow = begin(&acp, &plan).await;
        let (_, ask) = question(&mut follow).await;
        acp.cancel(&plan.run_ref()).await.unwrap();
        let (after, end) = rest(follow).await;
        assert!(
            after
                .iter()
                .any(|f| f.update == Update::Unasked(ask.id.clone())),
            "{agent}: {after:?}"
        );
        let end = end.unwrap();
        assert_eq!(
            (end.status, end.code),
            (EndStatus::Cancelled, None),
            "{agent}"
        );
        // What it asked for was never written, so nothing is missing.
        assert_eq!(end.wrote, Vec::<String>::new(), "{agent}");
        let (delivered, manifest) = files(&acp, &plan, &end).await;
        assert_eq!(
            (delivered, manifest.omitted, manifest.empty_reason),
            (BTreeMap::new(), vec![], Some(EmptyReason::ScopeEmpty)),
            "{agent}"
        );
        let late = acp
            .answer(&plan.run_ref(), &ask.id, Some("Yes"))
            .await
            .unwrap_err();
        assert_eq!(late.code, Code::QuestionAlreadyClosed);
    }
}

#[tokio::test]
async fn a_call_that_was_only_announced_wrote_nothing() {
    let world = World::new();
    let acp = world.acp();
    let plan = plan("r1", "!announce a.md\n!say working\n!hang");
    let mut follow = begin(&acp, &plan).await;
    assert_eq!(said(&mut follow).await, "working");
    acp.cancel(&plan.run_ref()).await.unwrap();
    let (_, end) = rest(follow).await;
    let end = end.unwrap();
    assert_eq!(
        (end.status, &end.wrote),
        (EndStatus::Cancelled, &Vec::<String>::new())
    );
    let (delivered, manifest) = files(&acp, &plan, &end).await;
    assert_eq!((delivered, manifest.omitted), (BTreeMap::new(), vec![]));
}

#[tokio::test]
async fn a_turn_that_has_not_begun_never_does() {
    let world = World::new();
    let acp = world.acp();
    let plan = plan("r1", "!put a.md words");
    let places = acp.prepare(&plan).await.unwrap();
    acp.cancel(&plan.run_ref()).await.unwrap();
    acp.start(&plan, &places).await.unwrap();
    let (frames, end) = rest(acp.follow(&plan.run_ref(), Logged::up_to(0)).await.unwrap()).await;
    assert_eq!(
        (frames.len(), end.unwrap().status),
        (0, EndStatus::Cancelled)
    );
    assert_eq!(world.hosts(), vec![]);
}

#[tokio::test]
async fn an_agent_that_does_not_start_can_be_stopped() {
    let world = World::like(&["--slow-start", "600000"]);
    let acp = world.acp();
    let plan = plan("r1", "!put a.md words");
    let follow = begin(&acp, &plan).await;
    until("there is a host", async || !world.hosts().is_empty()).await;
    acp.cancel(&plan.run_ref()).await.unwrap();
    let (_, end) = rest(follow).await;
    assert_eq!(end.unwrap().status, EndStatus::Cancelled);
    assert_eq!(world.standing(&plan).await, "ended");
}

#[tokio::test]
async fn an_agent_that_does_not_hear_is_ended() {
    let world = World::new();
    let acp = world.acp();
    let plan = plan("r1", "!say working\n!deaf");
    let mut follow = begin(&acp, &plan).await;
    assert_eq!(said(&mut follow).await, "working");
    acp.cancel(&plan.run_ref()).await.unwrap();
    let (_, end) = rest(follow).await;
    assert_eq!(end.unwrap().status, EndStatus::Cancelled);
    assert_eq!(world.standing(&plan).await, "ended");
}

#[tokio::test]
async fn a_stop_asked_for_while_no_bridge_was_there_is_handed_over_by_the_next() {
    let world = World::new();
    let acp = world.acp();
    let plan = plan("r1", "!say working\n!hang");
    let mut follow = begin(&acp, &plan).await;
    assert_eq!(said(&mut follow).await, "working");
    acp.stop().await;
    drop((follow, acp));
    let acp = world.acp();
    let follow = acp.follow(&plan.run_ref(), Logged::up_to(1)).await.unwrap();
    acp.cancel(&plan.run_ref()).await.unwrap();
    let (_, end) = rest(follow).await;
    assert_eq!(end.unwrap().status, EndStatus::Cancelled);
}

/// What comes after a stop at a question decides whether the turn was stopped.
#[tokio::test]
async fn a_turn_that_ends_after_a_stop_at_its_question_was_stopped_unless_it_went_on() {
    let cases = [
        ("", EndStatus::Cancelled),
        ("\n!say on it goes", EndStatus::Completed),
        ("\n!put b.md words", EndStatus::Completed),
    ];
    for (more, want) in cases {
        let world = World::new();
        let acp = world.acp();
        let plan = plan("r1", &format!("!ask-and-go-on{more}"));
        let mut follow = begin(&acp, &plan).await;
        question(&mut follow).await;
        acp.cancel(&plan.run_ref()).await.unwrap();
        let (_, end) = rest(follow).await;
        let end = end.unwrap();
        assert_eq!((end.status, end.code), (want, None), "{more:?}");
    }
}
