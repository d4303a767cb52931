//! Events of a thread, without gaps and without doubles, whatever happens to the owner meanwhile.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use reqwest::Response;
use serde_json::Value;
use threadline_app::api::AppEvent;
use threadline_contract::{
    AppThreadKey, Code, Fault, rpc,
    sse::{CONTENT_TYPE, Events, MAX_EVENT_BYTES},
};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;

use super::{Client, PATIENCE, not_ours};

/// A stream that does not even say that it lives is cut: three of the owner's keepalives.
const SILENCE: Duration = Duration::from_secs(45);
/// Events on their way to the screen; a slow screen slows the stream.
const ON_THE_WAY: usize = 256;

/// What came.
#[derive(Debug)]
pub(crate) enum Heard {
    /// Something happened.
    Event(AppEvent),
    /// The connection broke and stands again.
    Back,
}

impl Client {
    /// Follows a thread after an event of its log, until the receiver is dropped.
    pub(crate) fn events(
        self: &Arc<Self>,
        thread: &AppThreadKey,
        after: i64,
    ) -> mpsc::Receiver<Result<Heard, Fault>> {
        let (sender, receiver) = mpsc::channel(ON_THE_WAY);
        let following = Following {
            client: Arc::clone(self),
            thread: thread.clone(),
            after,
            out: sender,
        };
        tokio::spawn(following.run());
        receiver
    }
}

struct Following {
    client: Arc<Client>,
    thread: AppThreadKey,
    after: i64,
    out: mpsc::Sender<Result<Heard, Fault>>,
}

/// The other side is gone: the owner, or whoever listens.
struct Gone;

impl Following {
    async fn run(mut self) {
        let mut lost: Option<Instant> = None;
        loop {
            match self.once(lost.is_some()).await {
                Ok(Some(progress)) if progress => lost = Some(Instant::now()),
                Ok(Some(_)) => _ = lost.get_or_insert_with(Instant::now),
                Ok(None) => return,
                Err(fault) => return drop(self.out.send(Err(fault)).await),
            }
            if lost.is_some_and(|since| since.elapsed() > PATIENCE) {
                let fault = Fault::new(
                    Code::OwnerUnreachable,
                    "The background process cannot be heard. The run goes on where it runs.",
                );
                return drop(self.out.send(Err(fault)).await);
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(150)) => {}
                () = self.out.closed() => return,
            }
        }
    }

    /// One connection. `Some(true)` when it brought something before it broke, `None` when nobody
    /// listens any more or the thread is gone.
    async fn once(&mut self, again: bool) -> Result<Option<bool>, Fault> {
        // After a cut the owner may be another process, at another address.
        let found = match (again, self.client.found()) {
            (false, Some(found)) => found,
            _ => self.client.reconnect(false).await?,
        };
        let mut url =
            reqwest::Url::parse(&format!("{}/app/events", found.state.url)).map_err(|e| {
                Fault::new(Code::OwnerUnreachable, format!("{}: {e}.", found.state.url))
            })?;
        url.query_pairs_mut()
            .append_pair("thread", self.thread.as_str());
        let request = self
            .client
            .http
            .get(url)
            .bearer_auth(&found.token)
            .header("accept", CONTENT_TYPE)
            .header("last-event-id", self.after.to_string());
        let response = match tokio::time::timeout(SILENCE, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) | Err(_) => return Ok(Some(false)),
        };
        if !response.status().is_success() {
            return refused(response).await.map(|()| Some(false));
        }
        if again && self.tell(Heard::Back).await.is_err() {
            return Ok(None);
        }
        self.read(response).await
    }

    async fn read(&mut self, response: Response) -> Result<Option<bool>, Fault> {
        let bytes = response.bytes_stream().timeout(SILENCE);
        // How it ended does not matter: it is taken up again where it broke.
        let bytes = bytes.map(|chunk| chunk.ok().and_then(Result::ok).ok_or(Gone));
        let mut events = Events::new(Box::pin(bytes), MAX_EVENT_BYTES);
        let mut progress = false;
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = self.out.closed() => return Ok(None),
            };
            let Ok(Some(frame)) = event else {
                return Ok(Some(progress));
            };
            let name = frame.event.unwrap_or_default();
            let event = match AppEvent::read(&name, frame.id, &frame.data) {
                Ok(Some(event)) => event,
                // A newer owner may say more than we understand.
                Ok(None) => continue,
                Err(e) => {
                    return Err(Fault::new(
                        Code::BadBridgeAnswer,
                        format!(
                            "An event could not be read ({e}). Is the running Threadline another version?"
                        ),
                    ));
                }
            };
            if let AppEvent::Update(id, _) = &event {
                if *id <= self.after && *id > 0 {
                    continue;
                }
                self.after = self.after.max(*id);
            }
            progress = true;
            let last = matches!(event, AppEvent::Removed(_));
            if self.tell(Heard::Event(event)).await.is_err() || last {
                return Ok(None);
            }
        }
    }

    async fn tell(&self, heard: Heard) -> Result<(), Gone> {
        self.out.send(Ok(heard)).await.map_err(|_| Gone)
    }
}

/// A refusal ends it, unless the owner is on its way out.
async fn refused(response: Response) -> Result<(), Fault> {
    let status = response.status();
    let fault = match response.json::<Value>().await.map(rpc::outcome) {
        Ok(Err(fault)) => fault,
        _ => not_ours(status),
    };
    match fault.code {
        Code::ShuttingDown => Ok(()),
        _ => Err(fault),
    }
}
