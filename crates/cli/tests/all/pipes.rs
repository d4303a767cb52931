//! A reader that goes away ends a command quietly; and nothing that is printed can act on a terminal.

use std::{io::pipe, process::Stdio};

use pretty_assertions::assert_eq;

use crate::support::World;

/// How a command ends whose outputs nobody reads.
fn unread(world: &World, words: &[&str]) -> Option<i32> {
    let closed = || {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    let mut command = world.command(words);
    let status = command.stdout(closed()).stderr(closed()).status();
    status.unwrap().code()
}

#[test]
fn a_command_whose_output_nobody_reads_ends_quietly() {
    let world = World::new();
    let sent = world.run(&["run", "hello", "--detach", "--json"]).ended(0);
    let name = sent.lines()[1]["data"]["name"].as_str().unwrap().to_owned();
    world.run(&["watch", &name]).ended(0);
    let table: [(&[&str], i32); 20] = [
        (&["threads"], 0),
        (&["threads", "--json"], 0),
        (&["show", &name], 0),
        (&["show", &name, "--json"], 0),
        (&["show", "nobody"], 7),
        (&["show", "nobody", "--json"], 7),
        (&["status"], 0),
        (&["queue"], 0),
        (&["queue", "drop", &name], 8),
        (&["answer"], 0),
        (&["config", "show"], 0),
        (&["config", "show", "--set", "nothing=1"], 2),
        (&["version"], 0),
        (&["--help"], 0),
        (&["nonsense"], 2),
        (&["verify", &name], 0),
        (&["token", "show"], 0),
        (&["cancel", &name], 0),
        (&["artifacts", "gc", "--dry-run"], 0),
        (&["delete", &name], 8),
    ];
    for (words, code) in table {
        assert_eq!(unread(&world, words), Some(code), "{words:?}");
    }
    // What follows a run leaves it, as Ctrl-C does, and the run goes on.
    assert_eq!(unread(&world, &["run", "hello"]), Some(130));
    assert_eq!(unread(&world, &["run", "hello", "--json"]), Some(130));
    let listed = world.run(&["threads", "--json"]).ended(0).json();
    assert_eq!(listed["threads"].as_array().unwrap().len(), 3);
}

/// A full disk is no reader that went away.
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let world = World::new();
    for words in [
        &["threads"][..],
        &["threads", "--json"],
        &["status"],
        &["config", "show"],
        &["version"],
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let mut command = world.command(words);
        let ended = command.stdout(full.unwrap()).output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(9), "{words:?}: {said}");
        assert!(
            said.contains("What was to be printed could not be written"),
            "{words:?}: {said}"
        );
    }
}

#[test]
fn nothing_that_is_printed_acts_on_a_terminal() {
    let world = World::new();
    let nasty = "a\u{9b}31m\u{7f}\u{202e}b\u{1b}]0;x\u{7}\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}c";
    let sent = world.run(&["run", nasty, "--detach", "--json"]).ended(0);
    let name = sent.lines()[1]["data"]["name"].as_str().unwrap().to_owned();
    world.run(&["watch", &name]).ended(0);
    let commands: [&[&str]; 10] = [
        &["show", &name],
        &["show", &name, "--json"],
        &["threads"],
        &["threads", "--json"],
        &["threads", nasty],
        &["status", "--runs", "all"],
        &["status", "--runs", "all", "--json"],
        &["watch", &name, "--json"],
        &["show", nasty],
        &["show", nasty, "--json"],
    ];
    for words in commands {
        let said = world.run(words);
        let acts = |c: char| c != '\n' && threadline_contract::misleads(c);
        let found: Vec<char> = said
            .out
            .chars()
            .chain(said.err.chars())
            .filter(|c| acts(*c))
            .collect();
        assert_eq!(found, [], "{words:?}: {said:?}");
    }
    let shown = world.thread(&name);
    let message = &shown["thread"]["contextState"]["messages"][0]["text"];
    assert_eq!(message, nasty, "a program reads the same as before");
}
