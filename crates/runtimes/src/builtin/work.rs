//! The work of one run: the demonstration or the model's turn, until its end is written down.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt as _;
use threadline_contract::{Code, Fault};
use threadline_files::Durability;
use tokio_util::sync::CancellationToken;

use super::{
    Shared, agent, demo,
    past::{Entry, Fact, Past},
};
use crate::{End, EndStatus, Frame, Update, journaled};

/// A run's journal, open for writing.
pub(super) type Record = journaled::Record<Past>;

impl Record {
    /// Writes the next frame, with what the run must remember of it.
    pub(super) async fn frame(
        self: &Arc<Self>,
        update: Update,
        fact: Option<Fact>,
        durability: Durability,
    ) -> Result<(), Fault> {
        self.decide(durability, |past| {
            let no = past.run.frames + 1;
            let frame = Frame { no, update };
            Ok(Some(Entry::Frame { frame, fact }))
        })
        .await
    }
}

/// Why a turn stopped before it was done.
pub(super) enum Stop {
    Cancelled,
    Failed(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault)
    }
}

/// Waits for something that may take long, unless the run is asked to stop. What is waited for is
/// dropped then, so it must leave nothing half done.
pub(super) async fn unless<T>(
    cancel: &CancellationToken,
    work: impl Future<Output = T>,
) -> Result<T, Stop> {
    tokio::select! {
        () = cancel.cancelled() => Err(Stop::Cancelled),
        done = work => Ok(done),
    }
}

impl journaled::Work for Shared {
    type Past = Past;

    async fn drive(&self, record: &Arc<Record>, cancel: &CancellationToken, resumed: bool) {
        let worked = AssertUnwindSafe(work(self, record, cancel, resumed))
            .catch_unwind()
            .await;
        let (status, fault) = match worked {
            Ok(Ok(())) => (EndStatus::Completed, None),
            Ok(Err(Stop::Cancelled)) => (EndStatus::Cancelled, None),
            Ok(Err(Stop::Failed(fault))) => (EndStatus::Failed, Some(fault)),
            // The panic itself is in the log already; the run must not be resumed into it for ever.
            Err(_) => {
                let text = "The builtin agent broke while it worked on this turn. The server's log says where.";
                (
                    EndStatus::Failed,
                    Some(Fault::new(Code::ExecutionFailed, text)),
                )
            }
        };
        let ended = record
            .decide(Durability::Now, move |past| {
                let completed = status == EndStatus::Completed;
                let last = past.said.last().filter(|_| completed);
                let cut_off = last.and_then(|said| said.cut_off.clone());
                Ok(Some(Entry::Ended(End {
                    status,
                    code: fault.as_ref().map(|f| f.code),
                    message: fault.map(|f| f.message).or(cut_off),
                    text: past.text(),
                    usage: past.usage,
                    wrote: past.wrote.clone(),
                })))
            })
            .await;
        if let Err(fault) = ended {
            // Without a recorded end the run did not end: it goes on when it is followed again.
            tracing::error!(path = %record.path().display(), %fault, "the end of a run could not be recorded");
        }
    }
}

async fn work(
    shared: &Shared,
    record: &Arc<Record>,
    cancel: &CancellationToken,
    resumed: bool,
) -> Result<(), Stop> {
    if record.look(|past| past.run.cancel_asked) {
        return Err(Stop::Cancelled);
    }
    let Some(begun) = record.look(|past| past.run.begun.clone()) else {
        return Err(Fault::internal().into());
    };
    if resumed {
        let note = Update::Note("Resumed after a restart.".into());
        record.frame(note, None, Durability::Later).await?;
    }
    match &shared.model {
        Some(model) => agent::work(shared, model, record, &begun, cancel).await,
        None => demo::play(&shared.config, record, &begun, cancel).await,
    }
}
