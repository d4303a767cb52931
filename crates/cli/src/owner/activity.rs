//! Whether anybody still needs the owner.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http_body_util::BodyExt as _;

/// Counts requests from their first byte to the last of their answer, streams included.
#[derive(Clone)]
pub(crate) struct Activity(Arc<Inner>);

struct Inner {
    open: AtomicUsize,
    born: Instant,
    /// When the last one ended, in milliseconds since `born`.
    last: AtomicU64,
}

/// One request.
struct Open(Activity);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.touch();
        self.0.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner {
            open: AtomicUsize::new(0),
            born: Instant::now(),
            last: AtomicU64::new(0),
        }))
    }

    /// Somebody or something was active just now.
    pub(crate) fn touch(&self) {
        self.0
            .last
            .store(self.0.born.elapsed().as_millis() as u64, Ordering::Release);
    }

    /// For how long there has been no request; zero while there is one.
    pub(crate) fn idle(&self) -> Duration {
        if self.0.open.load(Ordering::Acquire) > 0 {
            return Duration::ZERO;
        }
        let last = Duration::from_millis(self.0.last.load(Ordering::Acquire));
        self.0.born.elapsed().saturating_sub(last)
    }

    /// The layer, for `axum::middleware::from_fn_with_state`.
    pub(crate) async fn count(
        State(activity): State<Self>,
        request: Request,
        next: Next,
    ) -> Response {
        activity.0.open.fetch_add(1, Ordering::AcqRel);
        let open = Open(activity);
        let (parts, body) = next.run(request).await.into_parts();
        // The mapping changes nothing; it holds the count up until the body is gone, and unlike
        // others it keeps the body's size known.
        let body = body.map_err(move |e| {
            let _held = &open;
            e
        });
        Response::from_parts(parts, Body::new(body))
    }
}
