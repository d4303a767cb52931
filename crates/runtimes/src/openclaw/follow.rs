//! Following a run: its events as they come, its end when the gateway's own evidence says so.

mod end;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::value::RawValue;
use threadline_contract::{Code, Fault};
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, sleep, sleep_until},
};

use tracing::Instrument as _;

use super::{
    answer,
    ends::{BROKEN_OFF, cancelled, lost, said},
    evidence::Ruling,
    gateway::{CallError, Conn, Listener},
    notes::Note,
    story::{LastState, LastWord, Story},
    turn::Turns,
};
use crate::{End, EndStatus, Follow, Frame, Logged, Signal, Update};

/// Signals that may wait for the reader.
const WAITING: usize = 64;
/// How long the gateway is asked to wait for an end at a time.
const LONG: Duration = Duration::from_secs(25);
/// How long a terminal event waits to be confirmed.
const CONFIRM: Duration = Duration::from_secs(3);
/// How often an unclear case is looked at again.
const AGAIN: Duration = Duration::from_secs(1);
/// How long a case may stay unclear on a gateway that did not restart.
const UNCLEAR: Duration = Duration::from_secs(120);
/// How long a gateway that is stopping is only listened to.
const STOPPING: Duration = Duration::from_secs(5);
/// What is said in a run while the gateway does not let us in.
const GOES_ON: &str =
    "The run goes on at the gateway, which is tried again by itself; what came of it is told then.";
/// Bytes of text that are handed over at once; as JSON they may be six times as many.
const PIECE_BYTES: usize = 8 * 1024;
/// What hears a run's events.
struct Ear {
    story: Mutex<Story>,
    bell: Notify,
}

impl Ear {
    fn story(&self) -> MutexGuard<'_, Story> {
        self.story.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener for Ear {
    fn hear(&self, event: &str, payload: &RawValue) {
        if self.story().hear(event, payload.get()) {
            self.bell.notify_one();
        }
    }
}

/// A follower of one run.
struct Follower {
    turns: Turns,
    note: Note,
    ear: Arc<Ear>,
    to: mpsc::Sender<Signal>,
    /// The last frame's number.
    no: i64,
    /// The run was told in part before.
    again: bool,
    /// Something that the run said may have been missed.
    missed: bool,
}

/// Why following stops.
enum Stop {
    /// Nobody listens, or the end was told.
    Done,
    /// The connection is gone; the next one goes on.
    Broken(CallError),
    /// The reader shall ask again later.
    Later(Fault),
}

impl From<CallError> for Stop {
    fn from(error: CallError) -> Self {
        Self::Broken(error)
    }
}

/// Follows a run after what is logged of it.
pub(super) fn follow(turns: Turns, note: Note, logged: Logged) -> Follow {
    let (to, signals) = mpsc::channel(WAITING);
    let after = logged.frame;
    let story = match after {
        0 => Story::default(),
        _ => Story::again(logged.text),
    };
    let ear = Arc::new(Ear {
        story: Mutex::new(story),
        bell: Notify::new(),
    });
    // Before anything is asked, so that nothing falls between.
    turns.gateway.listen(&note.name, &ear);
    let follower = Follower {
        turns,
        note,
        ear,
        to,
        no: after,
        again: after > 0,
        missed: after > 0,
    };
    tokio::spawn(follower.run().in_current_span());
    signals
}

/// An update as it is handed over: a long text in pieces, because who reads along is sent only the
/// beginning of a large one.
fn in_pieces(update: Update) -> Vec<Update> {
    let Update::Text(text) = update else {
        return vec![update];
    };
    let mut pieces = vec![];
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
        pieces.push(Update::Text(piece.to_owned()));
        rest = after;
    }
    pieces
}

/// Follows a run of which only the end is left to tell.
pub(super) fn only(end: End) -> Follow {
    let (to, signals) = mpsc::channel(1);
    // There is room for one, and the receiver is in our hands.
    let _ = to.try_send(Signal::End(end));
    signals
}

impl Follower {
    async fn run(mut self) {
        let mut first = true;
        if let Some(notice) = self.note.notice.as_deref().filter(|_| self.no == 0) {
            self.ear.story().note(notice);
        }
        loop {
            let gateway = self.turns.gateway.clone();
            let mut told = false;
            let conn = loop {
                tokio::select! {
                    up = gateway.wait_back() => break up,
                    why = gateway.refused(), if !told => {
                        told = true;
                        self.ear.story().note(format!("{why} {GOES_ON}"));
                        if self.tell().await.is_err() {
                            return;
                        }
                    }
                    () = self.to.closed() => return,
                }
            };
            let stop = match self.on(&conn, std::mem::take(&mut first)).await {
                Stop::Broken(error) if error.is_stopping() => self.last_words(&conn).await,
                stop => stop,
            };
            match stop {
                Stop::Done => return,
                Stop::Broken(error) => {
                    tracing::debug!(run.id = %self.note.run, "Run {} is not heard: {error}", self.note.run);
                    sleep(Duration::from_millis(100)).await;
                }
                Stop::Later(fault) => {
                    tracing::warn!(run.id = %self.note.run, code = %fault.code, "Run {} cannot be followed: {}", self.note.run, fault.message);
                    return;
                }
            }
        }
    }

    /// Follows on one connection. A run that was just sent on it needs no looking up.
    async fn on(&mut self, conn: &Arc<Conn>, first: bool) -> Stop {
        let fresh = first && !self.again && self.note.boot == conn.boot();
        if !fresh {
            self.missed = true;
            if let Err(stop) = self.look_up(conn).await {
                return stop;
            }
        }
        loop {
            if let Err(stop) = self.listen(conn).await {
                return stop;
            }
            // Nothing was heard for long: perhaps the gateway has forgotten it.
            if let Err(stop) = self.look_up(conn).await {
                return stop;
            }
        }
    }

    /// Finds out how the run stands, and goes on when it does.
    async fn look_up(&mut self, conn: &Arc<Conn>) -> Result<(), Stop> {
        let since = Instant::now();
        loop {
            let (ruling, mut history) = self.turns.look(conn, &self.note).await?;
            if self.missed {
                let whole = self.turns.read_whole(conn, &self.note, &mut history);
                whole.await?;
                self.missed = false;
                self.again = false;
                let rows = history.said(&self.note.first_name(), &self.note.name);
                self.ear.story().recall(rows);
            }
            match ruling {
                Ruling::Running => {
                    self.note.boot = conn.boot().to_owned();
                    if self.is_stop_asked().await? {
                        self.turns.abort(conn, &self.note).await?;
                    }
                    let asks = answer::open(conn, &self.note.name).await?;
                    self.ear.story().asks(asks);
                    self.tell().await?;
                    return Ok(());
                }
                Ruling::GivenBack => self.send(conn, true).await?,
                // It was to be sent anew, and we died before it was.
                Ruling::NoRecord if self.note.anew > 0 => self.send(conn, false).await?,
                Ruling::Renamed(name) => {
                    tracing::info!(run.id = %self.note.run, "The gateway took run {} up as {name}", self.note.run);
                    self.note.name = name;
                    self.ear.story().taken_up();
                    // What it said under the new name until now.
                    self.missed = true;
                    self.turns.gateway.listen(&self.note.name, &self.ear);
                    self.write().await?;
                }
                Ruling::Ended(told) => {
                    let used = history.usage(&self.note.name);
                    let told = self.read_text(conn, told, Some(history)).await?;
                    return Err(self.end(told, used).await);
                }
                Ruling::NoRecord => return Err(Stop::Later(super::turn::no_record())),
                Ruling::Unclear if self.same_boot(conn) && since.elapsed() > UNCLEAR => {
                    return Err(self.end(lost(), None).await);
                }
                Ruling::Unclear => {
                    self.tell().await?;
                    tokio::select! {
                        () = sleep(AGAIN) => {}
                        () = conn.gone() => {
                            return Err(CallError::Offline("the connection broke".into()).into());
                        }
                        () = self.to.closed() => return Err(Stop::Done),
                    }
                }
            }
        }
    }

    /// Sends the turn once more, to a gateway that surely never worked on it.
    async fn send(&mut self, conn: &Arc<Conn>, anew: bool) -> Result<(), Stop> {
        if self.is_stop_asked().await? {
            return Err(self.end(cancelled(), None).await);
        }
        let Some(plan) = self.note.plan.clone() else {
            return Err(self.end(lost(), None).await);
        };
        let note = self.note.clone();
        self.note = match anew {
            true => note.sent_anew(conn.boot()),
            false => Note {
                boot: conn.boot().to_owned(),
                ..note
            },
        };
        tracing::info!(run.id = %self.note.run, "The gateway gave run {} back, and gets it as {}", self.note.run, self.note.name);
        self.turns.gateway.listen(&self.note.name, &self.ear);
        let sent = self.turns.hand_over(conn, &plan, self.note.clone()).await;
        match sent.map_err(Stop::Later)? {
            Err(error) if error.is_final() => {
                let end = End::failed(
                    Code::ExecutionFailed,
                    format!("The OpenClaw gateway refused the turn: {error}."),
                );
                Err(self.end(end.into(), None).await)
            }
            sent => Ok(sent?),
        }
    }

    async fn is_stop_asked(&self) -> Result<bool, Stop> {
        let kept = self.turns.notes.read(&self.note.run_ref()).await;
        let kept = kept.map_err(Stop::Later)?;
        Ok(kept.is_some_and(|note| note.cancel_asked))
    }

    /// Hears a gateway that is stopping: it answers no questions, but tells its runs' events to the end.
    async fn last_words(&mut self, conn: &Arc<Conn>) -> Stop {
        let until = Instant::now() + STOPPING;
        loop {
            if let Err(stop) = self.tell().await {
                return stop;
            }
            let word = {
                let story = self.ear.story();
                // An error without a beginning: it only does not take the run any more.
                let told = |w: &&LastWord| match w.state {
                    LastState::Error => story.began(),
                    // It may take it up when it is back.
                    LastState::Aborted => w.stop_reason.as_deref() != Some(BROKEN_OFF),
                    LastState::Final => true,
                };
                story.last_word().filter(told).cloned()
            };
            if let Some(word) = word {
                let told = self.heard(said(&word));
                return self.end(told, None).await;
            }
            tokio::select! {
                () = self.ear.bell.notified() => {}
                () = conn.gone() => return Stop::Broken(CallError::Offline("the gateway stopped".into())),
                // Perhaps it thought better of stopping.
                () = sleep_until(until) => return Stop::Broken(CallError::Slow("a stop".into())),
                () = self.to.closed() => return Stop::Done,
            }
        }
    }

    fn same_boot(&self, conn: &Conn) -> bool {
        self.note.boot == conn.boot()
    }

    /// Tells what is heard until the end; comes back when nothing was heard for long.
    async fn listen(&mut self, conn: &Arc<Conn>) -> Result<(), Stop> {
        let name = self.note.name.clone();
        let turns = self.turns.clone();
        let mut heard = false;
        let mut waiting = Box::pin(turns.wait(conn, &name, LONG));
        let mut confirm: Option<Instant> = None;
        loop {
            let last_call = confirm.unwrap_or_else(|| Instant::now() + LONG);
            tokio::select! {
                answer = &mut waiting => {
                    let answer = answer?;
                    if let Some(told) = answer.end() {
                        // A gateway that is stopping ends what it did not begin, and breaks off the
                        // rest. It is asked again, by which it tells.
                        let not_begun = told.end.status == EndStatus::Failed && !self.ear.story().began();
                        if not_begun || answer.is_broken_off() {
                            return Ok(());
                        }
                        let told = self.read_text(conn, told, None).await?;
                        return Err(self.end(told, None).await);
                    }
                    if !std::mem::take(&mut heard) {
                        return Ok(());
                    }
                    waiting = Box::pin(turns.wait(conn, &name, LONG));
                }
                () = self.ear.bell.notified() => {
                    heard = true;
                    self.tell().await?;
                    if confirm.is_none() && self.ear.story().last_word().is_some() {
                        confirm = Some(Instant::now() + CONFIRM);
                    }
                }
                () = sleep_until(last_call), if confirm.is_some() => {
                    // It did not confirm in time; its own event is its word too.
                    let word = self.ear.story().last_word().cloned();
                    match word {
                        Some(word) if word.stop_reason.as_deref() == Some(BROKEN_OFF) => return Ok(()),
                        Some(word) => {
                            let told = self.read_text(conn, said(&word), None).await?;
                            return Err(self.end(told, None).await);
                        }
                        None => confirm = None,
                    }
                }
                () = self.to.closed() => return Err(Stop::Done),
            }
        }
    }

    /// Hands over what is new.
    async fn tell(&mut self) -> Result<(), Stop> {
        let updates = self.ear.story().take();
        for update in updates.into_iter().flat_map(in_pieces) {
            self.no += 1;
            let frame = Frame {
                no: self.no,
                update,
            };
            let sent = self.to.send(Signal::Frame(frame)).await;
            sent.map_err(|_| Stop::Done)?;
        }
        Ok(())
    }

    /// Notes what is known; what somebody else noted meanwhile stays.
    async fn write(&mut self) -> Result<(), Stop> {
        self.note.cancel_asked |= self.is_stop_asked().await?;
        self.turns
            .notes
            .write(&self.note)
            .await
            .map_err(Stop::Later)
    }
}
