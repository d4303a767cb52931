//! What a root opens, makes and removes, and what it refuses, with both resolvers.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{
    ffi::OsStr,
    fs,
    io::{Read as _, Write as _},
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _, fs::symlink, net::UnixListener},
    path::Path,
};

use common::{both, nobody, refusal};
use pretty_assertions::assert_eq;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use threadline_files::{Access, Entry, FileKind, Reason, Resolver, Result, Root};

fn read(root: &Root, rel: impl AsRef<Path>) -> Result<String> {
    let mut text = String::new();
    root.open_file(rel)?.read_to_string(&mut text).unwrap();
    Ok(text)
}

#[test]
fn both_resolvers_refuse_alike() {
    let t = tempfile::tempdir().unwrap();
    let (root, out) = (t.path().join("root"), t.path().join("out"));
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::create_dir_all(&out).unwrap();
    fs::write(root.join("a/b/ok.txt"), "ok").unwrap();
    fs::write(out.join("secret"), "secret").unwrap();
    symlink(out.join("secret"), root.join("leaf")).unwrap();
    symlink(&out, root.join("dir")).unwrap();
    symlink("a/b/ok.txt", root.join("inner")).unwrap();
    symlink("a", root.join("innerdir")).unwrap();
    symlink("gone", root.join("dangling")).unwrap();
    symlink("/proc/self/root", root.join("magic")).unwrap();
    mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _socket = UnixListener::bind(root.join("socket")).unwrap();

    if cfg!(target_os = "linux") {
        assert_eq!(Root::open(&root).unwrap().resolver(), Resolver::Kernel);
    }
    for r in both(&root) {
        assert_eq!(read(&r, "a/b/ok.txt").unwrap(), "ok");
        let refused: Vec<(&str, Reason)> = [
            "leaf",
            "dir/secret",
            "inner",
            "innerdir/b/ok.txt",
            "dangling",
            "magic/etc/passwd",
            "../out/secret",
            "/etc/passwd",
            "a/../../out/secret",
            "a/./b/ok.txt",
            "a//b/ok.txt",
            "a/b/ok.txt/",
            "",
            ".",
            "..",
            "a\0b",
            "fifo",
            "socket",
            "a",
            "a/b/ok.txt/deeper",
            "missing",
            "missing/deeper",
        ]
        .map(|rel| (rel, refusal(r.open_file(rel))))
        .into();
        use Reason::*;
        assert_eq!(
            refused,
            [
                ("leaf", Symlink),
                ("dir/secret", Symlink),
                ("inner", Symlink),
                ("innerdir/b/ok.txt", Symlink),
                ("dangling", Symlink),
                ("magic/etc/passwd", Symlink),
                ("../out/secret", NotRelative),
                ("/etc/passwd", NotRelative),
                ("a/../../out/secret", NotRelative),
                ("a/./b/ok.txt", NotRelative),
                ("a//b/ok.txt", NotRelative),
                ("a/b/ok.txt/", NotRelative),
                ("", NotRelative),
                (".", NotRelative),
                ("..", NotRelative),
                ("a\0b", NotRelative),
                ("fifo", NotRegular),
                ("socket", NotRegular),
                ("a", NotRegular),
                ("a/b/ok.txt/deeper", NotDirectory),
                ("missing", NotFound),
                ("missing/deeper", NotFound),
            ],
            "{:?}",
            r.resolver()
        );
        let dirs = [
            "dir",
            "innerdir",
            "fifo",
            "a/b/ok.txt",
            "missing",
            "../out",
            "leaf",
        ]
        .map(|rel| refusal(r.open_dir(rel)));
        assert_eq!(
            dirs,
            [
                Symlink,
                Symlink,
                NotDirectory,
                NotDirectory,
                NotFound,
                NotRelative,
                Symlink
            ],
            "{:?}",
            r.resolver()
        );
        let long = "x".repeat(256);
        assert_eq!(refusal(r.open_file(&long)), NameTooLong);
        for write in ["leaf", "dir/new", "fifo", "a", "dangling"] {
            let want = match write {
                "fifo" | "a" => NotRegular,
                _ => Symlink,
            };
            assert_eq!(
                refusal(r.append_file(write, Access::Shared)),
                want,
                "{write}"
            );
        }
    }
    assert_eq!(
        fs::read_dir(&out).unwrap().count(),
        1,
        "nothing was made outside"
    );
}

#[test]
fn a_device_is_refused_without_reading_it() {
    let t = tempfile::tempdir().unwrap();
    let zero = rustix::fs::makedev(1, 5);
    if mknodat(
        CWD,
        t.path().join("zero"),
        FileType::CharacterDevice,
        Mode::RWXU,
        zero,
    )
    .is_err()
    {
        eprintln!("skipped: only root can make a device");
        return;
    }
    for r in both(t.path()) {
        assert_eq!(refusal(r.open_file("zero")), Reason::NotRegular);
    }
}

#[test]
fn hostile_names_are_only_names() {
    let t = tempfile::tempdir().unwrap();
    let names: [&[u8]; 8] = [
        b"new\nline",
        b"quo\"te'",
        b"a::b",
        "\u{1f600}".as_bytes(),
        b"%2F..%2F",
        b"back\\slash",
        b"-rf",
        b"\xff\xfe",
    ];
    for r in both(t.path()) {
        for name in names {
            let name = OsStr::from_bytes(name);
            let written = r
                .write_atomic(name, name.as_bytes(), Access::Shared)
                .unwrap();
            assert_eq!(written.size, name.len() as u64);
            let mut back = Vec::new();
            r.open_file(name).unwrap().read_to_end(&mut back).unwrap();
            assert_eq!(back, name.as_bytes());
        }
        let mut want: Vec<_> = names
            .map(|n| Entry {
                name: OsStr::from_bytes(n).to_owned(),
                kind: FileKind::File,
            })
            .into();
        want.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(r.entries("").unwrap(), want);
    }
}

#[test]
fn hard_links_are_taken_from_their_owner_only() {
    let t = tempfile::tempdir().unwrap();
    fs::write(t.path().join("mine"), "mine").unwrap();
    fs::hard_link(t.path().join("mine"), t.path().join("second")).unwrap();
    for r in both(t.path()) {
        assert_eq!(read(&r, "second").unwrap(), "mine");
    }
    if std::os::unix::fs::chown(t.path().join("mine"), Some(65_534), None).is_err() {
        eprintln!("skipped: only root can give a file away");
        return;
    }
    for r in both(t.path()) {
        assert_eq!(refusal(r.open_file("second")), Reason::HardLinked);
    }
    fs::remove_file(t.path().join("mine")).unwrap();
    for r in both(t.path()) {
        assert_eq!(
            read(&r, "second").unwrap(),
            "mine",
            "one name only: nothing is doubtful"
        );
    }
}

#[test]
fn folders_are_made_beneath_and_never_through_a_link() {
    let t = tempfile::tempdir().unwrap();
    let (root, out) = (t.path().join("root"), t.path().join("out"));
    fs::create_dir_all(&root).unwrap();
    fs::create_dir_all(&out).unwrap();
    symlink(&out, root.join("link")).unwrap();
    fs::write(root.join("file"), "").unwrap();
    for (i, r) in both(&root).into_iter().enumerate() {
        let made = r
            .create_dir_all(format!("x{i}/y/z"), Access::Private)
            .unwrap();
        assert_eq!(made.path(), root.join(format!("x{i}/y/z")));
        let mode = fs::metadata(made.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        r.create_dir_all(format!("x{i}/y/z"), Access::Private)
            .unwrap();
        assert_eq!(
            refusal(r.create_dir_all("link/new", Access::Shared)),
            Reason::Symlink
        );
        assert_eq!(
            refusal(r.create_dir_all("link", Access::Shared)),
            Reason::Symlink
        );
        assert_eq!(
            refusal(r.create_dir_all("file/new", Access::Shared)),
            Reason::NotDirectory
        );
        assert_eq!(
            refusal(r.create_dir_all("file", Access::Shared)),
            Reason::NotDirectory
        );
        assert_eq!(
            refusal(r.create_dir_all("../up", Access::Shared)),
            Reason::NotRelative
        );
    }
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
    let parallel: Vec<_> = (0..8)
        .map(|_| {
            let r = Root::open(&root).unwrap();
            std::thread::spawn(move || r.create_dir_all("p/q/r/s", Access::Shared).map(|_| ()))
        })
        .collect();
    for thread in parallel {
        thread.join().unwrap().unwrap();
    }
}

#[test]
fn the_root_stays_where_it_was_opened() {
    let t = tempfile::tempdir().unwrap();
    fs::create_dir(t.path().join("old")).unwrap();
    fs::write(t.path().join("old/f"), "kept").unwrap();
    symlink("old", t.path().join("alias")).unwrap();
    let real = Root::open(t.path().join("alias")).unwrap().real_path();
    assert_eq!(real, Root::open(t.path()).unwrap().real_path().join("old"));
    for r in both(&t.path().join("alias")) {
        fs::rename(t.path().join("old"), t.path().join("moved")).unwrap();
        fs::create_dir(t.path().join("old")).unwrap();
        fs::write(t.path().join("old/f"), "other").unwrap();
        assert_eq!(read(&r, "f").unwrap(), "kept");
        fs::remove_dir_all(t.path().join("old")).unwrap();
        fs::rename(t.path().join("moved"), t.path().join("old")).unwrap();
    }
}

#[test]
fn rename_remove_append_and_stat() {
    let t = tempfile::tempdir().unwrap();
    let out = tempfile::tempdir().unwrap();
    for r in both(t.path()) {
        r.create_dir_all("d/e", Access::Shared).unwrap();
        r.append_file("d/log", Access::Private)
            .unwrap()
            .write_all(b"one")
            .unwrap();
        r.append_file("d/log", Access::Private)
            .unwrap()
            .write_all(b"two")
            .unwrap();
        assert_eq!(read(&r, "d/log").unwrap(), "onetwo");
        r.rename("d/log", "d/e/moved").unwrap();
        assert_eq!(refusal(r.open_file("d/log")), Reason::NotFound);
        let stat = r.stat("d/e/moved").unwrap();
        assert_eq!(
            (stat.kind, stat.stamp.size, stat.mode, stat.links),
            (FileKind::File, 6, 0o600, 1)
        );
        assert_eq!(r.stat("").unwrap().kind, FileKind::Dir);
        assert_eq!(refusal(r.rename("d/none", "d/x")), Reason::NotFound);
        assert_eq!(
            refusal(r.rename("d/e/moved", "nowhere/x")),
            Reason::NotFound
        );

        symlink(out.path(), t.path().join("d/link")).unwrap();
        assert_eq!(r.stat("d/link").unwrap().kind, FileKind::Symlink);
        assert_eq!(refusal(r.stat("d/link/x")), Reason::Symlink);
        assert_eq!(refusal(r.remove_file("d/link/x")), Reason::Symlink);
        assert_eq!(refusal(r.rename("d/e/moved", "d/link/x")), Reason::Symlink);
        r.remove_file("d/link").unwrap();
        assert!(out.path().is_dir());
        assert_eq!(refusal(r.remove_file("d/e")), Reason::NotRegular);
        assert_eq!(refusal(r.remove_file("")), Reason::NotRelative);
        r.remove_dir_all("d").unwrap();
        assert_eq!(r.entries("").unwrap(), []);
    }
}

#[test]
fn a_tree_is_removed_without_touching_what_it_points_to() {
    let t = tempfile::tempdir().unwrap();
    let out = tempfile::tempdir().unwrap();
    fs::write(out.path().join("precious"), "p").unwrap();
    for r in both(t.path()) {
        r.create_dir_all("tree/a/b/c", Access::Shared).unwrap();
        fs::write(t.path().join("tree/a/b/file"), "x").unwrap();
        symlink(out.path(), t.path().join("tree/a/b/link")).unwrap();
        symlink(out.path(), t.path().join("toplink")).unwrap();
        mknodat(
            CWD,
            t.path().join("tree/fifo"),
            FileType::Fifo,
            Mode::RWXU,
            0,
        )
        .unwrap();
        r.remove_dir_all("tree").unwrap();
        assert_eq!(refusal(r.stat("tree")), Reason::NotFound);
        assert_eq!(refusal(r.remove_dir_all("toplink")), Reason::Symlink);
        assert_eq!(refusal(r.remove_dir_all("tree")), Reason::NotFound);
        assert_eq!(refusal(r.remove_dir_all("")), Reason::NotRelative);
        r.remove_file("toplink").unwrap();
        fs::write(t.path().join("file"), "").unwrap();
        assert_eq!(refusal(r.remove_dir_all("file")), Reason::NotDirectory);
        r.remove_file("file").unwrap();
    }
    assert_eq!(
        fs::read_to_string(out.path().join("precious")).unwrap(),
        "p"
    );
}

#[test]
fn read_only_and_forbidden_places_say_so() {
    if nobody::handed_over("read_only_and_forbidden_places_say_so") {
        return;
    }
    let t = tempfile::tempdir().unwrap();
    let mode = |rel: &str, mode| {
        fs::set_permissions(t.path().join(rel), fs::Permissions::from_mode(mode)).unwrap();
    };
    fs::create_dir_all(t.path().join("closed/in")).unwrap();
    fs::create_dir_all(t.path().join("fixed/in/deeper")).unwrap();
    fs::create_dir_all(t.path().join("through")).unwrap();
    fs::write(t.path().join("secret"), "s").unwrap();
    fs::write(t.path().join("fixed/f"), "f").unwrap();
    fs::write(t.path().join("fixed/in/deeper/f"), "f").unwrap();
    fs::write(t.path().join("through/f"), "seen").unwrap();
    mode("secret", 0);
    mode("closed", 0);
    mode("fixed", 0o555);
    mode("fixed/in", 0o555);
    mode("fixed/in/deeper", 0o555);
    mode("through", 0o111);
    for r in both(t.path()) {
        assert_eq!(refusal(r.open_file("secret")), Reason::Denied);
        assert_eq!(refusal(r.open_file("closed/f")), Reason::Denied);
        assert_eq!(refusal(r.open_dir("closed")), Reason::Denied);
        assert_eq!(refusal(r.entries("through")), Reason::Denied);
        assert_eq!(
            read(&r, "through/f").unwrap(),
            "seen",
            "passing through needs no listing"
        );
        assert_eq!(
            refusal(r.write_atomic("fixed/new", b"", Access::Shared)),
            Reason::Denied
        );
        assert_eq!(
            refusal(r.create_dir_all("fixed/new", Access::Shared)),
            Reason::Denied
        );
        assert_eq!(refusal(r.remove_file("fixed/f")), Reason::Denied);
    }
    let r = Root::open(t.path()).unwrap();
    r.remove_dir_all("fixed").unwrap();
    assert_eq!(refusal(r.stat("fixed")), Reason::NotFound);
    assert_eq!(refusal(r.remove_dir_all("closed")), Reason::Denied);
    mode("closed", 0o700);
}

#[test]
fn errors_name_the_place() {
    let t = tempfile::tempdir().unwrap();
    let r = Root::open(t.path()).unwrap();
    let e = r.open_file("a/b").unwrap_err();
    assert_eq!(e.path(), t.path().join("a/b"));
    assert_eq!(
        e.to_string(),
        format!("{}/a/b: not found", t.path().display())
    );
    let e = r.open_file("/etc/passwd").unwrap_err();
    assert_eq!(e.to_string(), "/etc/passwd: not a plain relative path");
    assert_eq!(refusal(Root::open(t.path().join("none"))), Reason::NotFound);
}
