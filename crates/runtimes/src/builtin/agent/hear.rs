//! Hearing one answer of the model: its text is shown as it comes, in pieces worth a frame each.

use std::sync::Arc;

use bytes::Bytes;
use threadline_contract::Fault;
use threadline_files::Durability;
use tokio::time::{Duration, Instant, sleep_until};

use crate::{
    Update,
    builtin::{
        chat::Answer,
        model::{Model, Pieces, Trouble},
        work::Record,
    },
};

/// Text waits for more of it so long, or until it is so much.
const WAIT: Duration = Duration::from_millis(40);
const ENOUGH: usize = 2 * 1024;
/// Bytes of one frame's text: an event of that size still goes out whole.
const MOST: usize = 32 * 1024;

/// What came of a model call.
pub(super) enum Heard {
    Answer(Answer),
    Trouble(Trouble),
}

/// Asks the model and shows its text. The error is our own: something could not be recorded.
pub(super) async fn hear(model: &Model, record: &Arc<Record>, body: Bytes) -> Result<Heard, Fault> {
    retract(record).await?;
    let mut pieces = match model.ask(body).await {
        Ok(pieces) => pieces,
        Err(trouble) => return Ok(Heard::Trouble(trouble)),
    };
    let mut answer = Answer::default();
    let mut shown = Shown {
        record,
        waiting: String::new(),
        held: String::new(),
        due: Instant::now(),
        begun: false,
    };
    let ended = loop {
        tokio::select! {
            piece = pieces.next() => match piece {
                Ok(Some(piece)) => match answer.add(piece) {
                    Ok(text) => shown.add(&text).await?,
                    Err(too_long) => break Err(too_long.into()),
                },
                Ok(None) => break Ok(()),
                Err(trouble) => break Err(trouble),
            },
            () = sleep_until(shown.due), if !shown.waiting.is_empty() => shown.flush().await?,
        }
    };
    shown.flush().await?;
    let whole = answer.finish.is_some() || matches!(pieces, Pieces::Over);
    Ok(match ended {
        Ok(()) if whole => Heard::Answer(answer),
        Ok(()) => Heard::Trouble(Trouble::Broken("the stream ended early".into())),
        Err(trouble) => Heard::Trouble(trouble),
    })
}

/// Takes back the half of a message that a cut or a kill left: it will be said anew.
async fn retract(record: &Arc<Record>) -> Result<(), Fault> {
    let half = record.look(|past| (past.shown > past.whole).then_some(past.whole));
    match half {
        Some(keep) => {
            let reset = Update::Reset { keep };
            record.frame(reset, None, Durability::Later).await
        }
        None => Ok(()),
    }
}

/// Text on its way to the record. The space around a message is not shown, because it is no part of
/// the result: what was shown and the result are the same text.
struct Shown<'a> {
    record: &'a Arc<Record>,
    waiting: String,
    /// Space that is shown when more text follows it.
    held: String,
    due: Instant,
    begun: bool,
}

impl Shown<'_> {
    async fn add(&mut self, text: &str) -> Result<(), Fault> {
        let said = text.trim_end();
        let space = &text[said.len()..];
        if said.is_empty() {
            self.held.push_str(space);
            return Ok(());
        }
        if self.waiting.is_empty() {
            self.due = Instant::now() + WAIT;
        }
        if self.begun || !self.waiting.is_empty() {
            self.waiting.push_str(&self.held);
            self.waiting.push_str(said);
        } else {
            self.waiting.push_str(said.trim_start());
        }
        self.held.clear();
        self.held.push_str(space);
        if self.waiting.len() >= ENOUGH || Instant::now() >= self.due {
            return self.flush().await;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), Fault> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let mut text = std::mem::take(&mut self.waiting);
        // A new message begins a new paragraph.
        if !self.begun && self.record.look(|past| past.shown > 0) {
            text.insert_str(0, "\n\n");
        }
        self.begun = true;
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(MOST));
            rest = after;
            let piece = Update::Text(piece.to_owned());
            self.record.frame(piece, None, Durability::Later).await?;
        }
        Ok(())
    }
}
