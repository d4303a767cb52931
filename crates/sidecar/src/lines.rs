//! Lines of a limited length from an endless input.

use std::io::{self, BufRead as _, BufReader, Read};

const BUFFER: usize = 64 * 1024;

/// What stands on a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// All of it, without its end.
    Whole(Vec<u8>),
    /// The beginning of one that is too long; the rest was skipped.
    TooLong(Vec<u8>),
}

pub(crate) struct Lines<R> {
    input: BufReader<R>,
    longest: usize,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(input: R, longest: usize) -> Self {
        Self {
            input: BufReader::with_capacity(BUFFER, input),
            longest,
        }
    }

    /// The next line; `None` at the end of the input. The last one needs no end of line.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line>> {
        let mut line = Vec::new();
        let most = (self.longest as u64).saturating_add(1);
        self.input
            .by_ref()
            .take(most)
            .read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if line.len() > self.longest {
            self.input.skip_until(b'\n')?;
            return Ok(Some(Line::TooLong(line)));
        }
        Ok(Some(Line::Whole(line)))
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
