//! Whether anybody still needs the server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Counts requests from their first byte to the last of their answer, streams included.
#[derive(Clone)]
pub struct Activity(Arc<Inner>);

struct Inner {
    open: AtomicUsize,
    born: Instant,
    /// When the last one ended, in milliseconds since `born`.
    last: AtomicU64,
}

/// One open request.
pub struct Open(Activity);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.touch();
        self.0.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Activity {
    /// Nobody was here yet.
    #[expect(clippy::new_without_default, reason = "its age counts from here")]
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            open: AtomicUsize::new(0),
            born: Instant::now(),
            last: AtomicU64::new(0),
        }))
    }

    /// Somebody or something was active just now.
    pub fn touch(&self) {
        self.0
            .last
            .store(self.0.born.elapsed().as_millis() as u64, Ordering::Release);
    }

    /// How many requests are open.
    pub fn now(&self) -> usize {
        self.0.open.load(Ordering::Acquire)
    }

    /// For how long there has been no request; zero while there is one.
    pub fn idle(&self) -> Duration {
        if self.0.open.load(Ordering::Acquire) > 0 {
            return Duration::ZERO;
        }
        let last = Duration::from_millis(self.0.last.load(Ordering::Acquire));
        self.0.born.elapsed().saturating_sub(last)
    }

    /// One more request, until what this gives is dropped.
    pub fn open(&self) -> Open {
        self.0.open.fetch_add(1, Ordering::AcqRel);
        Open(self.clone())
    }
}
