//! The rule of every lane, at the app as at the bridge: first come, first served; one turn of a conversation
//! at a time; and a turn that waits for its own conversation lets others pass.

use std::{collections::HashSet, hash::Hash};

/// How a turn stands in a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has a place, and its conversation is busy.
    Active,
    /// It has no place here, but its conversation is busy.
    Busy,
    /// It waits for a place.
    Waiting,
}

/// Which of the turns that wait may begin now: their places among the turns, which are in the order in which
/// they were asked for, each with its conversation.
pub fn may_begin<'a, K: Eq + Hash + 'a>(
    turns: impl IntoIterator<Item = (&'a K, Standing)> + Clone,
    places: usize,
) -> impl Iterator<Item = usize> {
    let active = |(_, standing): &(&K, Standing)| *standing == Standing::Active;
    let held = turns.clone().into_iter().filter(active).count();
    let mut free = places.saturating_sub(held);
    let mut busy = HashSet::new();
    turns
        .into_iter()
        .enumerate()
        .filter_map(move |(at, (conversation, standing))| {
            let is_first = busy.insert(conversation);
            let begins = standing == Standing::Waiting && is_first && free > 0;
            free -= usize::from(begins);
            begins.then_some(at)
        })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::{Standing::*, *};

    fn beginning(turns: &[(&str, Standing)], places: usize) -> Vec<usize> {
        let turns = turns
            .iter()
            .map(|(conversation, standing)| (conversation, *standing));
        may_begin(turns, places).collect()
    }

    #[test]
    fn first_come_first_served() {
        let turns = [
            ("a", Active),
            ("b", Waiting),
            ("c", Waiting),
            ("d", Waiting),
        ];
        let begin = [0, 1, 2, 3, 9].map(|places| beginning(&turns, places));
        assert_eq!(begin, [vec![], vec![], vec![1], vec![1, 2], vec![1, 2, 3]]);
    }

    #[test]
    fn one_turn_of_a_conversation_at_a_time_and_others_pass() {
        let turns = [
            ("a", Active),
            ("a", Waiting),
            ("b", Waiting),
            ("b", Waiting),
            ("c", Waiting),
        ];
        assert_eq!(beginning(&turns, 9), [2, 4]);
        assert_eq!(beginning(&turns, 2), [2]);
    }

    #[test]
    fn a_conversation_can_be_busy_without_a_place() {
        let turns = [("a", Busy), ("a", Waiting), ("b", Waiting)];
        assert_eq!(beginning(&turns, 1), [2]);
    }

    #[test]
    fn a_lane_that_became_smaller_lets_nobody_begin() {
        let turns = [("a", Active), ("b", Active), ("c", Waiting)];
        assert!(beginning(&turns, 1).is_empty());
    }
}
