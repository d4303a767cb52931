use pretty_assertions::assert_eq;
use threadline_artifacts::Refused;
use threadline_contract::{
    AppThreadKey, ArtifactScope, Code, RunId, SessionKey, Sha256,
    method::{Gc, GcKept},
};

use super::*;

fn receipt(run: &str, files: u64, intact: u64) -> threadline_artifacts::Checked {
    let session = SessionKey::new("builtin:main:draft:1").unwrap();
    let run_id = RunId::new(run).unwrap();
    threadline_artifacts::Checked {
        scope: ArtifactScope::of(&session, &run_id).unwrap(),
        session_key: session,
        run_id,
        digest: Sha256([0xab; 32]),
        files,
        bytes: 100,
        intact,
        on_record: false,
    }
}

fn finding(path: &str, run: Option<&str>, what: What) -> Finding {
    Finding {
        path: path.to_owned(),
        run_id: run.map(|run| RunId::new(run).unwrap()),
        what,
    }
}

#[test]
fn an_intact_folder_needs_few_words() {
    let one = |files| Report {
        receipts: vec![receipt("turn-1", files, files)],
        ..Report::default()
    };
    let first = |files| {
        let text = report(&one(files), Terminal::PLAIN);
        text.lines().next().unwrap().to_owned()
    };
    assert_eq!(first(0), "✓ Nothing was delivered, and nothing is missing.");
    assert_eq!(
        first(1),
        "✓ The 1 file that was delivered is here, byte for byte."
    );
    assert_eq!(
        first(2),
        "✓ All 2 files that were delivered are here, byte for byte."
    );
}

#[test]
fn every_matter_has_its_words() {
    let differs = |size, found_size| What::Differs {
        size,
        found_size,
        sha256: Sha256([1; 32]),
        found_sha256: None,
    };
    let found = Report {
        receipts: vec![receipt("turn-1", 5, 0), receipt("turn-2", 1, 1)],
        refused: vec![Refused {
            path: ".xworkmate/runs/turn-3/receipt.json".into(),
            code: Code::ReceiptInvalid,
            why: "The receipt cannot be used: it is not in canonical form.".into(),
        }],
        findings: vec![
            finding("a", Some("turn-1"), differs(5, 5)),
            finding("b", Some("turn-1"), differs(5, 7)),
            finding("c", Some("turn-1"), What::Missing),
            finding("d\u{1b}[31m", Some("turn-1"), What::NotAFile),
            finding("e", Some("turn-1"), What::Unreadable),
            finding("f", None, What::Extra { file: true }),
            finding("g", None, What::Extra { file: false }),
            finding("h", None, What::Unchecked),
        ],
        bytes_read: 12,
    };
    let text = report(&found, Terminal::PLAIN);
    assert!(!text.contains('\u{1b}'), "{text:?}");
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.split_once("  ").map_or(line, |(_, rest)| rest.trim()))
        .collect();
    assert_eq!(
        lines,
        [
            "The receipt cannot be used: it is not in canonical form.",
            "`threadline sync THREAD` writes it anew.",
            "differs: as many bytes, but others  (run turn-1)",
            "differs: 7 bytes, delivered were 5  (run turn-1)",
            "is missing  (run turn-1)",
            "is not a file: something else stands in its place  (run turn-1)",
            "cannot be read  (run turn-1)",
            "is extra: no receipt names it",
            "is extra, and not a file",
            "cannot be checked: the receipt that may name it cannot be used",
            "",
            "Not intact: 1 receipt cannot be used. 1 of 6 files as delivered. 1 file cannot be checked. 2 extra files.",
            "run turn-1, 0 of 5 files",
            "run turn-2, 1 of 1 file",
        ]
    );
}

#[test]
fn room_says_what_went_and_what_stays() {
    let now = Millis(1_700_000_000_000);
    let session = SessionKey::new("builtin:main:draft:1").unwrap();
    let scope = |run: &str| ArtifactScope::of(&session, &RunId::new(run).unwrap()).unwrap();
    let went = |run: &str, thread: &str, why| GcRemoved {
        thread_id: AppThreadKey::new(thread).unwrap(),
        run_id: RunId::new(run).unwrap(),
        scope: scope(run),
        files: 3,
        bytes: 2_500,
        changed_at: Millis(now.0 - 40 * 24 * 60 * 60 * 1000),
        why,
    };
    let stays = |run: &str, why| GcKept {
        scope: scope(run),
        why,
        until: None,
    };
    let mut view = GcView {
        gc: Gc {
            dry_run: false,
            removed_runs: 3,
            freed_bytes: 7_500,
            bytes_after: 10_000,
            removed: vec![
                went("turn-1", "draft:1", RemovedFor::Age),
                went("turn-2", "draft:2", RemovedFor::Bytes),
            ],
            kept_runs: 3,
            kept: vec![
                stays("turn-4", KeptFor::Live),
                stays("turn-5", KeptFor::Held),
                stays("turn-6", KeptFor::Grace),
            ],
            unknown: 1,
            more: false,
        },
        names: [(
            AppThreadKey::new("draft:1").unwrap(),
            "river-report".to_owned(),
        )]
        .into(),
    };
    let lines = |view: &GcView| -> Vec<String> {
        let text = room(view, now, &TimeZone::UTC, Terminal::PLAIN);
        text.lines().map(str::to_owned).collect()
    };
    assert_eq!(
        lines(&view),
        [
            "  river-report  2023-10-05  3 files, 2.5 kB  old",
            "  draft:2       2023-10-05  3 files, 2.5 kB  the oldest, and there is too much",
            "  and those of 1 more run",
            "The files of 3 runs went: 7.5 kB. What they were stays on record.",
            "The files of 1 run stay because it goes on.",
            "The files of 1 run stay because links to them are still good.",
            "The files of 1 run stay because they changed within the last day.",
            "1 folder not of Threadline's making stay.",
            "10 kB stay in all.",
        ]
    );
    view.gc.dry_run = true;
    assert_eq!(
        lines(&view)[3],
        "The files of 3 runs would go: 7.5 kB. Nothing was touched."
    );
    let text = stock(&view, now, &TimeZone::UTC, Terminal::PLAIN);
    let lines_of_stock: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines_of_stock,
        [
            "The files of 6 runs have 18 kB; the oldest changed 2023-10-05.",
            "  river-report  1 run  2.5 kB  2023-10-05",
            "  draft:2       1 run  2.5 kB  2023-10-05",
            "The files of 1 run stay because it goes on.",
            "The files of 1 run stay because links to them are still good.",
            "The files of 1 run stay because they changed within the last day.",
            "1 folder not of Threadline's making stay.",
            "10 kB stay in any case.",
            "Say what may go: --older-than 30d, --keep-bytes 10GB, or both. The settings",
            "artifacts.keep_days and artifacts.keep_bytes say it once and for all.",
        ]
    );
    view.gc = Gc::default();
    assert_eq!(lines(&view), ["Nothing went.", "0 B stay in all."]);
}
