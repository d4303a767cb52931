//! The `Range` header: one range of bytes, or none.

/// What a client asked for of a file of `size` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All of it.
    Whole,
    /// From the first to the last byte, both included.
    Part(u64, u64),
    /// Nothing that the file has.
    Invalid,
}

/// Reads the header. A unit that is not bytes is ignored, as HTTP wants it; several ranges at once
/// are refused.
pub fn wanted(header: Option<&str>, size: u64) -> Wanted {
    let Some(spec) = header.and_then(|h| h.trim().strip_prefix("bytes=")) else {
        return Wanted::Whole;
    };
    let Some((first, last)) = spec.trim().split_once('-') else {
        return Wanted::Invalid;
    };
    if spec.contains(',') {
        return Wanted::Invalid;
    }
    match (first.trim(), last.trim()) {
        ("", last) => match number(last) {
            Some(count) if count > 0 && size > 0 => {
                Wanted::Part(size.saturating_sub(count), size - 1)
            }
            _ => Wanted::Invalid,
        },
        (first, last) => {
            let Some(first) = number(first) else {
                return Wanted::Invalid;
            };
            let last = if last.is_empty() {
                Some(u64::MAX)
            } else {
                number(last)
            };
            match last {
                Some(last) if first <= last && first < size => {
                    Wanted::Part(first, last.min(size - 1))
                }
                _ => Wanted::Invalid,
            }
        }
    }
}

/// A number of bytes. One that no file can have stands for the largest.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::{Wanted::*, *};

    #[test]
    fn one_range_or_none() {
        let cases = [
            (None, Whole),
            (Some("items=0-1"), Whole),
            (Some("bytes=2-4"), Part(2, 4)),
            (Some("bytes=7-"), Part(7, 9)),
            (Some("bytes=7-99"), Part(7, 9)),
            (Some("bytes=7-99999999999999999999999"), Part(7, 9)),
            (Some("bytes=-99999999999999999999999"), Part(0, 9)),
            (Some("bytes=99999999999999999999999-"), Invalid),
            (Some("bytes=+1-2"), Invalid),
            (Some("bytes=-3"), Part(7, 9)),
            (Some("bytes=-30"), Part(0, 9)),
            (Some("bytes=10-"), Invalid),
            (Some("bytes=4-2"), Invalid),
            (Some("bytes=0-1,3-4"), Invalid),
            (Some("bytes=-0"), Invalid),
            (Some("bytes=x-"), Invalid),
            (Some("bytes=5"), Invalid),
        ];
        for (header, want) in cases {
            assert_eq!(wanted(header, 10), want, "{header:?}");
        }
        assert_eq!(wanted(Some("bytes=0-"), 0), Invalid);
        assert_eq!(wanted(Some("bytes=-1"), 0), Invalid);
    }
}
