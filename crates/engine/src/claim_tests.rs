use pretty_assertions::assert_eq;

use super::*;

const MINE: &str = "mine";
const HOUR: i64 = 60 * 60 * 1000;

fn look(owner: Option<&str>, lapsed_for: i64) -> Look<'_> {
    Look {
        owner,
        until: Millis(10 * HOUR - lapsed_for),
        node: MINE,
        sole: false,
        local: true,
        now: Millis(10 * HOUR),
    }
}

#[test]
fn its_own_run_is_taken_at_once_and_a_free_one_by_whoever_comes() {
    assert_eq!(claim(look(Some(MINE), -5)), Claim::Take(Takeover::Always));
    assert_eq!(claim(look(None, 5)), Claim::Take(Takeover::IfExpired));
}

#[test]
fn in_a_database_of_its_own_every_lease_is_its_own() {
    for lapsed_for in [-5, 0, 2 * HOUR] {
        let sole = Look {
            sole: true,
            ..look(Some("a name that was lost"), lapsed_for)
        };
        assert_eq!(claim(sole), Claim::Take(Takeover::Always));
    }
}

#[test]
fn a_run_that_any_node_can_drive_is_free_when_its_lease_lapses() {
    let anywhere = Look {
        local: false,
        ..look(Some("other"), 1)
    };
    assert_eq!(claim(anywhere), Claim::Take(Takeover::IfExpired));
}

#[test]
fn a_run_that_lies_on_another_host_waits_for_it_but_not_for_ever() {
    let at = |lapsed_for| claim(look(Some("other"), lapsed_for));
    assert_eq!(
        [at(-1), at(0), at(HOUR - 1), at(HOUR)],
        [
            Claim::Leave,
            Claim::IfKnown,
            Claim::IfKnown,
            Claim::IfKnownElseLost
        ]
    );
}
