use std::sync::Arc;

use pretty_assertions::assert_eq;
use threadline_artifacts::{Kept, KeptFor, RemovedFor};
use threadline_contract::ArtifactScope;

use super::*;

const DAY: u64 = 24 * 60 * 60;

fn session() -> SessionKey {
    SessionKey::new("builtin:main:draft:1").unwrap()
}

fn named(run: &str) -> RunRef {
    RunRef {
        session: session(),
        run: RunId::new(run).unwrap(),
    }
}

/// A workspace in which these runs left 100 bytes each.
fn workspace(runs: &[&str]) -> (tempfile::TempDir, Workspace) {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(folder.path()).unwrap();
    for run in runs {
        let run = named(run);
        let prepared = workspace.prepare(&run.session, &run.run).unwrap();
        std::fs::write(prepared.artifact_dir.join("a.txt"), [b'a'; 100]).unwrap();
        let files = workspace.manifest(&run.session, &run.run).unwrap();
        workspace
            .write_receipt(&run.session, &run.run, &files.artifacts.into())
            .unwrap();
    }
    (folder, workspace)
}

fn rules(max_age_days: Option<u64>, max_bytes: Option<u64>) -> RoomRules {
    RoomRules {
        max_age: max_age_days.map(|days| Duration::from_secs(days * DAY)),
        max_bytes,
        dry_run: false,
        stands: Arc::new(|_| Stands::Ended),
    }
}

fn in_days(days: u64) -> SystemTime {
    SystemTime::now() + Duration::from_secs(days * DAY)
}

fn runs(room: &Room) -> Vec<(&str, RemovedFor)> {
    let removed = room.removed.iter();
    removed.map(|r| (r.scope.run_id.as_str(), r.why)).collect()
}

#[test]
fn what_is_old_goes_and_leaves_its_receipt() {
    let (folder, workspace) = workspace(&["one", "two"]);
    let rules = RoomRules {
        dry_run: true,
        ..rules(Some(30), None)
    };
    assert_eq!(
        make_room(&workspace, &rules, in_days(29)).unwrap().removed,
        []
    );
    let planned = make_room(&workspace, &rules, in_days(31)).unwrap();
    let both = [("one", RemovedFor::Age), ("two", RemovedFor::Age)];
    assert_eq!(runs(&planned), both);
    assert!(
        folder
            .path()
            .join(planned.removed[0].scope.scope.as_str())
            .exists()
    );

    let rules = RoomRules {
        dry_run: false,
        ..rules
    };
    let made = make_room(&workspace, &rules, in_days(31)).unwrap();
    assert_eq!(made, planned, "it does what it said");
    assert_eq!((made.bytes_after, made.more), (0, false));
    for run in ["one", "two"].map(named) {
        let scope = ArtifactScope::of(&run.session, &run.run).unwrap();
        assert!(!folder.path().join(scope.as_str()).exists());
        let receipt = workspace.receipt(&run.session, &run.run).unwrap().unwrap();
        assert_eq!(receipt.files().len(), 1);
        let stone = removed(&workspace, &run);
        assert_eq!(stone.why, RemovedFor::Age);
        assert!(
            stone.at.0 > Millis::now().0,
            "as the clock of this test says"
        );
    }
    let again = make_room(&workspace, &rules, in_days(31)).unwrap();
    assert_eq!(again, Room::default());
}

#[test]
fn what_goes_on_stays_and_what_is_not_ours_is_not_seen() {
    let (_folder, workspace) = workspace(&["ended", "going", "theirs"]);
    let rules = RoomRules {
        stands: Arc::new(|run| match run.run.as_str() {
            "ended" => Stands::Ended,
            "going" => Stands::GoesOn,
            _ => Stands::NotOurs,
        }),
        ..rules(None, Some(0))
    };
    let made = make_room(&workspace, &rules, in_days(31)).unwrap();
    assert_eq!(runs(&made), [("ended", RemovedFor::Bytes)]);
    let going = named("going");
    assert_eq!(
        made.kept,
        [Kept {
            scope: ArtifactScope::of(&going.session, &going.run).unwrap(),
            why: KeptFor::Live,
        }]
    );
    let theirs = named("theirs");
    assert_eq!(
        workspace.tombstone(&theirs.session, &theirs.run).unwrap(),
        None
    );
    // Two of three were ours, and of the same size: our own notes in a scope included.
    let bytes = made.removed[0].scope.bytes;
    assert!((100..1000).contains(&bytes), "{bytes}");
    assert!((bytes..=bytes + 2).contains(&made.bytes_after), "{made:?}");
}

#[test]
fn what_links_lead_to_stays_until_they_expire() {
    let (_folder, workspace) = workspace(&["one"]);
    let run = named("one");
    let until = Millis::now().0 / 1000 + 40 * DAY as i64;
    workspace.hold(&run.session, &run.run, until).unwrap();
    let rules = rules(Some(30), None);
    let made = make_room(&workspace, &rules, in_days(31)).unwrap();
    assert!(
        matches!(
            made.kept[..],
            [Kept {
                why: KeptFor::Held { .. },
                ..
            }]
        ),
        "{made:?}"
    );
    let made = make_room(&workspace, &rules, in_days(42)).unwrap();
    assert_eq!(runs(&made), [("one", RemovedFor::Age)]);
}
