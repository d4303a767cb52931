use pretty_assertions::assert_eq;

use super::*;

#[test]
fn sizes_are_short() {
    let table = [
        (0, "0 B"),
        (812, "812 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (2148, "2.1 kB"),
        (9949, "9.9 kB"),
        (9999, "10 kB"),
        (14_200, "14 kB"),
        (999_499, "999 kB"),
        (999_501, "1.0 MB"),
        (16 << 30, "17 GB"),
        (5_000_000_000_000_000, "5.0 PB"),
    ];
    for (bytes, want) in table {
        assert_eq!(size(bytes), want);
    }
}

#[test]
fn times_are_told_as_people_tell_them() {
    for (ms, want) in [
        (-5, "0 ms"),
        (450, "450 ms"),
        (3_149, "3.1 s"),
        (9_999, "9.9 s"),
        (12_345, "12 s"),
        (185_000, "3 min 5 s"),
        (7_800_000, "2 h 10 min"),
    ] {
        assert_eq!(duration(ms), want);
    }
    let now = Millis(1_763_200_000_000);
    let min = 60_000;
    for (before, want) in [
        (0, "just now"),
        (-5000, "just now"),
        (5 * min, "5 min ago"),
        (61 * min, "1 h ago"),
        (1441 * min, "yesterday"),
        (3 * 1440 * min, "3 days ago"),
        (30 * 1440 * min, "2025-10-16"),
    ] {
        assert_eq!(ago(now, Millis(now.0 - before), &TimeZone::UTC), want);
    }
}

#[test]
fn limits_are_exact() {
    assert_eq!(
        [limit(10 << 20), limit(64 << 10), limit(1001)],
        ["10 MiB", "64 KiB", "1001 B"]
    );
    let times = [1800, 90].map(|s| time_limit(Duration::from_secs(s)));
    assert_eq!(times, ["30 min", "90 s"]);
    assert_eq!(time_limit(Duration::from_millis(200)), "0.2 s");
}

#[test]
fn counts_have_their_plural() {
    let counts = [(1, "file"), (3, "file"), (0, "file"), (2, "process")];
    assert_eq!(
        counts.map(|(n, one)| count(n, one)),
        ["1 file", "3 files", "0 files", "2 processes"]
    );
}

#[test]
fn sizes_are_read_as_they_are_written() {
    let read = ["0", "500", "1kB", "10 GB", "1.5GiB", "2tb", ".5GB", "1.MB"];
    let read: Vec<Option<u64>> = read.iter().map(|t| read_bytes(t).ok()).collect();
    let want = [
        Some(0),
        Some(500),
        Some(1000),
        Some(10_000_000_000),
        Some(1_610_612_736),
        Some(2_000_000_000_000),
        None,
        None,
    ];
    assert_eq!(read, want);
    for bad in ["", "GB", "-1", "10 G B", "1e9", "99999999999TB", "1.2.3kB"] {
        let wanted = Err("a size such as 500MB, 10GB or 2GiB".to_owned());
        assert_eq!(read_bytes(bad), wanted, "{bad}");
    }
}

#[test]
fn ages_need_their_unit() {
    let read = ["30d", "12h", "2w", "1.5h", "0s", "30", "d", "3 months"];
    let read: Vec<Option<u64>> = read
        .iter()
        .map(|t| Some(read_age(t).ok()?.as_secs()))
        .collect();
    let want = [
        Some(2_592_000),
        Some(43_200),
        Some(1_209_600),
        Some(5_400),
        Some(0),
        None,
        None,
        None,
    ];
    assert_eq!(read, want);
}
