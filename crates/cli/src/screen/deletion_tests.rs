use pretty_assertions::assert_eq;

use super::*;
use crate::screen::fixtures::key;

fn own(path: &str, edited: bool) -> OwnFile {
    OwnFile {
        path: path.into(),
        size: 4,
        edited,
    }
}

fn preview(yours: Vec<OwnFile>) -> DeletionPreview {
    let files = yours.len() as u64;
    DeletionPreview {
        thread_id: key(),
        name: "river-report".into(),
        folder: Some("/h/draft-1-1".into()),
        delivered: FileTotal { files: 1, bytes: 7 },
        yours,
        yours_total: FileTotal {
            files,
            bytes: files * 4,
        },
        yours_digest: "d".into(),
    }
}

#[test]
fn what_would_go_and_what_would_stay_is_said() {
    let to = Terminal::PLAIN;
    let some = preview(vec![own("notes\u{1b}.txt", false), own("report.md", true)]);
    assert_eq!(
        before(&some, false, to),
        "This removes river-report for good, and 1 file (7 B) that was delivered to it in /h/draft-1-1. What its bridge holds of it goes too, files of cancelled runs among it. 2 files (8 B) that you made or edited stay there:\n  notes\u{fffd}.txt  4 B\n  report.md  4 B, edited\nTo do so: threadline delete river-report --yes"
    );
    assert_eq!(
        before(&preview(vec![]), true, to),
        "This removes river-report for good, and 1 file (7 B) that was delivered to it in /h/draft-1-1. What its bridge holds of it goes too, files of cancelled runs among it.\nTo do so: threadline delete river-report --yes --with-my-files"
    );
}

#[test]
fn what_stays_is_named_with_its_folder() {
    let to = Terminal::PLAIN;
    let mut gone = Deleted {
        thread_id: key(),
        name: "river-report".into(),
        removed_folder: None,
        kept_folder: Some("/h/draft-1-1".into()),
        kept: (0..31)
            .map(|n| own(&format!("{n:02}.txt"), false))
            .collect(),
        kept_total: FileTotal {
            files: 400,
            bytes: 1600,
        },
        pending: None,
    };
    let told = after(&gone, "/h/draft-1-1", to);
    assert!(told.starts_with("river-report is gone. 400 files (1.6 kB) that you made or edited stay in /h/draft-1-1:\n  00.txt  4 B\n"), "{told}");
    assert!(
        told.ends_with("  29.txt  4 B\n  … and 370 files more\n"),
        "{told}"
    );
    (gone.removed_folder, gone.kept_folder) = (gone.kept_folder, None);
    gone.pending = Some("It is away.".into());
    assert_eq!(
        after(&gone, "/x", to),
        "river-report is gone, and with it /h/draft-1-1.\nIt is away.\n"
    );
    gone.removed_folder = None;
    gone.pending = None;
    assert_eq!(after(&gone, "/x", to), "river-report is gone; /x stays.\n");
}
