//! `threadline openclaw-sidecar`, as a gateway's plugin runs it: the program, its pipes, its ends.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout},
    time::{Duration, Instant},
};

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{World, alive, mode, signal, until};

const PREPARE: &str = "xworkmate.session.prepare";
const COLLECT: &str = "xworkmate.artifacts.collect-and-snapshot";
const EXPORT: &str = "xworkmate.artifacts.export";
const LIST: &str = "xworkmate.artifacts.list";
const READ: &str = "xworkmate.artifacts.read";

fn workspace(world: &World) -> PathBuf {
    world.home().join(".openclaw/workspace")
}
fn media(world: &World) -> PathBuf {
    world.home().join(".openclaw/media")
}
fn scope(world: &World) -> PathBuf {
    workspace(world).join("tasks/agent-main-draft-1/turn-1")
}

fn gateway() -> World {
    let world = World::new();
    for folder in [workspace(&world), media(&world), world.home().join("tmp")] {
        fs::create_dir_all(folder).unwrap();
    }
    world
}

struct Sidecar {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    last: u64,
}

impl Sidecar {
    fn start(world: &World) -> Self {
        let tmp = world.home().join("tmp");
        let words = ["openclaw-sidecar", "--tmp", tmp.to_str().unwrap()];
        let mut command = world.command(&words);
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
        Self {
            to: child.stdin.take(),
            from: BufReader::new(child.stdout.take().unwrap()),
            child,
            last: 0,
        }
    }

    fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.last += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params});
        writeln!(self.to.as_mut().unwrap(), "{request}").unwrap();
        self.last
    }

    fn receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap())
    }

    #[track_caller]
    fn ok(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        let mut answer = self.receive().expect("an answer");
        assert_eq!(answer["id"], id, "{answer}");
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].take()
    }

    /// Waits for the end: the exit code, and what it still said on both ways out.
    fn end(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.from.read_to_string(&mut out).unwrap();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut err).unwrap();
        (self.child.wait().unwrap().code(), out, err)
    }
}

fn turn(more: Value) -> Value {
    let mut params = json!({
        "appThreadKey": "draft:1", "openclawSessionKey": "agent:main:draft:1", "runId": "turn-1",
    });
    let all = params.as_object_mut().unwrap();
    all.extend(more.as_object().unwrap().clone());
    params
}

fn put(root: &Path, path: &str, content: impl AsRef<[u8]>) {
    let full = root.join(path);
    fs::create_dir_all(full.parent().unwrap()).unwrap();
    fs::write(full, content).unwrap();
}

#[test]
fn a_plugin_gets_its_files_and_says_goodbye() {
    let world = gateway();
    let mut sidecar = Sidecar::start(&world);
    let hello = sidecar.ok("initialize", &json!({}));
    assert_eq!(
        (&hello["name"], &hello["version"]),
        (
            &json!("threadline-openclaw-sidecar"),
            &json!(env!("CARGO_PKG_VERSION"))
        )
    );
    let made = sidecar.ok(PREPARE, &turn(json!({})));
    assert_eq!(
        (&made["artifactDirectory"], &made["workspaceSource"]),
        (&json!(scope(&world)), &json!("default"))
    );
    put(&scope(&world), "reports/final.md", "# Done\n");
    put(&media(&world), "shot.png", "png");
    put(&world.home().join("tmp"), "film.mp4", "mp4");
    let collected = sidecar.ok(COLLECT, &turn(json!({})));
    assert_eq!(
        collected["copiedFiles"],
        json!([
            "artifacts/media/shot.png",
            "artifacts/tmp-openclaw/film.mp4"
        ])
    );
    let listed = sidecar.ok(LIST, &turn(json!({"requiredArtifactExtensions": ["md"]})));
    assert_eq!(listed["manifest"]["totalCandidates"], 3);
    let by = turn(json!({"artifactRef": listed["artifacts"][0]["artifactRef"]}));
    let read = sidecar.ok(READ, &by);
    assert_eq!(read["artifacts"][0]["content"], "IyBEb25lCg==");
    let kept = world.data().join("openclaw");
    assert_eq!((mode(&kept), mode(&kept.join("keys.json"))), (0o700, 0o600));

    let id = sidecar.send("shutdown", &json!({}));
    let bye = json!({"jsonrpc": "2.0", "id": id, "result": null});
    assert_eq!(sidecar.receive(), Some(bye));
    assert_eq!(sidecar.end(), (Some(0), String::new(), String::new()));

    // References are good in the next process, and in one beside it.
    let (mut one, mut other) = (Sidecar::start(&world), Sidecar::start(&world));
    for sidecar in [&mut one, &mut other] {
        assert_eq!(sidecar.ok(READ, &by)["eof"], true);
    }
    for mut sidecar in [one, other] {
        drop(sidecar.to.take());
        assert_eq!(sidecar.end(), (Some(0), String::new(), String::new()));
    }
}

#[test]
fn everything_that_was_sent_is_answered_before_the_end() {
    let world = gateway();
    let mut input = String::from("not json\n\n");
    for n in 1..=30 {
        let params = turn(json!({"runId": format!("r{n}")}));
        let request = json!({"jsonrpc": "2.0", "id": n, "method": PREPARE, "params": params});
        input.push_str(&format!("{request}\n"));
    }
    let said = world
        .run_with_input(&["openclaw-sidecar", "--json"], input.as_bytes())
        .ended(0);
    let mut ids: Vec<Value> = said
        .lines()
        .into_iter()
        .map(|mut a| a["id"].take())
        .collect();
    ids.sort_by_key(|id| id.as_u64());
    let want: Vec<Value> = std::iter::once(Value::Null)
        .chain((1..=30).map(Value::from))
        .collect();
    assert_eq!((ids, said.err), (want, String::new()));
}

#[test]
fn a_signal_ends_it_and_so_does_a_gateway_that_is_gone() {
    let world = gateway();
    for ending in [Signal::TERM, Signal::INT] {
        let mut sidecar = Sidecar::start(&world);
        sidecar.ok("initialize", &json!({}));
        signal(sidecar.child.id(), ending);
        // The input stays open.
        let held = sidecar.to.take();
        let (code, out, err) = sidecar.end();
        assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
        drop(held);
    }
    // Nobody reads any more, and nothing is said either.
    let mut sidecar = Sidecar::start(&world);
    sidecar.ok("initialize", &json!({}));
    let pid = sidecar.child.id();
    let Sidecar {
        mut child,
        to,
        from,
        ..
    } = sidecar;
    drop(from);
    until("it ended", || (!alive(pid)).then_some(()));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(to);
}

#[test]
fn a_gateway_that_dies_in_the_middle_leaves_nothing_running() {
    let world = gateway();
    let mut sidecar = Sidecar::start(&world);
    sidecar.ok(PREPARE, &turn(json!({})));
    // Somebody else holds what the next request needs, for ever.
    let state = threadline_files::Root::open(world.data().join("openclaw")).unwrap();
    let held = state.lock().unwrap();
    sidecar.send(COLLECT, &turn(json!({})));
    let pid = sidecar.child.id();
    let begun = Instant::now();
    let Sidecar {
        mut child,
        to,
        from,
        ..
    } = sidecar;
    drop((to, from));
    until("it ended", || (!alive(pid)).then_some(()));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(30));
    drop(held);
    // What it did not finish can be asked for again.
    Sidecar::start(&world).ok(COLLECT, &turn(json!({})));
}

#[test]
fn a_kill_in_the_middle_of_collecting_is_made_good_by_a_repeat() {
    const FILES: usize = 150;
    let content = |n: usize| format!("{n} ").repeat(n * 11 % 3_000).into_bytes();
    let mut interrupted = 0;
    for round in 0..5_u64 {
        let world = gateway();
        let mut sidecar = Sidecar::start(&world);
        sidecar.ok(PREPARE, &turn(json!({})));
        for n in 0..FILES {
            put(&media(&world), &format!("{}/{n}.txt", n % 7), content(n));
        }
        sidecar.send(COLLECT, &turn(json!({})));
        std::thread::sleep(Duration::from_millis(5 + 20 * round));
        sidecar.child.kill().unwrap();
        sidecar.child.wait().unwrap();
        interrupted += usize::from(sidecar.receive().is_none());

        let mut again = Sidecar::start(&world);
        let collected = again.ok(COLLECT, &turn(json!({})));
        let copied = collected["copiedFiles"].as_array().unwrap().len() as u64;
        assert_eq!(
            (
                copied + collected["alreadyPresent"].as_u64().unwrap(),
                &collected["omitted"]["count"]
            ),
            (FILES as u64, &json!(0))
        );
        for n in 0..FILES {
            let copy = scope(&world).join(format!("artifacts/media/{}/{n}.txt", n % 7));
            assert!(fs::read(copy).unwrap() == content(n), "{n} is torn");
        }
        let exported = again.ok(EXPORT, &turn(json!({"maxFiles": 1000})));
        assert_eq!(exported["manifest"]["totalCandidates"], FILES);
    }
    assert!(interrupted > 0, "no round was interrupted");
}

#[test]
fn what_keeps_it_from_starting_is_said_beside_the_protocol() {
    let world = gateway();
    put(&world.data(), "openclaw/keys.json", "damaged");
    for words in [&["openclaw-sidecar"][..], &["openclaw-sidecar", "--json"]] {
        let said = world.run(words).ended(9);
        assert_eq!(said.out, "");
        assert!(said.err.contains("[STATE_DAMAGED]"), "{said:#?}");
        // In the line itself, with what to do.
        let line = said.err.lines().find(|l| l.contains("[STATE_DAMAGED]"));
        let line = line.unwrap_or_default();
        assert!(
            line.contains("keys.json: these are not signing keys"),
            "{said:#?}"
        );
    }
    let said = world
        .run(&["openclaw-sidecar", "--set", "log.level=wrong=level=x"])
        .ended(2);
    assert_eq!(said.out, "");
}
