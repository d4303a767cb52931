//! How a run that is followed ends: with the whole of its text, and with who stopped it.

use std::time::Duration;

use threadline_contract::{Code, Millis, Usage};
use tokio::time::sleep;

use super::{Follower, Stop};
use crate::{
    EndStatus, Signal,
    openclaw::{
        ends::{self, Told},
        gateway::{CallError, Conn, Link},
        reply::{self, Reply},
        transcript::History,
    },
};

/// How often a text of which only a part was told is looked for, and the pause between.
const TEXT_TRIES: u32 = 5;
const TEXT_AGAIN: Duration = Duration::from_millis(200);
/// How often the reason for a stop is looked for, and the pause between.
const REASON_TRIES: u32 = 8;
const REASON_AGAIN: Duration = Duration::from_millis(100);

impl Follower {
    /// An end with the whole of its text, if the events told it.
    pub(super) fn heard(&self, told: Told) -> Told {
        let part = part_of(&told);
        let whole = part.and_then(|part| self.ear.story().whole(part.beginning()));
        match whole {
            Some(whole) => told.replying(Reply::whole(whole)),
            None => told,
        }
    }

    /// An end with the whole of its text: by the events, else by the transcript. Where the transcript has
    /// lost it too, as much as anybody told.
    pub(super) async fn read_text(
        &self,
        conn: &Conn,
        told: Told,
        mut known: Option<History>,
    ) -> Result<Told, CallError> {
        let told = self.heard(told);
        let Some(part) = part_of(&told) else {
            return Ok(told);
        };
        let mut longest = part.clone();
        for _ in 0..TEXT_TRIES {
            let mut history = match known.take() {
                Some(history) => history,
                None => self.turns.history(conn, &self.note).await?,
            };
            let name = &self.note.name;
            let whole = self.turns.read_whole(conn, &self.note, &mut history);
            whole.await?;
            if let Some(row) = history.answer(name) {
                if !row.is_cut && row.text.trim_start().starts_with(part.beginning()) {
                    return Ok(told.replying(row));
                }
                longest = longest.longer(row);
            }
            // The gateway may still be writing it.
            sleep(TEXT_AGAIN).await;
        }
        if let Some(heard) = self.ear.story().last_message() {
            let text = heard.to_owned();
            longest = longest.longer(Reply { text, is_cut: true });
        }
        Ok(told.replying(longest))
    }

    /// What somebody gave as the reason for cancelling the run at the gateway.
    async fn reason(&self) -> Option<ends::Stop> {
        let Link::Up(conn) = self.turns.gateway.link() else {
            return None;
        };
        let mut over = 0;
        for _ in 0..REASON_TRIES {
            let tasks = self.turns.tasks(&conn, &self.note).await.ok()?;
            if let Some(reason) = tasks.reason(&self.note.name) {
                return Some(ends::Stop::Reason(reason));
            }
            // It is written down when the run is over, and the reason after that.
            over += u32::from(tasks.is_over(&self.note.name));
            if over > 1 {
                return None;
            }
            sleep(REASON_AGAIN).await;
        }
        None
    }

    /// Tells the end, after it is noted.
    pub(super) async fn end(&mut self, told: Told, used: Option<Usage>) -> Stop {
        // Whether it was we who stopped it; to any other end it makes no difference.
        if told.end.status == EndStatus::Cancelled {
            match self.is_stop_asked().await {
                Ok(asked) => self.note.cancel_asked |= asked,
                Err(stop) => return stop,
            }
        }
        let cut = part_of(&told);
        let Told {
            mut end, at, stop, ..
        } = told;
        if end.status == EndStatus::Cancelled && !self.note.cancel_asked {
            let heard = self
                .ear
                .story()
                .last_word()
                .and_then(|word| ends::said(word).stop);
            let stop = match stop.or(heard) {
                Some(stop) => Some(stop),
                None => self.reason().await,
            };
            end.code = Some(Code::StoppedAtGateway);
            end.message = Some(ends::stopped_at_gateway(stop.as_ref()));
        }
        {
            let mut story = self.ear.story();
            match end.status {
                EndStatus::Completed => {
                    if let Some(cut) = cut {
                        let missing = reply::lost_rest(cut.beginning().chars().count());
                        story.settle(Some(&cut.shown()));
                        story.note(missing.as_str());
                        end.message = Some(missing);
                    } else {
                        story.settle(end.text.as_deref());
                    }
                }
                // What it said until then; never another run's words.
                EndStatus::Failed | EndStatus::Cancelled => {}
            }
            // All that it said, and not its last message alone: as it was told.
            end.text = story.text();
            if end.code == Some(Code::ExecutionFailed)
                && story.last_word().is_some_and(|word| word.of_model)
            {
                end.code = Some(Code::ModelFailed);
            }
            end.usage = used.or_else(|| story.usage());
            end.wrote = story.wrote().to_vec();
        }
        if let Err(stop) = self.tell().await {
            return stop;
        }
        self.note.end = Some(end.clone());
        self.note.plan = None;
        self.note.ended_at = at;
        self.note.heard_at = Some(Millis::now());
        if let Err(fault) = self.turns.notes.write(&self.note).await {
            return Stop::Later(fault);
        }
        let _ = self.to.send(Signal::End(end)).await;
        Stop::Done
    }
}

/// What an end tells of its text, if that is not all.
fn part_of(told: &Told) -> Option<Reply> {
    let text = told.end.text.as_ref().filter(|_| told.is_cut)?;
    Some(Reply {
        text: text.clone(),
        is_cut: true,
    })
}
