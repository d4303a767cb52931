//! A folder that the user named, where others work too.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{fs, os::unix::fs::symlink, path::Path};

use common::{World, age, copied, omit, put, run, session, settle, tree};
use pretty_assertions::assert_eq;
use threadline_artifacts::{Change, ChangeKind, ChangeSummary, Error, Listed, WorkFolder};
use threadline_contract::OmitReason;

fn content(root: &Path, path: &str) -> String {
    fs::read_to_string(root.join(path)).unwrap()
}

fn users_folder(w: &World) -> (std::path::PathBuf, WorkFolder) {
    let path = w.temp.path().join("project");
    fs::create_dir_all(&path).unwrap();
    (path.clone(), WorkFolder::User(path))
}

#[test]
fn in_a_users_folder_only_named_and_declared_files_are_taken() {
    let w = World::new();
    let (user, folder) = users_folder(&w);
    for path in [
        "old.md",
        "report.pdf",
        "edited.rs",
        "removed.rs",
        "stale.pdf",
    ] {
        put(&user, path, "before");
        age(&user, path, 1_000);
    }
    settle();
    assert_eq!(
        w.ws.list_before(&w.session, &w.run, &folder).unwrap(),
        Listed::Taken
    );
    put(&user, "named.md", "named");
    put(&user, "report.pdf", "made now");
    put(&user, "edited.rs", "by the user, perhaps");
    put(&user, "unnamed.md", "whose?");
    put(&user, ".git/index", "x");
    put(&user, ".config/app.toml", "named too");
    fs::remove_file(user.join("removed.rs")).unwrap();
    symlink("/etc", user.join("link")).unwrap();
    let before = tree(&user);

    let named = [
        user.join("named.md").to_str().unwrap().to_owned(),
        ".config/app.toml".into(),
        "old.md".into(),
    ];
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    let collected = w
        .collect_from(&folder, &named, &["*.pdf", "**/*.none"])
        .unwrap();
    assert_eq!(
        copied(&collected),
        [".config/app.toml", "named.md", "report.pdf"]
    );
    assert_eq!(
        collected.omitted.named,
        [
            omit("link", OmitReason::Symlink),
            omit("old.md", OmitReason::ChangedOutsideRun)
        ]
    );
    let change = |path: &str, kind| Change {
        path: path.to_owned(),
        kind,
    };
    assert_eq!(
        collected.summary,
        Some(ChangeSummary {
            created: 1,
            modified: 1,
            removed: 1,
            first: vec![
                change("edited.rs", ChangeKind::Modified),
                change("removed.rs", ChangeKind::Removed),
                change("unnamed.md", ChangeKind::Created),
            ],
            complete: true,
        })
    );
    assert_eq!(content(&w.scope(), "report.pdf"), "made now");
    assert_eq!(w.export().artifacts.len(), 3);
    assert_eq!(tree(&user), before, "nothing of the user's was touched");
}

#[test]
fn a_long_summary_names_the_first_fifty() {
    let w = World::new();
    let (user, folder) = users_folder(&w);
    w.ws.list_before(&w.session, &w.run, &folder).unwrap();
    for i in 0..120 {
        put(&user, &format!("f{i:03}"), "x");
    }
    let collected = w.collect_from(&folder, &[], &[]).unwrap();
    let summary = collected.summary.unwrap();
    assert_eq!(
        (summary.created, summary.first.len(), summary.complete),
        (120, 50, true)
    );
    assert_eq!(summary.first[49].path, "f049");
    assert_eq!(collected.copied, []);
}

/// A user's folder may lie above the workspace: other sessions' files are in there.
#[test]
fn a_users_folder_never_leads_into_the_workspace() {
    let w = World::new();
    let folder = WorkFolder::User(w.temp.path().to_owned());
    w.ws.list_before(&w.session, &w.run, &folder).unwrap();
    let other = w.ws.prepare(&session("other"), &run("r")).unwrap();
    put(&other.artifact_dir, "theirs.pdf", "theirs");
    put(w.temp.path(), "mine.pdf", "mine");
    let collected = w.collect_from(&folder, &[], &["**/*.pdf"]).unwrap();
    assert_eq!(copied(&collected), ["mine.pdf"]);
    assert_eq!(collected.summary.unwrap().created, 0);
}

#[test]
fn a_users_folder_that_is_gone_is_said() {
    let w = World::new();
    let (user, folder) = users_folder(&w);
    w.ws.list_before(&w.session, &w.run, &folder).unwrap();
    fs::remove_dir(&user).unwrap();
    let refused = w.collect_from(&folder, &[], &[]).unwrap_err();
    assert!(matches!(refused, Error::NoWorkFolder { .. }), "{refused}");
}

#[test]
fn what_is_new_in_a_users_folder_and_no_file_is_named() {
    use std::os::unix::ffi::OsStrExt as _;
    let w = World::new();
    let (user, folder) = users_folder(&w);
    let bad = |bytes: &[u8]| user.join(std::ffi::OsStr::from_bytes(bytes));
    symlink("/etc", user.join("a-link-of-the-users")).unwrap();
    fs::write(bad(b"\xffold"), "x").unwrap();
    put(&user, "gone.txt", "x");
    w.ws.list_before(&w.session, &w.run, &folder).unwrap();
    fs::remove_file(user.join("gone.txt")).unwrap();
    symlink("/etc", user.join("link")).unwrap();
    fs::create_dir(user.join("sub")).unwrap();
    symlink("/etc/passwd", user.join("sub/link")).unwrap();
    fs::write(bad(b"\xffnew"), "x").unwrap();
    let socket = std::os::unix::net::UnixListener::bind(user.join("socket")).unwrap();
    for _ in 0..2 {
        let collected = w.collect_from(&folder, &[], &[]).unwrap();
        assert_eq!(
            collected.omitted.named,
            [
                omit("\\xffnew", OmitReason::NameNotUtf8),
                omit("link", OmitReason::Symlink),
                omit("socket", OmitReason::SpecialFile),
                omit("sub/link", OmitReason::Symlink),
            ]
        );
    }
    drop(socket);
}
