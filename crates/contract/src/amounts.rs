//! Sizes, times and counts as people read and write them: the one way for screen, pages and messages. The
//! pages' script (`web/assets/times.js`) says the same while a page is open.

use std::time::Duration;

use jiff::{Timestamp, tz::TimeZone};

use crate::Millis;

/// `812 B`, `2.1 kB`, `14 kB`. 1 kB is 1000 bytes.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in UNITS {
        // 999,950 bytes would else be shown as 1000 kB.
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    match value < 9.95 {
        true => format!("{value:.1} {unit}"),
        false => format!("{value:.0} {unit}"),
    }
}

/// A limit, which unlike a size is exact and a round number of its unit: `10 MiB`.
pub fn limit(bytes: u64) -> String {
    match (bytes % (1 << 20), bytes % (1 << 10)) {
        (0, _) => format!("{} MiB", bytes >> 20),
        (_, 0) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

/// The same for a time: `30 min`, `90 s`, `0.2 s`.
pub fn time_limit(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds >= 60 && seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        _ => format!("{} s", time.as_secs_f32()),
    }
}

/// `1 file`, `3 files`, `3 processes`.
pub fn count(n: u64, one: &str) -> String {
    match n {
        1 => format!("1 {one}"),
        n if one.ends_with('s') => format!("{n} {one}es"),
        n => format!("{n} {one}s"),
    }
}

/// How long something took: `450 ms`, `3.1 s`, `12 s`, `3 min 5 s`, `2 h 10 min`.
pub fn duration(ms: i64) -> String {
    let ms = ms.max(0);
    let seconds = ms / 1000;
    match ms {
        ..1000 => format!("{ms} ms"),
        1000..10_000 => format!("{}.{} s", seconds, ms % 1000 / 100),
        10_000..60_000 => format!("{seconds} s"),
        60_000..3_600_000 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// `just now`, `5 min ago`, `2 h ago`, `yesterday`, `3 days ago`, a date.
pub fn ago(now: Millis, then: Millis, zone: &TimeZone) -> String {
    let minutes = now.since(then) / 60_000;
    match minutes {
        ..1 => "just now".into(),
        1..60 => format!("{minutes} min ago"),
        60..1440 => format!("{} h ago", minutes / 60),
        1440..2880 => "yesterday".into(),
        2880..20160 => format!("{} days ago", minutes / 1440),
        _ => match Timestamp::from_millisecond(then.0) {
            Ok(at) => at.to_zoned(zone.clone()).strftime("%Y-%m-%d").to_string(),
            Err(_) => "long ago".into(),
        },
    }
}

/// Reads `500`, `10MB`, `1.5 GiB`. As everywhere here, 1 kB is 1000 bytes. The error says what it should be.
pub fn read_bytes(text: &str) -> Result<u64, String> {
    let units = [
        ("", 1),
        ("b", 1),
        ("kb", 1000),
        ("mb", 1000_u64.pow(2)),
        ("gb", 1000_u64.pow(3)),
        ("tb", 1000_u64.pow(4)),
        ("kib", 1 << 10),
        ("mib", 1 << 20),
        ("gib", 1 << 30),
        ("tib", 1 << 40),
    ];
    read(text, &units).ok_or_else(|| "a size such as 500MB, 10GB or 2GiB".to_owned())
}

/// Reads `30d`, `12h`, `2w`. The error says what it should be.
pub fn read_age(text: &str) -> Result<Duration, String> {
    let units = [
        ("s", 1),
        ("m", 60),
        ("h", 60 * 60),
        ("d", 24 * 60 * 60),
        ("w", 7 * 24 * 60 * 60),
        ("y", 365 * 24 * 60 * 60),
    ];
    let seconds = read(text, &units);
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| "an age such as 30d, 12h or 2w".to_owned())
}

/// A number, perhaps with a fraction, and its unit.
fn read(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = unit.trim().to_ascii_lowercase();
    let (_, one) = units.iter().find(|(name, _)| *name == unit)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let whole = whole.parse::<u64>().ok()?.checked_mul(*one)?;
    if part.len() > 9 {
        return None;
    }
    let scale = 10_u128.pow(u32::try_from(part.len()).ok()?);
    let part = u128::from(part.parse::<u64>().ok()?) * u128::from(*one) / scale;
    whole.checked_add(u64::try_from(part).ok()?)
}

#[cfg(test)]
#[path = "amounts_tests.rs"]
mod tests;
