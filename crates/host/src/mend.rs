//! What an agent meant where its line is not quite JSON.
//!
//! Agents cut a text between the two halves of an emoji, quote bytes that are no text, count to infinity and
//! nest without end. Their line then says almost everything, and a reader of JSON takes none of it.

use std::borrow::Cow;

/// Readers of JSON stop at 128 levels; a message needs a handful.
const DEEPEST: usize = 100;

/// The same text as JSON that any reader takes: what is no text in it becomes U+FFFD, what is no number or too
/// deep becomes null. What is broken beyond that stays broken, for the reader to say.
pub fn mend(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut out = String::with_capacity(text.len());
    let mut depth = 0_usize;
    let mut rest = &*text;
    while let Some((token, after)) = token(rest) {
        rest = after;
        let is_kept = depth <= DEEPEST;
        match token.as_bytes().first() {
            Some(b'{' | b'[') => {
                depth += 1;
                match depth {
                    deep if deep <= DEEPEST => out.push_str(token),
                    deep if deep == DEEPEST + 1 => out.push_str("null"),
                    _ => {}
                }
            }
            Some(b'}' | b']') => {
                if is_kept {
                    out.push_str(token);
                }
                depth = depth.saturating_sub(1);
            }
            _ if !is_kept => {}
            Some(b'"') => mend_string(token, &mut out),
            _ if is_no_number(token) => out.push_str("null"),
            _ => out.push_str(token),
        }
    }
    out
}

/// The value of a name at the top of an object, as it is written; also of an object that breaks off.
pub(crate) fn top<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut depth = 0_usize;
    let mut rest = text;
    while let Some((token, after)) = token(rest) {
        rest = after;
        match token {
            "{" | "[" => depth += 1,
            "}" | "]" => depth = depth.saturating_sub(1),
            _ if depth == 1 && token.trim_matches('"') == name && token.starts_with('"') => {
                if let Some(value) = after.trim_start().strip_prefix(':') {
                    return self::token(value.trim_start()).map(|(value, _)| value);
                }
            }
            _ => {}
        }
    }
    None
}

/// The first token, and what is behind it. A string that does not end is one to the end of the text.
fn token(text: &str) -> Option<(&str, &str)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let first = text.chars().next()?;
    let end = match first {
        '"' => end_of_string(text),
        c if is_word(c) => text.find(|c| !is_word(c)).unwrap_or(text.len()),
        c => c.len_utf8(),
    };
    text.split_at_checked(end)
}

fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn is_no_number(word: &str) -> bool {
    let is_number = word
        .trim_start_matches('-')
        .starts_with(|c: char| c.is_ascii_digit());
    matches!(word, "NaN" | "Infinity" | "-Infinity")
        || is_number && word.parse::<f64>().is_ok_and(|n| !n.is_finite())
}

fn mend_string(token: &str, out: &mut String) {
    let mut rest = token;
    while let Some(c) = rest.chars().next() {
        let (kept, taken): (Cow<'_, str>, usize) = match c {
            '\\' => escape(rest),
            c if c < ' ' => (format!("\\u{:04x}", u32::from(c)).into(), 1),
            c => (c.to_string().into(), c.len_utf8()),
        };
        out.push_str(&kept);
        rest = rest.get(taken..).unwrap_or_default();
    }
}

/// What stands for the escape at the beginning of a text, and how much of the text that is.
fn escape(text: &str) -> (Cow<'_, str>, usize) {
    let kept = |bytes: usize| (text.get(..bytes).unwrap_or_default().into(), bytes);
    match (text.as_bytes().get(1), unit(text)) {
        (Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't'), _) => kept(2),
        (_, Some(0xD800..0xDC00)) => match text.get(6..).and_then(unit) {
            Some(0xDC00..0xE000) => kept(12),
            _ => ("\\ufffd".into(), 6),
        },
        (_, Some(0xDC00..0xE000)) => ("\\ufffd".into(), 6),
        (_, Some(_)) => kept(6),
        _ => ("\\\\".into(), 1),
    }
}

/// The UTF-16 unit that an escape at the beginning of a text stands for.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

#[cfg(test)]
#[path = "mend_tests.rs"]
mod tests;
