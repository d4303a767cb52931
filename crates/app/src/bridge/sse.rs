//! The bridge's events, as they come.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream};
use threadline_contract::{
    Code,
    sse::{Events, MAX_EVENT_BYTES, ReadError},
};
use tokio_stream::StreamExt as _;

pub(crate) use threadline_contract::sse::Frame;

use super::trouble::Trouble;

/// Events as they come.
pub(crate) struct Frames(Events<BoxStream<'static, Result<Bytes, Trouble>>>);

impl Frames {
    /// Silence counts as a cut. Anything that comes ends it, also what is no event.
    pub(crate) fn new(
        body: impl Stream<Item = Result<Bytes, reqwest::Error>> + Send + 'static,
        silence: Duration,
    ) -> Self {
        let body = body.timeout(silence).map(|chunk| match chunk {
            Ok(chunk) => chunk.map_err(|e| Trouble::cut(&e)),
            Err(_) => Err(Trouble::again(
                Code::ConnectionClosed,
                "The bridge's stream fell silent.",
            )),
        });
        Self(Events::new(Box::pin(body), MAX_EVENT_BYTES))
    }

    /// The next event; `None` when the stream has ended.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>, Trouble> {
        self.0.next().await.map_err(|e| match e {
            ReadError::Bytes(trouble) => trouble,
            ReadError::TooLong(_) => Trouble::final_(
                Code::BadBridgeAnswer,
                "The bridge sent an event without an end.",
            ),
        })
    }
}
