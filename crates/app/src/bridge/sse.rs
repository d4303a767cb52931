//! The bridge's events, as they come.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream::BoxStream};
use threadline_contract::{Code, sse::Parser};

pub(crate) use threadline_contract::sse::Frame;

use super::trouble::Trouble;

/// More than any event: results list files, and there can be many.
const MOST_BYTES: usize = 64 << 20;

/// Events as they come.
pub(crate) struct Frames {
    body: BoxStream<'static, Result<Bytes, Trouble>>,
    silence: Duration,
    parser: Parser,
    ready: VecDeque<Frame>,
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
            parser: Parser::new(MOST_BYTES),
            ready: VecDeque::new(),
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
                Ok(Some(Ok(bytes))) => {
                    let fed = self.parser.feed(&bytes, &mut self.ready);
                    fed.map_err(|_| {
                        Trouble::final_(
                            Code::BadBridgeAnswer,
                            "The bridge sent an event without an end.",
                        )
                    })?;
                }
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
