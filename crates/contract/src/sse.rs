//! Server-sent events: the one way in which this program writes them ([`Frame`]) and reads them
//! ([`Events`]).
//!
//! No crate for it: the one that we know (`eventsource-stream`) keeps whatever a peer sends until a line
//! ends, drops the event that a peer closes right after, and gives an event without an id the id of the one
//! before it, which for us would be a wrong place in the log.

mod parser;

use std::{
    collections::VecDeque,
    fmt::{self, Display},
};

use futures_util::{Stream, StreamExt as _};

use self::parser::Parser;

/// The content type.
pub const CONTENT_TYPE: &str = "text/event-stream";
/// The first line of a stream that can be taken up again: says at once that it stands, and how soon to come
/// back after a cut.
pub const OPENING: &str = "retry: 1000\n\n";
/// The data of the last event of an answer.
pub const DONE: &str = "[DONE]";
/// More bytes than any event of ours has: results list files, and there can be many.
pub const MAX_EVENT_BYTES: usize = 64 << 20;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame<D = String> {
    /// Its name, where it has one.
    pub event: Option<String>,
    /// Its id, where it is a number: its place in a log.
    pub id: Option<i64>,
    /// Its data. What is written must be on one line, as JSON is.
    pub data: D,
}

impl<D> Frame<D> {
    /// An event that has only data.
    pub const fn new(data: D) -> Self {
        Self {
            event: None,
            id: None,
            data,
        }
    }

    /// An event of a log.
    pub const fn logged(id: i64, data: D) -> Self {
        Self {
            event: None,
            id: Some(id),
            data,
        }
    }
}

/// The event as it travels.
impl<D: Display> Display for Frame<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(event) = &self.event {
            writeln!(f, "event: {event}")?;
        }
        if let Some(id) = self.id {
            writeln!(f, "id: {id}")?;
        }
        write!(f, "data: {}\n\n", self.data)
    }
}

/// Why a stream could not be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError<E> {
    /// An event has more bytes than the reader allows.
    #[error("an event has more than {0} bytes")]
    TooLong(usize),
    /// The bytes broke off.
    #[error(transparent)]
    Bytes(#[from] E),
}

/// The events of a stream of bytes.
#[derive(Debug)]
pub struct Events<S> {
    bytes: S,
    parser: Parser,
    ready: VecDeque<Frame>,
    ended: bool,
}

impl<S, B, E> Events<S>
where
    S: Stream<Item = Result<B, E>> + Unpin,
    B: AsRef<[u8]>,
{
    /// Reads events of at most so many bytes each.
    pub const fn new(bytes: S, max_event_bytes: usize) -> Self {
        Self {
            bytes,
            parser: Parser::new(max_event_bytes),
            ready: VecDeque::new(),
            ended: false,
        }
    }

    /// The next event; `None` at the end and after an error. Dropping the future loses nothing.
    ///
    /// Beyond the standard, an event that the end of the stream leaves without its blank line is handed
    /// over: a peer that closes right after its last line has still said it. Its data is JSON, so a torn
    /// one is noticed by whoever parses it.
    pub async fn next(&mut self) -> Result<Option<Frame>, ReadError<E>> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Ok(Some(frame));
            }
            if self.ended {
                return Ok(None);
            }
            let read = match self.bytes.next().await {
                Some(Ok(bytes)) => self.parser.feed(bytes.as_ref(), &mut self.ready),
                Some(Err(e)) => Err(ReadError::Bytes(e)),
                None => {
                    self.ended = true;
                    self.parser.end(&mut self.ready);
                    Ok(())
                }
            };
            if let Err(e) = read {
                self.ended = true;
                return Err(e);
            }
        }
    }
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;
