//! A synced folder proves itself: without a server, whatever was done to it.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::{Said, World, name_of};

/// A thread that ran once, and its folder.
struct Delivered {
    world: World,
    name: String,
    folder: PathBuf,
    run: String,
}

impl Delivered {
    fn new() -> Self {
        let world = World::new();
        let said = world
            .run(&["run", "one two two three three three"])
            .ended(0);
        let name = name_of(&said);
        let thread = world.thread(&name)["thread"].clone();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Self {
            name,
            folder: text(&thread["workspaceBinding"]["workspacePath"]).into(),
            run: text(&thread["contextState"]["taskAssociation"]["runId"]),
            world,
        }
    }

    fn file(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.join(name)).unwrap()
    }

    /// What is found in a copy that something was done to, by a program that knows nothing else.
    fn damaged(&self, damage: impl FnOnce(&Path)) -> (Said, Value) {
        let stranger = World::new();
        let copy = stranger.home().join("copy");
        copy_tree(&self.folder, &copy);
        damage(&copy);
        let said = stranger.run(&["verify", "copy", "--json"]);
        assert!(!stranger.data().exists(), "no owner, no data folder");
        let mut report = said.json();
        let map = report.as_object_mut().unwrap();
        let exit = map.remove("exitCode").unwrap();
        assert_eq!(exit.as_i64().map(|n| n as i32), said.code);
        map.remove("folder");
        map.remove("bytesRead");
        (said, report)
    }

    /// The report of a folder with so many of its three files intact.
    fn report(&self, intact: u64, findings: Value) -> Value {
        let receipt: Value = serde_json::from_slice(&self.file(&self.receipt())).unwrap();
        let files = receipt["receipt"]["files"].as_array().unwrap();
        let bytes: u64 = files.iter().map(|f| f["size"].as_u64().unwrap()).sum();
        let harmless = |f: &Value| f["what"] == "extra";
        json!({
            "intact": findings.as_array().unwrap().iter().all(harmless),
            "receipts": [{
                "sessionKey": receipt["receipt"]["sessionKey"], "runId": self.run,
                "scope": receipt["receipt"]["scope"], "digest": receipt["digest"],
                "files": 3, "bytes": bytes, "intact": intact,
            }],
            "refused": [],
            "findings": findings,
        })
    }

    fn receipt(&self) -> String {
        format!(".xworkmate/runs/{}/receipt.json", self.run)
    }
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_tree(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

fn sha(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

#[test]
fn a_folder_that_nobody_touched_is_intact() {
    let delivered = Delivered::new();
    let (said, report) = delivered.damaged(|_| {});
    assert_eq!(
        (said.code, report),
        (Some(0), delivered.report(3, json!([])))
    );

    // By its thread, for people.
    let said = delivered.world.run(&["verify", &delivered.name]).ended(0);
    let receipt: Value = serde_json::from_slice(&delivered.file(&delivered.receipt())).unwrap();
    let digest = receipt["digest"].as_str().unwrap();
    assert_eq!(
        said.out,
        format!(
            "✓ All 3 files that were delivered are here, byte for byte.\nReceipt {}  run {}, 3 of 3 files\nEvery receipt here is the one on record.\n",
            &digest[..12],
            delivered.run
        )
    );
    let thread = delivered.world.thread(&delivered.name);
    assert_eq!(
        thread["thread"]["contextState"]["lastReceipt"],
        json!(digest),
        "the thread names the receipt that lies in its folder"
    );
    // The bridge keeps the same bytes beside the run's files.
    let scope = receipt["receipt"]["scope"].as_str().unwrap();
    let (session, run) = scope.rsplit_once('/').unwrap();
    let kept = format!("{session}/.xworkmate/runs/{run}/receipt.json");
    assert_eq!(
        fs::read(delivered.world.data().join(kept)).unwrap(),
        delivered.file(&delivered.receipt())
    );
}

#[test]
fn every_damage_is_named_and_nothing_else() {
    let delivered = Delivered::new();
    let run = &delivered.run;
    let notes = delivered.file("notes.md");
    let other = |size_change: i64, digest: Option<String>| {
        let mut finding = json!({
            "path": "notes.md", "runId": run, "what": "differs", "size": notes.len(),
            "foundSize": notes.len() as i64 + size_change, "sha256": sha(&notes),
        });
        if let Some(digest) = digest {
            finding["foundSha256"] = json!(digest);
        }
        json!([finding])
    };
    let mut flipped = notes.clone();
    flipped[0] ^= 1;
    let missing = json!({"path": "notes.md", "runId": run, "what": "missing"});
    let not_a_file = json!([{"path": "notes.md", "runId": run, "what": "not_a_file"}]);
    let extra = |path: &str| json!({"path": path, "what": "extra", "file": true});
    let unchecked = |path: &str| json!({"path": path, "what": "unchecked"});

    // 1 a changed byte, 2 truncated, 3 grown, 4 missing
    let (said, report) = delivered.damaged(|at| fs::write(at.join("notes.md"), &flipped).unwrap());
    let want = delivered.report(2, other(0, Some(sha(&flipped))));
    assert_eq!((said.code, report), (Some(6), want));
    let cut = &notes[..notes.len() - 1];
    let (said, report) = delivered.damaged(|at| fs::write(at.join("notes.md"), cut).unwrap());
    let want = delivered.report(2, other(-1, None));
    assert_eq!((said.code, report), (Some(6), want));
    let grown = [notes.as_slice(), b"!!"].concat();
    let (said, report) = delivered.damaged(|at| fs::write(at.join("notes.md"), &grown).unwrap());
    let want = delivered.report(2, other(2, None));
    assert_eq!((said.code, report), (Some(6), want));
    let (said, report) = delivered.damaged(|at| fs::remove_file(at.join("notes.md")).unwrap());
    let want = delivered.report(2, json!([missing]));
    assert_eq!((said.code, report), (Some(6), want));

    // 5 an extra file, which does no harm, 6 renamed
    let (said, report) = delivered.damaged(|at| fs::write(at.join("mine.txt"), "mine").unwrap());
    let want = delivered.report(3, json!([extra("mine.txt")]));
    assert_eq!((said.code, report), (Some(0), want));
    let (said, report) = delivered.damaged(|at| {
        fs::create_dir(at.join("old")).unwrap();
        fs::rename(at.join("notes.md"), at.join("old/notes.md")).unwrap();
    });
    let want = delivered.report(2, json!([missing, extra("old/notes.md")]));
    assert_eq!((said.code, report), (Some(6), want));

    // 7 a link, to the very same bytes even, 8 an empty folder in its place
    let (said, report) = delivered.damaged(|at| {
        fs::remove_file(at.join("notes.md")).unwrap();
        symlink(delivered.folder.join("notes.md"), at.join("notes.md")).unwrap();
    });
    assert_eq!(
        (said.code, report),
        (Some(6), delivered.report(2, not_a_file.clone()))
    );
    let (said, report) = delivered.damaged(|at| {
        fs::remove_file(at.join("notes.md")).unwrap();
        fs::create_dir(at.join("notes.md")).unwrap();
    });
    assert_eq!(
        (said.code, report),
        (Some(6), delivered.report(2, not_a_file))
    );

    // 9 times and permissions are not content
    let (said, report) = delivered.damaged(|at| {
        let file = fs::File::open(at.join("notes.md")).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1))
            .unwrap();
        file.set_permissions(fs::Permissions::from_mode(0o400))
            .unwrap();
    });
    assert_eq!(
        (said.code, report),
        (Some(0), delivered.report(3, json!([])))
    );

    // 10 a receipt that was made to fit the changed file is not believed
    let (said, report) = delivered.damaged(|at| {
        fs::write(at.join("notes.md"), &flipped).unwrap();
        let path = at.join(delivered.receipt());
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(&sha(&notes), &sha(&flipped))).unwrap();
    });
    let want = json!({
        "intact": false,
        "receipts": [],
        "refused": [{
            "path": delivered.receipt(), "code": "RECEIPT_INVALID",
            "why": "The receipt cannot be used: its digest does not fit: it was damaged or changed.",
        }],
        "findings": [unchecked("notes.md"), unchecked("words.csv"), unchecked("words.svg")],
    });
    assert_eq!((said.code, report), (Some(6), want));
}

#[test]
fn several_damages_read_well() {
    let delivered = Delivered::new();
    fs::remove_file(delivered.folder.join("words.csv")).unwrap();
    fs::write(delivered.folder.join("notes.md"), "short").unwrap();
    fs::write(delivered.folder.join("mine.txt"), "mine").unwrap();
    let size =
        serde_json::from_slice::<Value>(&delivered.file(&delivered.receipt())).unwrap()["receipt"]
            ["files"][0]["size"]
            .clone();
    let said = delivered.world.run(&["verify", &delivered.name]).ended(6);
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "+ mine.txt   is extra: no receipt names it",
            &format!("✗ notes.md   differs: 5 bytes, delivered were {size}"),
            "✗ words.csv  is missing",
            "",
            "Not intact: 1 of 3 files as delivered. 1 extra file.",
        ]
    );
    // A sync brings back what was lost, and keeps what was edited.
    delivered.world.run(&["sync", &delivered.name]).ended(0);
    let said = delivered
        .world
        .run(&["verify", &delivered.name, "--json"])
        .ended(0);
    let extras: Vec<Value> = said.json()["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["path"].clone())
        .collect();
    assert_eq!(extras, ["mine.txt", "notes.yours.md"]);
}

#[test]
fn what_a_later_run_replaced_is_still_proven() {
    let delivered = Delivered::new();
    let (world, name) = (&delivered.world, &delivered.name);
    world
        .run(&["run", "--thread", name, "four four words here"])
        .ended(0);
    let said = world.run(&["verify", name, "--json"]).ended(0).json();
    let told: Vec<(&Value, &Value)> = said["receipts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| (&r["files"], &r["intact"]))
        .collect();
    assert_eq!(told, [(&json!(3), &json!(3)); 2]);
    assert_eq!(said["findings"], json!([]));

    let earlier = format!(".xworkmate/runs/{}/files/notes.md", delivered.run);
    fs::remove_file(delivered.folder.join(earlier)).unwrap();
    let said = world.run(&["verify", name, "--json"]).ended(6).json();
    assert_eq!(
        said["findings"],
        json!([{"path": "notes.md", "runId": delivered.run, "what": "missing"}])
    );
    let said = world.run(&["verify", name, "--run", "turn-x"]).ended(7);
    assert!(
        said.err.contains(&format!(
            "here is no receipt of run turn-x; there are: {}",
            delivered.run
        )),
        "{said:?}"
    );
    let newest = world.thread(name)["thread"]["contextState"]["taskAssociation"]["runId"].clone();
    world
        .run(&["verify", name, "--run", newest.as_str().unwrap()])
        .ended(0);
}

/// Two runs delivered the same bytes, and a third one others: the same bytes are there for both.
#[test]
fn a_retry_that_delivers_the_same_again_takes_nothing_from_the_run_before() {
    let delivered = Delivered::new();
    let (world, name) = (&delivered.world, &delivered.name);
    for prompt in ["one two two three three three", "four four words here"] {
        world.run(&["run", "--thread", name, prompt]).ended(0);
    }
    let said = world.run(&["verify", name, "--json"]).ended(0).json();
    let told: Vec<(&Value, &Value)> = said["receipts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| (&r["files"], &r["intact"]))
        .collect();
    assert_eq!(told, [(&json!(3), &json!(3)); 3]);
    assert_eq!(said["findings"], json!([]));
    world
        .run(&["verify", name, "--run", &delivered.run])
        .ended(0);
}

/// A receipt as somebody would forge it: for these files alone, with a digest that fits.
fn forge(path: &Path, keep: usize) {
    let mut whole: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let files = whole["receipt"]["files"].as_array_mut().unwrap();
    files.truncate(keep);
    let text = serde_json::to_string(&whole["receipt"]).unwrap();
    let forged = format!(
        "{{\"digest\":\"{}\",\"receipt\":{text}}}\n",
        sha(text.as_bytes())
    );
    fs::write(path, forged).unwrap();
}

#[test]
fn a_receipt_that_was_written_anew_is_not_the_one_on_record() {
    let delivered = Delivered::new();
    let (world, name) = (&delivered.world, &delivered.name);
    let (first, path) = (
        delivered.receipt(),
        delivered.folder.join(delivered.receipt()),
    );
    let refused = |said: &Said| {
        let refused = &said.json()["refused"][0];
        (refused["path"].clone(), refused["code"].clone())
    };
    let folder = delivered.folder.to_str().unwrap();
    let whole = fs::read(&path).unwrap();

    // The folder cannot know; the record does.
    forge(&path, 1);
    world.run(&["verify", folder]).ended(0);
    let said = world.run(&["verify", name, "--json"]).ended(6);
    assert_eq!(refused(&said), (json!(first), json!("RECEIPT_INVALID")));
    fs::remove_file(&path).unwrap();
    let said = world.run(&["verify", name, "--json"]).ended(6);
    assert_eq!(refused(&said), (json!(first), json!("RECEIPT_MISSING")));
    fs::write(&path, &whole).unwrap();

    // An earlier run's is kept in the data folder.
    world
        .run(&["run", "--thread", name, "four four words here"])
        .ended(0);
    let said = world.run(&["verify", name]).ended(0);
    assert!(
        said.out
            .ends_with("Every receipt here is the one on record.\n"),
        "{said:?}"
    );
    forge(&path, 1);
    let said = world.run(&["verify", name, "--json"]).ended(6);
    assert_eq!(refused(&said), (json!(first), json!("RECEIPT_INVALID")));
    fs::write(&path, &whole).unwrap();

    // Notes that are a link prove nothing.
    let notes = delivered.folder.join(".xworkmate");
    let away = delivered.world.home().join("away");
    fs::rename(&notes, &away).unwrap();
    symlink(&away, &notes).unwrap();
    for what in [name.as_str(), folder] {
        let said = world.run(&["verify", what, "--json"]).ended(6);
        let want = (json!(".xworkmate/runs"), json!("RECEIPT_INVALID"));
        assert_eq!(refused(&said), want);
    }
}

#[test]
fn what_cannot_be_checked_is_said() {
    let world = World::new();
    fs::create_dir(world.home().join("empty")).unwrap();
    fs::write(world.home().join("file"), "text").unwrap();
    for (what, code, says) in [
        ("empty", 7, "[RECEIPT_MISSING]"),
        ("file", 7, "--receipt file"),
        ("nowhere/at/all", 7, "There is no folder nowhere/at/all."),
    ] {
        let said = world.run(&["verify", what]).ended(code);
        assert!(said.err.contains(says), "{said:?}");
    }
    let said = world
        .run(&["verify", "empty", "--receipt", "file"])
        .ended(1);
    assert!(said.err.contains("[RECEIPT_INVALID]"), "{said:?}");
    assert!(!world.data().exists(), "none of this needed an owner");
    let said = world.run(&["verify", "no-such-thing"]).ended(7);
    assert!(
        said.err
            .contains("There is no folder and no thread called no-such-thing."),
        "{said:?}"
    );
}
