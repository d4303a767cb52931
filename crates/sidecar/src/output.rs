//! Answers on their way out: one line each, written as a whole.

use std::{
    io::{self, BufWriter, Write},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use serde::Serialize;
use threadline_contract::{
    Fault,
    rpc::{self, Id},
};

type Pipe = BufWriter<Box<dyn Write + Send>>;

pub(crate) struct Output {
    pipe: Mutex<Pipe>,
    /// Nobody reads any more.
    broken: AtomicBool,
}

#[derive(Serialize)]
struct Success<'a, R> {
    jsonrpc: &'static str,
    id: &'a Id,
    result: &'a R,
}

impl Output {
    pub(crate) fn new(pipe: Box<dyn Write + Send>) -> Self {
        Self {
            pipe: Mutex::new(BufWriter::with_capacity(64 * 1024, pipe)),
            broken: AtomicBool::new(false),
        }
    }

    /// Waits until the client has taken the answer, or as much of it as a pipe does not hold. `false`
    /// when there is nobody left to take it.
    pub(crate) fn success(&self, id: &Id, result: &impl Serialize) -> bool {
        self.line(&Success {
            jsonrpc: "2.0",
            id,
            result,
        })
    }

    /// The same for an error. One that cannot be put to a request has no id.
    pub(crate) fn failure(&self, id: Option<&Id>, fault: &Fault) -> bool {
        self.line(&rpc::failure(id, fault))
    }

    /// Answers are not copied into a line first: a large text goes from where it was made into the
    /// pipe.
    fn line(&self, answer: &impl Serialize) -> bool {
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        if self.broken.load(Ordering::Acquire) {
            return false;
        }
        let done = serde_json::to_writer(&mut *pipe, answer)
            .map_err(io::Error::from)
            .and_then(|()| pipe.write_all(b"\n"))
            .and_then(|()| pipe.flush());
        if let Err(e) = &done {
            // After half a line, no other can follow.
            self.broken.store(true, Ordering::Release);
            tracing::info!(error = %e, "Answers are no longer read: {e}");
        }
        done.is_ok()
    }
}
