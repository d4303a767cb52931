use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt as _};

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn every_file_of_the_plugin_is_carried() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../openclaw-plugin");
    let source = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(project.join(folder)).unwrap();
        let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".js")).collect()
    };
    let mut there: BTreeSet<String> = source(".").into_iter().collect();
    there.extend(source("src").into_iter().map(|name| format!("src/{name}")));
    there.extend(["openclaw.plugin.json".to_owned(), "package.json".to_owned()]);
    let carried: BTreeSet<String> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(carried, there);
}

#[test]
fn the_plugin_has_our_version() {
    let text = |name: &str| FILES.iter().find(|(n, _)| *n == name).unwrap().1;
    let package: serde_json::Value = serde_json::from_str(text("package.json")).unwrap();
    assert_eq!(package["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(package["name"], PLUGIN);
    assert!(text("index.js").contains(&format!("VERSION = \"{}\"", env!("CARGO_PKG_VERSION"))));
}

/// A stand-in for the gateway's command, which notes how it was called.
fn command(folder: &Path, body: &str) -> String {
    let file = folder.join("openclaw");
    fs::write(&file, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file.display().to_string()
}

#[test]
fn the_folder_is_laid_out_anew_each_time() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("plugin");
    let program = data.path().join("program");
    fs::write(&program, "one").unwrap();
    lay_out(&folder, &program).unwrap();
    fs::write(folder.join("src/of-an-earlier-version.js"), "x").unwrap();
    lay_out(&folder, &program).unwrap();
    assert!(!folder.join("src/of-an-earlier-version.js").exists());
    for (name, text) in FILES {
        assert_eq!(fs::read_to_string(folder.join(name)).unwrap(), text);
    }
    assert_eq!(fs::read_link(folder.join(PROGRAM)).unwrap(), program);
}

#[tokio::test]
async fn the_gateways_command_is_asked_to_link_it_and_to_switch_it_on() {
    let data = tempfile::tempdir().unwrap();
    let noted = data.path().join("noted");
    let openclaw = command(data.path(), &format!("echo \"$@\" >> {}", noted.display()));
    link(&openclaw, Path::new("/the/folder")).await.unwrap();
    assert_eq!(
        fs::read_to_string(noted).unwrap(),
        "plugins install --link /the/folder --force --accept-capabilities\n\
         plugins enable openclaw-multi-session-plugins --accept-capabilities\n"
    );
}

#[tokio::test]
async fn what_it_says_last_is_told() {
    let data = tempfile::tempdir().unwrap();
    let openclaw = command(
        data.path(),
        "echo starting; echo 'Config is read-only' >&2; exit 3",
    );
    let fault = link(&openclaw, Path::new("/f")).await.unwrap_err();
    assert_eq!(fault.code, Code::ProviderUnavailable);
    assert_eq!(
        fault.message,
        format!("`{openclaw}` refused: starting Config is read-only.")
    );
}

#[tokio::test]
async fn without_the_command_there_is_advice() {
    let fault = link("/nowhere/openclaw", Path::new("/f"))
        .await
        .unwrap_err();
    assert!(fault.message.contains("--openclaw"), "{fault}");
    assert!(fault.message.contains("--pack"), "{fault}");
}
