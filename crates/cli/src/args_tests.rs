use clap::{CommandFactory as _, Parser as _};
use pretty_assertions::assert_eq;

use super::*;

#[test]
fn the_command_line_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn flags_say_what_they_set() {
    let set = |words: &[&str]| -> Vec<String> {
        let cli = Cli::try_parse_from(words).unwrap();
        cli.settings()
            .into_iter()
            .map(|f| match f.value {
                Some(value) => format!("{} {}={value}", f.flag, f.key),
                None => format!("{} {}", f.flag, f.key),
            })
            .collect()
    };
    assert_eq!(
        set(&[
            "threadline",
            "serve",
            "--listen",
            "[::1]:1",
            "--allow-remote",
            "--data",
            "d",
            "--set",
            "log.level = debug"
        ]),
        [
            "--set log.level= debug",
            "--data data=d",
            "--listen server.listen=[::1]:1",
            "--allow-remote server.allow_remote=true"
        ]
    );
    assert_eq!(
        set(&["threadline", "run", "x", "--bridge", "http://b"]),
        ["--bridge bridge.url=http://b"]
    );
    assert_eq!(
        set(&["threadline", "threads", "--set", "wat"]),
        ["--set wat"]
    );
}

#[test]
fn what_contradicts_itself_is_refused() {
    for words in [
        &["threadline", "run", "x", "--detach", "--out", "d"][..],
        &["threadline", "run", "x", "--new-session"],
        &[
            "threadline",
            "run",
            "x",
            "--thread",
            "t",
            "--bridge",
            "http://b",
        ],
        &["threadline", "threads", "--limit", "0"],
        &["threadline", "show"],
    ] {
        let refused = Cli::try_parse_from(words).map(|_| ()).unwrap_err();
        assert_eq!(refused.exit_code(), 2, "{words:?}");
    }
}

#[test]
fn every_command_is_in_the_documentation() {
    let page = include_str!("../../../docs/cli.md");
    for command in Cli::command()
        .get_subcommands()
        .filter(|c| !c.is_hide_set())
    {
        let name = command.get_name();
        assert!(
            page.contains(&format!("`threadline {name}")),
            "docs/cli.md lacks {name}"
        );
        for flag in command.get_arguments().filter_map(|a| a.get_long()) {
            assert!(
                page.contains(&format!("--{flag}")),
                "docs/cli.md lacks {name} --{flag}"
            );
        }
    }
}
