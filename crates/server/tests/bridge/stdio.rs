//! The same methods for a parent process.

use std::{
    io::{BufRead as _, BufReader, Lines, PipeReader, PipeWriter, Write as _, pipe},
    time::Duration,
};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::Fault;
use tokio::task::JoinHandle;

use crate::support::{TOKEN, World, turn};

/// The parent's side.
struct Parent {
    input: PipeWriter,
    output: Lines<BufReader<PipeReader>>,
    child: JoinHandle<Result<(), Fault>>,
}

impl Parent {
    fn of(world: &World) -> Self {
        let ((theirs, input), (output, ours)) = (pipe().unwrap(), pipe().unwrap());
        let (bridge, gate) = world.doors();
        let child = tokio::spawn(async move {
            threadline_server::stdio(bridge, gate, TOKEN, theirs, ours).await
        });
        Self {
            input,
            output: BufReader::new(output).lines(),
            child,
        }
    }

    fn ask(&mut self, id: i64, method: &str, params: &Value) {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(self.input, "{request}").unwrap();
    }

    fn hear(&mut self) -> Option<Value> {
        let line = tokio::task::block_in_place(|| self.output.next())?.unwrap();
        Some(serde_json::from_str(&line).unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_line_is_one_message() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let mut parent = Parent::of(&world);
    parent.ask(
        1,
        "session.start",
        &turn("draft:1", "[[write a.txt = x]] [[say two\nlines]]"),
    );
    let mut heard = vec![];
    while heard.last().is_none_or(|m: &Value| m["id"] != json!(1)) {
        heard.push(parent.hear().unwrap());
    }
    let result = &heard.last().unwrap()["result"];
    assert_eq!(
        (&result["status"], &heard[0]["params"]["path"]),
        (&json!("completed"), &json!("stdio"))
    );
    let numbers: Vec<i64> = heard
        .iter()
        .filter_map(|m| m["params"]["eventId"].as_i64())
        .collect();
    assert_eq!(numbers, (1..=numbers.len() as i64).collect::<Vec<_>>());
    // What is no request has its answer, and does no harm.
    writeln!(parent.input, "\n   \nnotjson").unwrap();
    assert_eq!(
        parent.hear().unwrap()["error"]["data"]["code"],
        json!("INVALID_JSON")
    );
    let mut long = vec![b'x'; (40 << 20) + 2];
    long.push(b'\n');
    parent.input.write_all(&long).unwrap();
    assert_eq!(
        parent.hear().unwrap()["error"]["data"]["code"],
        json!("BODY_TOO_LARGE")
    );
    parent.ask(2, "acp.capabilities", &json!({}));
    assert_eq!(parent.hear().unwrap()["result"]["singleAgent"], json!(true));
    drop(parent.input);
    assert_eq!(parent.child.await.unwrap(), Ok(()));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_with_its_input_and_answers_what_was_asked() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let mut parent = Parent::of(&world);
    parent.ask(
        1,
        "session.start",
        &turn("draft:1", "[[sleep 1000]] [[say late]]"),
    );
    assert_eq!(
        parent.hear().unwrap()["method"],
        json!("xworkmate.bridge.accepted")
    );
    for n in 10..40 {
        parent.ask(n, "acp.capabilities", &json!({}));
    }
    // The last line has no end.
    write!(
        parent.input,
        r#"{{"jsonrpc":"2.0","id":40,"method":"acp.capabilities"}}"#
    )
    .unwrap();
    drop(parent.input);
    let mut answered = vec![];
    while let Some(message) = {
        let line = tokio::task::block_in_place(|| parent.output.next());
        line.map(|l| serde_json::from_str::<Value>(&l.unwrap()).unwrap())
    } {
        answered.extend(message["id"].as_i64());
    }
    answered.sort_unstable();
    assert_eq!(answered, (10..=40).collect::<Vec<_>>());
    let ended = tokio::time::timeout(Duration::from_secs(5), parent.child).await;
    assert_eq!(ended.unwrap().unwrap(), Ok(()));
    // The turn goes on.
    assert_eq!(world.ended("draft:1").await["text"], json!("late"));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_that_reads_nothing_any_more_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::open(folder.path()).await;
    let mut parent = Parent::of(&world);
    drop(parent.output);
    let asked = json!({"jsonrpc": "2.0", "id": 1, "method": "acp.capabilities"});
    writeln!(parent.input, "{asked}").unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(5), parent.child).await;
    assert_eq!(ended.unwrap().unwrap(), Ok(()));
    world.stop().await;
}
