//! What a token may do, and who is recorded for what was done.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use threadline_contract::{AccountId, Actor, Millis, TokenId};
use threadline_store::NewToken;

use crate::support::{OTHER, World, turn};

/// A token of the machine's own account with these scopes, called so.
async fn token(world: &World, scopes: &str) -> String {
    let token = format!("token-that-may-{scopes}").replace(' ', "-");
    let new = NewToken {
        id: TokenId::new(format!("tok-{scopes}").replace(' ', "-")).unwrap(),
        account: AccountId::local(),
        hash: Sha256::digest(token.as_bytes()).into(),
        label: scopes.to_owned(),
        scopes: scopes.parse().unwrap(),
        made_by: Actor::server(),
        parent: None,
        at: Millis::now(),
    };
    world.engine.store().add_token(new).await.unwrap();
    token
}

fn code(answer: &Value) -> &str {
    answer["error"]["data"]["code"].as_str().unwrap_or("ok")
}

#[tokio::test]
async fn a_token_does_only_what_its_scopes_say() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let read = token(&world, "read").await;
    let write = token(&world, "write").await;
    let agent = token(&world, "agent").await;
    let runs = "xworkmate.operator.runs";

    let begun = world.rpc_as(&read, "session.start", turn("draft:1", "[[say x]]"));
    let begun = begun.await;
    assert_eq!(code(&begun), "SCOPE_MISSING");
    assert_eq!(
        begun["error"]["message"],
        "This needs the scope `write`, and `read` has: read. Use a token that may do it."
    );
    let seen = world.rpc_as(&read, runs, json!({})).await;
    assert_eq!(seen["result"]["runs"], json!([]), "nothing was begun");
    for (token, method, told) in [
        (&read, "acp.capabilities", "ok"),
        (&read, "xworkmate.artifacts.gc", "SCOPE_MISSING"),
        (&write, runs, "SCOPE_MISSING"),
        (&write, "xworkmate.artifacts.gc", "SCOPE_MISSING"),
        (&agent, "acp.capabilities", "SCOPE_MISSING"),
        (&agent, "no.such.method", "METHOD_NOT_FOUND"),
    ] {
        let answer = world.rpc_as(token, method, json!({})).await;
        assert_eq!(code(&answer), told, "{method}");
    }
    let begun = world.rpc_as(&write, "session.start", turn("draft:1", "[[say x]]"));
    assert_eq!(code(&begun.await), "ok");

    // The same where no method is named.
    for (token, path, status) in [
        (&read, "/api/ping", 200),
        (&write, "/api/ping", 403),
        (&agent, "/acp/events?threadId=draft:1", 403),
        (&agent, "/health", 200),
    ] {
        let url = format!("{}{path}", world.url);
        let answer = world.http.get(url).bearer_auth(token).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{path}");
        if status == 403 {
            let refused: Value = answer.json().await.unwrap();
            assert_eq!(code(&refused), "SCOPE_MISSING", "{path}");
        }
    }
    world.stop().await;
}

#[tokio::test]
async fn who_did_something_is_recorded_and_told_to_the_own_account() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let (ann, bob) = (
        token(&world, "read write").await,
        token(&world, "read write admin").await,
    );
    let actor = |scopes: &str| json!({"kind": "token", "id": format!("tok-{scopes}").replace(' ', "-"), "label": scopes});
    let (is_ann, is_bob) = (actor("read write"), actor("read write admin"));

    let asks = turn("draft:1", "[[ask Which?|red|blue]] [[hang]]");
    world.rpc_as(&ann, "session.start", asks).await;
    world.at_stage("draft:1", "waiting").await;
    let asked = world
        .rpc_as(&ann, "xworkmate.questions.list", json!({}))
        .await;
    let question = asked["result"]["questions"][0].clone();
    assert_eq!(question.get("closedByPrincipal"), None);
    let answer = json!({"questionId": question["questionId"], "optionId": question["options"][0]["optionId"]});
    let answered = world
        .rpc_as(&bob, "xworkmate.questions.answer", answer)
        .await;
    assert_eq!(
        (
            &answered["result"]["closedBy"],
            &answered["result"]["closedByPrincipal"]
        ),
        (
            &json!("read write admin"),
            &json!({"kind": "token", "id": is_bob["id"]})
        )
    );

    let line = async |token: &str| {
        let page = world
            .rpc_as(token, "xworkmate.operator.runs", json!({}))
            .await;
        page["result"]["runs"][0].clone()
    };
    let run = line(&ann).await;
    assert_eq!(
        (&run["begunBy"], run.get("cancelRequestedBy")),
        (&is_ann, None)
    );
    world
        .rpc_as(&bob, "session.close", json!({"sessionId": "draft:1"}))
        .await;
    let run = line(&ann).await;
    assert_eq!(
        (&run["begunBy"], &run["cancelRequestedBy"]),
        (&is_ann, &is_bob)
    );
    let sessions = world
        .rpc_as(&ann, "xworkmate.operator.sessions", json!({}))
        .await;
    assert_eq!(sessions["result"]["sessions"][0]["closedBy"], is_bob);
    // To another account there is no such run, and so nobody's name.
    assert_eq!(line(OTHER).await, Value::Null);
    world.stop().await;
}
