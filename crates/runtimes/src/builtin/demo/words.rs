//! Counting words and sentences.

use std::collections::HashMap;

/// A text taken apart.
pub(super) struct Words<'a> {
    pub(super) text: &'a str,
    pub(super) sentences: Vec<&'a str>,
    /// How many words there are.
    pub(super) total: usize,
    /// Each different word, the most frequent first; among equals in the order of the alphabet.
    pub(super) counted: Vec<Counted>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) word: String,
    pub(super) count: usize,
    /// In characters.
    pub(super) length: usize,
}

impl<'a> Words<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let mut counts: HashMap<String, usize> = HashMap::new();
        let mut total = 0;
        for word in text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '\'' | '’'))) {
            let word = word.trim_matches(['\'', '’']).to_lowercase();
            if !word.is_empty() {
                *counts.entry(word).or_default() += 1;
                total += 1;
            }
        }
        let mut counted: Vec<Counted> = counts
            .into_iter()
            .map(|(word, count)| Counted {
                length: word.chars().count(),
                word,
                count,
            })
            .collect();
        counted.sort_unstable_by(|a, b| b.count.cmp(&a.count).then_with(|| a.word.cmp(&b.word)));
        Self {
            text,
            sentences: sentences(text),
            total,
            counted,
        }
    }
}

/// Sentences end with a line, or with `.`, `!`, `?` or `…` and white space after it.
fn sentences(text: &str) -> Vec<&str> {
    let ends = |c: char| matches!(c, '.' | '!' | '?' | '…' | '。' | '！' | '？');
    let mut found = Vec::new();
    for line in text.lines() {
        let mut rest = line.trim();
        while !rest.is_empty() {
            let mut chars = rest.char_indices().peekable();
            let mut cut = rest.len();
            while let Some((_, c)) = chars.next() {
                match chars.peek() {
                    Some((at, next)) if ends(c) && next.is_whitespace() => {
                        cut = *at;
                        break;
                    }
                    _ => {}
                }
            }
            let (sentence, after) = rest.split_at(cut);
            found.push(sentence);
            rest = after.trim_start();
        }
    }
    found
}

/// `1 word`, `2 words`.
pub(super) fn several(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
