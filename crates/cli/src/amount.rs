//! Sizes and ages as people write them: `10GB`, `30d`.

use std::time::Duration;

/// `500`, `10MB`, `1.5 GiB`. As everywhere here, 1 kB is 1000 bytes.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
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

/// `30d`, `12h`, `2w`.
pub(crate) fn age(text: &str) -> Result<Duration, String> {
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
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        let read = ["0", "500", "1kB", "10 GB", "1.5GiB", "2tb", ".5GB", "1.MB"];
        let read: Vec<Option<u64>> = read.iter().map(|t| bytes(t).ok()).collect();
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
            assert_eq!(bytes(bad), wanted, "{bad}");
        }
    }

    #[test]
    fn ages_need_their_unit() {
        let read = ["30d", "12h", "2w", "1.5h", "0s", "30", "d", "3 months"];
        let read: Vec<Option<u64>> = read.iter().map(|t| Some(age(t).ok()?.as_secs())).collect();
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
}
