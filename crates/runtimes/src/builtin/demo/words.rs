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
            for word in apart(word) {
                let word = word.trim_matches(['\'', '’']).to_lowercase();
                if !word.is_empty() {
                    *counts.entry(word).or_default() += 1;
                    total += 1;
                }
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

/// Takes apart what is written without spaces: there each character counts as a word, as word
/// processors do it.
fn apart(run: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = run;
    while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_spaceless(*c)) {
        let (before, from) = rest.split_at(at);
        let (one, after) = from.split_at(c.len_utf8());
        found.extend([before, one]);
        rest = after;
    }
    found.push(rest);
    found
}

/// Han, Hiragana and Katakana.
fn is_spaceless(c: char) -> bool {
    matches!(c,
        '\u{3005}'..='\u{3007}' | '\u{3041}'..='\u{3096}' | '\u{309d}'..='\u{309f}'
        | '\u{30a1}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9f}'
        | '\u{20000}'..='\u{3ffff}')
}

/// Sentences end with a line, with `。`, `！` or `？`, or with `.`, `!`, `?` or `…` and white space
/// after it.
fn sentences(text: &str) -> Vec<&str> {
    let ends = |c: char| matches!(c, '.' | '!' | '?' | '…');
    let wide = |c: char| matches!(c, '。' | '！' | '？');
    let mut found = Vec::new();
    for line in text.lines() {
        let mut rest = line.trim();
        while !rest.is_empty() {
            let mut chars = rest.char_indices().peekable();
            let mut cut = rest.len();
            while let Some((_, c)) = chars.next() {
                match chars.peek() {
                    // A mark or a quote that closes belongs to the sentence before it.
                    Some((at, next))
                        if (ends(c) && next.is_whitespace())
                            || (wide(c)
                                && !wide(*next)
                                && !matches!(next, '」' | '』' | '”' | '）')) =>
                    {
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
