use std::fs;

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn they_are_where_the_gateways_command_looks() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("home/.openclaw")).unwrap();
    for file in ["home/.openclaw/openclaw.json", "openclaw.json", "mine.json"] {
        fs::write(at(file), "{}").unwrap();
    }
    let found = |set: &[(&str, &str)]| {
        let of = |name: &str| Some(at(set.iter().find(|(n, _)| *n == name)?.1));
        Settings::find(of).map(|settings| settings.file)
    };
    let all = [
        ("OPENCLAW_CONFIG_PATH", "mine.json"),
        ("OPENCLAW_STATE_DIR", "."),
        ("OPENCLAW_HOME", "home"),
        ("HOME", "nowhere"),
    ];
    assert_eq!(found(&all), Some(at("mine.json")));
    assert_eq!(found(&all[1..]), Some(at("./openclaw.json")));
    assert_eq!(found(&all[2..]), Some(at("home/.openclaw/openclaw.json")));
    assert_eq!(found(&all[3..]), None);
    assert_eq!(found(&[]), None);
}

fn settings(set: Value) -> Settings {
    Settings {
        file: PathBuf::from("/home/a b/openclaw.json"),
        text: set.to_string().into_bytes(),
        set: Some(set),
    }
}

#[test]
fn what_was_changed_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("openclaw.json");
    let write = |text: &str| fs::write(&file, text).unwrap();
    write(r#"{"plugins": {"deny": ["openclaw-multi-session-plugins"], "allow": ["x"]}}"#);
    let find =
        || Settings::find(|name| (name == "OPENCLAW_CONFIG_PATH").then(|| file.clone())).unwrap();
    let same = find().compare();
    let shown = file.display();
    assert_eq!(
        same.said(),
        format!("Nothing had to be changed in {shown}.\n")
    );
    let before = find();
    write(
        r#"{"plugins": {"deny": [], "allow": ["x", "openclaw-multi-session-plugins"],
            "load": {"paths": ["/p"]}, "entries": {"openclaw-multi-session-plugins": {"enabled": true}}}}"#,
    );
    fs::write(folder.path().join("openclaw.json.bak"), "{}").unwrap();
    let changed = before.compare();
    assert_eq!(
        changed.said(),
        format!(
            "In {shown} it was added to `plugins.load.paths`, added to `plugins.allow`, taken out of \
             `plugins.deny`, added to `plugins.entries`.\nThe gateway's command keeps no comments; \
             what was there before is in {shown}.bak.\n"
        )
    );
    assert_eq!(
        changed.told(),
        json!({
            "file": file, "changed": true, "before": folder.path().join("openclaw.json.bak"),
            "changes": [
                "added to `plugins.load.paths`", "added to `plugins.allow`",
                "taken out of `plugins.deny`", "added to `plugins.entries`",
            ],
        })
    );
    // With comments only the gateway's own command understands it.
    write("{} // mine");
    let before = find();
    write("{}");
    let said = before.compare().said();
    assert!(
        said.starts_with(&format!("{shown} was changed for it.")),
        "{said}"
    );
}

#[test]
fn what_keeps_the_plugin_out_is_named() {
    let out = |set: Value| settings(set).keeping_out();
    assert_eq!(out(json!({})), Vec::<String>::new());
    assert_eq!(
        out(json!({"plugins": {"allow": [], "deny": ["x"]}})),
        Vec::<String>::new()
    );
    assert_eq!(
        out(json!({"plugins": {
            "enabled": false, "allow": ["x"], "deny": [PLUGIN], "entries": {PLUGIN: {"enabled": false}},
        }})),
        [
            "`plugins.enabled` is false",
            "`plugins.deny` names it",
            "`plugins.allow` does not name it",
            "`plugins.entries.openclaw-multi-session-plugins.enabled` is false",
        ]
    );
}

#[test]
fn the_lines_can_be_pasted_and_show_no_token() {
    let gateway = |gateway: Value| settings(json!({"gateway": gateway}));
    let all =
        |settings: Option<&Settings>, node: bool| exports(settings, |name| node && name == "node");
    let typed = [
        "openclaw gateway auth-token --show",
        "read -rs THREADLINE_OPENCLAW_TOKEN; export THREADLINE_OPENCLAW_TOKEN",
    ];
    let here = gateway(json!({"port": 19001, "auth": {"token": "secret"}}));
    assert_eq!(
        all(Some(&here), true),
        [
            "export THREADLINE_OPENCLAW_URL=ws://127.0.0.1:19001",
            "export THREADLINE_OPENCLAW_TOKEN=\"$(node -p 'JSON.parse(require(\"fs\").readFileSync(process.argv[1])).gateway.auth.token' '/home/a b/openclaw.json')\"",
        ]
    );
    assert_eq!(all(Some(&here), false)[1..], typed);
    let elsewhere = gateway(json!({"tls": {"enabled": true}, "auth": {"token": "${TOKEN}"}}));
    let lines = all(Some(&elsewhere), true);
    assert_eq!(
        lines[0],
        "export THREADLINE_OPENCLAW_URL=wss://127.0.0.1:18789"
    );
    assert_eq!(lines[1..], typed);
    assert_eq!(
        all(None, true)[0],
        "export THREADLINE_OPENCLAW_URL=ws://127.0.0.1:18789"
    );
}
