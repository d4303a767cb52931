use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;
use tempfile::TempDir;
use threadline_contract::{RunId, SessionKey};

use super::*;

struct Place {
    dir: TempDir,
    folder: Folder,
}

fn place() -> Place {
    let dir = TempDir::new().unwrap();
    let folder = Folder {
        work: dir.path().join("work"),
        leaves: dir.path().join("leaves"),
        workspace: crate::LocalWorkspace::at(&dir.path().join("data")).unwrap(),
        session: SessionKey::new("agent:main:t").unwrap(),
        run: RunId::new("run-1").unwrap(),
    };
    std::fs::create_dir(&folder.work).unwrap();
    std::fs::create_dir(&folder.leaves).unwrap();
    std::fs::write(dir.path().join("secret"), "outside").unwrap();
    Place { dir, folder }
}

impl Place {
    fn run(&self, tool: &str, arguments: Value) -> Work {
        let tool = Tool::parse(tool, &arguments.to_string()).unwrap();
        self.folder.run(&tool).unwrap()
    }
}

fn worked(text: &str, wrote: Option<&str>) -> Work {
    Work {
        result: Ok(text.into()),
        wrote: wrote.map(str::to_owned),
    }
}

fn failed(text: &str) -> Work {
    Work {
        result: Err(text.into()),
        wrote: None,
    }
}

#[test]
fn files_are_written_read_listed_and_edited() {
    let place = place();
    let path = "reports/final.md";
    assert_eq!(
        place.run("write_file", json!({"path": path, "content": "one\ntwo\n"})),
        worked("Wrote reports/final.md (8 bytes).", Some(path))
    );
    let edit = json!({"path": "./reports/final.md", "old": "two", "new": "2"});
    assert_eq!(
        place.run("edit_file", edit),
        worked("Edited ./reports/final.md (now 6 bytes).", Some(path))
    );
    assert_eq!(
        place.run("read_file", json!({"path": path})),
        worked("one\n2\n", None)
    );
    assert_eq!(
        place.run("list_files", json!({})),
        worked("reports/final.md (6 bytes)", None)
    );
    assert_eq!(
        place.run("list_files", json!({"path": "reports/"})),
        worked("final.md (6 bytes)", None)
    );
    let absolute = place.folder.work.join("x").display().to_string();
    assert_eq!(
        place.run("write_file", json!({"path": absolute, "content": ""})),
        worked(&format!("Wrote {absolute} (0 bytes)."), Some("x"))
    );
    let leaves = place.folder.leaves.join("deep/y").display().to_string();
    assert_eq!(
        place.run("write_file", json!({"path": leaves, "content": "y"})),
        worked(&format!("Wrote {leaves} (1 bytes)."), None)
    );
    assert_eq!(std::fs::read_to_string(leaves).unwrap(), "y");
}

#[test]
fn an_edit_needs_exactly_one_match() {
    let place = place();
    place.run("write_file", json!({"path": "a", "content": "x y x"}));
    let edit = |old: &str| place.run("edit_file", json!({"path": "a", "old": old, "new": "z"}));
    assert_eq!(
        edit("x"),
        failed("`old` occurs 2 times in a. Give more of the text around it.")
    );
    assert_eq!(
        edit("q"),
        failed("`old` does not occur in a. Read the file and copy it exactly.")
    );
    assert_eq!(
        edit(""),
        failed("`old` is empty. Give the piece of a to replace.")
    );
    assert_eq!(
        place.run("edit_file", json!({"path": "b", "old": "x", "new": "y"})),
        failed("b does not exist.")
    );
    assert_eq!(
        std::fs::read_to_string(place.folder.work.join("a")).unwrap(),
        "x y x"
    );
}

#[test]
fn hostile_paths_are_refused_with_a_sentence() {
    let place = place();
    symlink(place.dir.path(), place.folder.work.join("out")).unwrap();
    symlink(
        place.dir.path().join("secret"),
        place.folder.work.join("link"),
    )
    .unwrap();
    std::fs::create_dir(place.folder.work.join("folder")).unwrap();
    let outside = |path: &str| {
        format!(
            "`{path}` is outside the work folder. Use a plain relative path such as reports/final.md."
        )
    };
    let up = place.folder.work.join("../secret").display().to_string();
    for (path, want) in [
        ("../secret", outside("../secret")),
        ("a/../../secret", outside("a/../../secret")),
        ("/etc/passwd", outside("/etc/passwd")),
        (up.as_str(), outside(&up)),
        ("a\\..\\b", outside("a\\..\\b")),
        ("a\0b", outside("a\0b")),
        ("a//b", outside("a//b")),
        ("", outside("")),
        (
            ".xworkmate/scope.json",
            "`.xworkmate` belongs to Threadline and is not for you.".into(),
        ),
        (
            "out/secret",
            "out/secret leads out of the work folder through a symbolic link.".into(),
        ),
        (
            "link",
            "link leads out of the work folder through a symbolic link.".into(),
        ),
        ("folder", "folder is not a regular file.".into()),
    ] {
        let read = place.run("read_file", json!({"path": path}));
        assert_eq!(read, failed(&want), "{path:?}");
        if path != "folder" {
            let write = place.run("write_file", json!({"path": path, "content": "x"}));
            assert_eq!(write.result, Err(want), "{path:?}");
        }
    }
    let secret = std::fs::read_to_string(place.dir.path().join("secret")).unwrap();
    assert_eq!(secret, "outside");
}

#[test]
fn reading_is_bounded_and_never_cuts_a_character() {
    let place = place();
    let long = "ä".repeat(50_000);
    place.run("write_file", json!({"path": "long", "content": long}));
    let text = |work: Work| work.result.unwrap();
    let first = text(place.run("read_file", json!({"path": "long"})));
    assert_eq!(
        first,
        format!("(bytes 0 to 65536 of 100000)\n{}", "ä".repeat(32_768))
    );
    let part = text(place.run(
        "read_file",
        json!({"path": "long", "offset": 1, "limit": 4}),
    ));
    assert_eq!(part, "(bytes 2 to 4 of 100000)\nä");
    let behind = text(place.run("read_file", json!({"path": "long", "offset": 200_000})));
    assert_eq!(behind, "(bytes 200000 to 200000 of 100000)\n");
    std::fs::write(place.folder.work.join("binary"), [0, 159, 146, 150]).unwrap();
    assert_eq!(
        place.run("read_file", json!({"path": "binary"})),
        failed("binary is not text (4 bytes).")
    );
}

#[test]
fn a_listing_is_bounded() {
    let place = place();
    for n in 0..600 {
        std::fs::write(place.folder.work.join(format!("{n:03}")), "").unwrap();
    }
    let listing = place
        .run("list_files", json!({"path": "."}))
        .result
        .unwrap();
    assert_eq!(listing.lines().count(), 501);
    assert!(listing.ends_with("(more than 500; list a folder inside)"));
}

#[test]
fn calls_that_make_no_sense_are_answered_with_a_sentence() {
    let sentence = |tool: &str, arguments: &str| Tool::parse(tool, arguments).unwrap_err();
    assert_eq!(
        sentence("format_disk", "{}"),
        "There is no tool `format_disk`. There are write_file, read_file, list_files, edit_file and ask_user."
    );
    assert!(sentence("write_file", "{\"path\":").starts_with("The arguments are not right: EOF"));
    assert!(sentence("write_file", "{}").contains("missing field `path`"));
    assert_eq!(
        sentence("ask_user", "{\"question\":\" \"}"),
        "The question is empty."
    );
    assert_eq!(
        Tool::parse("list_files", ""),
        Ok(Tool::List(ListFiles { path: None }))
    );
}
