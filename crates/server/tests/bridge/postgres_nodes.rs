//! Two servers on one PostgreSQL, each with a data folder of its own.

mod copies;
mod files;
mod keys;
mod lanes;
mod proofs;
mod standing;

use std::{path::Path, time::Duration};

use futures_util::StreamExt as _;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::{AccountId, AppThreadKey};
use threadline_e2e::postgres;
use threadline_store::Session;

use crate::{
    support::{Options, TOKEN, World, frames, turn, with},
    ws::Socket,
};

/// Two servers, a and b, and their folders.
struct Nodes {
    a: World,
    b: World,
    folders: [tempfile::TempDir; 2],
    database: String,
}

impl Nodes {
    async fn new() -> Self {
        Self::with(true).await
    }

    async fn with(advertises: bool) -> Self {
        let server = std::env::var("THREADLINE_TEST_POSTGRES")
            .expect("THREADLINE_TEST_POSTGRES names a PostgreSQL server");
        let database = postgres::fresh_database(&server);
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [a, b] = ["a", "b"].map(|node| options(node, &database, advertises));
        Self {
            a: World::with(folders[0].path(), a).await,
            b: World::with(folders[1].path(), b).await,
            folders,
            database,
        }
    }

    async fn stop(self) {
        self.a.stop().await;
        self.b.stop().await;
    }
}

fn options(node: &str, database: &str, advertises: bool) -> Options {
    Options {
        node: node.into(),
        database: Some(database.to_owned()),
        advertises,
        ..Options::default()
    }
}

/// What a server's folder holds of sessions that took a turn there.
fn sessions_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder.join("tasks"));
    let mut names: Vec<String> = entries
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("work").exists())
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

async fn sessions(world: &World, thread: &str) -> Vec<Session> {
    let (account, thread) = (AccountId::local(), AppThreadKey::new(thread).unwrap());
    let store = world.engine.store();
    store
        .sessions_of_owner(&account, &thread.into())
        .await
        .unwrap()
}

/// Whether a server has files of the thread `draft:1`.
fn has_files(folder: &tempfile::TempDir) -> bool {
    let session = folder.path().join("tasks/builtin-main-draft-1");
    session.exists()
}

async fn stream(world: &World, method: &str, params: &Value) -> Vec<Value> {
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let answer = world
        .http
        .post(format!("{}/acp/rpc", world.url))
        .bearer_auth(TOKEN)
        .header("accept", "text/event-stream")
        .json(&body)
        .send()
        .await
        .unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    frames(answer)
        .map(|frame| serde_json::from_str(&frame.data).unwrap_or(json!(frame.data)))
        .collect()
        .await
}

const FIRST: &str = "[[write notes.md = from the first turn]] [[say ok]]";
const FOLLOW_UP: &str = "[[read notes.md]] [[say {last}]]";

#[tokio::test]
async fn a_follow_up_at_another_server_goes_on_with_the_session() {
    let nodes = Nodes::new().await;
    let (a, b) = (&nodes.a, &nodes.b);
    a.run(&turn("draft:1", FIRST)).await;
    let follow_up = turn("draft:1", FOLLOW_UP);

    // As a stream, as a handle, and over a WebSocket.
    let frames = stream(b, "session.message", &follow_up).await;
    let [.., result, done] = &frames[..] else {
        panic!("{frames:#?}");
    };
    let told = |result: &Value| (result["status"].clone(), result["text"].clone());
    let wanted = (json!("completed"), json!("from the first turn"));
    assert_eq!(
        (told(&result["result"]), done),
        (wanted.clone(), &json!("[DONE]"))
    );
    assert_eq!(frames[0]["method"], json!("xworkmate.bridge.accepted"));

    let handle = b.rpc("session.message", follow_up.clone()).await;
    assert_eq!(handle["result"]["status"], json!("running"), "{handle:#}");
    let ended = b.ended("draft:1").await;
    assert_eq!(
        (told(&ended), &ended["runId"]),
        (wanted.clone(), &handle["result"]["runId"])
    );

    let mut socket = Socket::open(b, TOKEN).await;
    socket.ask(9, "session.message", follow_up).await;
    let mut heard = socket.until(9).await;
    let result = heard.pop().unwrap();
    assert_eq!(told(&result["result"]), wanted);
    let accepted = heard.remove(0);
    assert_eq!(
        (&accepted["method"], &accepted["params"]["path"]),
        (&json!("xworkmate.bridge.accepted"), &json!("/acp"))
    );
    let numbers: Vec<i64> = heard
        .iter()
        .map(|update| update["params"]["eventId"].as_i64().unwrap())
        .collect();
    let first = numbers[0];
    let counted: Vec<i64> = (first..).take(numbers.len()).collect();
    assert_eq!(numbers, counted);

    assert_eq!(
        sessions_in(nodes.folders[0].path()),
        ["builtin-main-draft-1"]
    );
    assert_eq!(sessions_in(nodes.folders[1].path()), Vec::<String>::new());
    nodes.stop().await;
}

#[tokio::test]
async fn a_turn_whose_server_cannot_be_reached_is_refused_by_name() {
    let nodes = Nodes::with(false).await;
    nodes.a.run(&turn("draft:1", FIRST)).await;
    let mut told = vec![];
    for method in ["session.start", "session.message"] {
        let refused = nodes.b.rpc(method, turn("draft:1", FOLLOW_UP)).await;
        told.push(refused["error"].clone());
    }
    let wanted = json!({
        "code": -32002,
        "message": "Thread `draft:1` is on the server a, which does not say where it can be reached. Send the request to that server, or set its `server.advertise`.",
        "data": {"code": "SESSION_CONTINUATION_UNAVAILABLE", "node": "a"},
    });
    assert_eq!(told, [wanted.clone(), wanted]);
    assert_eq!(sessions_in(nodes.folders[1].path()), Vec::<String>::new());
    nodes.stop().await;
}

#[tokio::test]
async fn a_stopped_server_is_named_and_what_it_made_is_still_told() {
    let Nodes {
        a,
        b,
        folders,
        database,
    } = Nodes::new().await;
    let first = with(turn("draft:1", FIRST), json!({"requestId": "request-1"}));
    let (_, result) = a.run(&first).await;
    let url = a.url.clone();
    a.stop().await;
    // The same request is the same run, also where it did not run.
    let (_, again) = b.run(&first).await;
    assert_eq!(
        (&again["runId"], &again["status"]),
        (&result["runId"], &result["status"])
    );
    let refused = b.rpc("session.message", turn("draft:1", FOLLOW_UP)).await;
    assert_eq!(
        refused["error"],
        json!({
            "code": -32002,
            "message": format!("Thread `draft:1` is on the server a at {url}, which cannot be reached from this one. Start it again, or check its `server.advertise`."),
            "data": {"code": "SESSION_CONTINUATION_UNAVAILABLE", "node": "a", "nodeUrl": url},
        })
    );
    // It is back, at another address.
    let a = World::with(folders[0].path(), options("a", &database, true)).await;
    let (_, result) = b
        .run_method("session.message", &turn("draft:1", FOLLOW_UP))
        .await;
    assert_eq!(result["text"], json!("from the first turn"), "{result:#}");
    a.stop().await;
    b.stop().await;
}

#[tokio::test]
async fn first_turns_at_both_servers_at_once_make_one_session() {
    let nodes = Nodes::new().await;
    let mut both_took_some = [0, 0];
    for n in 0..12 {
        let thread = format!("draft:{n}");
        let at = |world: &'static str| {
            turn(
                &thread,
                &format!("[[write {world}.md = x]] [[say {world}]]"),
            )
        };
        let (from_a, from_b) = (at("a"), at("b"));
        let (one, two) = tokio::join!(
            nodes.a.rpc("session.start", from_a),
            nodes.b.rpc("session.start", from_b)
        );
        for answer in [&one, &two] {
            assert!(answer["result"]["runId"].is_string(), "{answer:#}");
        }
        nodes.a.ended(&thread).await;
        let [session] = sessions(&nodes.a, &thread).await.try_into().unwrap();
        let here = usize::from(session.node.as_deref() == Some("b"));
        both_took_some[here] += 1;
        let folder = nodes.folders[here]
            .path()
            .join("tasks")
            .join(format!("builtin-main-draft-{n}"));
        let work = |name: &str| folder.join("work").join(name).exists();
        assert_eq!((work("a.md"), work("b.md")), (true, true));
    }
    let [in_a, in_b] = nodes
        .folders
        .each_ref()
        .map(|f| sessions_in(f.path()).len());
    assert_eq!([in_a, in_b], both_took_some);
    nodes.stop().await;
}

#[tokio::test]
async fn stops_and_answers_given_to_another_server_reach_the_run() {
    let nodes = Nodes::new().await;
    let (a, b) = (&nodes.a, &nodes.b);
    a.rpc(
        "session.start",
        turn("draft:1", "[[ask Which?|red|blue]] [[say {last}]]"),
    )
    .await;
    let question = loop {
        let asked = b
            .rpc("xworkmate.questions.list", json!({"threadId": "draft:1"}))
            .await;
        if let Some(question) = asked["result"]["questions"].get(0) {
            break question["questionId"].clone();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let params = json!({"questionId": question, "text": "blue"});
    let answered = b.rpc("xworkmate.questions.answer", params).await;
    assert_eq!(
        answered["result"]["state"],
        json!("answered"),
        "{answered:#}"
    );
    assert_eq!(
        b.ended("draft:1").await["text"],
        json!("The person answered: blue")
    );

    a.rpc("session.start", turn("draft:2", "[[hang]] [[say never]]"))
        .await;
    b.rpc("session.cancel", json!({"sessionId": "draft:2"}))
        .await;
    assert_eq!(b.ended("draft:2").await["status"], json!("cancelled"));
    nodes.stop().await;
}

#[tokio::test]
async fn a_thread_that_is_deleted_at_another_server_leaves_nothing_behind() {
    let nodes = Nodes::new().await;
    nodes.a.run(&turn("draft:1", FIRST)).await;
    let deleted = nodes
        .b
        .rpc("session.delete", json!({"sessionId": "draft:1"}))
        .await;
    assert_eq!(
        deleted["result"],
        json!({"threadId": "draft:1", "deleted": true})
    );
    assert!(!has_files(&nodes.folders[0]));
    assert_eq!(sessions(&nodes.b, "draft:1").await, []);
    // A thread of the same name is another one, wherever it begins.
    let (_, result) = nodes.b.run(&turn("draft:1", "[[say anew]]")).await;
    assert_eq!(result["text"], json!("anew"));
    nodes.stop().await;
}

#[tokio::test]
async fn a_deletion_waits_for_a_server_that_is_away() {
    let Nodes {
        a,
        b,
        folders,
        database,
    } = Nodes::new().await;
    a.run(&turn("draft:1", FIRST)).await;
    a.stop().await;
    let asked = json!({"sessionId": "draft:1"});
    let told = b.rpc("session.delete", asked.clone()).await;
    assert_eq!(told["result"]["deleted"], json!(false), "{told:#}");
    assert_eq!(
        b.code("session.start", turn("draft:1", "[[say no]]")).await,
        json!("SESSION_CONTINUATION_UNAVAILABLE")
    );
    let a = World::with(folders[0].path(), options("a", &database, true)).await;
    let told = b.rpc("session.delete", asked).await;
    assert_eq!(told["result"]["deleted"], json!(true), "{told:#}");
    assert!(!has_files(&folders[0]));
    a.stop().await;
    b.stop().await;
}

#[tokio::test]
async fn sessions_that_no_server_was_noted_for_are_found_by_their_folder() {
    let Nodes {
        a,
        b,
        folders,
        database,
    } = Nodes::new().await;
    a.run(&turn("draft:1", FIRST)).await;
    let [session] = sessions(&a, "draft:1").await.try_into().unwrap();
    let forget = format!(
        "update sessions set node = null where session_key = '{}'",
        session.session_key
    );
    postgres::run_on(&database, &forget);
    // Whoever does not have it cannot take it.
    assert_eq!(
        b.code("session.message", turn("draft:1", FOLLOW_UP)).await,
        json!("SESSION_CONTINUATION_UNAVAILABLE")
    );
    a.stop().await;
    let a = World::with(folders[0].path(), options("a", &database, true)).await;
    let (_, result) = b
        .run_method("session.message", &turn("draft:1", FOLLOW_UP))
        .await;
    assert_eq!(result["text"], json!("from the first turn"), "{result:#}");
    a.stop().await;

    // A server that lost its name still has its sessions, once nobody of the old name is there any more.
    postgres::run_on(
        &database,
        "update nodes set seen_at = seen_at - 120000 where node = 'a'",
    );
    let renamed = Options {
        renamed: true,
        ..options("c", &database, true)
    };
    let c = World::with(folders[0].path(), renamed).await;
    let (_, result) = c
        .run_method("session.message", &turn("draft:1", FOLLOW_UP))
        .await;
    assert_eq!(result["text"], json!("from the first turn"), "{result:#}");
    c.stop().await;
    b.stop().await;
}

/// Everything that a stream says until it ends.
async fn text_of(answer: reqwest::Response) -> Vec<u8> {
    let mut bytes = vec![];
    let mut pieces = answer.bytes_stream();
    while let Some(piece) = pieces.next().await {
        bytes.extend_from_slice(&piece.unwrap());
    }
    bytes
}
