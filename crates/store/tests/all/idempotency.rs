//! A request with a key is carried out once; whoever repeats it gets what came of it.

use futures_util::future::join_all;
use pretty_assertions::assert_eq;
use threadline_contract::{AccountId, Code, Fault, Millis, Sha256};
use threadline_store::{Request, Store, StoreError, StreamId};

use crate::world::{World, account, by, event, on_both, other, stream};

on_both![
    a_repeated_request_gets_its_outcome,
    a_request_that_failed_can_be_sent_again,
    racing_requests_are_carried_out_once,
];

fn request(account: AccountId, scope: &str, key: &str, body: u8) -> Request {
    Request {
        account,
        scope: scope.to_owned(),
        key: key.to_owned(),
        digest: Sha256([body; 32]),
        by: by("a person"),
        at: Millis(1),
    }
}

/// Carries a request out, unless that was done: its effect is an event, its outcome the event's number.
async fn carry_out(store: &Store, request: Request, log: StreamId) -> Result<String, StoreError> {
    store
        .transact(move |mut tx| {
            Box::pin(async move {
                if let Some(outcome) = tx.outcome(&request).await? {
                    return Ok(outcome);
                }
                let appended = tx.append(&log, vec![event("done")]).await?;
                let outcome = format!("number {}", appended.first);
                tx.keep_outcome(&request, &outcome).await?;
                Ok(outcome)
            })
        })
        .await
}

async fn a_repeated_request_gets_its_outcome(world: World) {
    let store = &world.store;
    let first = request(account(), "POST /tasks", "key", 1);
    for _ in 0..3 {
        let outcome = carry_out(store, first.clone(), stream()).await;
        assert_eq!(outcome.unwrap(), "number 1");
    }
    let outcome = store
        .outcome(&account(), "POST /tasks", "key", &first.digest)
        .await;
    assert_eq!(outcome.unwrap().as_deref(), Some("number 1"));

    let another = request(account(), "POST /tasks", "key", 2);
    let refused = store
        .outcome(&account(), "POST /tasks", "key", &another.digest)
        .await;
    assert!(
        matches!(refused, Err(StoreError::IdempotencyConflict)),
        "{refused:?}"
    );
    let refused = carry_out(store, another, stream()).await;
    assert_eq!(
        Fault::from(refused.unwrap_err()).code,
        Code::IdempotencyConflict
    );

    // Another scope, key or account is another request.
    for (n, new) in [
        request(account(), "POST /builds", "key", 2),
        request(account(), "POST /tasks", "key-2", 2),
        request(other(), "POST /tasks", "key", 2),
    ]
    .into_iter()
    .enumerate()
    {
        let outcome = carry_out(store, new, stream()).await;
        assert_eq!(outcome.unwrap(), format!("number {}", n + 2));
    }
    assert_eq!(world.log(&stream()).await.len(), 4);
}

async fn a_request_that_failed_can_be_sent_again(world: World) {
    let wanted = request(account(), "POST /tasks", "key", 1);
    let failing = wanted.clone();
    let failed: Result<(), _> = world
        .store
        .transact(move |mut tx| {
            Box::pin(async move {
                tx.keep_outcome(&failing, "nothing").await?;
                Err(Fault::new(Code::Conflict, "Not now.").into())
            })
        })
        .await;
    assert!(matches!(failed, Err(StoreError::Refused(_))), "{failed:?}");
    let outcome = carry_out(&world.store, wanted, stream()).await;
    assert_eq!(outcome.unwrap(), "number 1");
}

async fn racing_requests_are_carried_out_once(world: World) {
    let tries = (0..24).map(|_| {
        let store = world.store.clone();
        tokio::spawn(async move {
            let wanted = request(account(), "POST /tasks", "key", 1);
            carry_out(&store, wanted, stream()).await.unwrap()
        })
    });
    for outcome in join_all(tries).await {
        assert_eq!(outcome.unwrap(), "number 1");
    }
    assert_eq!(world.log(&stream()).await.len(), 1);
}
