//! The wall clock, and how far a file's times can be trusted.

use std::time::{SystemTime, UNIX_EPOCH};

use threadline_files::Stamp;

/// File systems count time in ticks (milliseconds to two seconds): a file that is written again
/// within one looks the same. So a stamp that is younger than this proves nothing yet.
pub(crate) const TICK_NS: i64 = 2_000_000_000;

/// Nanoseconds since 1970.
pub(crate) fn now_ns() -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

/// Whether a file that looked like this at `seen_ns` would look different had it changed since.
pub(crate) fn settled(stamp: &Stamp, seen_ns: i64) -> bool {
    stamp.changed_ns() < seen_ns.saturating_sub(TICK_NS)
}
