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
fn a_plain_sidecar_is_read_as_any_other_command() {
    let typed = |line: &str| -> Vec<OsString> { line.split(' ').map(Into::into).collect() };
    for line in [
        "threadline openclaw-sidecar",
        "threadline openclaw-sidecar --workspace ~/ws --tmp /t --media m --data /d",
    ] {
        let plain = plain_sidecar(&typed(line)).unwrap();
        let usual = Cli::try_parse_from(typed(line)).unwrap();
        assert_eq!(format!("{plain:?}"), format!("{usual:?}"));
    }
    // These are for the usual way, which knows what to say about them.
    for line in [
        "threadline",
        "threadline run",
        "threadline openclaw-sidecar --help",
        "threadline openclaw-sidecar --tmp",
        "threadline openclaw-sidecar --tmp --media",
        "threadline openclaw-sidecar --tmp a --tmp b",
        "threadline openclaw-sidecar --json x",
        "threadline --json openclaw-sidecar",
        "threadline openclaw-sidecar --set a=b",
        "threadline openclaw-sidecar --tmp=a",
    ] {
        assert!(plain_sidecar(&typed(line)).is_none(), "{line}");
    }
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

#[test]
fn a_policy_is_read_where_it_is_typed() {
    let policy = |text: &str| {
        let cli = Cli::try_parse_from(["threadline", "run", "x", "--permissions", text]);
        let refused = |e: clap::Error| e.to_string().lines().next().unwrap_or_default().to_owned();
        match cli.map_err(refused)?.command {
            Command::Run(run) => Ok(run.permissions.unwrap().to_string()),
            _ => unreachable!(),
        }
    };
    assert_eq!(
        policy("read=allow,execute=reject").as_deref(),
        Ok("ask,read=allow,execute=reject")
    );
    assert_eq!(
        policy("always"),
        Err("error: invalid value 'always' for '--permissions <POLICY>': `always` is no rule; use ask, allow or reject".to_owned())
    );
}
