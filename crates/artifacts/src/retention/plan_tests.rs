use std::time::Duration;

use pretty_assertions::assert_eq;
use threadline_contract::{ArtifactScope, RunId, SessionKey};

use super::*;

const DAY: i64 = 24 * 60 * 60;
const NOW: i64 = 1_000 * DAY;

fn scope(run: &str, days: i64, bytes: u64) -> Surveyed {
    let session_key = SessionKey::new("s").unwrap();
    let run_id = RunId::new(run).unwrap();
    Surveyed {
        facts: ScopeFacts {
            scope: ArtifactScope::of(&session_key, &run_id).unwrap(),
            session_key,
            run_id,
            files: 1,
            bytes,
            changed_at: NOW - days * DAY,
        },
        live: false,
        held_until: None,
        unfinished: false,
    }
}

fn retention(days: Option<u64>, bytes: Option<u64>) -> Retention {
    Retention {
        max_age: days.map(|d| Duration::from_secs(d * DAY.unsigned_abs())),
        max_bytes: bytes,
        ..Retention::default()
    }
}

/// What goes and what stays, by run, and the bytes that are left.
type Told = (
    Vec<(&'static str, RemovedFor)>,
    Vec<(&'static str, KeptFor)>,
    u64,
);

fn told(plan: &RemovalPlan) -> Told {
    let name = |scope: &ArtifactScope| scope.as_str().to_owned().leak().rsplit('/').next();
    (
        plan.remove
            .iter()
            .map(|r| (name(&r.scope.scope).unwrap(), r.why))
            .collect(),
        plan.keep
            .iter()
            .map(|k| (name(&k.scope).unwrap(), k.why))
            .collect(),
        plan.bytes_after,
    )
}

#[test]
fn without_rules_nothing_goes() {
    let all = vec![scope("a", 900, 5), scope("b", 0, 7)];
    let plan = decide(all, &retention(None, None), NOW);
    assert_eq!(told(&plan), (vec![], vec![], 12));
}

#[test]
fn age_takes_what_is_older_than_it() {
    let all = vec![
        scope("new", 29, 1),
        scope("old", 31, 2),
        scope("edge", 30, 4),
    ];
    let plan = decide(all, &retention(Some(30), None), NOW);
    assert_eq!(told(&plan), (vec![("old", RemovedFor::Age)], vec![], 5));
}

#[test]
fn bytes_take_the_oldest_until_the_rest_fits() {
    let all = vec![
        scope("c", 3, 30),
        scope("a", 9, 10),
        scope("b", 9, 10),
        scope("d", 2, 40),
    ];
    let plan = decide(all.clone(), &retention(None, Some(75)), NOW);
    let two = vec![("a", RemovedFor::Bytes), ("b", RemovedFor::Bytes)];
    assert_eq!(told(&plan), (two, vec![], 70));
    let plan = decide(all.clone(), &retention(None, Some(90)), NOW);
    assert_eq!(told(&plan), (vec![], vec![], 90));
    let plan = decide(all, &retention(Some(8), Some(70)), NOW);
    let two = vec![("a", RemovedFor::Age), ("b", RemovedFor::Age)];
    assert_eq!(told(&plan), (two, vec![], 70));
}

#[test]
fn what_is_protected_stays_and_says_why() {
    let live = Surveyed {
        live: true,
        ..scope("live", 99, 10)
    };
    let held = Surveyed {
        held_until: Some(NOW),
        ..scope("held", 98, 10)
    };
    let was_held = Surveyed {
        held_until: Some(NOW - 1),
        ..scope("was-held", 97, 10)
    };
    let fresh = scope("fresh", 1, 10);
    let all = vec![live, held, was_held, fresh];
    let plan = decide(all.clone(), &retention(Some(30), Some(0)), NOW);
    assert_eq!(
        told(&plan),
        (
            vec![("was-held", RemovedFor::Age)],
            vec![
                ("live", KeptFor::Live),
                ("held", KeptFor::Held { until: NOW }),
                ("fresh", KeptFor::Grace)
            ],
            30
        )
    );
    let none = Retention {
        grace: Duration::ZERO,
        ..retention(None, Some(25))
    };
    let plan = decide(all, &none, NOW);
    assert_eq!(
        told(&plan).0,
        [
            ("was-held", RemovedFor::Bytes),
            ("fresh", RemovedFor::Bytes)
        ]
    );
}

#[test]
fn what_was_begun_is_finished_first() {
    let begun = Surveyed {
        unfinished: true,
        ..scope("begun", 0, 10)
    };
    let all = vec![scope("a", 50, 10), begun, scope("b", 40, 10)];
    let plan = decide(all, &retention(None, Some(10)), NOW);
    assert_eq!(
        told(&plan),
        (
            vec![("begun", RemovedFor::Unfinished), ("a", RemovedFor::Bytes)],
            vec![],
            10
        )
    );
}
