//! When a run was, and whether a file was written then.

use threadline_contract::plugin::CommandSpan;
use threadline_files::Stamp;

/// Kernels stamp files with a clock that lags a little (one tick, at most 10 ms), so a file that is
/// written right after the start can look as if it had been there just before.
pub(crate) const LAG_NS: i64 = 10_000_000;

/// From a run's start to its end, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub since_ns: i64,
    pub until_ns: i64,
}

impl Window {
    /// Whether a file was written in the run.
    ///
    /// The attribute time decides, because nobody can set it: a file that was moved in with an old
    /// modification time is new here. Attributes may change once more after the end (somebody's
    /// `chmod`); then the modification time speaks.
    pub(crate) fn holds(&self, stamp: &Stamp) -> bool {
        let within =
            |time: i64| time >= self.since_ns.saturating_sub(LAG_NS) && time <= self.until_ns;
        within(stamp.ctime_ns) || (stamp.ctime_ns > self.until_ns && within(stamp.mtime_ns))
    }

    /// When a file of the run was last written: by the time that put it into the run.
    pub(crate) fn changed_ns(&self, stamp: &Stamp) -> i64 {
        match stamp.ctime_ns > self.until_ns {
            true => stamp.mtime_ns,
            false => stamp.ctime_ns,
        }
    }
}

/// Times in which only commands of one run were running, in order. Whoever told them took into account
/// that files' times lag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spans(Vec<Window>);

impl Spans {
    pub(crate) fn new(told: &[CommandSpan]) -> Self {
        let ns = |ms: i64| ms.saturating_mul(1_000_000);
        let mut spans: Vec<Window> = told
            .iter()
            .map(|span| Window {
                since_ns: ns(span.since_unix_ms),
                // A whole millisecond: the teller's clock counts no finer.
                until_ns: ns(span.until_unix_ms.saturating_add(1)).saturating_sub(1),
            })
            .collect();
        spans.sort_unstable_by_key(|span| span.since_ns);
        Self(spans)
    }

    /// Whether a time lies in one of them.
    pub(crate) fn hold(&self, time_ns: i64) -> bool {
        let begun = self.0.partition_point(|span| span.since_ns <= time_ns);
        let begun = self.0.get(..begun).unwrap_or_default();
        // They do not overlap, so the last that began is the one.
        begun.last().is_some_and(|span| time_ns <= span.until_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_lies_in_a_span_or_between_two() {
        let span = |since_unix_ms, until_unix_ms| CommandSpan {
            since_unix_ms,
            until_unix_ms,
        };
        let spans = Spans::new(&[span(30, 40), span(10, 20)]);
        let held: Vec<i64> = [9, 10, 15, 20, 21, 29, 30, 40, 41]
            .into_iter()
            .filter(|ms| spans.hold(ms * 1_000_000))
            .collect();
        assert_eq!(held, [10, 15, 20, 30, 40]);
        assert!(!Spans::default().hold(10_000_000));
    }

    #[test]
    fn a_file_is_of_the_run_that_wrote_it() {
        const S: i64 = 1_000_000_000;
        let window = Window {
            since_ns: 100 * S,
            until_ns: 200 * S,
        };
        let cases = [
            (150, 150, true, "written in it"),
            (10, 150, true, "moved in with an old time"),
            (999, 150, true, "a time of the future was set"),
            (150, 250, true, "its rights changed afterwards"),
            (100, 100, true, "at once"),
            (200, 200, true, "at the end"),
            (99, 99, false, "before it"),
            (150, 99, false, "only claims to be of it"),
            (201, 201, false, "after it"),
            (10, 201, false, "old bytes that came afterwards"),
        ];
        for (mtime, ctime, want, what) in cases {
            let stamp = Stamp {
                dev: 1,
                ino: 1,
                size: 1,
                mtime_ns: mtime * S,
                ctime_ns: ctime * S,
            };
            assert_eq!(window.holds(&stamp), want, "{what}");
        }
        let just_before = Stamp {
            dev: 1,
            ino: 1,
            size: 1,
            mtime_ns: 100 * S - LAG_NS,
            ctime_ns: 100 * S - LAG_NS,
        };
        assert!(window.holds(&just_before), "the clock of the kernel lags");
    }
}
