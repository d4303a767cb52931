//! Server-sent events, read from a stream of bytes.
//!
//! Beyond the standard, an event that the end of the stream leaves without its blank line is handed
//! over: a bridge that closes right after its last line has still said it. Its data is JSON, so a
//! torn one is noticed by whoever parses it.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream::BoxStream};
use threadline_contract::Code;

use super::trouble::Trouble;

/// More than any event: results list files, and there can be many.
const MOST_BYTES: usize = 64 << 20;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Its number in the thread's log, if it is logged.
    pub(crate) id: Option<i64>,
    /// Its data.
    pub(crate) data: String,
}

/// Events as they come.
pub(crate) struct Frames {
    body: BoxStream<'static, Result<Bytes, Trouble>>,
    silence: Duration,
    parser: Parser,
    ready: std::collections::VecDeque<Frame>,
    ended: bool,
}

impl Frames {
    pub(crate) fn new(
        body: impl Stream<Item = Result<Bytes, reqwest::Error>> + Send + 'static,
        silence: Duration,
    ) -> Self {
        Self {
            body: body
                .map(|chunk| chunk.map_err(|e| Trouble::cut(&e)))
                .boxed(),
            silence,
            parser: Parser::default(),
            ready: Default::default(),
            ended: false,
        }
    }

    /// The next event; `None` when the stream has ended. Silence counts as a cut.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>, Trouble> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Ok(Some(frame));
            }
            if self.ended {
                return Ok(None);
            }
            match tokio::time::timeout(self.silence, self.body.next()).await {
                Ok(Some(Ok(bytes))) => self.parser.feed(&bytes, &mut self.ready)?,
                Ok(Some(Err(e))) => {
                    self.ended = true;
                    return Err(e);
                }
                Ok(None) => {
                    self.ended = true;
                    self.parser.end(&mut self.ready);
                }
                Err(_) => {
                    self.ended = true;
                    return Err(Trouble::again(
                        Code::ConnectionClosed,
                        "The bridge's stream fell silent.",
                    ));
                }
            }
        }
    }
}

#[derive(Default)]
struct Parser {
    line: Vec<u8>,
    /// The last byte was a carriage return: a line feed after it belongs to it.
    after_return: bool,
    id: Option<i64>,
    data: Option<String>,
    begun: bool,
}

impl Parser {
    fn feed(&mut self, mut bytes: &[u8], out: &mut impl Extend<Frame>) -> Result<(), Trouble> {
        if self.after_return && bytes.first() == Some(&b'\n') {
            bytes = bytes.get(1..).unwrap_or_default();
        }
        if !bytes.is_empty() {
            self.after_return = false;
        }
        while let Some(at) = bytes.iter().position(|b| matches!(b, b'\n' | b'\r')) {
            let (line, rest) = bytes.split_at(at);
            self.line.extend_from_slice(line);
            self.take_line(out);
            let returned = rest.first() == Some(&b'\r');
            bytes = rest.get(1..).unwrap_or_default();
            if returned && bytes.is_empty() {
                self.after_return = true;
            } else if returned && bytes.first() == Some(&b'\n') {
                bytes = bytes.get(1..).unwrap_or_default();
            }
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() + self.data.as_ref().map_or(0, String::len) > MOST_BYTES {
            return Err(Trouble::final_(
                Code::BadBridgeAnswer,
                "The bridge sent an event without an end.",
            ));
        }
        Ok(())
    }

    fn end(&mut self, out: &mut impl Extend<Frame>) {
        if !self.line.is_empty() {
            self.take_line(out);
        }
        self.dispatch(out);
    }

    fn take_line(&mut self, out: &mut impl Extend<Frame>) {
        let bytes = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&bytes);
        let mut line: &str = &text;
        if !self.begun {
            self.begun = true;
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(out);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                none => *none = Some(value.to_owned()),
            },
            "id" => self.id = value.parse().ok(),
            _ => {}
        }
    }

    fn dispatch(&mut self, out: &mut impl Extend<Frame>) {
        // Unlike in a browser, the id belongs to its own event only: what is not logged has none.
        let id = self.id.take();
        if let Some(data) = self.data.take() {
            out.extend([Frame { id, data }]);
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn read(chunks: &[&[u8]]) -> Vec<Frame> {
        let (mut parser, mut out) = (Parser::default(), Vec::new());
        for chunk in chunks {
            assert!(parser.feed(chunk, &mut out).is_ok());
        }
        parser.end(&mut out);
        out
    }
    fn frame(id: Option<i64>, data: &str) -> Frame {
        Frame {
            id,
            data: data.into(),
        }
    }

    #[test]
    fn lines_become_events() {
        let text = "\u{feff}: hello\n\nid: 7\ndata: {\"a\":1}\n\ndata: x\ndata:y\n\nevent: e\nid: no\ndata: z\n\n: keepalive\n\ndata: last";
        let want = vec![
            frame(Some(7), "{\"a\":1}"),
            frame(None, "x\ny"),
            frame(None, "z"),
            frame(None, "last"),
        ];
        assert_eq!(read(&[text.as_bytes()]), want);
        assert_eq!(read(&[text.replace('\n', "\r\n").as_bytes()]), want);
        assert_eq!(read(&[text.replace('\n', "\r").as_bytes()]), want);
    }

    proptest! {
        #[test]
        fn where_the_bytes_are_parted_does_not_matter(cuts in prop::collection::vec(0usize..60, 0..8), crlf: bool) {
            let mut text = "id: 1\ndata: ü€😀\n\ndata: b\ndata: c\n\nid: 3\ndata: d\n\n".to_owned();
            if crlf { text = text.replace('\n', "\r\n"); }
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut at = 0;
            for cut in cuts { chunks.push(&bytes[at..cut]); at = cut; }
            chunks.push(&bytes[at..]);
            prop_assert_eq!(read(&chunks), vec![frame(Some(1), "ü€😀"), frame(None, "b\nc"), frame(Some(3), "d")]);
        }
    }
}
