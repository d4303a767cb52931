//! How an answer is sent: as a stream that can be slow, broken or cut.

use std::{io, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::header::CONTENT_TYPE,
    response::{IntoResponse as _, Response},
};
use futures_util::{Stream, StreamExt as _, stream::unfold};
use tokio::time::Instant;

use super::{
    Dialect, Open,
    script::{Modifier, Turn},
};

/// The answer in pieces. `open` is held until the last of them is sent or nobody listens.
pub(super) fn stream(
    dialect: Dialect,
    turn: &Turn,
    attempt: u32,
    usage: Option<(usize, usize)>,
    open: Open,
) -> Response {
    let mut pause = None;
    let mut cut = false;
    let mut lines: Vec<Result<String, ()>> =
        dialect.events(turn, usage).into_iter().map(Ok).collect();
    for modifier in &turn.modifiers {
        match modifier {
            Modifier::Slow(ms) => pause = Some(Duration::from_millis(*ms)),
            Modifier::Rate(count) => pause = Some(Duration::from_secs(1) / (*count).max(1)),
            Modifier::Drop(times) => cut = attempt < *times,
            Modifier::Garbage => lines = vec![Ok("data: {not json\n\n".into())],
            Modifier::Error(text) => {
                lines.truncate(1);
                lines.push(Ok(dialect.broken(text)));
            }
            _ => {}
        }
    }
    if cut {
        lines.truncate(lines.len() / 2);
        lines.push(Err(()));
    }
    let body = paced(lines, pause, open);
    let body = body.map(|line| line.map(Bytes::from).map_err(|()| io::Error::other("cut")));
    (
        [(CONTENT_TYPE, "text/event-stream")],
        Body::from_stream(body),
    )
        .into_response()
}

/// Each line at its time, counted from the first, so that a rate is kept however long sending takes.
fn paced(
    lines: Vec<Result<String, ()>>,
    pause: Option<Duration>,
    open: Open,
) -> impl Stream<Item = Result<String, ()>> {
    let due = Instant::now();
    unfold(
        (lines.into_iter(), due, open),
        move |(mut lines, mut due, open)| async move {
            let line = lines.next()?;
            if let Some(pause) = pause {
                due += pause;
                tokio::time::sleep_until(due).await;
            }
            if line.is_err() {
                // What was sent before must arrive before the connection breaks.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Some((line, (lines, due, open)))
        },
    )
}
