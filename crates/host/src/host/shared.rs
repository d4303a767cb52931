//! What the tasks of a host share: the ledger, the journal, and bells.

use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use threadline_files::{Durability, JournalError, Reason, complain, lines::Line};
use tokio::sync::{Notify, watch};

use super::stderr::Errors;
use crate::{
    EndCause, Ended, Entry, Frame, Hello, HostError, Kind, Refusal, RefusalCode, Spec, Stray,
    StrayReason, VERSION, What,
    frame::{batch, meant},
    ledger::{Admission, Lead, Ledger, reply_key},
    place::{Place, now},
    segments::{Cursor, PIECE_BYTES, Segments},
    wire::{Passing, STRAY_HEAD},
};

/// Frames that may wait for an agent which does not read.
const OUTBOX_MOST: usize = 256;
const OUTBOX_BYTES: usize = crate::LONGEST_FRAME;
/// What an agent is told that asks for something while no turn is open: JSON-RPC's "internal error".
const NOBODY_THERE: i64 = -32603;
/// How long to wait before a journal that could not be written is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

pub(crate) struct Shared {
    core: RefCell<Core>,
    pub(super) boot: String,
    pub(super) session: String,
    frames: PathBuf,
    unattended: BTreeMap<String, Value>,
    /// The agent may be read from again.
    room: Notify,
    /// There is something for the agent.
    outbox: Notify,
    /// The agent has closed its output.
    pub(super) mute: Notify,
    /// The last entry.
    pub(super) last: watch::Sender<u64>,
    /// Whose turn it is to read: the latest attachment.
    pub(super) lease: watch::Sender<u64>,
    /// Why the host should end.
    pub(super) end: watch::Sender<Option<EndCause>>,
    pub(super) errors: RefCell<Errors>,
}

struct Core {
    ledger: Ledger,
    segments: Segments,
    outbox: VecDeque<Frame>,
    outbox_bytes: usize,
    /// The agent has closed its input.
    deaf: bool,
    /// The lease that has a connection.
    attached: Option<u64>,
    /// Up to where that connection was written.
    delivered: u64,
    /// Since when nothing has happened.
    touched: Instant,
    /// The agent is gone: what it left in the pipe is read, however much is not acknowledged.
    draining: bool,
    /// Since when nothing can be written for want of room.
    no_room_since: Option<i64>,
}

impl Shared {
    pub(super) fn new(place: &Place, spec: &Spec, boot: String) -> Result<Self, HostError> {
        let lead = Lead {
            bytes: spec.lead_bytes,
            entries: spec.lead_entries,
        };
        Ok(Self {
            core: RefCell::new(Core {
                ledger: Ledger::new(lead),
                segments: Segments::create(&place.frames(), PIECE_BYTES)?,
                outbox: VecDeque::new(),
                outbox_bytes: 0,
                deaf: false,
                attached: None,
                delivered: 0,
                touched: Instant::now(),
                draining: false,
                no_room_since: None,
            }),
            boot,
            session: spec.session.clone(),
            frames: place.frames(),
            unattended: spec.unattended.clone(),
            room: Notify::new(),
            outbox: Notify::new(),
            mute: Notify::new(),
            last: watch::Sender::new(0),
            lease: watch::Sender::new(0),
            end: watch::Sender::new(None),
            errors: RefCell::new(Errors::create(place.folder())?),
        })
    }

    pub(super) fn hello(&self) -> Hello {
        let core = self.core.borrow();
        Hello {
            version: VERSION,
            boot: self.boot.clone(),
            session: self.session.clone(),
            first: core.segments.first(),
            last: core.ledger.last(),
            acked: core.ledger.acked(),
            attached: core.attached.is_some(),
            open_turns: core.ledger.open_turns(),
            waiting: core.ledger.waiting(),
            no_room_since: core.no_room_since,
        }
    }

    /// The first reason stands.
    pub(super) fn end(&self, cause: EndCause) {
        self.end
            .send_if_modified(|end| end.is_none() && end.replace(cause).is_none());
    }

    fn is_ending(&self) -> bool {
        self.end.borrow().is_some()
    }

    /// How long nobody has needed this host.
    pub(super) fn idle_for(&self) -> Duration {
        let core = self.core.borrow();
        match core.attached.is_some() || core.ledger.open_turns() > 0 {
            true => Duration::ZERO,
            false => core.touched.elapsed(),
        }
    }

    /// What was written since the last time reaches the disk, too.
    pub(super) fn sync(&self) {
        let synced = self.core.borrow_mut().segments.sync();
        if let Err(e) = synced {
            self.journal_failed(&e);
        }
    }

    fn journal_failed(&self, e: &JournalError) {
        complain!("The journal cannot be written: {e}");
        if matches!(e, JournalError::Broken { .. }) {
            self.end(EndCause::JournalFailed);
        }
    }

    // The agent's side.

    /// Waits until the agent may go on.
    pub(super) async fn room(&self) {
        loop {
            let waiting = self.room.notified();
            {
                let core = self.core.borrow();
                if core.draining || core.ledger.may_read() {
                    return;
                }
            }
            waiting.await;
        }
    }

    /// From now on everything is read.
    pub(super) fn drain(&self) {
        self.core.borrow_mut().draining = true;
        self.room.notify_waiters();
    }

    /// Writes down a line of the agent's. On a full disk it waits for room, and the agent with it.
    pub(super) async fn heard(&self, line: Line) {
        for (what, kind) in understood(line) {
            while let Err(e) = self.write_said(what.clone(), kind.as_ref()) {
                self.journal_failed(&e);
                if self.is_ending() {
                    return;
                }
                tokio::time::sleep(TRY_AGAIN).await;
            }
        }
        self.answer_unattended();
    }

    /// Answers what the agent asks, or still asks, while no turn is open: nobody else ever will. What cannot be
    /// handed over now is tried again.
    pub(super) fn answer_unattended(&self) {
        let unattended = self.core.borrow().ledger.unattended();
        for asked in unattended {
            let id = asked.id.json();
            let frame = match self.unattended.get(&asked.method) {
                Some(result) => Frame::answer(&id, "result", result),
                None => {
                    let error = json!({"code": NOBODY_THERE, "message": "no turn is open, so nobody can answer this"});
                    Frame::answer(&id, "error", &error)
                }
            };
            if let Ok(frame) = frame {
                let _ = self.send(&reply_key(asked.no), frame);
            }
        }
    }

    fn write_said(&self, what: What, kind: Option<&Kind>) -> Result<(), JournalError> {
        let mut core = self.core.borrow_mut();
        // An answer ends a turn, a request waits for a person: both are worth the disk's time.
        let durability = match kind {
            Some(Kind::Request { .. } | Kind::Response { .. }) => Durability::Now,
            _ => Durability::Later,
        };
        let size = core.write(what, durability)?;
        match kind {
            Some(kind) => core.ledger.wrote_said(kind, size),
            None => core.ledger.wrote_other(size),
        }
        self.last.send_replace(core.ledger.last());
        Ok(())
    }

    /// The next frame for the agent.
    pub(super) async fn next_for_agent(&self) -> Frame {
        loop {
            let waiting = self.outbox.notified();
            {
                let mut core = self.core.borrow_mut();
                if let Some(frame) = core.outbox.pop_front() {
                    core.outbox_bytes -= frame.text().len();
                    return frame;
                }
            }
            waiting.await;
        }
    }

    /// The agent has closed its input.
    pub(super) fn is_deaf(&self) {
        self.core.borrow_mut().deaf = true;
    }

    /// The last entry of all, which gives the last number.
    pub(super) fn write_end(&self, ended: &Ended) -> u64 {
        let mut core = self.core.borrow_mut();
        match core.write(What::Ended(ended.clone()), Durability::Now) {
            Ok(size) => core.ledger.wrote_other(size),
            Err(e) => complain!("The agent's end could not be journaled: {e}"),
        }
        self.last.send_replace(core.ledger.last());
        core.ledger.last()
    }

    // The bridge's side.

    /// Takes a frame for the agent: what entry it is, and whether it was there already.
    pub(super) fn send(&self, key: &str, frame: Frame) -> Result<(u64, bool), Refusal> {
        let mut core = self.core.borrow_mut();
        let kind = frame.kind();
        match core.ledger.admit(key, &frame, &kind) {
            Admission::New => {}
            Admission::Again(no) => return Ok((no, true)),
            Admission::Refused(refusal) => return Err(refusal),
        }
        if self.is_ending() {
            return Err(Refusal::new(
                RefusalCode::Ending,
                "The agent's host is ending.",
            ));
        }
        if core.deaf {
            let message = "The agent has closed its input.";
            return Err(Refusal::new(RefusalCode::AgentDeaf, message));
        }
        let bytes = core.outbox_bytes + frame.text().len();
        if !core.outbox.is_empty() && (core.outbox.len() >= OUTBOX_MOST || bytes > OUTBOX_BYTES) {
            let message = "The agent does not read, and enough is waiting for it.";
            return Err(Refusal::new(RefusalCode::AgentBusy, message));
        }
        let what = What::Sent {
            key: key.to_owned(),
            frame: Some(frame.clone()),
        };
        let written = core.write(what, Durability::Now);
        let size = written.map_err(|e| {
            self.journal_failed(&e);
            Refusal::new(RefusalCode::NotJournaled, e.to_string())
        })?;
        if core.ledger.begins_anew(&kind) {
            self.errors.borrow_mut().begin_turn();
        }
        let no = core.ledger.wrote_sent(key, &frame, &kind, size);
        core.outbox.push_back(frame);
        core.outbox_bytes = bytes;
        self.outbox.notify_waiters();
        self.last.send_replace(no);
        Ok((no, false))
    }

    /// The bridge has everything up to here in its own keeping.
    pub(super) fn ack(&self, no: u64) -> Result<(), Refusal> {
        let mut core = self.core.borrow_mut();
        core.ledger.ack(no)?;
        let acked = core.ledger.acked();
        if let Err(e) = core.segments.forget(acked) {
            // It costs room, and is tried again with the next one.
            complain!("An old piece of the journal could not be removed: {e}");
        }
        self.room.notify_waiters();
        Ok(())
    }

    /// Makes a connection the one that reads, from after this entry.
    pub(super) fn attach(&self, boot: &str, after: u64) -> Result<(u64, Cursor<Passing>), Refusal> {
        if boot != self.boot {
            return Err(Refusal::new(
                RefusalCode::OtherBoot,
                "The host that was meant has gone; this is another one.",
            ));
        }
        {
            let core = self.core.borrow();
            core.ledger.check_attach(after, core.segments.first())?;
        }
        let cursor = Cursor::after(&self.frames, after)
            .map_err(|e| Refusal::new(RefusalCode::Gap, e.to_string()))?;
        self.ack(after)?;
        let lease = *self.lease.borrow() + 1;
        let mut core = self.core.borrow_mut();
        core.attached = Some(lease);
        core.delivered = after;
        core.touched = Instant::now();
        self.lease.send_replace(lease);
        Ok((lease, cursor))
    }

    pub(super) fn detach(&self, lease: u64) {
        let mut core = self.core.borrow_mut();
        if core.attached == Some(lease) {
            core.attached = None;
            core.touched = Instant::now();
        }
    }

    pub(super) fn delivered(&self, lease: u64, no: u64) {
        let mut core = self.core.borrow_mut();
        if core.attached == Some(lease) {
            core.delivered = no;
        }
    }

    /// Whether the bridge that is attached, if any, was given everything.
    pub(super) fn all_delivered(&self) -> bool {
        let core = self.core.borrow();
        core.attached.is_none() || core.delivered == core.ledger.last()
    }
}

impl Core {
    fn write(&mut self, what: What, durability: Durability) -> Result<u64, JournalError> {
        let entry = Entry {
            no: self.ledger.last() + 1,
            at: now(),
            what,
        };
        let written = self.segments.append(&entry, durability);
        self.no_room_since = match &written {
            Err(JournalError::Files(e)) if e.reason() == Reason::NoSpace => {
                self.no_room_since.or(Some(now()))
            }
            _ => None,
        };
        let size = written?;
        self.touched = Instant::now();
        Ok(size)
    }
}

/// What a line says: one thing, or each thing of a batch.
fn understood(line: Line) -> Vec<(What, Option<Kind>)> {
    let (bytes, text, why) = match line {
        Line::Whole(text) => (text.len() as u64, text, None),
        Line::TooLong { bytes, head } => (bytes, head, Some(StrayReason::TooLong)),
        Line::CutOff { bytes, head } => (bytes, head, Some(StrayReason::CutOff)),
    };
    // The last line of all may be whole without a line break.
    if let Some(why) = why.filter(|_| bytes > text.len() as u64) {
        return vec![stray(why, bytes, &text)];
    }
    let one = |text: &[u8]| match Frame::parse_kind(text) {
        Ok((frame, kind)) => (What::Said(frame), Some(kind)),
        Err(e) => stray(why.unwrap_or(e.into()), text.len() as u64, text),
    };
    match batch(&text) {
        Some(all) => all.iter().map(|text| one(text.as_bytes())).collect(),
        None => vec![one(&text)],
    }
}

fn stray(reason: StrayReason, bytes: u64, text: &[u8]) -> (What, Option<Kind>) {
    // Whoever asked in a line that cannot be read still waits for an answer; one that ends in the middle of a
    // line does not.
    let meant = match reason {
        StrayReason::CutOff => None,
        _ => meant(text),
    };
    let head = text.get(..STRAY_HEAD).unwrap_or(text);
    let stray = Stray {
        reason,
        bytes,
        head: String::from_utf8_lossy(head).into_owned(),
        meant: meant.clone(),
    };
    (What::Stray(stray), meant)
}
