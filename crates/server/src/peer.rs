//! A caller on a connection that stays: many requests at once, each answered when it is ready, with
//! updates pushed in between.
//!
//! What goes out waits in a short queue. When it is full, whoever wants to say something waits too,
//! feeds included, and reads no further in the log: a slow reader costs no memory and loses no event.
//! How long it may be slow is for the transport to decide.

use std::sync::Arc;

use serde_json::Value;
use threadline_contract::{
    Code, Fault, method,
    rpc::{self, Id, Malformed, Request},
};
use threadline_engine::{Caller, FeedItem};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Bridge, Gate,
    answer::success_text,
    dispatch::dispatch,
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
    pub(crate) async fn hear(&self, message: &[u8]) {
        let request = match Request::parse(message) {
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
            peer.answer(request).await;
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

    async fn answer(&self, request: Request) {
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
        let outcome = match request.method.as_str() {
            method::START | method::MESSAGE => Box::pin(self.turn(&caller, request)).await,
            _ => Box::pin(dispatch(&self.0.bridge.engine, &caller, request))
                .await
                .map(|result| Some(success_text(id.as_ref(), &result))),
        };
        match outcome {
            // Whoever gave no id wants no answer.
            _ if id.is_none() => {}
            Ok(Some(answer)) => self.say(answer).await,
            Ok(None) => {}
            Err(fault) => self.refuse(id.as_ref(), &fault).await,
        }
    }

    /// A turn: accepted, its updates, its result. Without a result when nobody listens any more, or
    /// the server stops.
    async fn turn(&self, caller: &Caller, request: Request) -> Result<Option<String>, Fault> {
        let Inner {
            bridge,
            leaving,
            path,
            ..
        } = &*self.0;
        let id = request.id.clone();
        let turn = match turn::begin(bridge, caller, request, None, path).await? {
            Begun::Unavailable(resolved) => {
                return Ok(Some(success_text(id.as_ref(), &resolved)));
            }
            Begun::Accepted(turn) => turn,
        };
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

    /// Puts a message into the queue. Where nobody takes it any more, nobody misses it.
    async fn say(&self, message: String) {
        tokio::select! {
            biased;
            sent = self.0.out.send(message) => drop(sent),
            () = self.0.gone.cancelled() => {}
        }
    }
}
