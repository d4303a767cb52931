use std::path::PathBuf;

use pretty_assertions::assert_eq;

use super::*;

fn sources() -> Sources {
    Sources {
        env: env(&[("HOME", "/home/me")]),
        cwd: "/srv/project".into(),
        ..Sources::default()
    }
}

fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect()
}

fn own(text: &str) -> SourceFile {
    SourceFile {
        path: "/home/me/.config/threadline/threadline.toml".into(),
        text: Ok(text.into()),
        of_folder: false,
    }
}

fn folders(text: &str) -> SourceFile {
    SourceFile {
        path: "/srv/project/threadline.toml".into(),
        text: Ok(text.into()),
        of_folder: true,
    }
}

fn flag(flag: &str, key: &str, value: &str) -> SourceFlag {
    SourceFlag {
        flag: flag.into(),
        key: key.into(),
        value: Some(value.into()),
    }
}

fn mistakes(sources: &Sources) -> Vec<String> {
    let found = load(sources).expect_err("there are mistakes");
    found
        .iter()
        .map(|m| format!("{}: {}", m.origin, m.message))
        .collect()
}

#[test]
fn nothing_needs_to_be_set() {
    let config = load(&sources()).unwrap();
    let want = "\
data                      /home/me/.local/share/threadline                              default
workspaces                /home/me/.xworkmate/threads                                   default
work_roots                /home/me                                                      default
auto_runtime              builtin                                                       default
server.listen             127.0.0.1:8787                                                default
server.allow_remote       false                                                         default
server.public_url         (not set)                                                     default
server.advertise          (not set)                                                     default
server.allowed_origins    http://localhost:*, http://127.0.0.1:*                        default
server.token              (not set)                                                     default
server.pages              false                                                         default
server.rate_per_second    0                                                             default
server.metrics_listen     (not set)                                                     default
store.url                 sqlite:/home/me/.local/share/threadline/threadline.db         default
model.url                 (not set)                                                     default
model.model               (not set)                                                     default
model.key                 (not set)                                                     default
builtin.max_steps         40                                                            default
builtin.demo_pause_ms     150                                                           default
lanes.builtin.max_active  5                                                             default
lanes.builtin.max_queued  20                                                            default
lanes.queue_minutes       0                                                             default
openclaw.url              (not set)                                                     default
openclaw.token            (not set)                                                     default
openclaw.ca               (not set)                                                     default
openclaw.admin            false                                                         default
openclaw.agent            (not set)                                                     default
lanes.openclaw.max_active 5                                                             default
lanes.openclaw.max_queued 20                                                            default
openclaw.silence_minutes  10                                                            default
permissions.policy        ask                                                           default
permissions.wait_minutes  0                                                             default
budgets.short_minutes 10                                                           default
budgets.long_minutes 30                                                            default
budgets.complex_minutes 60                                                   default
hosts                     /home/me/.local/share/threadline/hosts                         default
artifacts.keep_days       0                                                             default
artifacts.keep_bytes      0                                                             default
artifacts.cache_bytes     2147483648                                                    default
bridge.url                (not set)                                                     default
bridge.token              (not set)                                                     default
owner.idle_seconds        60                                                            default
log.level                 info                                                          default
log.format                text                                                          default
";
    let squeezed = |text: &str| -> Vec<String> {
        text.lines()
            .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect()
    };
    assert_eq!(squeezed(&show(&config, true, 200)), squeezed(want));
    assert!(!config.server.listen_chosen);
    assert!(config.model.is_none());
}

#[test]
fn the_last_word_is_the_flags() {
    let mut sources = sources();
    let origins = |sources: &Sources| {
        let config = load(sources).unwrap();
        let shown = config
            .shown
            .iter()
            .find(|s| s.key == "server.listen")
            .unwrap();
        format!("{} {}", config.server.listen, shown.origin)
    };
    sources.files = vec![own("\n[server]\nlisten = \"127.0.0.1:1001\"\n")];
    assert_eq!(
        origins(&sources),
        "127.0.0.1:1001 /home/me/.config/threadline/threadline.toml:3"
    );
    sources
        .files
        .push(folders("server.listen = \"127.0.0.1:1002\""));
    assert_eq!(
        origins(&sources),
        "127.0.0.1:1002 /srv/project/threadline.toml:1"
    );
    sources
        .env
        .extend(env(&[("THREADLINE_LISTEN", "localhost:1003")]));
    assert_eq!(origins(&sources), "127.0.0.1:1003 THREADLINE_LISTEN");
    sources.flags = vec![flag("--listen", "server.listen", "[::1]:1004")];
    assert_eq!(origins(&sources), "[::1]:1004 --listen");
    assert!(load(&sources).unwrap().server.listen_chosen);
}

#[test]
fn all_mistakes_come_at_once_with_their_places() {
    let mut sources = sources();
    sources.files = vec![
        own("auto_runtime = \"moon\"\n[sever]\nlisten = \"x\"\n[builtin]\nmax_steps = \"many\"\n"),
        folders("work_roots = [\"/\"]\n[log]\nlevel = \"inof\"\n"),
    ];
    sources.env.extend(env(&[
        ("THREADLINE_DATABASE", "mysql://root:pw@db"),
        ("THREADLINE_MODLE_URL", "http://x"),
        ("THREADLINE_TOKEN", "short"),
        ("THREADLINE_TEST_POSTGRES", "not ours"),
        ("THREADLINE_LOG_FORMAT", ""),
    ]));
    sources.flags = vec![
        flag("--listen", "server.listen", "8787"),
        flag("--set", "wat", "1"),
    ];
    assert_eq!(
        mistakes(&sources),
        [
            "/home/me/.config/threadline/threadline.toml:1: `auto_runtime` must be the name of a runtime, such as builtin, not \"moon\".",
            "/home/me/.config/threadline/threadline.toml:3: `sever.listen` is not a setting. Did you mean `server.listen`?",
            "/home/me/.config/threadline/threadline.toml:5: `builtin.max_steps` must be a whole number from 1 to 1000, not \"many\".",
            "/srv/project/threadline.toml:1: `work_roots` cannot be set by the file of a folder, because a folder can be anybody's. Set it in your own threadline.toml, with THREADLINE_WORK_ROOTS or with --set.",
            "/srv/project/threadline.toml:3: `log.level` must be off, error, warn, info, debug or trace, or a list such as info,threadline_engine=debug, not \"inof\".",
            "THREADLINE_DATABASE: `store.url` must be sqlite:<path> or postgres://…, not what is set.",
            "THREADLINE_MODLE_URL: there is no such setting. Did you mean THREADLINE_MODEL_URL?",
            "THREADLINE_TOKEN: `server.token` must be at least 16 characters long, not what is set.",
            "--listen: `server.listen` must be an address and a port, such as 127.0.0.1:8787, [::1]:8787 or localhost:8787, not \"8787\".",
            "--set: `wat` is not a setting. `threadline config show` lists them all.",
        ]
    );
}

#[test]
fn a_broken_file_is_told_line_by_line() {
    let mut sources = sources();
    sources.files = vec![own("data = \n\n[server\nlisten = 5\n")];
    let found = mistakes(&sources);
    let wrong = |line: usize| {
        format!("/home/me/.config/threadline/threadline.toml:{line}: this is not TOML: ")
    };
    assert!(
        found.len() == 2 && found[0].starts_with(&wrong(1)) && found[1].starts_with(&wrong(3)),
        "each mistake once: {found:?}"
    );
    sources.files = vec![own(
        "auto_runtime = \"moon\"\n[log]\nformat = \"json\"\nlevel = \"info\n[nonsense]\nx = 1\n",
    )];
    let found = mistakes(&sources);
    assert!(
        found.len() == 2
            && found[0].contains(":1: `auto_runtime`")
            && found[1].starts_with(&wrong(4)),
        "what stands before it counts, what stands after it may mean anything: {found:?}"
    );
    assert_eq!(
        Loaded::of(&sources).config.log.format,
        LogFormat::Json,
        "what could be read is there"
    );
    let unreadable = SourceFile {
        text: Err("permission denied".into()),
        ..own("")
    };
    sources.files = vec![unreadable];
    assert_eq!(
        mistakes(&sources),
        [
            "/home/me/.config/threadline/threadline.toml:1: the file cannot be read: permission denied"
        ]
    );
}

#[test]
fn a_model_is_whole_or_not_there() {
    let mut sources = sources();
    sources.env.extend(env(&[
        ("THREADLINE_MODEL_URL", "http://127.0.0.1:11434/v1/"),
        ("THREADLINE_MODEL", "qwen3"),
    ]));
    let model = load(&sources).unwrap().model.unwrap();
    assert_eq!(
        (model.url.as_str(), model.model.as_str(), model.key),
        ("http://127.0.0.1:11434/v1", "qwen3", None)
    );

    sources.env.remove("THREADLINE_MODEL");
    sources
        .env
        .extend(env(&[("THREADLINE_MODEL_MODEL", "qwen3")]));
    assert_eq!(load(&sources).unwrap().model.unwrap().model, "qwen3");
    sources.env.extend(env(&[("THREADLINE_MODEL", "other")]));
    assert_eq!(
        mistakes(&sources),
        [
            "THREADLINE_MODEL_MODEL: says something else than THREADLINE_MODEL, and both mean `model.model`. Unset one."
        ]
    );

    let mut sources = super::tests::sources();
    sources.env.extend(env(&[("THREADLINE_MODEL_KEY", "sk-1")]));
    assert_eq!(
        mistakes(&sources),
        [
            "THREADLINE_MODEL_KEY: `model.key` is set, but `model.url` is not. Set it too (THREADLINE_MODEL_URL)."
        ]
    );
}

#[test]
fn a_folder_cannot_have_keys_sent_to_itself() {
    let mut sources = sources();
    sources.env.extend(env(&[
        ("THREADLINE_MODEL_KEY", "sk-1"),
        ("THREADLINE_BRIDGE_TOKEN", "t-1"),
    ]));
    sources.files = vec![folders(
        "model.url = \"https://evil.example\"\nmodel.model = \"m\"\nbridge.url = \"https://evil.example\"",
    )];
    assert_eq!(
        mistakes(&sources),
        [
            "/srv/project/threadline.toml:1: `model.url` would send your `model.key` (THREADLINE_MODEL_KEY) to an address that this folder chose. Set `model.url` yourself, beside the key.",
            "/srv/project/threadline.toml:3: `bridge.url` would send your `bridge.token` (THREADLINE_BRIDGE_TOKEN) to an address that this folder chose. Set `bridge.url` yourself, beside the key.",
        ]
    );
}

#[test]
fn paths_are_relative_to_where_they_were_written() {
    let mut sources = sources();
    sources.files = vec![
        own("workspaces = \"~/files\"\nwork_roots = [\"code\", \"/srv\"]"),
        folders("data = \".threadline\""),
    ];
    let config = load(&sources).unwrap();
    assert_eq!(config.data, PathBuf::from("/srv/project/.threadline"));
    assert_eq!(config.workspaces, PathBuf::from("/home/me/files"));
    assert_eq!(
        config.work_roots,
        [
            PathBuf::from("/home/me/.config/threadline/code"),
            PathBuf::from("/srv")
        ]
    );
    sources.env.extend(env(&[
        ("THREADLINE_DATA", "d"),
        ("THREADLINE_WORK_ROOTS", "/a:b"),
    ]));
    let config = load(&sources).unwrap();
    assert_eq!(config.data, PathBuf::from("/srv/project/d"));
    assert_eq!(
        config.work_roots,
        [PathBuf::from("/a"), PathBuf::from("/srv/project/b")]
    );
}

#[test]
fn a_machine_without_a_home_is_told_what_to_set() {
    let mut sources = sources();
    sources.env.clear();
    assert_eq!(
        mistakes(&sources),
        [
            "HOME: is not set, so `data` has no place. Set HOME or THREADLINE_DATA.",
            "HOME: is not set, so `workspaces` has no place. Set HOME or THREADLINE_WORKSPACES.",
        ]
    );
    sources.env = env(&[("THREADLINE_DATA", "/d"), ("THREADLINE_WORKSPACES", "/w")]);
    assert_eq!(load(&sources).unwrap().work_roots, Vec::<PathBuf>::new());
    sources.env = env(&[
        ("HOME", "/h"),
        ("XDG_DATA_HOME", "/x"),
        ("XDG_CONFIG_HOME", "relative"),
    ]);
    assert_eq!(load(&sources).unwrap().data, PathBuf::from("/x/threadline"));
}

#[test]
fn secrets_are_never_shown() {
    let mut sources = sources();
    sources.env.extend(env(&[
        ("THREADLINE_TOKEN", "a-token-of-my-own"),
        ("THREADLINE_DATABASE", "postgres://me:hunter2@db/x"),
        ("THREADLINE_MODEL_URL", "https://m.example/v1"),
        ("THREADLINE_MODEL", "m"),
        ("THREADLINE_MODEL_KEY", "sk-secret"),
    ]));
    let config = load(&sources).unwrap();
    let all = format!("{} {} {config:?}", show(&config, true, 200), json(&config));
    // What is shown is written by `show` and `json` alone; the list beneath them is not for logs.
    for hidden in ["a-token-of-my-own", "hunter2", "sk-secret"] {
        assert!(!all.contains(hidden), "{hidden} is in {all}");
    }
}

#[test]
fn a_wrong_address_is_shown_without_its_password_and_key() {
    let mut sources = sources();
    sources.env.extend(env(&[
        (
            "THREADLINE_MODEL_URL",
            "http://user:pass@127.0.0.1:1/v1?api_key=sk",
        ),
        ("THREADLINE_MODEL", "m"),
    ]));
    let mistakes = load(&sources).unwrap_err();
    let said: Vec<&str> = mistakes.iter().map(|m| m.message.as_str()).collect();
    assert_eq!(
        said,
        [
            "`model.url` must be an address such as https://example.org, not \"http://…@127.0.0.1:1/v1?…\"."
        ]
    );
}

#[test]
fn a_server_beyond_this_machine_lets_nobody_into_its_folders() {
    let mut sources = sources();
    sources.flags = vec![flag("--listen", "server.listen", "0.0.0.0:8787")];
    assert_eq!(load(&sources).unwrap().work_roots, Vec::<PathBuf>::new());
}

#[test]
fn every_setting_is_documented() {
    let page = include_str!("../../../../docs/configuration.md");
    for key in &KEYS {
        let row = format!("| `{}` | `{}` |", key.name, key.env[0]);
        assert!(
            page.contains(&row),
            "docs/configuration.md lacks a row that begins: {row}"
        );
        assert!(
            page.contains(key.about),
            "docs/configuration.md lacks: {}",
            key.about
        );
    }
}

#[test]
fn what_was_perhaps_meant_is_said() {
    let said = |name: &str| {
        let mut sources = sources();
        sources.env.extend(env(&[(name, "1")]));
        mistakes(&sources).remove(0)
    };
    for (typed, meant) in [
        ("THREADLINE_LISTN", "THREADLINE_LISTEN"),
        ("THREADLINE_MODEL_NAME", "THREADLINE_MODEL"),
        ("THREADLINE_DATABASE_URL", "THREADLINE_DATABASE"),
        ("THREADLINE_LOG_LEVEL", "THREADLINE_LOG"),
    ] {
        assert_eq!(
            said(typed),
            format!("{typed}: there is no such setting. Did you mean {meant}?")
        );
    }
    assert_eq!(
        said("THREADLINE_FOO"),
        "THREADLINE_FOO: there is no such setting. `threadline config show` lists them all."
    );
    let mut sources = sources();
    let bare = |key: &str| SourceFlag {
        value: None,
        ..flag("--set", key, "")
    };
    sources.flags = vec![
        flag("--set", "model.name", "m"),
        bare("log.level"),
        bare("wat"),
    ];
    assert_eq!(
        mistakes(&sources),
        [
            "--set: `model.name` is not a setting. Did you mean `model.model`?",
            "--set: `log.level` needs a value: --set log.level=…",
            "--set: `wat` must be KEY=VALUE, such as log.level=debug.",
        ]
    );
}

#[test]
fn what_could_be_read_is_shown_beside_what_is_wrong() {
    let mut sources = sources();
    sources.files = vec![own("data = 5\nworkspaces = \"/w\"")];
    sources.env.extend(env(&[("THREADLINE_LOG_FORMAT", "xml")]));
    let Loaded { config, mistakes } = Loaded::of(&sources);
    assert_eq!(mistakes.len(), 2);
    assert_eq!(
        config.data,
        PathBuf::new(),
        "the usual folder is not the one that was meant"
    );
    let shown = show(&config, false, 100);
    let line = |key: &str| {
        shown
            .lines()
            .find(|l| l.starts_with(key))
            .unwrap()
            .to_owned()
    };
    assert_eq!(line("data"), "data                       (wrong)");
    assert_eq!(line("workspaces"), "workspaces                 /w");
    assert_eq!(line("store.url"), "store.url                  (not set)");
    assert_eq!(line("log.format"), "log.format                 (wrong)");
}

#[test]
fn settings_that_do_not_fit_stand_beneath_each_other() {
    let mut sources = sources();
    sources.env.extend(env(&[(
        "THREADLINE_DATA",
        "/a/rather/long/path/to/a/data/folder",
    )]));
    let config = load(&sources).unwrap();
    for width in [30, 50, 80, 120] {
        let shown = show(&config, true, width);
        let rows: Vec<&str> = shown.lines().collect();
        assert!(
            rows.iter().all(|l| l.trim_end() == *l),
            "no space at an end: {shown}"
        );
        let long: Vec<&&str> = rows.iter().filter(|l| l.chars().count() > width).collect();
        // A word that is longer than the line stays whole.
        assert!(
            long.iter().all(|l| l.split_whitespace().count() == 1
                || l.trim_start().starts_with("http://")),
            "{width}: {long:?}"
        );
    }
    assert!(
        show(&config, true, 50)
            .starts_with("data\n  /a/rather/long/path/to/a/data/folder\n  THREADLINE_DATA\n")
    );
}

#[test]
fn files_are_kept_for_ever_unless_somebody_says_so() {
    assert_eq!(load(&sources()).unwrap().keep, Keep::FOR_EVER);
    let mut some = sources();
    some.files
        .extend([own("[artifacts]\nkeep_days = 90\nkeep_bytes = \"1.5GB\"\n")]);
    let keep = Keep {
        max_age: Some(Duration::from_secs(90 * 24 * 60 * 60)),
        max_bytes: Some(1_500_000_000),
    };
    assert_eq!(load(&some).unwrap().keep, keep);
    some.files = vec![own("[artifacts]\nkeep_bytes = \"much\"\n")];
    assert_eq!(
        mistakes(&some),
        [
            "/home/me/.config/threadline/threadline.toml:2: `artifacts.keep_bytes` must be a size such as 500MB, 10GB or 2GiB, not \"much\"."
        ]
    );
    some.files = vec![folders("[artifacts]\nkeep_days = 1\n")];
    assert!(
        mistakes(&some)[0].contains("`artifacts.keep_days` cannot be set by the file of a folder"),
        "whoever made a folder must not remove files"
    );
}

#[test]
fn a_gateway_that_is_set_counts_before_the_demonstration() {
    let auto = |text: &str| {
        let mut sources = sources();
        sources.files = vec![own(text)];
        load(&sources).unwrap().auto_runtime
    };
    let gateway = "openclaw.url = \"ws://127.0.0.1:18789\"\n";
    let model = "model.url = \"http://127.0.0.1:1/v1\"\nmodel.model = \"m\"\n";
    assert_eq!(auto(gateway), RuntimeId::OpenClaw);
    assert_eq!(auto(model), RuntimeId::Builtin);
    assert_eq!(auto(&format!("{gateway}{model}")), RuntimeId::Builtin);
    assert_eq!(
        auto(&format!("auto_runtime = \"builtin\"\n{gateway}")),
        RuntimeId::Builtin
    );
}

#[test]
fn settings_hosts_and_a_database_elsewhere_are_protected() {
    let mut sources = sources();
    sources.files = vec![own(""), folders("")];
    sources.flags = vec![
        flag("--set", "hosts", "/run/hosts"),
        flag("--set", "store.url", "sqlite:///srv/db/t.db?mode=rwc"),
    ];
    let config = load(&sources).unwrap();
    let want = [
        "/home/me/.config/threadline",
        "/home/me/.config/threadline/threadline.toml",
        "/srv/project/threadline.toml",
        "/srv/db/t.db",
        "/srv/db/t.db-wal",
        "/srv/db/t.db-shm",
        "/srv/db/t.db-journal",
        "/home/me/.xworkmate/threads",
        "/run/hosts",
        "/proc",
    ];
    assert_eq!(config.protected, want.map(PathBuf::from));
}
