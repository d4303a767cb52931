//! Reads from a connection and watches how: whether anything comes at all, how long one message
//! takes, and that only a few large ones are on their way at once.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::OwnedSemaphorePermit,
    time::Instant,
};
use tokio_util::sync::PollSemaphore;

use crate::body::{LARGE, large_bodies};

/// What a client's control frame has beside its payload: two bytes of head, four of mask.
const CONTROL_HEAD: usize = 6;

/// What was seen of a connection.
#[derive(Clone)]
pub(crate) struct Seen(Arc<Mutex<State>>);

struct State {
    /// When anything came last.
    last: Instant,
    /// When the message that is on its way began.
    began: Option<Instant>,
    /// Bytes of it so far.
    bytes: usize,
    /// The place of a large one.
    place: Option<OwnedSemaphorePermit>,
    /// It waits for its place: that nothing is read is our doing.
    waits: bool,
}

impl Seen {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A message is complete.
    pub(crate) fn complete(&self) {
        let mut state = self.state();
        state.began = None;
        state.bytes = 0;
        state.place = None;
    }

    /// A control frame came, perhaps in the middle of a message: only its own bytes are forgotten.
    pub(crate) fn control(&self, payload: usize) {
        let mut state = self.state();
        state.bytes = state.bytes.saturating_sub(payload + CONTROL_HEAD);
        if state.bytes == 0 {
            state.began = None;
        }
    }

    /// For how long nothing came.
    pub(crate) fn silence(&self) -> Duration {
        let state = self.state();
        match state.waits {
            true => Duration::ZERO,
            false => state.last.elapsed(),
        }
    }

    /// For how long a message has been on its way.
    pub(crate) fn taking(&self) -> Duration {
        let state = self.state();
        match state.began {
            Some(began) if !state.waits => began.elapsed(),
            _ => Duration::ZERO,
        }
    }
}

/// The connection.
pub(crate) struct Meter<S> {
    inner: S,
    seen: Seen,
    places: PollSemaphore,
}

impl<S> Meter<S> {
    pub(crate) fn new(inner: S) -> (Self, Seen) {
        let seen = Seen(Arc::new(Mutex::new(State {
            last: Instant::now(),
            began: None,
            bytes: 0,
            place: None,
            waits: false,
        })));
        let meter = Self {
            inner,
            seen: seen.clone(),
            places: PollSemaphore::new(large_bodies()),
        };
        (meter, seen)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Meter<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let waits = {
            let mut state = this.seen.state();
            state.waits = state.bytes > LARGE && state.place.is_none();
            state.waits
        };
        if waits {
            let place = ready!(this.places.poll_acquire(context));
            let mut state = this.seen.state();
            state.place = place;
            state.waits = false;
            state.last = Instant::now();
            state.began = Some(state.last);
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(context, buffer))?;
        let came = buffer.filled().len() - before;
        if came > 0 {
            let mut state = this.seen.state();
            state.bytes += came;
            state.last = Instant::now();
            let now = state.last;
            state.began.get_or_insert(now);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Meter<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
