//! Handing a run's frames to whoever follows it: from the journal, then as they are written.
//!
//! The journal is the only buffer. A slow reader costs a cursor, and a reader that comes late or
//! again reads the same lines.

use std::path::PathBuf;

use threadline_files::{JournalError, JournalReader};
use tokio::{
    sync::{mpsc, watch},
    task::spawn_blocking,
};

use tracing::Instrument as _;

use super::Past;
use crate::{End, Follow, Signal};

/// Signals that may wait for a reader.
const WAITING: usize = 64;
/// Bytes of a journal that are read at once.
const PAGE: u64 = 256 * 1024;

/// Follows a journal after frame `after`. `bell` says how far it is written; it closes when nobody
/// writes any more.
pub(super) fn follow<P: Past>(path: PathBuf, after: i64, bell: watch::Receiver<u64>) -> Follow {
    let (to, signals) = mpsc::channel(WAITING);
    let pumping = async move {
        if let Err(error) = pump::<P>(path, after, bell, &to).await {
            // The reader sees a channel that closed without an end, and asks again.
            tracing::error!(%error, "a run's journal cannot be followed");
        }
    };
    tokio::spawn(pumping.in_current_span());
    signals
}

/// Follows a run of which only the end is known.
pub(super) fn only(end: End) -> Follow {
    let (to, signals) = mpsc::channel(1);
    // There is room for one and the receiver is in our hands.
    let _ = to.try_send(Signal::End(end));
    signals
}

async fn pump<P: Past>(
    path: PathBuf,
    after: i64,
    mut bell: watch::Receiver<u64>,
    to: &mpsc::Sender<Signal>,
) -> Result<(), JournalError> {
    let mut reader = JournalReader::open(path)?;
    let mut cursor = 0;
    loop {
        let end = *bell.borrow_and_update();
        while cursor < end {
            let page = spawn_blocking(move || {
                let page = page::<P>(&reader, cursor, end, after);
                (reader, page)
            });
            let Ok((back, page)) = page.await else {
                return Ok(());
            };
            reader = back;
            let (next, signals) = page?;
            if next == cursor {
                break;
            }
            cursor = next;
            for signal in signals {
                let last = matches!(signal, Signal::End(_));
                if to.send(signal).await.is_err() || last {
                    return Ok(());
                }
            }
        }
        tokio::select! {
            more = bell.changed() => if more.is_err() { return Ok(()) },
            () = to.closed() => return Ok(()),
        }
    }
}

fn page<P: Past>(
    reader: &JournalReader,
    cursor: u64,
    end: u64,
    after: i64,
) -> Result<(u64, Vec<Signal>), JournalError> {
    let mut signals = Vec::new();
    let mut next = cursor;
    for record in reader.read_after::<P::Line>(cursor)? {
        let record = record?;
        if record.next > end {
            break;
        }
        next = record.next;
        let said = P::signals(record.value).into_iter();
        signals.extend(said.filter(|signal| match signal {
            Signal::Frame(frame) => frame.no > after,
            Signal::End(_) => true,
        }));
        if next - cursor >= PAGE {
            break;
        }
    }
    Ok((next, signals))
}
