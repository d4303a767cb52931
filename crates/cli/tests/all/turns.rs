//! Each command hears of its own turn, also when another message waits behind it in the same thread.

use std::{fs, process::Child, time::Duration};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    model::{Line, Model, calls, says},
    support::{Said, World, until},
};

/// Does what the last message of the user says: `slow` takes its time, `write NAME` makes a file.
fn act(request: &Value) -> Value {
    let messages = request["messages"].as_array().unwrap();
    if messages.last().is_some_and(|m| m["role"] == "tool") {
        return says("done");
    }
    let asked = messages.iter().rev().find(|m| m["role"] == "user").unwrap();
    let asked = asked["content"].as_str().unwrap_or_default();
    let mut words = asked.split_whitespace().skip_while(|w| *w != "do:").skip(1);
    let mut doing = says("nothing done");
    while let Some(word) = words.next() {
        match word {
            "slow" => std::thread::sleep(Duration::from_secs(3)),
            "write" => {
                let path = words.next().unwrap();
                doing = calls("write_file", &json!({"path": path, "content": path}));
            }
            other => panic!("{other}"),
        }
    }
    doing
}

fn world() -> (Model, World) {
    let line: Line = act;
    let model = Model::start(vec![line]);
    let world = World::new()
        .with("THREADLINE_MODEL_URL", &model.url)
        .with("THREADLINE_MODEL", "script");
    (model, world)
}

/// Starts a task in a thread of its own, and waits until its run goes on.
fn begun(world: &World, words: &[&str]) -> (Child, String) {
    let before = world.run(&["threads", "--json"]).ended(0).json();
    let known = before["threads"].as_array().unwrap().len();
    let child = world.start(words);
    let name = until("the first runs", || {
        let list = world.run(&["threads", "--json"]).ended(0).json();
        let threads = list["threads"].as_array().unwrap();
        let newest = threads.first().filter(|_| threads.len() > known)?;
        (newest["lifecycleStatus"] == "running")
            .then(|| newest["name"].as_str().unwrap().to_owned())
    });
    (child, name)
}

fn send(world: &World, name: &str, task: &str) {
    world
        .run(&["run", "--detach", "--thread", name, task])
        .ended(0);
}

fn ended(child: Child) -> Said {
    Said::of(child.wait_with_output().unwrap())
}

fn names(folder: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// What the record says of each turn: its words, its result, its files.
fn results(world: &World, name: &str) -> Vec<Value> {
    let view = world.thread(name);
    let messages = view["thread"]["contextState"]["messages"]
        .as_array()
        .unwrap();
    let own = messages.iter().filter(|m| m["role"] == "user");
    let told = own.map(|m| {
        let result = &m["result"];
        let files = result["artifacts"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        let paths: Vec<&Value> = files.iter().map(|f| &f["path"]).collect();
        json!([
            m["text"],
            result["resultCode"],
            result["artifactSyncStatus"],
            paths
        ])
    });
    told.collect()
}

#[test]
fn a_turn_with_another_behind_it_ends_with_its_own_files() {
    let (_model, world) = world();
    let out = world.home().join("out");
    let (first, name) = begun(
        &world,
        &[
            "run",
            "do: slow write a.md",
            "--json",
            "--out",
            out.to_str().unwrap(),
        ],
    );
    let watching = world.start(&["watch", &name]);
    send(&world, &name, "do: write b.md");
    let said = ended(first).ended(0);
    let lines = said.lines();
    let end = lines.last().unwrap();
    let files: Vec<&Value> = end["data"]["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| &f["path"])
        .collect();
    assert_eq!(
        (&end["event"], &end["data"]["lastResultCode"], files),
        (&json!("end"), &json!("success"), vec![&json!("a.md")])
    );
    assert_eq!(names(&out), ["a.md"]);
    assert_eq!(fs::read_to_string(out.join("a.md")).unwrap(), "a.md");
    let watched = ended(watching).ended(0);
    assert!(
        watched.out.contains("a.md") && !watched.out.contains("b.md"),
        "{watched:?}"
    );
    world.run(&["watch", &name]).ended(0);
    assert_eq!(
        results(&world, &name),
        [
            json!(["do: slow write a.md", "success", "synced", ["a.md"]]),
            json!(["do: write b.md", "success", "synced", ["b.md"]]),
        ]
    );
}

#[test]
fn a_turn_with_another_behind_it_fails_with_its_own_error() {
    let (_model, world) = world();
    let (first, name) = begun(&world, &["run", "do: slow", "--expect", "*.pdf"]);
    send(&world, &name, "do: slow write b.md");
    let said = ended(first).ended(3);
    assert!(said.err.contains("it did not deliver: *.pdf"), "{said:?}");
    // The next one goes on meanwhile, and is not stopped by it.
    world.run(&["watch", &name]).ended(0);
    assert_eq!(
        results(&world, &name),
        [
            json!([
                "do: slow",
                "OPENCLAW_REQUIRED_ARTIFACT_MISSING",
                "failed",
                []
            ]),
            json!(["do: slow write b.md", "success", "synced", ["b.md"]]),
        ]
    );
}

#[test]
fn a_cancelled_turn_with_another_behind_it_ends_as_cancelled() {
    let (_model, world) = world();
    let (first, name) = begun(&world, &["run", "do: slow slow"]);
    send(&world, &name, "do: write b.md");
    crate::support::signal(first.id(), rustix::process::Signal::INT);
    let said = ended(first).ended(4);
    assert!(said.err.contains("cancelled"), "{said:?}");
    world.run(&["watch", &name]).ended(0);
    assert_eq!(
        results(&world, &name),
        [
            json!(["do: slow slow", "aborted", "no-artifacts", []]),
            json!(["do: write b.md", "success", "synced", ["b.md"]]),
        ]
    );
}
