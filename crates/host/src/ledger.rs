//! What a host decides: how far the agent may run ahead, which frames were handed in already, who
//! waits for an answer. No I/O.

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::{
    Frame, Id, Kind,
    wire::{Refusal, RefusalCode},
};

/// Keys of frames whose entries were acknowledged that are remembered beyond need.
const KEYS_KEPT: usize = 1_024;
/// Open requests of each side that are told apart. With more of them, the host just knows that
/// there are some.
const OPEN_MOST: usize = 4_096;
/// The longest key.
const LONGEST_KEY: usize = 128;

/// How far an agent may run ahead of what the bridge has acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lead {
    pub(crate) bytes: u64,
    pub(crate) entries: usize,
}

/// What is to be done with a frame that was handed in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It goes to the agent.
    New,
    /// It went there as this entry.
    Again(u64),
    Refused(Refusal),
}

/// The key of the answer to a request of the agent, by the request's entry. A bridge that uses it too learns from
/// the journal which of its answers the host has given.
pub fn reply_key(no: u64) -> String {
    format!("reply:{no}")
}

#[derive(Debug)]
pub(crate) struct Ledger {
    most: Lead,
    last: u64,
    acked: u64,
    /// The sizes of the entries after `acked`.
    sizes: VecDeque<u32>,
    lead: u64,
    /// Which entry a key became, and of what frame.
    keys: HashMap<String, (u64, u64)>,
    /// The same keys by age.
    ages: VecDeque<(u64, String)>,
    ours: Open,
    theirs: Open,
    /// The agent has answered something.
    has_answered: bool,
}

impl Ledger {
    pub(crate) fn new(most: Lead) -> Self {
        Self {
            most,
            last: 0,
            acked: 0,
            sizes: VecDeque::new(),
            lead: 0,
            keys: HashMap::new(),
            ages: VecDeque::new(),
            ours: Open::default(),
            theirs: Open::default(),
            has_answered: false,
        }
    }

    /// The number of the last entry.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Up to where everything is in the bridge's own keeping.
    pub(crate) fn acked(&self) -> u64 {
        self.acked
    }

    /// Whether more may be read from the agent.
    pub(crate) fn may_read(&self) -> bool {
        self.lead < self.most.bytes && self.sizes.len() < self.most.entries
    }

    /// Requests to the agent that it has not answered: turns, as a rule.
    pub(crate) fn open_turns(&self) -> usize {
        self.ours.count()
    }

    /// Whether a frame for the agent begins something after everything before it was done. What an agent says
    /// before it has answered for the first time belongs to its start.
    pub(crate) fn begins_anew(&self, kind: &Kind) -> bool {
        matches!(kind, Kind::Request { .. }) && self.has_answered && self.open_turns() == 0
    }

    /// Requests of the agent that nobody has answered: permissions, as a rule.
    pub(crate) fn waiting(&self) -> usize {
        self.theirs.count()
    }

    /// Requests of the agent that nobody will answer any more, because no turn is open: oldest first.
    pub(crate) fn unattended(&self) -> Vec<Asked> {
        if self.open_turns() > 0 {
            return vec![];
        }
        let mut all: Vec<Asked> = self.theirs.ids.values().cloned().collect();
        all.sort_by_key(|asked| asked.no);
        all
    }

    /// An entry was written; gives its number.
    fn wrote(&mut self, size: u64) -> u64 {
        self.last += 1;
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.sizes.push_back(size);
        self.lead += u64::from(size);
        self.last
    }

    /// The entry of something else than a frame was written.
    pub(crate) fn wrote_other(&mut self, size: u64) {
        self.wrote(size);
    }

    /// The entry of a frame of the agent was written.
    pub(crate) fn wrote_said(&mut self, kind: &Kind, size: u64) {
        let no = self.wrote(size);
        match kind {
            Kind::Request { id, method } => self.theirs.opened(no, id, method),
            Kind::Response { id } => {
                self.has_answered = true;
                self.ours.answered(id);
            }
            Kind::Notification { .. } | Kind::Other => {}
        }
    }

    /// The entry of a frame for the agent was written.
    pub(crate) fn wrote_sent(&mut self, key: &str, frame: &Frame, kind: &Kind, size: u64) -> u64 {
        let no = self.wrote(size);
        match kind {
            Kind::Request { id, method } => self.ours.opened(no, id, method),
            Kind::Response { id } => _ = self.theirs.closed(id),
            Kind::Notification { .. } | Kind::Other => {}
        }
        self.keys.insert(key.to_owned(), (no, digest(frame)));
        self.ages.push_back((no, key.to_owned()));
        self.forget_keys();
        no
    }

    /// Whether a frame may go to the agent.
    pub(crate) fn admit(&self, key: &str, frame: &Frame, kind: &Kind) -> Admission {
        let refused = |code, message: &str| Admission::Refused(Refusal::new(code, message));
        if key.is_empty() || key.len() > LONGEST_KEY {
            return refused(RefusalCode::BadKey, "A key has 1 to 128 bytes.");
        }
        if let Some((no, was)) = self.keys.get(key) {
            return match *was == digest(frame) {
                true => Admission::Again(*no),
                false => refused(
                    RefusalCode::KeyReused,
                    "Another frame was handed in under this key.",
                ),
            };
        }
        match kind {
            Kind::Response { id } if !self.theirs.has(id) => refused(
                RefusalCode::NotWaiting,
                "The agent does not wait for this answer: it never asked, or has one already.",
            ),
            _ => Admission::New,
        }
    }

    /// The bridge keeps everything up to here. Earlier acknowledgements mean nothing new.
    pub(crate) fn ack(&mut self, no: u64) -> Result<(), Refusal> {
        if no > self.last {
            return Err(self.ahead(no));
        }
        while self.acked < no {
            self.acked += 1;
            self.lead -= self.sizes.pop_front().map_or(0, u64::from);
        }
        self.sizes.shrink_to(1_024);
        self.forget_keys();
        Ok(())
    }

    /// Whether a bridge can go on after this entry, when the journal begins with `first`.
    pub(crate) fn check_attach(&self, after: u64, first: u64) -> Result<(), Refusal> {
        if after > self.last {
            return Err(self.ahead(after));
        }
        if after + 1 < first {
            return Err(Refusal::new(
                RefusalCode::Gap,
                format!(
                    "Entries {} to {} were acknowledged and are gone.",
                    after + 1,
                    first - 1
                ),
            ));
        }
        Ok(())
    }

    fn ahead(&self, no: u64) -> Refusal {
        Refusal::new(
            RefusalCode::Ahead,
            format!(
                "Entry {no} is not written yet; the last one is {}.",
                self.last
            ),
        )
    }

    /// A key is needed until its entry was acknowledged: from then on nobody hands it in again.
    fn forget_keys(&mut self) {
        while self.ages.len() > KEYS_KEPT
            && self.ages.front().is_some_and(|(no, _)| *no <= self.acked)
        {
            if let Some((_, key)) = self.ages.pop_front() {
                self.keys.remove(&key);
            }
        }
    }
}

/// A request that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Its entry.
    pub(crate) no: u64,
    pub(crate) id: Id,
    pub(crate) method: String,
}

/// Requests that wait for their answers.
#[derive(Debug, Default)]
struct Open {
    ids: HashMap<Id, Asked>,
    /// So many that not all were noted. Since answers to those cannot be told from others, this
    /// stays.
    beyond: bool,
}

impl Open {
    fn opened(&mut self, no: u64, id: &Id, method: &str) {
        if self.ids.len() >= OPEN_MOST {
            self.beyond = true;
            return;
        }
        let asked = Asked {
            no,
            id: id.clone(),
            method: method.to_owned(),
        };
        self.ids.insert(id.clone(), asked);
    }

    fn closed(&mut self, id: &Id) -> bool {
        self.ids.remove(id).is_some()
    }

    /// By an agent, which may write the number that it was given in another way.
    fn answered(&mut self, id: &Id) {
        if !self.closed(id)
            && let Some(number) = id.number()
        {
            self.closed(&Id::Number(number.to_string()));
        }
    }

    fn has(&self, id: &Id) -> bool {
        self.beyond || self.ids.contains_key(id)
    }

    fn count(&self) -> usize {
        self.ids.len() + usize::from(self.beyond)
    }
}

fn digest(frame: &Frame) -> u64 {
    let mut hasher = DefaultHasher::new();
    frame.text().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
