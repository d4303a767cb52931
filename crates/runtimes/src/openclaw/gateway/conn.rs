//! One connection that is up: requests out, answers and events in. Everything that waits is bounded.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::{SinkExt as _, StreamExt as _};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until, timeout},
};
use tokio_tungstenite::tungstenite::{Bytes, Message};
use tokio_util::sync::CancellationToken;

use super::{
    handshake::Socket,
    lock,
    silence::{Sign, Silence},
    wire::{Hello, Incoming, Request, Shutdown, WireError},
};

/// Requests that may wait to be written.
const OUTGOING: usize = 64;
/// Requests that may wait for their answers.
const PENDING: usize = 1024;

/// How long a gateway that turned a request away is not asked anything.
pub(super) const TURNED_AWAY: Duration = Duration::from_secs(1);

/// Why a request has no good answer.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// There is no connection, or it broke before the answer. It may have got through.
    #[error("{0}")]
    Offline(String),
    /// No answer in time. It may have got through.
    #[error("the gateway did not answer `{0}` in time")]
    Slow(String),
    /// The gateway said no.
    #[error("{0}")]
    Refused(WireError),
    /// It said something else than expected.
    #[error("the gateway's answer to `{method}` is not understood: {why}")]
    NotUnderstood {
        /// What was asked.
        method: String,
        /// What is wrong.
        why: String,
    },
    /// The request itself is too large, or too many wait.
    #[error("{0}")]
    NotSent(String),
}

impl CallError {
    /// The gateway is stopping and did nothing; the one that starts after it may.
    pub(crate) fn is_stopping(&self) -> bool {
        matches!(self, Self::Refused(error) if error.is_stopping())
    }

    /// The gateway surely did nothing: it said so, or never heard of it.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::Refused(error) => !error.retryable,
            Self::NotSent(_) => true,
            Self::Offline(_) | Self::Slow(_) | Self::NotUnderstood { .. } => false,
        }
    }
}

type Answer = Result<Box<RawValue>, CallError>;

/// Who waits for the answers to a request. Most requests have one.
struct Waiting {
    first: Option<oneshot::Sender<Answer>>,
    second: Option<oneshot::Sender<Answer>>,
}

impl Waiting {
    fn is_abandoned(&self) -> bool {
        let gone =
            |to: &Option<oneshot::Sender<Answer>>| to.as_ref().is_none_or(|to| to.is_closed());
        gone(&self.first) && gone(&self.second)
    }
}

/// The second answer to a request, on its way.
pub(crate) struct Second(oneshot::Receiver<Answer>);

impl Second {
    /// Waits for it. Nothing, when it will not come any more.
    pub(crate) async fn come<T: DeserializeOwned>(self) -> Option<T> {
        let answer = self.0.await.ok()?.ok()?;
        serde_json::from_str(answer.get()).ok()
    }
}

/// A connection that is up, or was.
pub(crate) struct Conn {
    hello: Hello,
    since: Instant,
    out: mpsc::Sender<Message>,
    pending: Mutex<HashMap<String, Waiting>>,
    next: AtomicU64,
    /// It said that it is about to stop.
    stopping: AtomicBool,
    /// When it last turned a request away because it is stopping, if it did.
    turned_away: Mutex<Option<Instant>>,
    /// It does not answer at present: it hangs, or what lies between does.
    unheard: watch::Sender<bool>,
    closed: CancellationToken,
}

/// What the socket's task needs beside the connection.
pub(super) struct Wires {
    socket: Socket,
    outgoing: mpsc::Receiver<Message>,
}

impl Conn {
    pub(super) fn new(socket: Socket, hello: Hello) -> (Self, Wires) {
        let (out, outgoing) = mpsc::channel(OUTGOING);
        let conn = Self {
            hello,
            since: Instant::now(),
            out,
            pending: Mutex::default(),
            next: AtomicU64::new(1),
            stopping: AtomicBool::new(false),
            turned_away: Mutex::default(),
            unheard: watch::Sender::new(false),
            closed: CancellationToken::new(),
        };
        (conn, Wires { socket, outgoing })
    }

    /// What the gateway said when we came.
    pub(crate) fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Whether this was granted.
    pub(crate) fn has_scope(&self, scope: &str) -> bool {
        self.hello
            .auth
            .scopes
            .iter()
            .any(|granted| granted == scope)
    }

    /// Which start of the gateway this is.
    pub(crate) fn boot(&self) -> &str {
        &self.hello.server.boot
    }

    /// How long it has been answering us.
    pub(crate) fn heard(&self) -> Duration {
        self.since.elapsed()
    }

    /// How long the gateway has been up.
    pub(crate) fn uptime(&self) -> Duration {
        let then = self.hello.snapshot.uptime_ms.unwrap_or(0);
        Duration::from_millis(then) + self.since.elapsed()
    }

    /// It is still there.
    pub(crate) fn is_open(&self) -> bool {
        !self.closed.is_cancelled()
    }

    /// It is still there and not about to stop, as far as it said. One that turned a request away is
    /// asked again after a while: it may have thought better of stopping.
    pub(crate) fn takes_work(&self) -> bool {
        self.is_open() && !self.is_draining()
    }

    /// It lets its runs end, tells of them to the last, and answers no questions. It says so only when
    /// it is asked something.
    pub(crate) fn is_draining(&self) -> bool {
        let turned_away = *lock(&self.turned_away);
        self.stopping.load(Ordering::Relaxed)
            || turned_away.is_some_and(|at| at.elapsed() < TURNED_AWAY)
    }

    /// Waits until it does not answer, although the connection is there. At once, if it does not now.
    pub(crate) async fn unheard(&self) {
        // We hold the sender, so it does not go away.
        let _ = self.unheard.subscribe().wait_for(|unheard| *unheard).await;
    }

    /// Waits until the connection is gone.
    pub(crate) async fn gone(&self) {
        self.closed.cancelled().await;
    }

    /// Asks and waits. A request is bound to this connection, and so to this start of the gateway: it
    /// never reaches another one.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Serialize,
        limit: Duration,
    ) -> Result<T, CallError> {
        let answer = self.ask(method, params, limit, None).await?;
        understood(method, &answer)
    }

    /// The same for what is answered twice: at once, and when it is done.
    pub(crate) async fn call_twice<T: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Serialize,
        limit: Duration,
    ) -> Result<(T, Second), CallError> {
        let (to, second) = oneshot::channel();
        let answer = self.ask(method, params, limit, Some(to)).await?;
        Ok((understood(method, &answer)?, Second(second)))
    }

    async fn ask(
        &self,
        method: &str,
        params: impl Serialize,
        limit: Duration,
        second: Option<oneshot::Sender<Answer>>,
    ) -> Result<Box<RawValue>, CallError> {
        let id = format!("tl-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let request = Request {
            kind: "req",
            id: &id,
            method,
            params,
        };
        let text = serde_json::to_string(&request)
            .map_err(|e| CallError::NotSent(format!("`{method}` cannot be written: {e}")))?;
        if text.len() > self.hello.max_payload() {
            return Err(CallError::NotSent(format!(
                "`{method}` has {} bytes, and the gateway takes {}",
                text.len(),
                self.hello.max_payload()
            )));
        }
        let (to, answer) = oneshot::channel();
        let waiting = Waiting {
            first: Some(to),
            second,
        };
        let entry = self.wait_for(&id, waiting)?;
        let work = async {
            let gone = || CallError::Offline("the connection to the gateway broke".into());
            let sent = self.out.send(Message::text(text)).await;
            sent.map_err(|_| gone())?;
            answer.await.unwrap_or_else(|_| Err(gone()))
        };
        let answer = timeout(limit, work).await;
        drop(entry);
        answer.unwrap_or_else(|_| Err(CallError::Slow(method.to_owned())))
    }

    fn wait_for(&self, id: &str, waiting: Waiting) -> Result<Entry<'_>, CallError> {
        let mut pending = self.pending();
        // Looked at under the lock under which everything pending is failed.
        if self.closed.is_cancelled() {
            return Err(CallError::Offline(
                "the connection to the gateway broke".into(),
            ));
        }
        if pending.len() >= PENDING {
            pending.retain(|_, waiting| !waiting.is_abandoned());
        }
        if pending.len() >= PENDING {
            return Err(CallError::NotSent(
                "too many requests wait for the gateway".into(),
            ));
        }
        pending.insert(id.to_owned(), waiting);
        Ok(Entry {
            conn: self,
            id: id.to_owned(),
        })
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        lock(&self.pending)
    }

    /// Carries frames until the connection ends, and says why it did.
    pub(super) async fn carry(
        &self,
        wires: Wires,
        stop: &CancellationToken,
        mut on_event: impl FnMut(&str, &RawValue),
    ) -> String {
        let Wires {
            socket,
            mut outgoing,
        } = wires;
        let (mut sink, mut stream) = socket.split();
        let closed = self.closed.clone();
        // Writing has its own task: a gateway that reads slowly must not keep us from reading.
        let writer = tokio::spawn(async move {
            loop {
                let message = tokio::select! {
                    message = outgoing.recv() => message,
                    () = closed.cancelled() => None,
                };
                let Some(message) = message else { break };
                if sink.send(message).await.is_err() {
                    break;
                }
            }
            let _ = timeout(Duration::from_secs(1), sink.close()).await;
        });
        let patience = Duration::from_millis(self.hello.patience_ms());
        let mut silence = Silence::new(patience, Instant::now());
        let why = loop {
            let message = tokio::select! {
                message = stream.next() => message,
                () = sleep_until(silence.next()) => {
                    match silence.passed(Instant::now()) {
                        Some(Sign::Ping) => {
                            // With a full queue there is something else to answer.
                            let _ = self.out.try_send(Message::Ping(Bytes::new()));
                        }
                        Some(Sign::Unheard) => _ = self.unheard.send_replace(true),
                        Some(Sign::GivenUp(after)) => {
                            break format!("The gateway was silent for {} seconds.", after.as_secs());
                        }
                        None => {}
                    }
                    continue;
                }
                () = stop.cancelled() => break "Threadline is stopping.".to_owned(),
            };
            let is_word = matches!(message, Some(Ok(Message::Text(_))));
            silence.heard(is_word, Instant::now());
            self.unheard.send_if_modified(std::mem::take);
            match message {
                None => break "The gateway closed the connection.".to_owned(),
                Some(Err(e)) => break format!("The connection broke: {e}."),
                Some(Ok(Message::Close(close))) => {
                    let why = close.map_or(String::new(), |c| format!(": {} {}", c.code, c.reason));
                    break format!("The gateway closed the connection{why}.");
                }
                Some(Ok(Message::Text(text))) => self.take(&text, &mut on_event),
                Some(Ok(_)) => {}
            }
        };
        {
            let mut pending = self.pending();
            self.closed.cancel();
            pending.clear();
        }
        if writer.await.is_err() {
            tracing::error!("writing to the gateway broke");
        }
        why
    }

    /// Who waits for this answer. A request may be answered twice, unless it was refused.
    fn whose(&self, id: &str, ok: bool) -> Option<oneshot::Sender<Answer>> {
        let mut pending = self.pending();
        let waiting = pending.get_mut(id)?;
        let to = waiting.first.take().or_else(|| waiting.second.take());
        if !ok || waiting.second.is_none() {
            pending.remove(id);
        }
        to
    }

    fn take(&self, text: &str, on_event: &mut impl FnMut(&str, &RawValue)) {
        let frame: Incoming = match serde_json::from_str(text) {
            Ok(frame) => frame,
            Err(error) => {
                tracing::warn!(%error, "a frame of the gateway is not understood");
                return;
            }
        };
        match (frame.kind.as_str(), frame.id, frame.event) {
            ("res", Some(id), _) => {
                if frame.error.as_ref().is_some_and(WireError::is_stopping) {
                    *lock(&self.turned_away) = Some(Instant::now());
                }
                let Some(to) = self.whose(&id, frame.ok) else {
                    return;
                };
                let null = || RawValue::NULL.to_owned();
                let answer = match frame.ok {
                    true => Ok(frame.payload.unwrap_or_else(null)),
                    false => Err(CallError::Refused(frame.error.unwrap_or_default())),
                };
                let _ = to.send(answer);
            }
            ("event", _, Some(event)) => {
                let payload = frame.payload.as_deref().unwrap_or(RawValue::NULL);
                if event == "shutdown" {
                    self.stopping.store(true, Ordering::Relaxed);
                    let said: Shutdown = serde_json::from_str(payload.get()).unwrap_or_default();
                    tracing::info!(
                        reason = said.reason.as_deref().unwrap_or_default(),
                        back_in_ms = said.restart_expected_ms,
                        "the OpenClaw gateway is stopping"
                    );
                }
                on_event(&event, payload);
            }
            _ => {}
        }
    }
}

fn understood<T: DeserializeOwned>(method: &str, answer: &RawValue) -> Result<T, CallError> {
    serde_json::from_str(answer.get()).map_err(|e| CallError::NotUnderstood {
        method: method.to_owned(),
        why: e.to_string(),
    })
}

/// A request's place among those that wait; given up however the waiting for its first answer ends.
struct Entry<'a> {
    conn: &'a Conn,
    id: String,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let mut pending = self.conn.pending();
        if pending.get(&self.id).is_some_and(|w| w.first.is_some()) {
            pending.remove(&self.id);
        }
    }
}
