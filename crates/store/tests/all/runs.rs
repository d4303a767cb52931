//! Runs: changed only under a lease, seen only by their account.

use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_contract::{Code, Fault, Millis, RunId, RunStatus, Usage};
use threadline_store::{ArtifactState, Phase, Run, RunChange, RunEnd, StoreError};

use crate::world::{
    Place, World, account, by, end_with, event, missing, on_both, other, stream, thread,
};

on_both![
    changes_touch_what_they_name,
    text_of_any_kind_comes_back,
    accounts_do_not_see_each_others_runs,
    stale_leases_change_nothing,
    a_run_id_that_cannot_be_stored_is_no_runs,
];

async fn changes_touch_what_they_name(world: World) {
    let (run, lease) = world.leased().await;
    let before = world.store.run_any(&run.id).await.unwrap();
    let nothing = world
        .store
        .change_run(&lease, RunChange::default(), vec![])
        .await;
    assert_eq!(nothing.unwrap(), before);

    let change = RunChange {
        phase: Some(Phase::Collecting),
        code: Some(Code::AgentLost),
        message: Some("The agent is gone.".to_owned()),
        text: Some("so far".to_owned()),
        usage: Some(Usage {
            input_tokens: Some(7),
            output_tokens: None,
            cost_usd: Some(0.25),
        }),
        missing: Some(vec![missing()]),
        started_at: Some(Millis(11)),
        ended_at: Some(Millis(12)),
        closed_at: Some(Millis(13)),
        artifact_state: Some(ArtifactState::Failed),
        anomaly: Some(json!({"kind": "odd", "n": 1})),
        turn: Some("{\"other\":true}".to_owned()),
    };
    let wanted = Run {
        phase: Phase::Collecting,
        code: Some(Code::AgentLost),
        message: Some("The agent is gone.".to_owned()),
        text: Some("so far".to_owned()),
        usage: change.usage,
        missing: vec![missing()],
        started_at: Some(Millis(11)),
        ended_at: Some(Millis(12)),
        closed_at: Some(Millis(13)),
        artifact_state: ArtifactState::Failed,
        anomalies: vec![json!({"kind": "odd", "n": 1})],
        ..before
    };
    let changed = world
        .store
        .change_run(&lease, change, vec![event("a"), event("b")])
        .await;
    assert_eq!(changed.unwrap(), wanted);
    assert_eq!(world.store.run_any(&run.id).await.unwrap(), wanted);
    assert_eq!(world.store.turn(&run.id).await.unwrap(), "{\"other\":true}");
    assert_eq!(
        world.log(&stream()).await,
        [(1, "\"a\"".to_owned()), (2, "\"b\"".to_owned())]
    );
    let more = RunChange {
        anomaly: Some(json!("two\nlines")),
        ..RunChange::default()
    };
    let changed = world.store.change_run(&lease, more, vec![]).await.unwrap();
    assert_eq!(
        changed.anomalies,
        [json!({"kind": "odd", "n": 1}), json!("two\nlines")]
    );
}

async fn text_of_any_kind_comes_back(world: World) {
    let (run, lease) = world.leased().await;
    let text = "NUL \0, quotes \"', ünïcödé 😀, \u{2028}, lines\r\n\n";
    let end = RunEnd {
        text: Some(text.to_owned()),
        message: Some(text.to_owned()),
        code: Some(Code::ExecutionFailed),
        ..end_with(RunStatus::Failed)
    };
    world.store.end_run(&lease, end, vec![]).await.unwrap();
    let run = world.store.run(&account(), &run.id).await.unwrap();
    assert_eq!(run.text.as_deref(), Some(text));
    assert_eq!(run.message.as_deref(), Some(text));
}

async fn accounts_do_not_see_each_others_runs(world: World) {
    let run = world.run().await;
    let store = &world.store;
    assert!(matches!(
        store.run(&other(), &run.id).await,
        Err(StoreError::NotFound)
    ));
    assert!(matches!(
        store.run(&account(), &RunId::fresh()).await,
        Err(StoreError::NotFound)
    ));
    assert_eq!(store.latest_run(&other(), &thread()).await.unwrap(), None);
    assert_eq!(
        store
            .runs_of_owner(&other(), &thread(), None, 9)
            .await
            .unwrap(),
        []
    );
    assert_eq!(
        store
            .runs_of_owner(&other(), &thread(), Some(&run.id), 9)
            .await
            .unwrap(),
        []
    );
    let cancel = store
        .request_cancel(&other(), &run.id, &by("ann"), Millis(1), event("cancel"))
        .await;
    assert!(matches!(cancel, Err(StoreError::NotFound)), "{cancel:?}");
    assert_eq!(store.run_any(&run.id).await.unwrap(), run);
    assert_eq!(world.log(&stream()).await, []);
}

async fn stale_leases_change_nothing(world: World) {
    let (run, stale) = world.stale().await;
    let before = world.store.run_any(&run.id).await.unwrap();
    let change = RunChange {
        phase: Some(Phase::Closed),
        turn: Some("{}".to_owned()),
        ..RunChange::default()
    };
    let changed = world
        .store
        .change_run(&stale, change, vec![event("no")])
        .await;
    assert!(matches!(changed, Err(StoreError::Stale)), "{changed:?}");
    let ended = world
        .store
        .end_run(&stale, end_with(RunStatus::Failed), vec![event("no")])
        .await;
    assert!(matches!(ended, Err(StoreError::Stale)), "{ended:?}");
    assert_eq!(world.store.run_any(&run.id).await.unwrap(), before);
    assert_ne!(world.store.turn(&run.id).await.unwrap(), "{}");
    assert_eq!(world.log(&stream()).await, []);

    // Also after the end, when there would only be an anomaly to add.
    let lease = world.take(&run.id).await;
    world
        .store
        .end_run(&lease, end_with(RunStatus::Completed), vec![])
        .await
        .unwrap();
    let ended = world
        .store
        .end_run(&stale, end_with(RunStatus::Failed), vec![])
        .await;
    assert!(matches!(ended, Err(StoreError::Stale)), "{ended:?}");
    assert_eq!(
        world.store.run_any(&run.id).await.unwrap().anomalies,
        Vec::<serde_json::Value>::new()
    );
}

/// PostgreSQL takes no NUL character. The caller is told so in our words, not in the database's.
async fn a_run_id_that_cannot_be_stored_is_no_runs(world: World) {
    let id = RunId::new("turn\0").unwrap();
    let fault = Fault::from(world.store.run(&account(), &id).await.unwrap_err());
    let expected = match *world.place {
        Place::Database(..) => {
            Fault::invalid("A text holds a character that cannot be stored (NUL).")
        }
        Place::Folder(..) => Fault::new(Code::NotFound, "There is no such record."),
    };
    assert_eq!(fault, expected);
}
