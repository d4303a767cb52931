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
    assert!(!is_laid_out(&folder, &program));
    lay_out(&folder, &program).unwrap();
    assert!(is_laid_out(&folder, &program));
    assert!(!is_laid_out(&folder, Path::new("/another/program")));
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
    assert!(!link(&openclaw, Path::new("/the/folder")).await.unwrap());
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
        format!("`{openclaw}` refused: starting | Config is read-only.")
    );
    let silent = command(data.path(), "exit 1");
    let fault = link(&silent, Path::new("/f")).await.unwrap_err();
    assert_eq!(
        fault.message,
        format!("`{silent}` refused without a word (exit status: 1).")
    );
}

#[test]
fn of_many_words_the_first_and_the_last_are_told() {
    let said: String = (1..=20).map(|n| format!(" line {n}.\n\n")).collect();
    assert_eq!(
        words_of(&said),
        "line 1. | line 2. | line 3. | line 4. | line 5. | line 6. | … | line 15. | line 16. | line 17. | line 18. | line 19. | line 20"
    );
    assert_eq!(words_of("one.\ntwo.\n"), "one. | two");
}

#[test]
fn a_gateway_has_the_plugin_when_its_settings_say_so() {
    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("openclaw.json");
    let on = json!({"plugins": {"entries": {PLUGIN: {"enabled": true}}}});
    let off = json!({"plugins": {"entries": {PLUGIN: {"enabled": false}}}});
    for (text, has) in [
        (on.to_string(), true),
        (off.to_string(), false),
        ("{}".to_owned(), false),
        ("{ // in words of its own\n}".to_owned(), true),
    ] {
        fs::write(&file, &text).unwrap();
        let settings = Settings::find(|_| Some(file.clone())).unwrap();
        assert_eq!(settings.has_plugin_on(), has, "{text}");
    }
}

#[tokio::test]
async fn a_gateway_that_took_it_up_needs_no_restart() {
    let data = tempfile::tempdir().unwrap();
    let openclaw = command(data.path(), "echo 'Applied in Gateway generation 3.'");
    assert!(link(&openclaw, Path::new("/f")).await.unwrap());
    let put = |loaded, new_files| {
        let (folder, program) = (PathBuf::from("/f"), PathBuf::from("/p"));
        let file = data.path().join("openclaw.json");
        fs::write(&file, "{}").unwrap();
        let same = Settings::find(|_| Some(file.clone())).map(Settings::compare);
        Put {
            folder,
            program,
            settings: same,
            new_files,
            loaded,
        }
    };
    assert_eq!(put(true, true).restart(), Restart::Loaded);
    assert_eq!(put(false, false).restart(), Restart::Nothing);
    assert_eq!(put(false, true).restart(), Restart::Needed);
    let unknown = Put {
        settings: None,
        ..put(false, false)
    };
    assert_eq!(unknown.restart(), Restart::Needed);
}

#[test]
fn without_the_command_there_is_advice() {
    let fault = absent("/nowhere/openclaw");
    assert_eq!(Exit::of_code(fault.code), Exit::Failed);
    assert!(fault.message.contains("--openclaw"), "{fault}");
    assert!(fault.message.contains("--pack"), "{fault}");
}

#[test]
fn an_archive_that_cannot_be_written_is_named_with_its_flag() {
    let file = Path::new("/proc/nowhere/p.tgz");
    let error = atomic::write(file, b"x", Access::Shared).unwrap_err();
    let fault = not_packed(file, &error);
    assert_eq!(fault.code, Code::InvalidRequest);
    assert!(
        fault
            .message
            .starts_with("--pack: /proc/nowhere/p.tgz cannot be written ("),
        "{fault}"
    );
}
