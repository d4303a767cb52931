//! Protected places are not reached, by whatever name.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use common::refusal;
use pretty_assertions::assert_eq;
use tempfile::TempDir;
use threadline_files::{
    Access, Protected, Reason, Result, Root,
    walk::{Found, Problem, walk},
};

/// A home with a data folder and settings in it.
struct Home {
    _temp: TempDir,
    home: PathBuf,
}

impl Home {
    fn new() -> Self {
        let temp = TempDir::new().unwrap();
        let home = temp.path().join("home");
        for folder in ["share/data/tasks/own", "share/data/tasks/other", "project"] {
            fs::create_dir_all(home.join(folder)).unwrap();
        }
        fs::write(home.join("share/data/token"), "secret").unwrap();
        fs::write(home.join("share/data/tasks/own/mine"), "mine").unwrap();
        fs::write(home.join("share/data/tasks/other/theirs"), "theirs").unwrap();
        fs::write(home.join("settings.toml"), "key").unwrap();
        fs::write(home.join("project/notes"), "notes").unwrap();
        Self { _temp: temp, home }
    }

    fn protected(&self) -> Protected {
        let paths = [
            self.home.join("share/data"),
            self.home.join("settings.toml"),
            self.home.join(".config/ours"),
        ];
        let own = self.home.join("share/data/tasks/own");
        Protected::new(paths.iter().map(PathBuf::as_path), [own.as_path()])
    }

    fn root(&self, at: &str) -> Result<Root> {
        Root::open(self.home.join(at))?.avoiding(&self.protected())
    }
}

fn text(root: &Root, path: &str) -> Result<String> {
    Ok(String::from_utf8(root.read_limited(path, 100)?).unwrap())
}

#[test]
fn a_root_above_reaches_everything_else() {
    let h = Home::new();
    let root = h.root("").unwrap();
    assert_eq!(text(&root, "project/notes").unwrap(), "notes");
    for path in [
        "share/data/token",
        "share/data/tasks/own/mine",
        "share/data/tasks/other/theirs",
        "share/data/new",
        "settings.toml",
    ] {
        assert_eq!(refusal(text(&root, path)), Reason::Protected, "{path}");
        let written = root.write_atomic(path, b"x", Access::Shared);
        assert_eq!(refusal(written), Reason::Protected, "{path}");
        assert_eq!(
            refusal(root.rewrite(path, b"x")),
            Reason::Protected,
            "{path}"
        );
    }
    assert_eq!(refusal(root.open_dir("share/data")), Reason::Protected);
    let made = root.create_dir_all("share/data/tasks/mine", Access::Shared);
    assert_eq!(refusal(made), Reason::Protected);
    assert_eq!(
        refusal(root.remove_file("settings.toml")),
        Reason::Protected
    );
    let moved = root.rename("project/notes", "settings.toml");
    assert_eq!(refusal(moved), Reason::Protected);
    assert_eq!(
        refusal(root.rename("settings.toml", "mine")),
        Reason::Protected
    );
    assert_eq!(
        refusal(root.rename("share/data", "mine")),
        Reason::Protected
    );
    assert_eq!(refusal(root.remove_dir_all("share")), Reason::Protected);
    assert_eq!(
        fs::read_to_string(h.home.join("share/data/token")).unwrap(),
        "secret"
    );
    assert_eq!(
        fs::read_to_string(h.home.join("settings.toml")).unwrap(),
        "key"
    );
}

#[test]
fn only_the_open_folder_inside_can_be_a_root() {
    let h = Home::new();
    assert_eq!(refusal(h.root("share/data")), Reason::Protected);
    assert_eq!(refusal(h.root("share/data/tasks")), Reason::Protected);
    assert_eq!(refusal(h.root("share/data/tasks/other")), Reason::Protected);
    symlink(h.home.join("share/data/tasks"), h.home.join("project/link")).unwrap();
    assert_eq!(refusal(h.root("project/link/other")), Reason::Protected);
    let own = h.root("share/data/tasks/own").unwrap();
    assert_eq!(text(&own, "mine").unwrap(), "mine");
}

#[test]
fn a_place_that_does_not_exist_yet_cannot_be_made() {
    let h = Home::new();
    let root = h.root("").unwrap();
    let made = root.create_dir_all(".config/OURS/deep", Access::Shared);
    assert_eq!(refusal(made), Reason::Protected);
    root.create_dir_all(".config/theirs", Access::Shared)
        .unwrap();
    // The next look finds more of the way.
    let root = h.root("").unwrap();
    for made in [
        root.create_dir_all(".config/ours", Access::Shared),
        root.open_dir(".config")
            .unwrap()
            .create_dir_all("ours", Access::Shared),
    ] {
        assert_eq!(refusal(made), Reason::Protected);
    }
    let written = root.write_atomic(".config/ours", b"x", Access::Shared);
    assert_eq!(refusal(written), Reason::Protected);
}

#[test]
fn hard_links_to_what_lies_inside_are_told() {
    let h = Home::new();
    let link = |from: &str, to: &str| fs::hard_link(h.home.join(from), h.home.join(to)).unwrap();
    link("share/data/token", "project/copy");
    link("share/data/tasks/other/theirs", "project/other");
    link("settings.toml", "project/settings");
    link("project/notes", "project/again");
    link("share/data/tasks/own/mine", "project/mine");
    let root = h.root("project").unwrap();
    for path in ["copy", "other", "settings"] {
        assert_eq!(refusal(text(&root, path)), Reason::Protected, "{path}");
    }
    assert_eq!(text(&root, "again").unwrap(), "notes");
    assert_eq!(text(&root, "mine").unwrap(), "mine");
    assert_eq!(listed(&root), ["again", "mine", "notes"]);
}

/// The files that a walk tells about.
fn listed(root: &Root) -> Vec<String> {
    let files = walk(root, 9).filter(|found| matches!(found, Found::File { .. }));
    files.map(|found| found.path().to_owned()).collect()
}

#[test]
fn the_data_folder_of_another_installation_is_told_by_what_it_holds() {
    let h = Home::new();
    for folder in ["project/other/deep", "project/half"] {
        fs::create_dir_all(h.home.join(folder)).unwrap();
        fs::write(h.home.join(folder).join("file"), "x").unwrap();
    }
    for file in ["other/token", "other/owner.lock", "half/token"] {
        let file = h.home.join("project").join(file);
        fs::write(&file, "secret").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    }
    // Files that everybody can read mark nothing: an agent could make them.
    for file in ["project/token", "project/owner.lock"] {
        fs::write(h.home.join(file), "x").unwrap();
    }
    let marked = h.protected().and_folders_with(&["owner.lock", "token"]);
    let root = |at: &str| Root::open(h.home.join(at)).unwrap().avoiding(&marked);
    let project = root("project").unwrap();
    for path in ["other/token", "other/deep/file"] {
        assert_eq!(refusal(text(&project, path)), Reason::Protected, "{path}");
    }
    let written = project.write_atomic("other/new", b"x", Access::Shared);
    assert_eq!(refusal(written), Reason::Protected);
    assert_eq!(
        listed(&project),
        ["half/file", "half/token", "notes", "owner.lock", "token"]
    );
    for at in ["project/other", "project/other/deep"] {
        assert_eq!(refusal(root(at)), Reason::Protected, "{at}");
    }
    // The one folder inside that may be used can be, whatever an agent has put into it.
    for mark in ["owner.lock", "token"] {
        fs::write(h.home.join("share/data/tasks/own").join(mark), "x").unwrap();
    }
    let own = root("share/data/tasks/own").unwrap();
    assert_eq!(text(&own, "mine").unwrap(), "mine");
}

#[test]
fn a_walk_names_the_place_and_does_not_enter_it() {
    let h = Home::new();
    let found: Vec<Found> = walk(&h.root("").unwrap(), 9).collect();
    let problems: Vec<&Found> = found
        .iter()
        .filter(|found| !matches!(found, Found::File { .. }))
        .collect();
    let protected = ["settings.toml", "share/data"].map(|path| Found::Problem {
        path: path.into(),
        problem: Problem::Protected,
        stamp: None,
    });
    assert_eq!(problems, protected.each_ref());
    assert!(
        found.iter().all(|f| !f.path().contains("token")),
        "{found:?}"
    );
}

/// Gone when it is dropped.
struct Mounted(PathBuf);

impl Mounted {
    /// Shows a folder at a second place. `None`: only root can, which was said.
    fn bind(from: &Path, to: &Path) -> Option<Self> {
        match from.is_dir() {
            true => fs::create_dir_all(to).unwrap(),
            false => fs::write(to, "").unwrap(),
        }
        Self::mount(&["--bind".as_ref(), from.as_os_str()], to)
    }

    /// A file system of its own, for example of the processes.
    fn of_kind(kind: &str, to: &Path) -> Option<Self> {
        fs::create_dir_all(to).unwrap();
        Self::mount(&["-t".as_ref(), kind.as_ref(), kind.as_ref()], to)
    }

    fn mount(what: &[&OsStr], to: &Path) -> Option<Self> {
        let done = Command::new("mount").args(what).arg(to).output();
        if !done.is_ok_and(|done| done.status.success()) {
            println!("skipped: only root can mount");
            return None;
        }
        Some(Self(to.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_second_mount_leads_no_further() {
    let h = Home::new();
    let at = |path: &str| h.home.join(path);
    let Some(_data) = Mounted::bind(&at("share/data"), &at("project/data")) else {
        return;
    };
    // Not the protected folder itself, but one inside it: nothing above it says so.
    let _tasks = Mounted::bind(&at("share/data/tasks"), &at("project/tasks")).unwrap();
    let _harmless = Mounted::bind(&at("project"), &at("again")).unwrap();
    let root = h.root("project").unwrap();
    for path in ["data/token", "tasks/other/theirs", "tasks/own/mine"] {
        assert_eq!(refusal(text(&root, path)), Reason::Protected, "{path}");
    }
    assert_eq!(refusal(h.root("project/data")), Reason::Protected);
    assert_eq!(refusal(h.root("project/tasks/other")), Reason::Protected);
    assert_eq!(text(&h.root("again").unwrap(), "notes").unwrap(), "notes");
}

#[test]
fn a_file_that_is_mounted_elsewhere_is_told() {
    let h = Home::new();
    let at = |path: &str| h.home.join(path);
    let Some(_token) = Mounted::bind(&at("share/data/token"), &at("project/t")) else {
        return;
    };
    let _theirs = Mounted::bind(&at("share/data/tasks/other/theirs"), &at("project/o")).unwrap();
    fs::write(at("harmless"), "harmless").unwrap();
    let _harmless = Mounted::bind(&at("harmless"), &at("project/h")).unwrap();
    let root = h.root("project").unwrap();
    for path in ["t", "o"] {
        assert_eq!(refusal(text(&root, path)), Reason::Protected, "{path}");
    }
    assert_eq!(text(&root, "h").unwrap(), "harmless");
    assert_eq!(listed(&root), ["h", "notes"]);
}

#[test]
fn another_disk_inside_is_protected_and_so_are_processes_wherever_they_are_shown() {
    let h = Home::new();
    let at = |path: &str| h.home.join(path);
    let Some(_disk) = Mounted::of_kind("tmpfs", &at("share/data/disk")) else {
        return;
    };
    fs::create_dir(at("share/data/disk/deep")).unwrap();
    fs::write(at("share/data/disk/deep/secret"), "secret").unwrap();
    let _again = Mounted::bind(&at("share/data/disk/deep"), &at("project/deep")).unwrap();
    let _processes = Mounted::of_kind("proc", &at("project/processes")).unwrap();
    let root = h.root("project").unwrap();
    for path in ["deep/secret", "processes/self/environ"] {
        assert_eq!(refusal(text(&root, path)), Reason::Protected, "{path}");
    }
    assert_eq!(refusal(h.root("project/processes/self")), Reason::Protected);
    assert_eq!(text(&root, "notes").unwrap(), "notes");
}

#[test]
fn what_a_link_in_a_protected_folder_leads_to_is_protected() {
    let h = Home::new();
    let at = |path: &str| h.home.join(path);
    fs::create_dir_all(at("project/moved/deep")).unwrap();
    fs::write(at("project/moved/deep/journal"), "journal").unwrap();
    symlink(at("project/moved"), at("share/data/journals")).unwrap();
    // One that leads above the folder protects nothing else with it.
    symlink("../..", at("share/data/up")).unwrap();
    let root = h.root("project").unwrap();
    assert_eq!(
        refusal(text(&root, "moved/deep/journal")),
        Reason::Protected
    );
    assert_eq!(text(&root, "notes").unwrap(), "notes");
}

#[test]
fn links_are_followed_beneath_the_root_and_never_out_of_it() {
    let h = Home::new();
    let root = h.root("project").unwrap();
    let at = |path: &str| h.home.join("project").join(path);
    fs::create_dir_all(at("a/b")).unwrap();
    fs::write(at("a/b/real"), "real").unwrap();
    for (target, link) in [
        ("a/b/real", "plain"),
        ("../b/real", "a/up"),
        ("a", "folder"),
        ("folder/up", "chain"),
        ("a/b/new", "dangling"),
        ("../settings.toml", "out"),
        ("a/../../settings.toml", "sly"),
        ("/etc/passwd", "absolute"),
        ("loop", "loop"),
    ] {
        symlink(target, at(link)).unwrap();
    }
    fs::remove_file(at("a/up")).unwrap();
    symlink("b/real", at("a/up")).unwrap();
    symlink(at("a/b/real"), at("inside")).unwrap();
    let led = |path: &str| root.follow(path).map_err(|e| e.reason());
    for (path, real) in [
        ("a/b/real", "a/b/real"),
        ("plain", "a/b/real"),
        ("folder/b/real", "a/b/real"),
        ("chain", "a/b/real"),
        ("inside", "a/b/real"),
        ("dangling", "a/b/new"),
        ("missing/deep/file", "missing/deep/file"),
        ("folder/missing", "a/missing"),
    ] {
        assert_eq!(led(path), Ok(PathBuf::from(real)), "{path}");
    }
    for path in ["out", "sly", "absolute", "loop", "out/x"] {
        assert_eq!(led(path), Err(Reason::Symlink), "{path}");
    }
}

#[test]
fn a_file_that_is_rewritten_keeps_its_permissions() {
    let h = Home::new();
    let root = h.root("project").unwrap();
    let script = h.home.join("project/script");
    fs::write(&script, "old").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o750)).unwrap();
    root.rewrite("script", b"new").unwrap();
    let mode = fs::metadata(&script).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (text(&root, "script").unwrap().as_str(), mode),
        ("new", 0o750)
    );
    root.rewrite("fresh", b"new").unwrap();
    assert_eq!(text(&root, "fresh").unwrap(), "new");
}

/// Somebody swaps a folder for a link that leads out, again and again, while files are written through links.
#[test]
fn a_link_that_changes_meanwhile_never_leads_out() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let h = Home::new();
    let root = h.root("project").unwrap();
    let at = |path: &str| h.home.join("project").join(path);
    let out = h.home.join("out");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("file"), "outside").unwrap();
    fs::create_dir(at("real")).unwrap();
    symlink("real", at("inside")).unwrap();
    symlink(&out, at("outside")).unwrap();
    symlink("inside", at("link")).unwrap();
    let done = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for target in ["outside", "inside"] {
                    symlink(target, at("next")).unwrap();
                    fs::rename(at("next"), at("link")).unwrap();
                    // And the folder that was found a moment ago becomes a link itself.
                    fs::rename(at("real"), at("moved")).unwrap();
                    symlink(&out, at("real")).unwrap();
                    fs::remove_file(at("real")).unwrap();
                    fs::rename(at("moved"), at("real")).unwrap();
                }
            }
        });
        let mut written = 0;
        for _ in 0..3_000 {
            let wrote = root
                .follow("link/file")
                .and_then(|path| root.rewrite(path, b"mine"));
            written += u32::from(wrote.is_ok());
        }
        done.store(true, Ordering::Relaxed);
        written
    });
    assert!(written > 0, "it was never written");
    assert_eq!(fs::read_to_string(out.join("file")).unwrap(), "outside");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
}
