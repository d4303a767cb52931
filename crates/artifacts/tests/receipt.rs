//! Receipts, and folders held against them.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Mutex,
};

use common::{World, put, run, session, sha};
use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_artifacts::{
    Error, Finding, Progress, Refused, Report, VerifyOptions, What, verify,
};
use threadline_contract::{Artifact, ArtifactPath, ArtifactScope, Code, Receipt, RunId, canonical};

/// A folder as the app leaves it after several syncs.
struct Synced {
    temp: tempfile::TempDir,
}

fn receipt_of(run_id: &str, files: &[(&str, &str)]) -> Receipt {
    let (session, run) = (session("agent:main:draft:1"), run(run_id));
    let scope = ArtifactScope::of(&session, &run).unwrap();
    let files = files.iter().map(|(path, content)| Artifact {
        path: ArtifactPath::new(*path).unwrap(),
        size: content.len() as u64,
        sha256: sha(content.as_bytes()),
        content_type: "text/plain".into(),
    });
    Receipt::new(session, run, scope, files.collect()).unwrap()
}

impl Synced {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        put(temp.path(), ".xworkmate/owner.json", "{}");
        put(temp.path(), ".xworkmate/ledger.json", "{}");
        Self { temp }
    }
    fn at(&self, path: &str) -> PathBuf {
        self.temp.path().join(path)
    }
    fn receipt(&self, run: &str, files: &[(&str, &str)]) -> Receipt {
        let receipt = receipt_of(run, files);
        let path = format!(".xworkmate/runs/{run}/receipt.json");
        put(self.temp.path(), &path, receipt.to_bytes().unwrap());
        receipt
    }
    fn open(&self, path: &str, content: &str) {
        put(self.temp.path(), path, content);
    }
    fn archived(&self, run: &str, path: &str, content: &str) {
        put(
            self.temp.path(),
            &format!(".xworkmate/runs/{run}/files/{path}"),
            content,
        );
    }
    fn verify(&self) -> Report {
        verify(self.temp.path(), &VerifyOptions::default(), &|_| {}).unwrap()
    }
    fn findings(&self) -> Vec<Finding> {
        self.verify().findings
    }
}

fn finding(path: &str, run_id: Option<&str>, what: What) -> Finding {
    Finding {
        path: path.into(),
        run_id: run_id.map(run),
        what,
    }
}
fn differs(wanted: &str, found: &str) -> What {
    What::Differs {
        size: wanted.len() as u64,
        found_size: found.len() as u64,
        sha256: sha(wanted.as_bytes()),
        found_sha256: (wanted.len() == found.len()).then(|| sha(found.as_bytes())),
    }
}
const EXTRA: What = What::Extra { file: true };

#[test]
fn a_run_has_one_receipt_and_it_says_everything() {
    let w = World::new();
    put(&w.scope(), "b.txt", "b");
    put(&w.scope(), "a/ü\n.md", "a");
    let export = w.ws.manifest(&w.session, &w.run).unwrap();
    assert_eq!(w.ws.receipt(&w.session, &w.run).unwrap(), None);
    let written =
        w.ws.write_receipt(&w.session, &w.run, &export.artifacts.clone().into())
            .unwrap();
    let read = w.ws.receipt(&w.session, &w.run).unwrap().unwrap();
    assert_eq!(
        (read.digest(), read.files().len()),
        (written, export.artifacts.len())
    );
    let place = w
        .root()
        .join("tasks/agent-main-draft-1/.xworkmate/runs/turn-1/receipt.json");
    let bytes = fs::read(&place).unwrap();
    assert_eq!(Receipt::from_bytes(&bytes).unwrap(), read);
    let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(
        bytes,
        format!("{}\n", canonical::to_string(&value)).into_bytes(),
        "canonical, to the byte"
    );
    // The same again writes nothing; another is written whole.
    let changed = fs::metadata(&place).unwrap().modified().unwrap();
    w.ws.write_receipt(&w.session, &w.run, &export.artifacts.into())
        .unwrap();
    assert_eq!(fs::metadata(&place).unwrap().modified().unwrap(), changed);
    let empty =
        w.ws.write_receipt(&w.session, &w.run, &vec![].into())
            .unwrap();
    let read = w.ws.receipt(&w.session, &w.run).unwrap();
    assert_eq!(read.map(|receipt| receipt.digest()), Some(empty));
    // Neither is a file of the run.
    assert_eq!(w.export().artifacts.len(), 2);
    // One that was put there for another run is not this run's.
    fs::write(&place, receipt_of("turn-2", &[]).to_bytes().unwrap()).unwrap();
    let wrong = w.ws.receipt(&w.session, &w.run);
    assert!(matches!(wrong, Err(Error::Conflict { .. })), "{wrong:?}");
    fs::write(&place, b"{").unwrap();
    let bad = w.ws.receipt(&w.session, &w.run).unwrap_err();
    assert_eq!(bad.code(), Code::ReceiptInvalid);
}

#[test]
fn a_whole_folder_is_intact() {
    let s = Synced::new();
    let receipt = s.receipt(
        "r1",
        &[("a.txt", "one"), ("sub/b.txt", ""), ("ü \n.md", "x")],
    );
    s.open("a.txt", "one");
    s.open("sub/b.txt", "");
    s.open("ü \n.md", "x");
    let report = s.verify();
    assert!(report.is_intact());
    assert_eq!(
        (report.findings, report.refused, report.bytes_read),
        (vec![], vec![], 4)
    );
    let checked = &report.receipts[0];
    assert_eq!(
        (checked.files, checked.bytes, checked.intact, checked.digest),
        (3, 4, 3, receipt.digest())
    );
}

#[test]
fn ten_ways_of_damage_are_each_named() {
    let s = Synced::new();
    let names = [
        "bytes.txt",
        "cut.txt",
        "empty.txt",
        "fifo.txt",
        "folder.txt",
        "gone/x.txt",
        "grown.txt",
        "link.txt",
        "moved.txt",
        "swapped-a.txt",
        "swapped-b.txt",
        "whole.txt",
    ];
    let files: Vec<(&str, &str)> = names.iter().map(|n| (*n, *n)).collect();
    s.receipt("r1", &files);
    for name in names {
        s.open(name, name);
    }
    assert_eq!(s.findings(), []);

    s.open("bytes.txt", "Bytes.txt");
    s.open("cut.txt", "cut");
    s.open("empty.txt", "");
    s.open("grown.txt", "grown.txt and more");
    for name in ["fifo.txt", "folder.txt", "link.txt", "gone/x.txt"] {
        fs::remove_file(s.at(name)).unwrap();
    }
    rustix::fs::mknodat(
        rustix::fs::CWD,
        s.at("fifo.txt"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    s.open("folder.txt/inside", "x");
    // A link to the very bytes is still not the file that was delivered.
    s.open("outside", "link.txt");
    symlink("outside", s.at("link.txt")).unwrap();
    fs::rename(s.at("moved.txt"), s.at("Moved.txt")).unwrap();
    fs::rename(s.at("swapped-a.txt"), s.at("swap")).unwrap();
    fs::rename(s.at("swapped-b.txt"), s.at("swapped-a.txt")).unwrap();
    fs::rename(s.at("swap"), s.at("swapped-b.txt")).unwrap();

    let r = Some("r1");
    let mut wanted = vec![
        finding("Moved.txt", None, EXTRA),
        finding("bytes.txt", r, differs("bytes.txt", "Bytes.txt")),
        finding("cut.txt", r, differs("cut.txt", "cut")),
        finding("empty.txt", r, differs("empty.txt", "")),
        finding("fifo.txt", r, What::NotAFile),
        finding("folder.txt", r, What::NotAFile),
        finding("folder.txt/inside", None, EXTRA),
        finding("gone/x.txt", r, What::Missing),
        finding("grown.txt", r, differs("grown.txt", "grown.txt and more")),
        finding("link.txt", r, What::NotAFile),
        finding("moved.txt", r, What::Missing),
        finding("outside", None, EXTRA),
        finding(
            "swapped-a.txt",
            r,
            differs("swapped-a.txt", "swapped-b.txt"),
        ),
        finding(
            "swapped-b.txt",
            r,
            differs("swapped-b.txt", "swapped-a.txt"),
        ),
    ];
    wanted.sort_by(|a, b| a.path.cmp(&b.path));
    let report = s.verify();
    assert_eq!(report.findings, wanted);
    assert_eq!((report.receipts[0].intact, report.is_intact()), (1, false));
}

/// What the app does when later runs deliver, and what a person may have done in between.
#[test]
fn a_folder_that_several_runs_were_synced_into_is_told_apart() {
    let s = Synced::new();
    s.receipt(
        "r1",
        &[
            ("report.md", "first"),
            ("same.txt", "same"),
            ("only-1.txt", "one"),
            ("mine.txt", "theirs"),
        ],
    );
    s.receipt(
        "r2",
        &[
            ("report.md", "second"),
            ("same.txt", "same"),
            ("mine.txt", "newer"),
        ],
    );
    // The second run's files lie in the open; the first run's moved aside, except the one that is
    // the same in both.
    s.open("report.md", "second");
    s.open("same.txt", "same");
    s.open("mine.txt", "newer");
    s.archived("r1", "report.md", "first");
    s.archived("r1", "only-1.txt", "one");
    // The user had changed the first run's file: it was kept under another name.
    s.open("mine.yours.txt", "edited");
    assert_eq!(
        s.findings(),
        [
            finding("mine.txt", Some("r1"), What::Missing),
            finding("mine.yours.txt", None, EXTRA),
        ]
    );
    // Only the second run: all there.
    let only = VerifyOptions {
        run: Some(run("r2")),
        ..VerifyOptions::default()
    };
    let report = verify(s.temp.path(), &only, &|_| {}).unwrap();
    assert_eq!((report.findings, report.receipts[0].intact), (vec![], 3));

    // Somebody copies an old file back into the open: it is what a run delivered.
    s.open("only-1.txt", "one");
    assert_eq!(s.findings().len(), 2);
    // Somebody writes his own under the name of an old one: it is his.
    s.open("only-1.txt", "two");
    assert_eq!(s.findings()[2], finding("only-1.txt", None, EXTRA));
    fs::remove_file(s.at("only-1.txt")).unwrap();
    // The first run's version is put over the second's.
    s.open("report.md", "first");
    assert_eq!(
        s.findings()[2],
        finding("report.md", Some("r2"), differs("second", "first"))
    );
    // An archived file is damaged, and one appears that no run delivered.
    s.open("report.md", "second");
    s.archived("r1", "report.md", "fIrst");
    s.archived("r1", "planted.txt", "x");
    s.archived("r9", "no-receipt.txt", "x");
    let archive = ".xworkmate/runs/r1/files";
    let found = s.findings();
    assert_eq!(
        found[..3],
        [
            finding(&format!("{archive}/planted.txt"), None, EXTRA),
            finding(
                &format!("{archive}/report.md"),
                Some("r1"),
                differs("first", "fIrst")
            ),
            finding(".xworkmate/runs/r9/files/no-receipt.txt", None, EXTRA),
        ]
    );
}

/// A retry delivers the same bytes again; they lie in the folder once.
#[test]
fn what_several_runs_delivered_alike_is_there_for_each_of_them() {
    let synced = Synced::new();
    let alike = [("a.txt", "same"), ("b/c.txt", "also")];
    for run in ["one", "two"] {
        synced.receipt(run, &alike);
    }
    for (path, content) in alike {
        synced.archived("two", path, content);
    }
    synced.receipt("three", &[("a.txt", "other"), ("b/c.txt", "bytes")]);
    synced.open("a.txt", "other");
    synced.open("b/c.txt", "bytes");
    let intact = |report: &Report| -> Vec<(String, u64)> {
        let receipts = report.receipts.iter();
        receipts.map(|r| (r.run_id.to_string(), r.intact)).collect()
    };
    let report = synced.verify();
    assert_eq!(report.findings, []);
    assert_eq!(
        intact(&report),
        [("one".into(), 2), ("three".into(), 2), ("two".into(), 2)]
    );
    assert_eq!(report.bytes_read, 18, "each file once");
    let of_one = VerifyOptions {
        run: Some(run("one")),
        ..VerifyOptions::default()
    };
    let report = verify(synced.temp.path(), &of_one, &|_| {}).unwrap();
    assert_eq!(
        (intact(&report), report.findings),
        (vec![("one".into(), 2)], vec![])
    );
    // Other bytes under the same path are not the run's.
    synced.archived("two", "a.txt", "SAME");
    assert_eq!(
        synced.findings(),
        [
            finding(
                ".xworkmate/runs/two/files/a.txt",
                Some("two"),
                differs("same", "SAME")
            ),
            finding("a.txt", Some("one"), What::Missing),
        ]
    );
}

#[test]
fn a_receipt_that_cannot_be_used_is_named_and_the_others_still_count() {
    let s = Synced::new();
    s.receipt("good", &[("a.txt", "a")]);
    s.open("a.txt", "a");
    let forged = |change: &dyn Fn(&mut serde_json::Value)| {
        let honest = receipt_of("bad", &[("a.txt", "a"), ("b.txt", "b")]);
        let mut value: serde_json::Value =
            serde_json::from_slice(&honest.to_bytes().unwrap()).unwrap();
        change(&mut value["receipt"]);
        value["digest"] = json!(canonical::digest(&value["receipt"]));
        format!("{}\n", canonical::to_string(&value)).into_bytes()
    };
    let place = s.at(".xworkmate/runs/bad/receipt.json");
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    let escape = |to: &'static str| forged(&move |r| r["files"][0]["path"] = json!(to));
    for (name, bytes) in [
        ("up", escape("../../etc/passwd")),
        ("absolute", escape("/etc/passwd")),
        ("notes", escape(".xworkmate/owner.json")),
        ("twice", escape("b.txt")),
        ("other run", receipt_of("else", &[]).to_bytes().unwrap()),
        ("cut", forged(&|_| {})[..100].to_vec()),
        ("empty", vec![]),
    ] {
        fs::write(&place, bytes).unwrap();
        let report = s.verify();
        assert_eq!(
            report.refused,
            [Refused {
                path: ".xworkmate/runs/bad/receipt.json".into(),
                code: Code::ReceiptInvalid,
                why: report.refused[0].why.clone(),
            }],
            "{name}"
        );
        assert!(!report.is_intact() && report.findings.is_empty(), "{name}");
        assert_eq!(report.receipts[0].intact, 1);
    }
    // Larger than any receipt: refused before it is read into memory.
    fs::File::create(&place).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(s.verify().refused.len(), 1);
    fs::remove_file(&place).unwrap();
    symlink(s.at(".xworkmate/runs/good/receipt.json"), &place).unwrap();
    assert_eq!(s.verify().refused.len(), 1);
    // A run's folder that lies behind a link, or is none: what it promised is not forgotten.
    let folder = place.parent().unwrap();
    fs::remove_dir_all(folder).unwrap();
    symlink("good", folder).unwrap();
    assert_eq!(s.verify().refused.len(), 1);
    fs::remove_file(folder).unwrap();
    fs::write(folder, "").unwrap();
    let report = s.verify();
    assert_eq!(
        (report.refused.len(), report.is_intact()),
        (1, false),
        "{report:?}"
    );
    fs::remove_file(folder).unwrap();
    fs::write(s.at(".xworkmate/runs/.DS_Store"), "").unwrap();
    assert!(s.verify().is_intact());
}

#[test]
fn without_a_receipt_nothing_is_claimed() {
    let s = Synced::new();
    s.open("a.txt", "a");
    let none = verify(s.temp.path(), &VerifyOptions::default(), &|_| {}).unwrap_err();
    assert_eq!(none.code(), Code::ReceiptMissing);
    let nowhere = verify(s.at("nowhere"), &VerifyOptions::default(), &|_| {});
    assert!(nowhere.is_err());
    // The same folder, held against a receipt that is kept elsewhere.
    let given = |files: &[(&str, &str)]| {
        let place = s.at("../given.json");
        fs::write(&place, receipt_of("r1", files).to_bytes().unwrap()).unwrap();
        let options = VerifyOptions {
            receipts: vec![place.clone()],
            ..VerifyOptions::default()
        };
        let report = verify(s.temp.path(), &options, &|_| {}).unwrap();
        fs::remove_file(place).unwrap();
        report.findings
    };
    assert_eq!(given(&[("a.txt", "a")]), []);
    assert_eq!(
        given(&[("b.txt", "b")]),
        [
            finding("a.txt", None, EXTRA),
            finding("b.txt", Some("r1"), What::Missing)
        ]
    );
}

#[test]
fn progress_never_goes_back_and_ends_at_everything() {
    let s = Synced::new();
    let large = "x".repeat(1 << 20);
    s.receipt("r1", &[("a", &large), ("b", &large), ("c", "small")]);
    for (name, content) in [("a", large.as_str()), ("b", &large), ("c", "small")] {
        s.open(name, content);
    }
    let heard: Mutex<Vec<Progress>> = Mutex::default();
    let tell = |p: Progress| heard.lock().unwrap().push(p);
    verify(s.temp.path(), &VerifyOptions::default(), &tell).unwrap();
    let heard = heard.into_inner().unwrap();
    assert!(heard.is_sorted_by_key(|p| (p.bytes, p.files)) || heard.is_sorted_by_key(|p| p.bytes));
    let total = 2 * (1 << 20) + 5;
    assert_eq!(
        heard.last(),
        Some(&Progress {
            files: 3,
            total_files: 3,
            bytes: total,
            total_bytes: total
        })
    );
    assert!(heard.len() > 10);
}

#[test]
fn hostile_folders_are_named_not_followed() {
    use std::os::unix::ffi::OsStrExt as _;
    let s = Synced::new();
    let outside = tempfile::tempdir().unwrap();
    put(outside.path(), "b.txt", "b");
    s.receipt("r1", &[("a.txt", "a"), ("sub/b.txt", "b")]);
    s.open("a.txt", "a");
    symlink(outside.path(), s.at("sub")).unwrap();
    fs::write(
        s.at("x")
            .with_file_name(std::ffi::OsStr::from_bytes(b"bad\xff")),
        "x",
    )
    .unwrap();
    let file = What::Extra { file: false };
    assert_eq!(
        s.findings(),
        [
            finding("bad\\xff", None, file.clone()),
            finding("sub", None, file),
            finding("sub/b.txt", Some("r1"), What::Missing),
        ]
    );
    // The same through the archive.
    let archive = s.at(".xworkmate/runs/r1/files");
    symlink(outside.path(), &archive).unwrap();
    assert_eq!(s.findings().len(), 3);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

/// The report as the command line prints it.
#[test]
fn a_report_has_one_form_as_json() {
    let s = Synced::new();
    s.receipt("r1", &[("a.txt", "a"), ("b.txt", "b")]);
    s.open("b.txt", "c");
    s.open("c.txt", "c");
    let report = serde_json::to_value(s.verify()).unwrap();
    assert_eq!(
        report["findings"],
        json!([
            {"path": "a.txt", "runId": "r1", "what": "missing"},
            {"path": "b.txt", "runId": "r1", "what": "differs", "size": 1, "foundSize": 1,
             "sha256": sha(b"b"), "foundSha256": sha(b"c")},
            {"path": "c.txt", "what": "extra", "file": true},
        ])
    );
    let _: (&Path, Option<RunId>) = (s.temp.path(), None);
}
