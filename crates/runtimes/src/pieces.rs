//! The bytes of a file in order, at the least cost in copies, wake-ups and memory.

use std::{
    ops::Range,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt as _, stream};
use threadline_contract::{Code, Fault};
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    task::{JoinHandle, spawn_blocking},
};

use crate::ReadAt;

/// The most that one piece has: it stays in a core's cache between being read and being sent.
pub const PIECE: usize = 256 << 10;
/// Pieces that wait for a check: enough that it never waits for them.
const WAITING: usize = 8;

/// Bytes on their way, each of them once and in order. An error ends it.
pub type Pieces = Pin<Box<dyn Stream<Item = Result<Bytes, Fault>> + Send>>;

/// A file on this disk.
pub trait Source: Send + Sync + 'static {
    /// Reads what there is room for, or less; nothing is the end. Blocks.
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Fault>;

    /// The same without waiting for the disk; `None` where that would be needed.
    fn read_held(&self, buffer: &mut [u8], offset: u64) -> Result<Option<usize>, Fault>;
}

/// A range of a file on this disk. What the system holds in memory is read where we are: handing a
/// small copy over to another thread costs more than making it.
pub fn of_source(source: Arc<impl Source>, range: Range<u64>) -> Pieces {
    let buffers = Buffers::default();
    Box::pin(stream::try_unfold(range.start, move |at| {
        let (source, buffers) = (source.clone(), buffers.clone());
        async move {
            if at >= range.end {
                return Ok(None);
            }
            let room = usize::try_from(range.end - at).unwrap_or(PIECE).min(PIECE);
            let mut buffer = buffers.take(room);
            let got = match source.read_held(buffer.room(), at)? {
                Some(got) => got,
                None => {
                    let read = spawn_blocking(move || {
                        let got = source.read(buffer.room(), at);
                        (buffer, got)
                    });
                    let (read, got) = read.await.map_err(broke)?;
                    buffer = read;
                    got?
                }
            };
            if got == 0 {
                return Err(shorter());
            }
            Ok(Some((buffer.filled(got), at + got as u64)))
        }
    }))
}

/// A range of anything that can be read.
pub fn of_reader<R: ReadAt + ?Sized>(reader: Box<R>, range: Range<u64>) -> Pieces {
    Box::pin(stream::try_unfold(
        (reader, range.start),
        move |(reader, at)| async move {
            if at >= range.end {
                return Ok(None);
            }
            let room = usize::try_from(range.end - at).unwrap_or(PIECE).min(PIECE);
            let bytes = reader.read_at(at, room).await?;
            if bytes.is_empty() {
                return Err(shorter());
            }
            let next = at + bytes.len() as u64;
            Ok(Some((bytes, (reader, next))))
        },
    ))
}

/// Something that looks at all bytes of a file and can say no. It may block.
pub trait Check: Send + 'static {
    /// Takes the next bytes.
    fn push(&mut self, bytes: &[u8]);

    /// Judges all of them.
    fn finish(self) -> Result<(), Fault>;
}

/// Pieces whose last is held back until the check has seen all `size` bytes and said yes: whoever got
/// everything got the right bytes. Checking goes on while earlier pieces are sent, and holds no
/// thread while a slow reader is waited for.
pub fn checked(pieces: Pieces, size: u64, check: impl Check) -> Pieces {
    let (queue, waiting) = mpsc::channel(WAITING);
    let checking = Checking {
        pieces,
        left: size,
        queue,
        work: Work::Idle(Seeing { check, waiting }),
    };
    Box::pin(stream::try_unfold(checking, |mut checking| async {
        let Some(piece) = checking.pieces.try_next().await? else {
            return Ok(None);
        };
        checking.left = checking.left.saturating_sub(piece.len() as u64);
        checking.show(piece.clone()).await?;
        if checking.left == 0 {
            checking.judge().await?;
        }
        Ok(Some((piece, checking)))
    }))
}

struct Checking<C> {
    pieces: Pieces,
    left: u64,
    queue: mpsc::Sender<Bytes>,
    work: Work<C>,
}

enum Work<C> {
    Idle(Seeing<C>),
    /// A thread is at it, until nothing waits.
    Busy(JoinHandle<Seeing<C>>),
    Done,
}

struct Seeing<C> {
    check: C,
    waiting: mpsc::Receiver<Bytes>,
}

impl<C: Check> Seeing<C> {
    fn all_that_waits(mut self) -> Self {
        while let Ok(piece) = self.waiting.try_recv() {
            self.check.push(&piece);
        }
        self
    }
}

impl<C: Check> Checking<C> {
    /// Puts a piece into the queue, and sees to it that somebody works on it.
    async fn show(&mut self, mut piece: Bytes) -> Result<(), Fault> {
        loop {
            self.rest().await?;
            match self.queue.try_send(piece) {
                Ok(()) => {
                    self.go_on();
                    return Ok(());
                }
                Err(TrySendError::Full(back)) => piece = back,
                Err(TrySendError::Closed(_)) => return Err(Fault::internal()),
            }
            self.go_on();
            if let Work::Busy(job) = &mut self.work {
                tokio::select! {
                    biased;
                    _ = self.queue.reserve() => {}
                    // It saw an empty queue just before that became full.
                    seeing = job => self.work = Work::Idle(seeing.map_err(broke)?),
                }
            }
        }
    }

    /// Takes the work back from a thread that has come to its end.
    async fn rest(&mut self) -> Result<(), Fault> {
        if let Work::Busy(job) = &mut self.work
            && job.is_finished()
        {
            self.work = Work::Idle(job.await.map_err(broke)?);
        }
        Ok(())
    }

    fn go_on(&mut self) {
        self.work = match std::mem::replace(&mut self.work, Work::Done) {
            Work::Idle(seeing) => Work::Busy(spawn_blocking(|| seeing.all_that_waits())),
            other => other,
        };
    }

    async fn judge(&mut self) -> Result<(), Fault> {
        let seeing = match std::mem::replace(&mut self.work, Work::Done) {
            Work::Idle(seeing) => seeing,
            Work::Busy(job) => job.await.map_err(broke)?,
            Work::Done => return Ok(()),
        };
        let judged = spawn_blocking(|| seeing.all_that_waits().check.finish());
        judged.await.map_err(broke)?
    }
}

/// Buffers that are used again once nobody holds a piece of them any more. A fresh one for each piece
/// would be zeroed, mapped and unmapped each time.
#[derive(Clone, Default)]
struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

impl Buffers {
    fn take(&self, room: usize) -> Buffer {
        let idle = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut bytes = idle.unwrap_or_default();
        if bytes.len() < room {
            bytes.resize(room, 0);
        }
        Buffer {
            bytes,
            len: room,
            home: self.clone(),
        }
    }
}

struct Buffer {
    bytes: Vec<u8>,
    len: usize,
    home: Buffers,
}

impl Buffer {
    fn room(&mut self) -> &mut [u8] {
        self.bytes.get_mut(..self.len).unwrap_or_default()
    }

    fn filled(mut self, len: usize) -> Bytes {
        self.len = len.min(self.len);
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut idle = self.home.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(std::mem::take(&mut self.bytes));
    }
}

fn shorter() -> Fault {
    Fault::new(
        Code::ArtifactChanged,
        "The file became shorter while it was read.",
    )
}

fn broke(error: tokio::task::JoinError) -> Fault {
    tracing::error!(%error, "work on the disk broke");
    Fault::internal()
}

#[cfg(test)]
#[path = "pieces_tests.rs"]
mod tests;
