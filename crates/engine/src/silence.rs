//! Servers that did not answer in time. Whoever asks next does not wait for them again, until a while has passed or
//! they have noted in the database that they are there.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use threadline_contract::Millis;
use threadline_retry::table;

use crate::{Engine, Node};

/// The servers that did not answer, by name and address.
#[derive(Default)]
pub(crate) struct Silences(Mutex<HashMap<(String, Option<String>), Silence>>);

#[derive(Clone, Copy)]
struct Silence {
    until: Instant,
    /// How often it did not answer before.
    times: u32,
    /// How long it was waited for.
    patience: Duration,
    /// When it had last noted that it is there.
    seen_at: Option<Millis>,
}

impl Silences {
    fn lock(&self) -> MutexGuard<'_, HashMap<(String, Option<String>), Silence>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Whether a server was waited for in vain lately, for at least this long.
    pub fn is_silent(&self, node: &Node, patience: Duration) -> bool {
        let silences = self.0.silences.lock();
        let silence = silences.get(&key(node));
        silence.is_some_and(|silence| {
            let lately = silence.until > Instant::now() && silence.patience >= patience;
            lately && silence.seen_at == node.seen_at
        })
    }

    /// Notes that a server did not answer for so long.
    pub fn note_silence(&self, node: &Node, patience: Duration) {
        let mut silences = self.0.silences.lock();
        let before = silences.get(&key(node));
        let times = before.map_or(0, |before| before.times.saturating_add(1));
        let silence = Silence {
            until: Instant::now() + table::SERVER_SILENT.at_most(times),
            times,
            patience,
            seen_at: node.seen_at,
        };
        silences.insert(key(node), silence);
    }

    /// Notes that a server answers.
    pub fn note_answer(&self, node: &Node) {
        self.0.silences.lock().remove(&key(node));
    }
}

fn key(node: &Node) -> (String, Option<String>) {
    (node.name.clone(), node.url.clone())
}
