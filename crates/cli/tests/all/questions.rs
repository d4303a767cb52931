//! An agent that asks, and people who answer: elsewhere, or in place.

use std::{
    fs,
    io::{Read as _, Write as _},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::{
    model::{Model, calls, last_answer, says},
    support::{PROGRAM, Said, World, name_of, until},
};

fn asking() -> Model {
    Model::start(vec![
        |_| {
            calls(
                "ask_user",
                &json!({"question": "Which colour?", "options": ["Red", "Blue"]}),
            )
        },
        |request| {
            calls(
                "write_file",
                &json!({"path": "colour.txt", "content": last_answer(request)}),
            )
        },
        |_| says("It is painted."),
    ])
}

fn world(model: &Model) -> World {
    World::new()
        .with("THREADLINE_MODEL_URL", &model.url)
        .with("THREADLINE_MODEL", "script")
}

fn colour(world: &World, name: &str) -> String {
    let folder = world.thread(name)["thread"]["workspaceBinding"]["workspacePath"]
        .as_str()
        .unwrap()
        .to_owned();
    fs::read_to_string(format!("{folder}/colour.txt")).unwrap()
}

#[test]
fn a_question_without_a_terminal_says_how_it_is_answered_and_waits() {
    let model = asking();
    let world = world(&model);
    assert_eq!(
        world.run(&["answer"]).ended(0).out,
        "Nothing waits for an answer.\n"
    );
    let run = world.start(&["run", "paint it"]);
    let asked = until("a question", || {
        let found = world.run(&["answer", "--json"]).ended(0).json();
        found["questions"].as_array().unwrap().first().cloned()
    });
    let name = asked["threadName"].as_str().unwrap();
    let list = world.run(&["answer"]).ended(0).out;
    assert!(
        list.contains("? Which colour?\n  1  Red\n  2  Blue\n"),
        "{list}"
    );
    let said = world.run(&["answer", name]).ended(2);
    assert!(
        said.err.contains("There is no answer"),
        "nobody is asked where nobody sits: {said:?}"
    );
    let said = world.run(&["answer", name, "7"]).ended(2);
    assert!(
        said.err
            .contains("`7` is not offered. The options are: 1 Red, 2 Blue."),
        "{said:?}"
    );
    let said = world.run(&["answer", &name[..2], "2"]).ended(0);
    assert!(said.out.starts_with("Answered: Blue\n"), "{said:?}");
    let said = Said::of(run.wait_with_output().unwrap()).ended(0);
    assert!(
        said.err.contains("? Which colour?")
            && said
                .err
                .contains(&format!("threadline answer {name} \"…\"")),
        "{said:?}"
    );
    assert!(said.err.contains("✓ Blue"), "{said:?}");
    assert!(said.out.starts_with("It is painted.\n"), "{said:?}");
    assert!(colour(&world, name).contains("Blue"));
    let said = world.run(&["answer", name, "1"]).ended(7);
    assert!(
        said.err
            .starts_with(&format!("error: {name} asks nothing now.")),
        "{said:?}"
    );
    let shown = world.run(&["show", name]).ended(0).out;
    assert!(
        shown.contains("? Which colour?\n  ✓ Blue\n"),
        "an answered question stays: {shown}"
    );
}

#[test]
fn a_question_is_answered_in_place_on_a_terminal() {
    let model = asking();
    let world = world(&model);
    let plain = world.command(&[]);
    let mut command = Command::new("script");
    command
        .args(["-qec", &format!("{PROGRAM} run 'paint it'"), "/dev/null"])
        .env_clear();
    command
        .envs(plain.get_envs().filter_map(|(k, v)| Some((k, v?))))
        .env("TERM", "xterm-256color")
        .env("SHELL", "/bin/sh");
    command
        .current_dir(world.home())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut terminal = command.spawn().unwrap();
    let mut keys = terminal.stdin.take().unwrap();
    let shown = Arc::new(Mutex::new(Vec::new()));
    let screen = {
        let (shown, mut out) = (shown.clone(), terminal.stdout.take().unwrap());
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(got @ 1..) = out.read(&mut part) {
                shown.lock().unwrap().extend_from_slice(&part[..got]);
            }
        })
    };
    let prompts = |count: usize| {
        until("a prompt", || {
            let text = String::from_utf8_lossy(&shown.lock().unwrap()).into_owned();
            (text.matches("› ").count() >= count).then_some(())
        });
        // Long enough for whatever moves to have moved.
        std::thread::sleep(Duration::from_millis(600));
    };
    prompts(1);
    // An empty line is no answer, so it is asked for again.
    keys.write_all(b"\n").unwrap();
    prompts(2);
    keys.write_all(b"1\n").unwrap();
    let mut output = terminal.wait_with_output().unwrap();
    drop(keys);
    screen.join().unwrap();
    output.stdout = std::mem::take(&mut shown.lock().unwrap());
    let said = Said::of(output).ended(0);
    assert!(
        said.out.contains("Which colour?") && said.out.contains("✓\u{1b}[0m Red"),
        "{said:?}"
    );
    let mut typed = said
        .out
        .split("› ")
        .skip(1)
        .filter_map(|l| l.lines().next());
    assert!(
        typed.all(|line| !line.contains("\u{1b}[J")),
        "nothing is drawn over what is typed: {said:?}"
    );
    assert!(
        said.out.contains("\u{1b}]8;;file://"),
        "the folder can be clicked: {said:?}"
    );
    let name = said
        .out
        .lines()
        .find_map(|l| l.split("threadline run --thread ").nth(1))
        .unwrap();
    let name = name.split_whitespace().next().unwrap();
    assert!(colour(&world, name).contains("Red"));
}

#[test]
fn a_model_that_was_set_after_the_first_run_is_used_by_the_second() {
    let mut world = World::new();
    world.run(&["run", "hello"]).ended(0);
    let first = world.owner_pid();
    let model = Model::start(vec![|_| says("A model speaks.")]);
    world.set("THREADLINE_MODEL_URL", &model.url);
    world.set("THREADLINE_MODEL", "script");
    let said = world.run(&["run", "hello"]).ended(0);
    assert!(
        said.out.starts_with("A model speaks.\nNo files.\n"),
        "{said:?}"
    );
    assert_ne!(
        world.owner_pid(),
        first,
        "the idle owner made room for one with these settings"
    );
}

#[test]
fn an_owner_that_works_is_not_interrupted_by_other_settings() {
    let model = asking();
    let mut world = world(&model);
    let run = world.start(&["run", "paint it"]);
    until("a question", || {
        let found = world.run(&["answer", "--json"]).ended(0).json();
        (!found["questions"].as_array().unwrap().is_empty()).then_some(())
    });
    let pid = world.owner_pid();
    world.set("THREADLINE_MODEL", "other");
    assert_eq!(
        world.run(&["threads"]).ended(0).err,
        "",
        "it does not matter there"
    );
    let said = world.run(&["config", "show"]).ended(0);
    assert_eq!(
        said.err,
        format!(
            "note: The background process ({}) runs with another model.model. What is set here takes effect when it is started again.\n",
            pid.unwrap()
        )
    );
    assert_eq!(world.owner_pid(), pid);
    world.set("THREADLINE_MODEL", "script");
    world.run(&["answer", "1"]).ended(0);
    name_of(&Said::of(run.wait_with_output().unwrap()).ended(0));
}

#[test]
fn a_model_that_is_away_fails_the_run_with_its_code() {
    let world = World::new()
        .with("THREADLINE_MODEL_URL", "http://127.0.0.1:9/v1")
        .with("THREADLINE_MODEL", "m");
    let found = world.run(&["doctor"]).ended(1);
    assert!(
        found
            .out
            .contains("bad   model                http://127.0.0.1:9/v1 does not answer"),
        "{found:?}"
    );
    let said = world.run(&["run", "hello"]).ended(1);
    assert!(
        said.err.contains("[MODEL_UNREACHABLE]") || said.err.contains("MODEL_UNREACHABLE"),
        "{said:?}"
    );
    assert!(said.out.contains("threadline retry"), "{said:?}");
}

#[test]
fn what_a_run_that_is_cancelled_at_its_question_made_is_named_and_not_brought() {
    let model = Model::start(vec![
        |_| calls("write_file", &json!({"path": "half.txt", "content": "1"})),
        |_| calls("ask_user", &json!({"question": "Go on?"})),
    ]);
    let world = world(&model);
    let run = world.start(&["run", "write it"]);
    let name = until("a question", || {
        let found = world.run(&["answer", "--json"]).ended(0).json();
        let asked = found["questions"].as_array()?.first()?;
        Some(asked["threadName"].as_str()?.to_owned())
    });
    let left = "– half.txt  not taken: it was left by a run that was cancelled\n";
    let said = world.run(&["cancel", &name]).ended(0).out;
    assert_eq!(said, format!("{name}: the run is cancelled.\n{left}"));
    let said = Said::of(run.wait_with_output().unwrap()).ended(4);
    assert!(said.out.contains(left), "{said:?}");
    let shown = world.run(&["show", &name]).ended(0).out;
    assert!(shown.contains(left), "{shown}");
    let thread = world.thread(&name);
    let folder = thread["thread"]["workspaceBinding"]["workspacePath"].as_str();
    assert!(!fs::exists(format!("{}/half.txt", folder.unwrap())).unwrap());
}
