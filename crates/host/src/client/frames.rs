//! What an agent says, from a place on, whatever becomes of its host.

use std::time::{Duration, Instant};

use tokio::{sync::mpsc, task::spawn_blocking, time::sleep};

use super::connect::{Connection, unreachable};
use crate::{Entry, HostError, State, What, place::Place, segments::Cursor, wire::FromHost};

/// Entries that are read from the disk ahead of who wants them.
const AHEAD: usize = 16;
/// How long a host may take to end after it has closed its connections.
const TO_END: Duration = Duration::from_secs(5);

/// Entries in order, each once. Live as long as the host is; when it has gone, the rest is read from
/// what it left on the disk.
pub struct Frames {
    source: Source,
    place: Place,
    state: State,
    /// The last entry that was given out.
    last: u64,
}

enum Source {
    Live(Box<Connection>),
    Disk(mpsc::Receiver<Result<Entry, HostError>>),
    /// The end was given out.
    Ended,
}

impl std::fmt::Debug for Frames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frames")
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

impl Frames {
    pub(super) fn live(connection: Connection, place: Place, state: State, after: u64) -> Self {
        Self {
            source: Source::Live(Box::new(connection)),
            place,
            state,
            last: after,
        }
    }

    pub(super) fn on_disk(place: Place, state: State, after: u64) -> Self {
        Self {
            source: Source::Disk(read_disk(place.clone(), after)),
            place,
            state,
            last: after,
        }
    }

    /// The next entry. Nothing after [`What::Ended`]. [`HostError::Lost`] when the host was killed, after
    /// everything that it had written down. Nothing is lost when this is dropped while it waits.
    pub async fn next(&mut self) -> Result<Option<Entry>, HostError> {
        loop {
            let entry = match &mut self.source {
                Source::Ended => return Ok(None),
                Source::Live(connection) => match connection.hear().await? {
                    Some(FromHost::Entry(entry)) => entry,
                    Some(FromHost::Refused(refusal)) => return Err(HostError::Refused(refusal)),
                    Some(_) => return Err(unreachable("it is not understood".into())),
                    None => {
                        self.await_end().await?;
                        self.source = Source::Disk(read_disk(self.place.clone(), self.last));
                        continue;
                    }
                },
                Source::Disk(entries) => match entries.recv().await {
                    Some(entry) => entry?,
                    None => return Err(HostError::Lost),
                },
            };
            if entry.no != self.last + 1 {
                return Err(HostError::Gap {
                    expected: self.last + 1,
                    found: Some(entry.no),
                });
            }
            self.last = entry.no;
            if matches!(entry.what, What::Ended(_)) {
                self.source = Source::Ended;
            }
            return Ok(Some(entry));
        }
    }

    /// The host has closed the connection: because it ends, or because another bridge has attached.
    async fn await_end(&self) -> Result<(), HostError> {
        let begun = Instant::now();
        while self.state.host.is_alive() {
            if begun.elapsed() > TO_END {
                return Err(unreachable(
                    "it closed the connection and did not end".into(),
                ));
            }
            match Connection::open(&self.place).await {
                Ok((_, hello)) if hello.boot == self.state.boot => return Err(HostError::Replaced),
                _ => sleep(Duration::from_millis(5)).await,
            }
        }
        let place = self.place.clone();
        let now = spawn_blocking(move || place.read_state()).await;
        let now = now.map_err(|e| unreachable(e.to_string()))??;
        match now {
            Some(now) if now.boot == self.state.boot => Ok(()),
            // Its place was taken, and what it left is gone.
            _ => Err(HostError::Lost),
        }
    }
}

fn read_disk(place: Place, after: u64) -> mpsc::Receiver<Result<Entry, HostError>> {
    let (entries, receiver) = mpsc::channel(AHEAD);
    spawn_blocking(move || {
        let mut cursor = match Cursor::<Entry>::after(&place.frames(), after) {
            Ok(cursor) => cursor,
            Err(e) => {
                let _ = entries.blocking_send(Err(e));
                return;
            }
        };
        while let Some(read) = cursor.read().transpose() {
            let is_last = read.is_err();
            let read = read.map(|mut entry| {
                if let What::Sent { frame, .. } = &mut entry.what {
                    *frame = None;
                }
                entry
            });
            if entries.blocking_send(read).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}
