//! What an agent writes for a terminal, as a person reads it elsewhere.

/// The text without what is for terminals alone: colours, moves of the cursor, titles of windows and other
/// control characters. Lines become one.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek().copied()) {
            ('\u{1b}', Some('[')) => {
                rest.next();
                skip_to(&mut rest, |c| ('\u{40}'..='\u{7e}').contains(&c));
            }
            ('\u{1b}', Some(']')) => skip_to(&mut rest, |c| matches!(c, '\u{7}' | '\\')),
            ('\u{1b}', _) => _ = rest.next(),
            ('\u{9b}', _) => skip_to(&mut rest, |c| ('\u{40}'..='\u{7e}').contains(&c)),
            (c, _) if c.is_whitespace() => out.push(' '),
            (c, _) if c.is_control() => {}
            (c, _) => out.push(c),
        }
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn skip_to(rest: &mut impl Iterator<Item = char>, is_last: impl Fn(char) -> bool) {
    for c in rest {
        if is_last(c) {
            return;
        }
    }
}

/// The last of these lines that tells something: one of a log that only says what goes on does not.
pub(super) fn last_words(lines: &str) -> String {
    let mut told = lines.lines().rev().map(plain);
    told.find(|line| !line.is_empty() && !is_chatter(line))
        .unwrap_or_default()
}

/// Whether a line is one of a log, of a level that tells of no trouble.
fn is_chatter(line: &str) -> bool {
    let mut words = line.split(|c: char| !c.is_ascii_alphanumeric());
    let level = words.find(|word| LEVELS.contains(word));
    let lower = line.to_lowercase();
    CHATTER.contains(&level.unwrap_or_default())
        || CHATTER.iter().map(|level| level.to_lowercase()).any(|it| {
            let forms = [
                format!("[{it}]"),
                format!("level={it}"),
                format!("\"level\":\"{it}\""),
            ];
            lower.starts_with(&format!("{it}:")) || forms.iter().any(|form| lower.contains(form))
        })
}

/// Levels of a log that tell of no trouble.
const CHATTER: [&str; 3] = ["INFO", "DEBUG", "TRACE"];
/// Levels as logs write them. The first in a line is its own.
const LEVELS: [&str; 7] = [
    "INFO", "DEBUG", "TRACE", "WARN", "WARNING", "ERROR", "FATAL",
];

#[cfg(test)]
#[path = "terminal_tests.rs"]
mod tests;
