//! A caller on a connection that stays: many requests at once, each answered when it is ready, with
//! updates pushed in between.
//!
//! What goes out waits in a short queue. When it is full, whoever wants to say something waits too,
//! feeds included, and reads no further in the log: a slow reader costs no memory and loses no event.
//! How long it may be slow is for the transport to decide.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use threadline_contract::{
    Code, Fault, Principal, method,
    rpc::{self, Id, Malformed, Request},
    sse::{self, Events, MAX_EVENT_BYTES},
};
use threadline_engine::{FeedItem, Node};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Bridge, Gate, access,
    answer::success_text,
    dispatch::dispatch,
    forward::{self, AnswerTime, Missed},
    gate::{TokenHash, too_often},
    notice,
    sse::LOOK_AT_PROGRESS,
    turn::{self, Begun},
};

/// Messages that wait to go out.
pub(crate) const QUEUE: usize = 16;
/// Requests of one connection that are open at once; a turn is open until its result.
const OPEN: usize = 256;

/// One such caller. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Peer(Arc<Inner>);

struct Inner {
    bridge: Bridge,
    gate: Gate,
    token: TokenHash,
    path: &'static str,
    out: mpsc::Sender<String>,
    /// Turns are followed no further.
    leaving: CancellationToken,
    /// Nobody listens any more.
    gone: CancellationToken,
    /// The token is no longer one.
    revoked: CancellationToken,
    open: Arc<Semaphore>,
    tasks: TaskTracker,
}

impl Peer {
    /// A caller with this token, and what is to be said to it. `path` is how it came in.
    pub(crate) fn new(
        bridge: Bridge,
        gate: Gate,
        token: TokenHash,
        path: &'static str,
    ) -> (Self, mpsc::Receiver<String>) {
        let (out, queue) = mpsc::channel(QUEUE);
        let peer = Self(Arc::new(Inner {
            bridge,
            gate,
            token,
            path,
            out,
            leaving: CancellationToken::new(),
            gone: CancellationToken::new(),
            revoked: CancellationToken::new(),
            open: Arc::new(Semaphore::new(OPEN)),
            tasks: TaskTracker::new(),
        }));
        (peer, queue)
    }

    /// Takes one message. The answer comes in its own time; what is not a request, or one too many,
    /// is answered before the next is taken.
    pub(crate) async fn hear(&self, message: Bytes) {
        let request = match Request::parse(&message) {
            Ok(request) => request,
            Err(Malformed { id, fault }) => return self.refuse(id.as_ref(), &fault).await,
        };
        if let Err(wait) = self.0.gate.count(&self.0.token) {
            return self.refuse(request.id.as_ref(), &too_often(wait)).await;
        }
        let Ok(place) = self.0.open.clone().try_acquire_owned() else {
            let fault = Fault::new(
                Code::RateLimited,
                format!("This connection has {OPEN} requests open. Wait for one of them to end."),
            );
            return self.refuse(request.id.as_ref(), &fault).await;
        };
        let peer = self.clone();
        self.0.tasks.spawn(async move {
            peer.answer(request, message).await;
            drop(place);
        });
    }

    /// Says that something cannot be taken.
    pub(crate) async fn refuse(&self, id: Option<&Id>, fault: &Fault) {
        self.say(rpc::failure(id, fault).to_string()).await;
    }

    /// Waits until the token is no longer one.
    pub(crate) async fn revoked(&self) {
        self.0.revoked.cancelled().await;
    }

    /// Waits until everything that was asked is answered, except turns that go on: these are left,
    /// and whoever comes back hears the rest.
    pub(crate) async fn finish(&self) {
        self.0.tasks.close();
        self.0.leaving.cancel();
        self.0.tasks.wait().await;
    }

    /// Nobody hears the answers any more. What was begun ends in its own time.
    pub(crate) fn leave(&self) {
        self.0.leaving.cancel();
        self.0.gone.cancel();
    }

    async fn answer(&self, request: Request, message: Bytes) {
        let id = request.id.clone();
        let caller = match self.0.gate.known(&self.0.token).await {
            Ok(caller) => caller,
            Err(fault) => {
                self.refuse(id.as_ref(), &fault).await;
                if fault.code == Code::Unauthorized {
                    self.0.revoked.cancel();
                }
                return;
            }
        };
        match Box::pin(self.outcome(&caller, request, message)).await {
            // Whoever gave no id wants no answer.
            _ if id.is_none() => {}
            Ok(Some(answer)) => self.say(answer).await,
            Ok(None) => {}
            Err(fault) => self.refuse(id.as_ref(), &fault).await,
        }
    }

    async fn outcome(
        &self,
        caller: &Principal,
        request: Request,
        message: Bytes,
    ) -> Result<Option<String>, Fault> {
        let bridge = &self.0.bridge;
        access::check_method(caller, &request.method)?;
        let mut missed = None;
        if bridge.engine.shares_database() {
            match bridge.engine.elsewhere(caller, &request).await? {
                Some(elsewhere) => {
                    let time = AnswerTime::for_answer(&elsewhere);
                    let node = &elsewhere.node;
                    let relayed = self.relay(node, caller, &request, message.clone(), time);
                    match relayed.await {
                        Ok(answer) => return answer,
                        Err(why) => missed = Some(why),
                    }
                }
                None => bridge.tell_others(caller, &request, &message).await?,
            }
        }
        match request.method.as_str() {
            method::START | method::MESSAGE => self.turn(caller, request, message, missed).await,
            _ => {
                let id = request.id.clone();
                let result = dispatch(&bridge.engine, caller, request).await?;
                Ok(Some(success_text(id.as_ref(), &result)))
            }
        }
    }

    /// A turn: accepted, its updates, its result. Without a result when nobody listens any more, or
    /// the server stops.
    async fn turn(
        &self,
        caller: &Principal,
        request: Request,
        message: Bytes,
        missed: Option<Missed>,
    ) -> Result<Option<String>, Fault> {
        let Inner {
            bridge,
            leaving,
            path,
            ..
        } = &*self.0;
        let id = request.id.clone();
        // Looked at again only where another server was quicker to take the thread's first turn.
        let asked = Request {
            id: id.clone(),
            method: request.method.clone(),
            params: Value::Null,
        };
        let what = forward::named(&request);
        let turn = match turn::begin(bridge, caller, request, None, path).await? {
            Begun::Elsewhere(node) => {
                let missed = match missed {
                    Some(missed) => missed,
                    None => {
                        let relayed = self.relay(&node, caller, &asked, message, AnswerTime::FULL);
                        match relayed.await {
                            Ok(answer) => return answer,
                            Err(missed) => missed,
                        }
                    }
                };
                return Err(forward::refused(&node, &what, &missed, caller));
            }
            Begun::Unavailable(resolved) => {
                return Ok(Some(success_text(id.as_ref(), &resolved)));
            }
            Begun::Accepted(turn) => turn,
        };
        drop(message);
        let mut feed = turn.feed(bridge, caller).await?;
        self.say(turn.notice.to_string()).await;
        drop(turn);
        loop {
            let item = tokio::select! {
                item = feed.next() => item?,
                () = tokio::time::sleep(LOOK_AT_PROGRESS) => {
                    if let Some(update) = feed.progress() {
                        let said = rpc::notification(method::UPDATE, &update);
                        self.say(said.to_string()).await;
                    }
                    continue;
                }
                () = leaving.cancelled() => return Ok(None),
                () = bridge.stop.cancelled() => return Ok(None),
            };
            match item {
                Some(FeedItem::Update(event)) => {
                    self.say(notice::numbered(event.seq, &event.body)).await;
                }
                Some(FeedItem::Result(snapshot)) => {
                    let result: Value = rpc::success(id.as_ref(), &snapshot);
                    return Ok(Some(result.to_string()));
                }
                None => return Ok(None),
            }
        }
    }

    /// Hands a request to the server that it belongs to, and says what that one says. Gives the last of it.
    async fn relay(
        &self,
        node: &Node,
        caller: &Principal,
        request: &Request,
        message: Bytes,
        time: AnswerTime,
    ) -> Result<Result<Option<String>, Fault>, Missed> {
        let Inner {
            bridge,
            leaving,
            path,
            ..
        } = &*self.0;
        let headers = forward::as_stream();
        let sent = bridge.post_to(node, caller, &headers, message, time);
        let answer = sent.await?;
        if !forward::is_stream(&answer) {
            // It was refused before any method was reached.
            let said = answer.text().await.map_err(|_| Missed::NoAnswer)?;
            return Ok(Ok(Some(said).filter(|said| !said.is_empty())));
        }
        let mut events = Events::new(answer.bytes_stream(), MAX_EVENT_BYTES);
        loop {
            let next = tokio::select! {
                next = events.next() => next,
                () = leaving.cancelled() => return Ok(Ok(None)),
                () = bridge.stop.cancelled() => return Ok(Ok(None)),
            };
            match next {
                Ok(Some(frame)) if frame.data == sse::DONE => return Ok(Ok(None)),
                Ok(Some(frame)) => {
                    if let Some(said) = notice::relayed(frame, request.id.is_some(), path) {
                        self.say(said).await;
                    }
                }
                // Whoever wants no answer gets none.
                Ok(None) if request.id.is_none() => return Ok(Ok(None)),
                Ok(None) | Err(_) => return Ok(Err(broke(node))),
            }
        }
    }

    /// Puts a message into the queue. Where nobody takes it any more, nobody misses it.
    async fn say(&self, message: String) {
        tokio::select! {
            biased;
            sent = self.0.out.send(message) => drop(sent),
            () = self.0.gone.cancelled() => {}
        }
    }
}

fn broke(node: &Node) -> Fault {
    Fault::new(
        Code::NodeUnavailable,
        format!(
            "The connection to the server {} broke. Send the request again, with the same requestId and the last eventId that came.",
            node.name
        ),
    )
    .with("node", node.name.as_str())
}
