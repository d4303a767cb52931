//! The service at work: one thread reads, others answer.

use std::{
    io::{self, Read, Write},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use serde_json::Value;
use threadline_artifacts::Service;
use threadline_contract::{
    Code, Fault,
    rpc::{Id, Request},
};
use threadline_files::lines::{Line, LineReader};

use crate::{
    Limits, cut,
    methods::{self, CANCEL, INITIALIZE, SHUTDOWN},
    output::Output,
    queue::{Pushed, Queue, Task},
};

/// Why the service ended.
#[derive(Debug)]
pub enum Ended {
    /// The input ended; everything that was read is answered.
    EndOfInput,
    /// The client asked for it; everything before that is answered.
    Shutdown,
    /// It was told to, or nobody reads answers any more; what had begun is finished.
    Stopped,
    /// The same, but something took too long to finish. It can be repeated.
    CutOff,
    /// The input cannot be read.
    InputBroken(io::Error),
}

/// A service that runs. Dropping it does not end it.
pub struct Sidecar {
    shared: Arc<Shared>,
}

struct Shared {
    service: Service,
    limits: Limits,
    output: Output,
    queue: Queue,
    /// How the reading ended.
    heard: Mutex<Heard>,
}

/// How far the input was read.
#[derive(Debug)]
enum Heard {
    More,
    End,
    Shutdown(Option<Id>),
    Broken(io::Error),
}

/// Answers until the input ends.
pub fn serve(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    service: Service,
    limits: Limits,
) -> io::Result<Ended> {
    Ok(Sidecar::start(input, output, service, limits)?.wait())
}

impl Sidecar {
    /// Begins to read and answer, on threads of its own.
    pub fn start(
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
        service: Service,
        limits: Limits,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            service,
            limits,
            output: Output::new(Box::new(output)),
            queue: Queue::new(limits),
            heard: Mutex::new(Heard::More),
        });
        let reader = Arc::clone(&shared);
        thread::Builder::new()
            .name("reader".to_owned())
            .spawn(move || reader.read(input))?;
        Ok(Self { shared })
    }

    /// Begins nothing more; what has begun may finish. The thread that waits for input stays until
    /// there is some.
    pub fn stop(&self) {
        self.shared.queue.stop();
    }

    /// Waits for the end. To be called once: it also answers the request that asked for it.
    pub fn wait(&self) -> Ended {
        let shared = &self.shared;
        let in_time = shared.queue.wait_for_end();
        if !in_time {
            return Ended::CutOff;
        }
        if shared.queue.is_stopped() {
            return Ended::Stopped;
        }
        match std::mem::replace(&mut *shared.heard(), Heard::More) {
            Heard::Shutdown(id) => {
                if let Some(id) = &id {
                    shared.output.success(id, &Value::Null);
                }
                Ended::Shutdown
            }
            Heard::Broken(e) => Ended::InputBroken(e),
            Heard::End | Heard::More => Ended::EndOfInput,
        }
    }
}

impl Shared {
    fn heard(&self) -> std::sync::MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads to the end.
    fn read(self: Arc<Self>, input: impl Read) {
        // As much of a long line is kept as of any other: its id may stand late.
        let longest = self.limits.line_bytes;
        let mut lines = LineReader::new(input, longest, longest);
        let heard = loop {
            let line = lines.next_line();
            if self.queue.is_stopped() {
                break Heard::End;
            }
            self.queue.reader_works(true);
            let ended = match line {
                Ok(Some(Line::Whole(line))) => self.take(&line).err().map(Heard::Shutdown),
                Ok(Some(Line::TooLong { head, .. } | Line::CutOff { head, .. })) => {
                    self.refuse(cut::id_of(&head), &self.too_long());
                    None
                }
                Ok(None) => Some(Heard::End),
                Err(e) => Some(Heard::Broken(e)),
            };
            self.queue.reader_works(false);
            if let Some(ended) = ended {
                break ended;
            }
        };
        *self.heard() = heard;
        self.queue.drain();
    }

    /// Takes a line. `Err`, with the id to answer under, when it asks for the end.
    fn take(self: &Arc<Self>, line: &[u8]) -> Result<(), Option<Id>> {
        let request = match Request::parse(line) {
            Ok(request) => request,
            Err(malformed) => {
                self.refuse(malformed.id, &malformed.fault);
                return Ok(());
            }
        };
        match request.method.as_str() {
            SHUTDOWN => return Err(request.id),
            INITIALIZE => {
                if let Some(id) = &request.id {
                    let introduction = methods::introduction(&self.limits);
                    self.still_read(self.output.success(id, &introduction));
                }
            }
            CANCEL => self.cancel(request),
            method if methods::is_work(method) => self.admit(request),
            method => match request.id {
                Some(_) => self.refuse(request.id, &methods::unknown(method)),
                None => tracing::debug!(method, "A notification that is not known was passed over"),
            },
        }
        Ok(())
    }

    fn admit(self: &Arc<Self>, request: Request) {
        match self.queue.push(request) {
            Pushed::Waits => {}
            Pushed::NeedsWorker => {
                let worker = Arc::clone(self);
                let spawned = thread::Builder::new()
                    .name("worker".to_owned())
                    .spawn(move || worker.work());
                if let Err(e) = spawned {
                    // The machine has no thread to spare: slower is better than not at all.
                    tracing::warn!(error = %e, "No thread could be started: {e}");
                    self.work();
                }
            }
            Pushed::Refused(request) => self.too_late(request),
        }
    }

    /// Works on requests as long as there are any.
    fn work(&self) {
        while let Some(task) = self.queue.next() {
            match task {
                Task::Do(request) => {
                    let read = methods::perform(&self.service, request, &self.output);
                    self.still_read(read);
                }
                Task::Refuse(request) => self.too_late(request),
            }
        }
    }

    /// Takes a request back, if nobody has begun with it. Otherwise it is answered as if nothing had
    /// been said: what it did is done.
    fn cancel(&self, request: Request) {
        let id = request.params.get("id").cloned();
        let id = id.and_then(|id| serde_json::from_value::<Id>(id).ok());
        if let Some(id) = id
            .and_then(|id| self.queue.take_back(&id))
            .and_then(|r| r.id)
        {
            let fault = Fault::new(
                Code::RequestCancelled,
                "The request was taken back before it began. Nothing was done.",
            );
            self.refuse(Some(id), &fault);
        }
        // A notification by nature; whoever wants an answer gets one.
        if let Some(id) = &request.id {
            self.still_read(self.output.success(id, &Value::Null));
        }
    }

    fn too_late(&self, request: Request) {
        if request.id.is_some() {
            let fault = Fault::new(
                Code::ShuttingDown,
                "The sidecar is stopping. Nothing was done; send the request to the next one.",
            );
            self.refuse(request.id, &fault);
        }
    }

    fn too_long(&self) -> Fault {
        let most = self.limits.line_bytes;
        Fault::new(
            Code::BodyTooLarge,
            format!("The line is longer than {most} bytes, so it was not read."),
        )
        .with("limit", most)
    }

    fn refuse(&self, id: Option<Id>, fault: &Fault) {
        self.still_read(self.output.failure(id.as_ref(), fault));
    }

    /// When nobody reads answers, there is nobody to work for.
    fn still_read(&self, read: bool) {
        if !read {
            self.queue.stop();
        }
    }
}
