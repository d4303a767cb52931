use pretty_assertions::assert_eq;

use super::*;

const RANKS: [Rank; 6] = [
    Rank::Task,
    Rank::Agent,
    Rank::Build,
    Rank::Session,
    Rank::Run,
    Rank::Stream,
];

#[test]
fn later_kinds_and_keys_may_follow_and_earlier_ones_may_not() {
    for (n, first) in RANKS.into_iter().enumerate() {
        for (m, second) in RANKS.into_iter().enumerate() {
            for (one, other) in [("a", "b"), ("b", "a"), ("a", "a")] {
                let mut order = LockOrder::default();
                order.take(first, one).unwrap();
                let follows = n < m || n == m && one <= other;
                assert_eq!(
                    order.take(second, other).is_ok(),
                    follows,
                    "{first:?} {one}, then {second:?} {other}"
                );
            }
        }
    }
}

#[test]
fn a_row_that_is_held_may_be_taken_again() {
    let mut order = LockOrder::default();
    order.take(Rank::Session, "s").unwrap();
    order.take(Rank::Stream, "t").unwrap();
    order.take(Rank::Session, "s").unwrap();
    assert_eq!(
        order.take(Rank::Run, "r").unwrap_err(),
        "Run r is locked after Stream t: lock rows in the order of their kinds and keys"
    );
}
