//! Turns of owners that are no threads, as the engine takes them from any door; and what the threads' door has to do
//! with them: nothing.

use pretty_assertions::assert_eq;
use threadline_contract::{
    AccountId, Answer, AppThreadKey, LoadClass, Millis, Owner, Principal, QuestionKind,
    QuestionState, RuntimeId, Scopes, Who,
};
use threadline_engine::{Begun, Destination, NewTurn, SessionUse, TurnExtras};
use threadline_store::{NewSession, Phase, Run, StoredQuestion, StreamId, Whose};

use super::*;

fn owner(text: &str) -> Owner {
    text.parse().unwrap()
}

fn caller() -> Principal {
    Principal {
        account: AccountId::local(),
        who: Who::Token("tok-1".parse().unwrap()),
        label: "a person".into(),
        scopes: Scopes::FULL,
    }
}

fn asking(kind: QuestionKind) -> Arc<Gateway> {
    let gateway = Gateway::new();
    *gateway.asks.lock().unwrap() = Some(Ask {
        id: QuestionId::fresh(),
        kind,
        text: "Which colour?".into(),
        options: vec![],
        free_text: true,
        tool: None,
    });
    Arc::new(gateway)
}

async fn begin(world: &World, owner: &Owner, session: SessionUse) -> Run {
    let engine = &world.engine;
    let found = engine
        .destination(&caller(), owner.clone(), RuntimeId::OpenClaw)
        .await;
    let Destination::Here(here) = found.unwrap() else {
        panic!("the gateway is there")
    };
    let turn = NewTurn {
        session,
        prompt: "x".into(),
        extras: TurnExtras::default(),
        agent: None,
        working_directory: None,
        expected_dirs: vec![],
        deliverables: vec![],
        files: vec![],
        load_class: LoadClass::default(),
        policy: None,
        request: None,
    };
    match engine.begin(&caller(), *here, turn).await.unwrap() {
        Begun::Run(run) => *run,
        Begun::Elsewhere(_) => panic!("there is one server only"),
    }
}

const START: SessionUse = SessionUse::Start { version: 1 };

async fn questions(world: &World, owner: &Owner) -> Vec<StoredQuestion> {
    let found = world
        .engine
        .list_questions(&caller(), Whose::Of(owner), true)
        .await;
    found.unwrap()
}

/// Waits until a run's question is there.
async fn asked(world: &World, owner: &Owner) -> StoredQuestion {
    for _ in 0..1500 {
        if let Some(question) = questions(world, owner).await.pop() {
            return question;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{owner} asked nothing");
}

async fn closed(world: &World, run: &Run) -> Run {
    for _ in 0..1500 {
        let now = world.engine.store().run_any(&run.id).await.unwrap();
        if now.phase == Phase::Closed {
            return now;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("run {} goes on", run.id);
}

/// What the log of an owner says, in order.
async fn log(world: &World, owner: &Owner) -> Vec<String> {
    let stream = StreamId::of(&AccountId::local(), owner);
    let store = world.engine.store();
    let events = store.events_after(&stream, 0, 100).await.unwrap();
    events.iter().map(|event| event.kind.to_string()).collect()
}

#[tokio::test]
async fn a_question_of_a_build_waits_when_its_run_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = asking(QuestionKind::Question);
    let bridge = world(folder.path(), &gateway).await;
    let build = owner("build:b1");
    let run = begin(&bridge, &build, START).await;
    let question = asked(&bridge, &build).await;
    gateway.end.send_replace(Some(ended(EndStatus::Completed)));
    let run = closed(&bridge, &run).await;
    assert_eq!(
        questions(&bridge, &build).await,
        std::slice::from_ref(&question)
    );
    // It is no thread's question.
    let listed = bridge.rpc("xworkmate.questions.list", json!({})).await;
    assert_eq!(listed["result"]["questions"], json!([]));
    bridge.stop().await;

    let bridge = world(folder.path(), &gateway).await;
    assert_eq!(
        questions(&bridge, &build).await,
        std::slice::from_ref(&question)
    );
    let before = log(&bridge, &build).await;
    let blue = Some(Answer::Text("blue".into()));
    let engine = &bridge.engine;
    let answered = engine
        .close_question(&caller(), question.clone(), blue.clone())
        .await
        .unwrap();
    let wanted = StoredQuestion {
        state: QuestionState::Answered,
        answer: blue,
        closed_by: Some("a person".into()),
        closed_by_principal: Some(caller().who),
        closed_at: answered.closed_at,
        ..question
    };
    assert_eq!(answered, wanted);
    let mut logged = before.clone();
    logged.push("task.question_closed".into());
    assert_eq!(log(&bridge, &build).await, logged);
    bridge.stop().await;

    let bridge = world(folder.path(), &gateway).await;
    assert_eq!(questions(&bridge, &build).await, [wanted]);
    // Nobody was there to hear it, and the run has not changed.
    assert_eq!(*gateway.answers.lock().unwrap(), [None::<String>; 0]);
    assert_eq!(bridge.engine.store().run_any(&run.id).await.unwrap(), run);
    bridge.stop().await;
}

#[tokio::test]
async fn what_cannot_outlive_a_run_is_withdrawn_with_it() {
    for (owner_text, kind) in [
        ("board:t1:a1:v1", QuestionKind::Question),
        ("board:base:a1", QuestionKind::Question),
        // What an agent may do is not asked any more when it does nothing more.
        ("build:b1", QuestionKind::Permission),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let gateway = asking(kind);
        let bridge = world(folder.path(), &gateway).await;
        let owner = owner(owner_text);
        let run = begin(&bridge, &owner, START).await;
        asked(&bridge, &owner).await;
        gateway.end.send_replace(Some(ended(EndStatus::Completed)));
        closed(&bridge, &run).await;
        let left = asked(&bridge, &owner).await;
        assert_eq!(left.state, QuestionState::Withdrawn, "{owner}");
        assert_eq!(left.closed_by.as_deref(), Some("the run ended"));
        bridge.stop().await;
    }
}

#[tokio::test]
async fn each_owner_has_sessions_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    gateway.end.send_replace(Some(ended(EndStatus::Completed)));
    let bridge = world(folder.path(), &gateway).await;
    let second = SessionUse::Start { version: 2 };
    for (text, session, key) in [
        ("board:t1:a1:v1", START, "agent:main:mc:local:task:t1:a1:v1"),
        ("board:t1:a1:v2", START, "agent:main:mc:local:task:t1:a1:v2"),
        ("board:base:a1", START, "agent:main:mc:local:base:a1:v1"),
        ("board:base:a1", second, "agent:main:mc:local:base:a1:v2"),
        (
            "board:base:a1",
            SessionUse::Continue,
            "agent:main:mc:local:base:a1:v2",
        ),
        ("build:b1", START, "agent:main:mc:local:build:b1"),
    ] {
        let run = begin(&bridge, &owner(text), session).await;
        assert_eq!(run.session_key.as_str(), key);
        closed(&bridge, &run).await;
    }
    // The threads' door does not know them, by whatever name.
    for named in [
        json!({"appThreadKey": "build:b1"}),
        json!({"openclawSessionKey": "agent:main:mc:local:build:b1"}),
    ] {
        let code = bridge.code("xworkmate.tasks.get", named).await;
        assert_eq!(code, json!("mapping_not_found"));
    }
    bridge.stop().await;
}

#[tokio::test]
async fn no_thread_begins_with_the_name_of_another_owner() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Arc::new(Gateway::new());
    gateway.end.send_replace(Some(ended(EndStatus::Completed)));
    let bridge = world(folder.path(), &gateway).await;
    for key in ["board:t1:a1:v1", "build:b1", "Build:x", "mc:local:build:b1"] {
        let answer = bridge.rpc("session.start", turn(key)).await;
        assert_eq!(answer["error"]["data"]["code"], json!("INVALID_REQUEST"));
        let said = answer["error"]["message"].as_str().unwrap();
        assert!(said.contains("may not begin with `board:`"), "{said}");
    }
    // One that was there before goes on, beside the build of the same name.
    let old = Owner::Thread(AppThreadKey::new("build:b1").unwrap());
    let session = NewSession {
        account: AccountId::local(),
        owner: old.clone(),
        runtime: RuntimeId::OpenClaw,
        version: 1,
        session_key: "agent:main:build:b1".parse().unwrap(),
        expected_dirs: vec![],
        working_directory: None,
        node: None,
        at: Millis::now(),
    };
    let store = bridge.engine.store();
    store.bind_session(session).await.unwrap();
    begin(&bridge, &owner("build:b1"), START).await;
    for method in ["session.start", "session.message"] {
        let answer = bridge.rpc(method, turn("build:b1")).await;
        assert_eq!(answer["result"]["threadId"], json!("build:b1"), "{answer}");
        let ended = bridge.ended("build:b1").await;
        assert_eq!(ended["sessionKey"], json!("agent:main:build:b1"));
    }
    bridge.stop().await;
}
