use std::time::Duration;

use pretty_assertions::assert_eq;
use threadline_contract::{AccountId, RuntimeId, Scopes, TokenId, Who};

use super::*;

fn config(root: &Path) -> EngineConfig {
    EngineConfig {
        node: "n".into(),
        renamed: false,
        advertise: None,
        data: root.join("home/data"),
        protected: vec![root.join("home/settings")],
        attachments: root.join("attachments"),
        work_roots: vec![root.join("home")],
        thread_folders: root.join("home/.xworkmate/threads"),
        auto_runtime: RuntimeId::Builtin,
        agent_runtime: RuntimeId::Builtin,
        link_ttl: Duration::from_secs(1),
        lease_ttl: Duration::from_secs(1),
        result_wait: Duration::from_secs(1),
        keep: crate::Keep::FOR_EVER,
        cache_bytes: 0,
        verify_wait: Duration::from_secs(1),
        rules: crate::Rules::default(),
    }
}

fn caller(account: &str) -> Principal {
    Principal {
        account: AccountId::new(account).unwrap(),
        who: Who::Token(TokenId::fresh()),
        label: "test".into(),
        scopes: Scopes::FULL,
    }
}

#[test]
fn only_real_folders_beneath_a_root_count() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let (local, config) = (caller("local"), config(&root));
    std::fs::create_dir_all(root.join("home/project")).unwrap();
    std::fs::create_dir_all(root.join("elsewhere")).unwrap();
    std::fs::create_dir_all(root.join("home/data/tasks")).unwrap();
    std::fs::create_dir_all(root.join("home/settings/deep")).unwrap();
    std::fs::write(root.join("home/file"), "x").unwrap();
    std::os::unix::fs::symlink(root.join("elsewhere"), root.join("home/link")).unwrap();
    let text = |p: &str| root.join(p).display().to_string();

    assert_eq!(check(None, &local, &config), Ok(None));
    assert_eq!(
        check(Some(&text("home/project")), &local, &config),
        Ok(Some(root.join("home/project")))
    );
    // References of the app, not places to work in.
    assert_eq!(
        // B26
        check(Some("/owners/local/user/x/threads/y"), &local, &config),
        Ok(None)
    );
    assert_eq!(
        check(
            Some(&text("home/.xworkmate/threads/draft-1")),
            &local,
            &config
        ),
        Ok(None)
    );
    for bad in [
        "relative".to_owned(),
        text("home/data/tasks"),
        text("home/data"),
        text("home/settings/deep"),
        text("home/missing"),
        text("home/file"),
        text("elsewhere"),
        text("home/link"),
        text("home/project/../../elsewhere"),
        "/".into(),
    ] {
        assert_eq!(
            check(Some(&bad), &local, &config).map_err(|f| f.code),
            Err(Code::WorkdirNotAllowed),
            "{bad}"
        );
    }
}

#[test]
fn nothing_is_told_of_what_lies_outside_the_roots() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let config = config(&root);
    for folder in [
        "home/project",
        "home/data/tasks/theirs",
        "home/settings",
        "outside/folder",
    ] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    std::fs::write(root.join("outside/file"), "x").unwrap();
    std::fs::write(root.join("home/data/token"), "x").unwrap();
    std::fs::write(root.join("home/file"), "x").unwrap();
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(root.join(to), root.join("home").join(name)).unwrap();
    };
    link("outside", "link");
    link("outside/missing", "dangling");
    let said = |path: &str, account: &str| {
        let asked = root.join(path).display().to_string();
        let refused = check(Some(&asked), &caller(account), &config).unwrap_err();
        let told = format!("The working directory `{asked}` ");
        refused.message.replace(&told, "")
    };
    let none = "lies beneath none of the allowed `work_roots`.";
    for outside in [
        "outside",
        "outside/folder",
        "outside/file",
        "outside/missing",
        "outside/file/deeper",
        "home/link",
        "home/link/folder",
        "home/link/file",
        "home/link/missing",
        "home/link/missing/deeper",
        "home/dangling",
        "home/../outside/folder",
        "home/../outside/missing",
    ] {
        let told = [said(outside, "local"), said(outside, "other")];
        assert_eq!(told, [none, none], "{outside}");
    }
    for ours in [
        "home/data",
        "home/data/token",
        "home/data/tasks/theirs",
        "home/data/tasks/missing",
        "home/settings",
        "home/settings/missing",
    ] {
        let told = [said(ours, "local"), said(ours, "other")];
        let own = "is Threadline's own. Choose another folder.";
        assert_eq!(told, [own, none], "{ours}");
    }
    // A `..` is never followed through a place outside.
    let through = |name: &str| {
        let asked = root
            .join("home/../outside")
            .join(name)
            .join("../../home/project");
        check(
            Some(&asked.display().to_string()),
            &caller("other"),
            &config,
        )
    };
    let project = Ok(Some(root.join("home/project")));
    assert_eq!(
        [through("folder"), through("missing")],
        [project.clone(), project]
    );
    // Beneath a root it is said what is wrong.
    assert_eq!(
        [said("home/missing", "other"), said("home/file", "other")],
        [
            "cannot be used: there is no such folder.",
            "is not a folder."
        ]
    );
}
