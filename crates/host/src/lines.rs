//! Cutting a stream of bytes into lines, in bounded memory.

/// How much of a line that is not kept is shown.
pub(crate) const HEAD: usize = 4 * 1024;

/// One line, without its line break.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Whole(Vec<u8>),
    /// Longer than the limit: only its beginning was kept.
    TooLong {
        bytes: u64,
        head: Vec<u8>,
    },
    /// The stream ended before the line did. All of it is kept where that is no more than the limit.
    CutOff {
        bytes: u64,
        head: Vec<u8>,
    },
}

/// Bytes go in, lines come out.
#[derive(Debug)]
pub(crate) struct Lines {
    limit: usize,
    held: Vec<u8>,
    /// No line break stands before this place of `held`.
    looked: usize,
    /// Bytes of the present line that were let go of, beside its head in `held`.
    skipped: u64,
}

impl Lines {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            held: Vec::new(),
            looked: 0,
            skipped: 0,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// The next line that is complete. Ask until there is none before pushing more.
    pub(crate) fn next(&mut self) -> Option<Line> {
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
                return Some(Line::TooLong {
                    bytes,
                    head: head(line),
                });
            }
            line.pop_if(|last| *last == b'\r');
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Some(Line::Whole(line));
            }
        }
    }

    /// What is left when the stream has ended.
    pub(crate) fn finish(self) -> Option<Line> {
        let bytes = self.skipped + self.held.len() as u64;
        let head = self.held;
        (bytes > 0).then_some(Line::CutOff { bytes, head })
    }

    /// Of a line that is too long already, only the head is kept.
    fn let_go(&mut self) {
        if self.skipped > 0 || self.held.len() > self.limit {
            self.skipped += self.held.len().saturating_sub(HEAD) as u64;
            self.held.truncate(HEAD);
            self.held.shrink_to(2 * HEAD);
            self.looked = self.held.len();
        }
    }
}

fn head(mut line: Vec<u8>) -> Vec<u8> {
    line.truncate(HEAD);
    line.shrink_to_fit();
    line
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
