//! How many columns of a terminal letters take.

use super::width_tables::{NO_WIDTH, WIDE};

/// The columns that a letter takes.
pub(crate) fn of(c: char) -> usize {
    let code = c as u32;
    match code {
        // Most letters, and none of them is in a table.
        ..0x300 => 1,
        _ if is_in(code, &NO_WIDTH) => 0,
        _ if is_in(code, &WIDE) => 2,
        _ => 1,
    }
}

fn is_in(code: u32, ranges: &[(u32, u32)]) -> bool {
    let at = ranges.partition_point(|(_, last)| *last < code);
    ranges.get(at).is_some_and(|(first, _)| *first <= code)
}

#[cfg(test)]
#[path = "width_tests.rs"]
mod tests;
