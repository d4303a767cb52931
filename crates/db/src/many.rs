//! Inserts of many rows with few statements: one statement text per power of two, so that each is
//! prepared once and found again, whatever the number of rows.

use std::{fmt::Write as _, sync::Arc};

/// The largest statement has 2^8 rows.
const LARGEST: usize = 8;

/// The texts of one insert, for 1, 2, 4 … 256 rows.
#[derive(Debug)]
pub struct Many {
    texts: Vec<Arc<str>>,
}

impl Many {
    /// `head` is the statement up to and without `values`.
    pub fn new(head: &str, columns: usize) -> Self {
        let text = |rows: usize| {
            let mut text = format!("{head} values ");
            for n in 1..=rows * columns {
                let (open, close) = match n % columns {
                    1 => ("(", ","),
                    0 => ("", ")"),
                    _ => ("", ","),
                };
                let between = if open == "(" && n > 1 { "," } else { "" };
                // Writing to a String cannot fail.
                let _ = write!(text, "{between}{open}${n}{close}");
            }
            text.into()
        };
        Self {
            texts: (0..=LARGEST).map(|power| text(1 << power)).collect(),
        }
    }

    /// Takes the next rows off `rest`, with the text that inserts just so many.
    pub fn next<'a, T>(&self, rest: &mut &'a [T]) -> Option<(&'a [T], Arc<str>)> {
        let power = (rest.len().checked_ilog2()? as usize).min(LARGEST);
        let (rows, left) = rest.split_at(1 << power);
        *rest = left;
        Some((rows, Arc::clone(self.texts.get(power)?)))
    }
}

#[cfg(test)]
#[path = "many_tests.rs"]
mod tests;
