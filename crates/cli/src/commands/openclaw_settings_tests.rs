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

#[test]
fn what_was_changed_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("openclaw.json");
    fs::write(&file, "{}").unwrap();
    let find =
        || Settings::find(|name| (name == "OPENCLAW_CONFIG_PATH").then(|| file.clone())).unwrap();
    let same = find().compare();
    let shown = file.display();
    assert_eq!(
        same.said(),
        format!("Nothing had to be changed in {shown}.\n")
    );
    let before = find();
    fs::write(&file, "{plugins: {}}").unwrap();
    fs::write(folder.path().join("openclaw.json.bak"), "{}").unwrap();
    let changed = before.compare();
    assert!(
        changed.said().ends_with(&format!("{shown}.bak.\n")),
        "{}",
        changed.said()
    );
    assert_eq!(
        changed.told(),
        json!({"file": file, "changed": true, "before": folder.path().join("openclaw.json.bak")})
    );
}
