//! Wrong words, wrong settings, wrong names: a code, a sentence, and what to do.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::World;

#[test]
fn all_mistakes_in_the_settings_come_at_once() {
    let world = World::new()
        .with("THREADLINE_LOG_FORMAT", "xml")
        .with("THREADLINE_LISTN", "x");
    let own = world.home().join(".config/threadline");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("threadline.toml"), "[server]\nlisten = 8787\n").unwrap();
    fs::write(
        world.home().join("threadline.toml"),
        "autoruntime = \"builtin\"\n",
    )
    .unwrap();
    let said = world
        .run(&["run", "hello", "--set", "builtin.max_steps=0"])
        .ended(2);
    let home = world.home().display();
    let want = format!(
        "error: 5 settings are wrong. [CONFIG_INVALID]\n  \
         {home}/.config/threadline/threadline.toml:2: `server.listen` must be an address and a port, such as 127.0.0.1:8787, [::1]:8787 or localhost:8787, not 8787.\n  \
         {home}/threadline.toml:1: `autoruntime` is not a setting. Did you mean `auto_runtime`?\n  \
         THREADLINE_LISTN: there is no such setting. Did you mean THREADLINE_LISTEN?\n  \
         THREADLINE_LOG_FORMAT: `log.format` must be text or json, not \"xml\".\n  \
         --set: `builtin.max_steps` must be a whole number from 1 to 1000, not \"0\".\n"
    );
    assert_eq!(said.err, want);
    assert_eq!(said.out, "");
    let said = world.run(&["threads", "--json"]).ended(2).json();
    assert_eq!(
        said["error"]["data"]["mistakes"].as_array().unwrap().len(),
        4
    );
    assert!(!world.data().exists(), "nothing was begun");
}

#[test]
fn settings_are_shown_with_their_origin_and_without_secrets() {
    let world = World::new().with("THREADLINE_TOKEN", "a-token-of-my-own-0123");
    let said = world.run(&["config", "show", "--origin"]).ended(0);
    let line = |key: &str| {
        said.out
            .lines()
            .find(|l| l.starts_with(key))
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(line("server.token"), "server.token (set) THREADLINE_TOKEN");
    assert_eq!(
        line("server.listen"),
        "server.listen 127.0.0.1:8787 default"
    );
    let json = world
        .run(&["config", "show", "--json", "--set", "log.level=debug"])
        .ended(0)
        .json();
    let setting = |key: &str| {
        json["settings"]
            .as_array()
            .unwrap()
            .iter()
            .find(|s| s["key"] == key)
            .unwrap()
            .clone()
    };
    assert_eq!(
        setting("log.level"),
        json!({"key": "log.level", "set": true, "value": "debug", "origin": "--set"})
    );
    assert_eq!(
        setting("server.token"),
        json!({"key": "server.token", "set": true, "origin": "THREADLINE_TOKEN"})
    );
}

#[test]
fn threads_that_are_not_there_are_told_apart_from_those_that_are_many() {
    let world = World::new();
    let said = world.run(&["show", "moon"]).ended(7);
    assert!(
        said.err.starts_with("error: ") && said.err.contains("[THREAD_NOT_FOUND]"),
        "{said:?}"
    );
    let said = world.run(&["answer", "moon", "yes"]).ended(7);
    assert_eq!(
        said.err,
        "error: There is no thread or question `moon`. `threadline answer` lists the questions that wait. [THREAD_NOT_FOUND]\n"
    );
    for n in 0..30 {
        world
            .run(&["run", &format!("task {n}"), "--detach"])
            .ended(0);
    }
    let threads = world.run(&["threads", "--json"]).ended(0).json();
    let names: Vec<&str> = threads["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["name"].as_str().unwrap())
        .collect();
    let twice = |letter: char| names.iter().filter(|n| n.starts_with(letter)).count() > 1;
    let letter = ('a'..='z')
        .find(|l| twice(*l))
        .expect("thirty names share a letter")
        .to_string();
    let said = world.run(&["show", &letter]).ended(7);
    assert!(said.err.contains("[THREAD_AMBIGUOUS]"), "{said:?}");
}

#[test]
fn what_cannot_be_is_said_before_anything_runs() {
    let world = World::new();
    let missing = world.home().join("missing.txt");
    let missing = missing.to_str().unwrap();
    for (words, code) in [
        (&["run", ""][..], "OPENCLAW_TASK_PROMPT_REQUIRED"),
        (&["run", "x", "--runtime", "moon"], "PROVIDER_NOT_FOUND"),
        (&["run", "x", "--attach", missing], "ATTACHMENT_INVALID"),
        (&["run", "x", "--attach", "/"], "ATTACHMENT_INVALID"),
        (&["run", "x", "--in", missing], "WORKDIR_NOT_ALLOWED"),
        (&["run", "x", "--in", "/usr"], "WORKDIR_NOT_ALLOWED"),
        (&["run", "x", "--expect", " "], "INVALID_REQUEST"),
        (&["run", "x", "--expect", "/abs"], "INVALID_REQUEST"),
        (&["run", "x", "--expect", "["], "INVALID_REQUEST"),
        (&["run", "x", "--bridge", "ftp://b"], "CONFIG_INVALID"),
    ] {
        let said = world.run(words).ended(2);
        assert!(
            said.err.contains(&format!("[{code}]")),
            "{words:?}: {said:?}"
        );
        assert_eq!(said.out, "", "{words:?}");
    }
    assert_eq!(world.owner(), None, "nothing was started for it");
    world.run(&["nonsense"]).ended(2);
    world.run(&["run", "x", "--detach", "--out", "d"]).ended(2);
    let said = world.run(&["run", "x", "--thread", "moon"]).ended(7);
    assert!(said.err.contains("[THREAD_NOT_FOUND]"), "{said:?}");
}

#[test]
fn what_is_wrong_with_a_path_is_said_and_nothing_else() {
    let world = World::new();
    fs::write(world.home().join("a.txt"), "text").unwrap();
    for (words, says) in [
        (
            &["run", "x", "--in", "nosuch"][..],
            "--in: nosuch cannot be worked in: it does not exist. Choose a folder that is there, or make it first. [WORKDIR_NOT_ALLOWED]",
        ),
        (
            &["run", "x", "--in", "a.txt"],
            "--in: a.txt cannot be worked in: it is a file. Choose a folder; --attach sends a file along. [WORKDIR_NOT_ALLOWED]",
        ),
        (
            &["run", "x", "--expect", "reports/"],
            "--expect: `reports/` names a folder, and files are delivered. Name those: 'reports/**' [INVALID_REQUEST]",
        ),
    ] {
        let said = world.run(words).ended(2);
        assert_eq!(said.err, format!("error: {says}\n"));
    }
    let said = world.run(&["run", "x", "--out", "/proc/x"]);
    assert!(
        said.err
            .starts_with("error: --out: the folder /proc/x cannot be made or opened ("),
        "{said:?}"
    );
}

#[test]
fn a_folder_outside_the_work_roots_is_refused() {
    let world = World::new();
    let said = world.run(&["run", "x", "--in", "/usr"]);
    assert!(said.err.contains("[WORKDIR_NOT_ALLOWED]"), "{said:?}");
    assert_eq!(said.code, Some(2), "{said:?}");
    let own = world.home().join("project");
    fs::create_dir(&own).unwrap();
    world
        .run(&["run", "x", "--in", own.to_str().unwrap()])
        .ended(0);
}

#[test]
fn a_runtime_that_is_not_there_is_said_before_a_thread_is_made() {
    let world = World::new();
    let said = world.run(&["run", "x", "--runtime", "openclaw"]).ended(2);
    assert_eq!(
        said.err,
        "error: --runtime: there is no `openclaw` here. Choose builtin. [PROVIDER_NOT_FOUND]\n"
    );
    let threads = world.run(&["threads", "--json"]).ended(0).json();
    assert_eq!(threads["threads"], json!([]));
}

#[test]
fn a_bridge_that_does_not_answer_is_told_while_it_is_waited_for() {
    let world = World::new();
    // Takes the connection and never says a word.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", mute.local_addr().unwrap());
    let run = world.start(&["run", "x", "--bridge", &url]);
    std::thread::sleep(std::time::Duration::from_secs(6));
    crate::support::signal(run.id(), rustix::process::Signal::INT);
    let said = crate::support::Said::of(run.wait_with_output().unwrap());
    assert!(
        said.err.contains(&format!("No answer from {url} yet")),
        "{said:?}"
    );
}

#[test]
fn a_command_line_that_is_wrong_is_json_too() {
    let world = World::new();
    let said = world.run(&["threads", "--limit", "0", "--json"]).ended(2);
    assert_eq!(
        said.json(),
        json!({"error": {"code": "INVALID_REQUEST", "message": "invalid value '0' for '--limit <N>': 0 is not in 1..=65535"}, "exitCode": 2})
    );
    assert_eq!(said.err, "");
    let said = world.run(&["run", "hello", "world"]).ended(2);
    assert!(
        said.err
            .contains("stands in quotes: threadline run \"hello world\""),
        "{said:?}"
    );
    let help = world.run(&["help", "run"]).ended(0).out;
    assert!(help.contains("--expect <GLOB>"), "{help}");
}

#[test]
fn wrong_settings_do_not_stop_what_needs_none() {
    let mut world = World::new();
    world.run(&["threads"]).ended(0);
    let pid = world.owner_pid().unwrap();
    let all = world.run(&["config", "show", "--json"]).ended(0).json();
    let all = all["settings"].as_array().unwrap().len();
    world.set("THREADLINE_LOG_FORMAT", "xml");
    let said = world.run(&["config", "show"]).ended(2);
    assert!(
        said.out.contains("log.format                 (wrong)")
            && said.out.contains("auto_runtime               builtin"),
        "{said:?}"
    );
    assert_eq!(
        said.err,
        "error: One setting is wrong. [CONFIG_INVALID]\n  THREADLINE_LOG_FORMAT: `log.format` must be text or json, not \"xml\".\n"
    );
    let json = world.run(&["config", "show", "--json"]).ended(2).json();
    assert_eq!(json["error"]["code"], "CONFIG_INVALID");
    assert_eq!(json["settings"].as_array().unwrap().len(), all);
    let said = world.run(&["doctor"]).ended(1);
    assert!(
        said.out.starts_with("bad   settings") && said.out.contains("ok    data folder"),
        "{said:?}"
    );
    world.run(&["version"]).ended(0);
    let said = world.run(&["stop"]).ended(0);
    assert!(said.out.contains(&pid.to_string()), "{said:?}");
}

#[test]
fn a_data_folder_that_cannot_be_made_is_this_machines_fault() {
    let world = World::new();
    let said = world.run(&["threads", "--data", "/proc/foo"]).ended(9);
    assert!(
        said.err.contains("/proc/foo") && said.err.contains("[STORAGE_READ_ONLY]"),
        "{said:?}"
    );
}

#[test]
fn help_and_version_need_no_settings_in_order() {
    let world = World::new();
    let help = world.run(&["--help"]).ended(0).out;
    for word in ["Exit codes:", "run", "doctor", "--json"] {
        assert!(help.contains(word), "{help}");
    }
    assert!(
        world
            .run(&["run", "--help"])
            .ended(0)
            .out
            .contains("Examples:")
    );
    assert_eq!(
        world.run(&["version"]).ended(0).out,
        format!("threadline {}\n", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(
        world.run(&["--version"]).ended(0).out,
        format!("threadline {}\n", env!("CARGO_PKG_VERSION"))
    );
}
