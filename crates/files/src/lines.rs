//! Lines of a limited length: cutting a stream of bytes into them, in bounded memory.
//!
//! [`Lines`] takes bytes from wherever they come; [`LineReader`] takes them from an input that blocks. The
//! journal has a reader of its own, because its lines have places and digests, and what follows a damaged one
//! must be looked at rather than skipped.

use std::io::{self, Read};

/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;

/// One line, without its line break.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// All of it.
    Whole(Vec<u8>),
    /// Longer than the limit: only its beginning was kept.
    TooLong {
        /// The bytes that it has.
        bytes: u64,
        /// Its beginning.
        head: Vec<u8>,
    },
    /// The stream ended before the line did. All of it is kept where that is no more than the limit.
    CutOff {
        /// The bytes that came of it.
        bytes: u64,
        /// Its beginning.
        head: Vec<u8>,
    },
}

/// Bytes go in, lines come out. Lines of nothing but white space are passed over.
#[derive(Debug)]
pub struct Lines {
    limit: usize,
    head: usize,
    held: Vec<u8>,
    /// No line break stands before this place of `held`.
    looked: usize,
    /// Bytes of the present line that were let go of, beside its head in `held`.
    skipped: u64,
}

impl Lines {
    /// Lines of at most `limit` bytes. Of one that is longer, so many bytes are kept as `head` says.
    pub fn new(limit: usize, head: usize) -> Self {
        Self {
            limit,
            head: head.min(limit),
            held: Vec::new(),
            looked: 0,
            skipped: 0,
        }
    }

    /// Takes the next bytes in.
    pub fn push(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// The next line that is complete. Ask until there is none before pushing more.
    pub fn next_line(&mut self) -> Option<Line> {
        loop {
            let rest = self.held.get(self.looked..).unwrap_or_default();
            let Some(at) = rest.iter().position(|byte| *byte == b'\n') else {
                self.looked = self.held.len();
                self.let_go();
                return None;
            };
            let end = self.looked + at;
            let tail = self.held.split_off(end + 1);
            let mut line = std::mem::replace(&mut self.held, tail);
            self.looked = 0;
            let skipped = std::mem::take(&mut self.skipped);
            line.pop();
            if skipped > 0 || line.len() > self.limit {
                let bytes = skipped + line.len() as u64;
                line.truncate(self.head);
                line.shrink_to_fit();
                return Some(Line::TooLong { bytes, head: line });
            }
            line.pop_if(|last| *last == b'\r');
            if !is_blank(&line) {
                return Some(Line::Whole(line));
            }
        }
    }

    /// What is left when the stream has ended.
    pub fn finish(&mut self) -> Option<Line> {
        let head = std::mem::take(&mut self.held);
        let bytes = std::mem::take(&mut self.skipped) + head.len() as u64;
        self.looked = 0;
        (bytes > 0).then_some(Line::CutOff { bytes, head })
    }

    /// Of a line that is too long already, only the head is kept.
    fn let_go(&mut self) {
        if self.skipped > 0 || self.held.len() > self.limit {
            self.skipped += self.held.len().saturating_sub(self.head) as u64;
            self.held.truncate(self.head);
            self.held.shrink_to(2 * self.head);
            self.looked = self.held.len();
        }
    }
}

/// The lines of an input that blocks. The last one needs no line break.
#[derive(Debug)]
pub struct LineReader<R> {
    input: R,
    lines: Lines,
    chunk: Vec<u8>,
}

impl<R: Read> LineReader<R> {
    /// Reads lines of at most `limit` bytes. Of one that is longer, so many bytes are kept as `head` says.
    pub fn new(input: R, limit: usize, head: usize) -> Self {
        Self {
            input,
            lines: Lines::new(limit, head),
            chunk: vec![0; CHUNK],
        }
    }

    /// The next line, which is [`Line::Whole`] or [`Line::TooLong`]; `None` at the end of the input.
    pub fn next_line(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.lines.next_line() {
                return Ok(Some(line));
            }
            match self.input.read(&mut self.chunk) {
                Ok(0) => return Ok(self.last()),
                Ok(got) => self.lines.push(self.chunk.get(..got).unwrap_or_default()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn last(&mut self) -> Option<Line> {
        match self.lines.finish()? {
            Line::CutOff { bytes, head } if bytes > self.lines.limit as u64 => {
                Some(Line::TooLong { bytes, head })
            }
            Line::CutOff { head, .. } => (!is_blank(&head)).then_some(Line::Whole(head)),
            other => Some(other),
        }
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
