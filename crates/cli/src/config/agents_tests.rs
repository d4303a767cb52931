use pretty_assertions::assert_eq;

use super::*;
use crate::config::{SourceFile, SourceFlag};

fn read(files: &[(&str, bool)], flags: &[(&str, &str)]) -> Agents {
    let files = files.iter().map(|(text, of_folder)| SourceFile {
        path: "/c/threadline.toml".into(),
        text: Ok((*text).to_owned()),
        of_folder: *of_folder,
    });
    let flags = flags.iter().map(|(key, value)| SourceFlag {
        flag: "--set".into(),
        key: (*key).to_owned(),
        value: Some((*value).to_owned()),
    });
    Agents::read(&Sources {
        files: files.collect(),
        flags: flags.collect(),
        ..Sources::default()
    })
}

#[test]
fn known_agents_are_there_unasked() {
    let (agents, shown, mistakes) = read(&[], &[]).parts();
    let names: Vec<(&str, bool)> = agents
        .iter()
        .map(|a| (a.name.as_str(), a.configured))
        .collect();
    let want = ["codex", "gemini", "hermes", "opencode"].map(|name| (name, false));
    assert_eq!((names, shown.len(), mistakes), (want.to_vec(), 0, vec![]));
}

#[test]
fn any_agent_comes_by_its_command() {
    let text = r#"
[agents.mine]
command = ["/opt/my agent", "acp"]
pass = ["MINE_*"]
turn_minutes = 0
startup_seconds = 5
max_active = 2
env = { KEY = "s3cret" }
[agents.gemini]
env.GEMINI_MODEL = "flash"
"#;
    let flags = [
        ("agents.mine.idle_minutes", "1"),
        ("agents.mine.env.KEY", "other"),
        ("agents.codex.command", "npx codex-acp"),
    ];
    let (agents, shown, mistakes) = read(&[(text, false)], &flags).parts();
    assert_eq!(mistakes, vec![]);
    let of = |name: &str| agents.iter().find(|a| a.name == name).unwrap().clone();
    let mut want = AgentConfig::new("mine", vec!["/opt/my agent".into(), "acp".into()]);
    want.pass = vec!["MINE_*".into()];
    want.turn = None;
    want.startup = Duration::from_secs(5);
    want.lane.max_active = 2;
    want.idle = Duration::from_secs(60);
    want.env = [("KEY".to_owned(), "other".to_owned())].into();
    assert_eq!(of("mine"), want);
    assert_eq!(of("codex").command, ["npx", "codex-acp"]);
    assert_eq!(of("gemini").command, ["gemini", "--acp"]);
    assert_eq!(
        of("gemini").env,
        [("GEMINI_MODEL".to_owned(), "flash".to_owned())].into()
    );
    let key = shown.iter().find(|s| s.key == "agents.mine.env.KEY");
    let key = key.map(|s| (s.secret, s.origin.to_string()));
    assert_eq!(key, Some((true, "--set".to_owned())));
}

#[test]
fn every_mistake_is_told() {
    let text = r#"
[agents.mine]
turn_minutes = 3
[agents.builtin]
command = ["x"]
[agents.two]
command = []
comand = ["x"]
max_active = 0
[agents.three]
env = "x"
"#;
    let folder = "[agents.evil]\ncommand = [\"rm\"]\n";
    let (agents, _, mistakes) =
        read(&[(text, false), (folder, true)], &[("agents.x", "y")]).parts();
    assert_eq!(agents.len(), 4);
    let told: Vec<String> = mistakes
        .iter()
        .map(|m| format!("{}: {}", m.origin, m.message))
        .collect();
    let want = [
        "/c/threadline.toml:5: `builtin` cannot be the name of an agent. Use up to 32 small letters, digits, `-` and `_`.",
        "/c/threadline.toml:11: `agents.three.env` is not a setting. Did you mean `env`?",
        "/c/threadline.toml:8: `agents.two.comand` is not a setting. Did you mean `command`?",
        "/c/threadline.toml:7: `agents.two.command` must be a list of texts, such as [\"my-agent\", \"--acp\"], not [].",
        "/c/threadline.toml:9: `agents.two.max_active` must be a whole number from 1 to 1000, not 0.",
        "/c/threadline.toml:1: `agents` cannot be set by the file of a folder, because a folder can be anybody's. Set them in your own threadline.toml or with --set.",
        "--set: `agents.x` must be agents.NAME.FIELD=VALUE.",
        "/c/threadline.toml:3: `agents.mine` needs its `command`, such as [\"mine\", \"acp\"].",
    ];
    let (mut told, mut want) = (told, want.map(str::to_owned).to_vec());
    told.sort();
    want.sort();
    assert_eq!(told, want);
}

#[test]
fn flags_reach_the_background_process_as_a_variable() {
    let flag = |key: &str, value: &str| SourceFlag {
        flag: "--set".into(),
        key: key.into(),
        value: Some(value.into()),
    };
    let flags = [
        flag("agents.mine.command", "[\"my agent\", \"acp\"]"),
        flag("agents.mine.turn_minutes", "7"),
        flag("agents.mine.env.KEY", "v"),
    ];
    let before = r#"{"mine": {"max_active": 3, "env": {"A": "b"}}}"#;
    let text = as_variable(Some(before), &flags).unwrap();
    let sources = Sources {
        env: [(VARIABLE.to_owned(), text)].into(),
        ..Sources::default()
    };
    let (agents, shown, mistakes) = Agents::read(&sources).parts();
    assert_eq!(mistakes, vec![]);
    let mut want = AgentConfig::new("mine", vec!["my agent".into(), "acp".into()]);
    want.turn = Some(Duration::from_secs(7 * 60));
    want.lane.max_active = 3;
    want.env = [("A", "b"), ("KEY", "v")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    assert_eq!(agents.iter().find(|a| a.name == "mine"), Some(&want));
    assert!(shown.iter().all(|s| s.origin.to_string() == VARIABLE));
}
