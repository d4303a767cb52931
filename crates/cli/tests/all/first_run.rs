//! The first minute: nothing configured, one command.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::{World, mode, name_of, until};

#[test]
fn a_first_run_needs_nothing() {
    let world = World::new();
    let said = world
        .run(&["run", "one two two three three three"])
        .ended(0);
    let name = name_of(&said);
    let view = world.thread(&name);
    let folder = view["thread"]["workspaceBinding"]["workspacePath"]
        .as_str()
        .unwrap()
        .to_owned();

    let files = view["thread"]["contextState"]["lastArtifacts"]
        .as_array()
        .unwrap();
    let mut want = String::new();
    for file in files {
        let path = file["path"].as_str().unwrap();
        let bytes = fs::read(format!("{folder}/{path}")).unwrap();
        let digest = hex::encode(Sha256::digest(&bytes));
        assert_eq!(
            file["sha256"],
            json!(digest),
            "the file on this disk is the one that was verified"
        );
        assert_eq!(file["size"], json!(bytes.len()));
        let line = said
            .out
            .lines()
            .find(|l| l.starts_with(&format!("✓ {path} ")))
            .unwrap();
        assert!(line.ends_with(&digest[..12]), "{line}");
        want.push_str(path);
        want.push(' ');
    }
    assert_eq!(want, "notes.md words.csv words.svg ");
    let tail: Vec<&str> = said.out.lines().rev().take(3).collect();
    let used = tail[1];
    assert!(
        used.starts_with("Used    ") && (used.ends_with(" s") || used.ends_with(" ms")),
        "{used}"
    );
    assert_eq!(
        tail,
        [
            format!("Go on   threadline run --thread {name} \"…\""),
            used.to_owned(),
            format!("Folder  {folder}")
        ]
    );
    let steps: Vec<&str> = said.err.lines().filter(|l| l.contains('✓')).collect();
    assert_eq!(
        steps,
        [
            "  ✓ Wrote notes.md",
            "  ✓ Wrote words.csv",
            "  ✓ Wrote words.svg"
        ]
    );
    assert!(
        !said.out.contains('\u{1b}') && !said.err.contains('\u{1b}'),
        "no terminal, no colours: {said:?}"
    );

    let state = &view["thread"];
    assert_eq!(state["lifecycleState"]["status"], "ready");
    assert_eq!(state["lifecycleState"]["lastResultCode"], "success");
    assert_eq!(state["contextState"]["lastArtifactSyncStatus"], "synced");
    assert_eq!(
        state["contextState"]["lastTaskArtifactRelativePaths"],
        json!(["notes.md", "words.csv", "words.svg"])
    );
}

#[test]
fn what_is_private_is_private() {
    let world = World::new();
    world.run(&["run", "hello"]).ended(0);
    let data = world.data();
    assert_eq!(mode(&data), 0o700);
    for name in [
        "token",
        "owner.json",
        "owner.lock",
        "owner.log",
        "threadline.db",
    ] {
        assert_eq!(mode(&data.join(name)), 0o600, "{name}"); // B16
    }
    let token = world.run(&["token", "show"]).ended(0).out;
    // A letter first: on a command line, nothing that begins with `-` is a value.
    let bits = token.trim().strip_prefix('t').map(str::len);
    assert_eq!(bits, Some(43), "256 bits in base64url");
    assert!(
        !world.log().contains(token.trim()),
        "the log holds no secret"
    );
}

#[test]
fn a_program_hears_every_event_once_and_in_order() {
    let world = World::new();
    let lines = world.run(&["run", "hello", "--json"]).ended(0).lines();
    let event = |l: &Value| l["event"].as_str().unwrap().to_owned();
    assert_eq!(event(&lines[0]), "accepted");
    let last = lines.last().unwrap();
    assert_eq!(event(last), "end");
    assert_eq!(
        (&last["data"]["exitCode"], &last["data"]["lastResultCode"]),
        (&json!(0), &json!("success"))
    );
    assert_eq!(last["data"]["files"].as_array().unwrap().len(), 3);
    let ids: Vec<i64> = lines
        .iter()
        .filter(|l| event(l) == "update")
        .map(|l| l["id"].as_i64().unwrap())
        .collect();
    assert_eq!(ids, (1..=ids.len() as i64).collect::<Vec<_>>());
}

#[test]
fn a_thread_goes_on_with_only_its_own_words() {
    let world = World::new();
    let first = world.run(&["run", "alpha"]).ended(0);
    let name = name_of(&first);
    let second = world
        .run(&["run", "--thread", &name[..name.len() - 1], "beta beta"])
        .ended(0);
    assert_eq!(name_of(&second), name);
    assert!(second.out.contains("2 words"), "{second:?}");
    assert!(
        !second.out.contains("1 word"),
        "the first answer is not told again: {second:?}"
    );
    let view = world.thread(&name);
    let said: Vec<&Value> = view["thread"]["contextState"]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| &m["role"])
        .collect();
    assert_eq!(said, ["user", "assistant", "user", "assistant"]);
}

#[test]
fn files_are_copied_where_they_are_wanted_and_nothing_is_replaced() {
    let world = World::new();
    let out = world.home().join("here");
    let out_text = out.to_str().unwrap();
    world.run(&["run", "hello", "--out", out_text]).ended(0);
    let mut names: Vec<String> = fs::read_dir(&out)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["notes.md", "words.csv", "words.svg"]);
    world.run(&["run", "hello", "--out", out_text]).ended(0);

    fs::write(out.join("notes.md"), "mine").unwrap();
    let said = world.run(&["run", "hello", "--out", out_text]).ended(6);
    assert!(
        said.err.contains("[OUT_FILE_EXISTS]") && said.err.contains("\n  notes.md\n"),
        "{said:?}"
    );
    assert_eq!(fs::read_to_string(out.join("notes.md")).unwrap(), "mine");
    let said = world.run(&["run", "hello", "--out", "/proc/nowhere"]);
    assert_ne!(said.code, Some(0));
    assert!(
        !said.err.contains('●'),
        "said before anything runs: {said:?}"
    );
}

#[test]
fn what_must_come_back_decides() {
    let world = World::new();
    world
        .run(&["run", "hello", "--expect", "notes.md", "--expect", "*.csv"])
        .ended(0);
    let said = world
        .run(&["run", "hello", "--expect", "report.pdf"])
        .ended(3);
    assert!(said.err.contains("report.pdf"), "it is named: {said:?}");
    let left = "– notes.md  not taken: it is not final, because the run did not succeed\n";
    assert!(said.out.contains(left), "so is what was made: {said:?}");
    let lines = world
        .run(&["run", "hello", "--expect", "report.pdf", "--json"])
        .ended(3)
        .lines();
    let end = &lines.last().unwrap()["data"];
    assert_eq!(end["exitCode"], 3);
    assert_eq!(
        end["missing"],
        json!([{"deliverable": {"glob": "report.pdf"}, "found": 0}])
    );
    let omitted: Vec<&Value> = end["omitted"].as_array().unwrap().iter().collect();
    assert!(
        omitted.contains(&&json!({"path": "notes.md", "reason": "run_failed"})),
        "{end}"
    );
}

#[test]
fn the_prompt_can_come_by_standard_input() {
    let world = World::new();
    for words in [&["run"][..], &["run", "-"]] {
        let said = world.run_with_input(words, b"alpha beta\n").ended(0);
        assert!(said.out.contains("2 words"), "{said:?}");
    }
    let said = world
        .run_with_input(&["run", "--attach", "-", "what is attached"], b"some text")
        .ended(0);
    assert!(said.out.contains("3 words"), "{said:?}");
    let said = world.run_with_input(&["run"], b" \n").ended(2);
    assert!(
        said.err.contains("[OPENCLAW_TASK_PROMPT_REQUIRED]"),
        "{said:?}"
    );
    let said = world.run_with_input(&["run"], b"\xff\xfe").ended(2);
    assert!(said.err.contains("--attach -"), "{said:?}");
}

#[test]
fn leaving_a_run_never_cancels_it() {
    let world = World::new().with("THREADLINE_BUILTIN_DEMO_PAUSE_MS", "300");
    let said = world.run(&["run", "hello", "--detach", "--json"]).ended(0);
    let lines = said.lines();
    let thread = &lines[0]["data"]["thread"];
    let task = &thread["contextState"]["taskAssociation"];
    assert!(task["runId"].is_string(), "{task}");
    assert_eq!(
        (&lines[0]["event"], &lines[1]),
        (
            &json!("accepted"),
            &json!({"event": "detached", "data": {
                "exitCode": 0, "threadId": thread["threadId"], "name": thread["name"],
                "requestId": task["requestId"], "runId": task["runId"], "state": "accepted",
            }})
        )
    );
    let name = thread["name"].as_str().unwrap().to_owned();
    let waits = ["run", "--thread", &name, "more", "--detach", "--json"];
    let said = world.run(&waits).ended(0).lines().remove(1);
    assert_eq!(
        (&said["data"]["runId"], &said["data"]["state"]),
        (&json!(null), &json!("queued"))
    );
    let mut watching = world.start(&["watch", &name]);
    // Once it watches, it leaves at the first Ctrl-C.
    std::thread::sleep(std::time::Duration::from_millis(500));
    crate::support::signal(watching.id(), rustix::process::Signal::INT);
    assert_eq!(watching.wait().unwrap().code(), Some(130));
    let said = world.run(&["watch", &name]).ended(0);
    assert!(said.out.contains("✓ notes.md"), "{said:?}");
}

#[test]
fn ctrl_c_cancels_the_run_that_was_started() {
    let world = World::new().with("THREADLINE_BUILTIN_DEMO_PAUSE_MS", "2000");
    let run = world.start(&["run", "hello"]);
    until("the run", || {
        let threads = world.run(&["threads", "--json"]).ended(0).json();
        (threads["threads"][0]["lifecycleStatus"] == "running").then_some(())
    });
    crate::support::signal(run.id(), rustix::process::Signal::INT);
    let said = crate::support::Said::of(run.wait_with_output().unwrap()).ended(4);
    assert!(said.err.contains("Cancelling the run"), "{said:?}");
    let view = world.thread(&name_of(&said));
    assert_eq!(
        view["thread"]["lifecycleState"]["lastResultCode"],
        "aborted"
    );
}
