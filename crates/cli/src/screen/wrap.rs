//! Text broken between words, so that a terminal need not break inside them.

use super::words::columns;

/// Breaks a text that comes in pieces. A word is held back until its end is known. Lines that are
/// laid out already (indented, or part of a table) are left as they are.
pub(crate) struct Wrap {
    width: usize,
    column: usize,
    gap: String,
    word: String,
    as_is: bool,
}

impl Wrap {
    pub(crate) fn new(width: usize) -> Self {
        Self {
            width,
            column: 0,
            gap: String::new(),
            word: String::new(),
            as_is: false,
        }
    }

    /// What of it can be written now.
    pub(crate) fn feed(&mut self, text: &str) -> String {
        let mut out = String::new();
        for c in text.chars() {
            let begins = self.column == 0 && self.word.is_empty() && self.gap.is_empty();
            match c {
                '\n' => {
                    out.push_str(&self.rest());
                    out.push('\n');
                }
                c if self.as_is || (begins && (c.is_whitespace() || c == '|')) => {
                    self.as_is = true;
                    out.push(c);
                    self.column += 1;
                }
                ' ' => {
                    self.settle(&mut out);
                    self.gap.push(' ');
                }
                c => self.word.push(c),
            }
        }
        out
    }

    /// What was held back; the line is over.
    pub(crate) fn rest(&mut self) -> String {
        let mut out = String::new();
        self.settle(&mut out);
        self.gap.clear();
        (self.column, self.as_is) = (0, false);
        out
    }

    fn settle(&mut self, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let (gap, word) = (columns(&self.gap), columns(&self.word));
        if self.column > 0 && self.column + gap + word > self.width {
            out.push('\n');
            self.column = 0;
        } else {
            out.push_str(&self.gap);
            self.column += gap;
        }
        out.push_str(&self.word);
        self.column += word;
        self.gap.clear();
        self.word.clear();
    }
}

/// A whole text, broken where it does not fit.
pub(crate) fn wrap(text: &str, width: usize) -> String {
    let mut wrap = Wrap::new(width);
    let mut out = wrap.feed(text);
    out.push_str(&wrap.rest());
    out
}

/// A whole text, broken where it does not fit, with so many spaces before each line but the first.
pub(crate) fn hanging(text: &str, width: usize, indent: usize) -> String {
    let broken = wrap(text, width.saturating_sub(indent).max(16));
    broken.replace('\n', &format!("\n{:indent$}", ""))
}

#[cfg(test)]
#[path = "wrap_tests.rs"]
mod tests;
