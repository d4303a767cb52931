//! Following a turn to its result, whatever happens to the connection.
//!
//! 1. The request is sent and its events are read. When the stream breaks, the same request is sent
//!    again with the number of the last event: the bridge knows it by its `requestId`, starts nothing
//!    twice and goes on where the stream broke.
//! 2. A bridge that answers with a running handle, or whose streams end without a result, is asked
//!    for the run's snapshot (`xworkmate.tasks.get`) until it is terminal. A handle is never a
//!    result.
//! 3. A bridge that is away is waited for. When patience ends, the concrete trouble is the answer;
//!    the run stays open at the bridge.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use threadline_contract::{
    AppThreadKey, Code, Millis, RequestId, ResultCode, RunId, RunStatus, SessionKey, SessionUpdate,
    Stage, method, rpc, sse,
};
use tokio::sync::mpsc;

use crate::{
    api::Away,
    bridge::{
        Bridge, Opened, lenient,
        patience::Patience,
        snapshot::Snapshot,
        sse::{Frame, Frames},
        strange,
        trouble::Trouble,
    },
    verdict::{self, Told},
};

/// How much longer than its budget a run is waited for.
const BEYOND_BUDGET: Duration = Duration::from_secs(5 * 60);

/// What is followed.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) thread: AppThreadKey,
    pub(crate) request: RequestId,
    /// The sealed request; without it the run can only be polled.
    pub(crate) body: Option<Bytes>,
    /// The last event that was seen.
    pub(crate) after: i64,
    pub(crate) run: Option<RunId>,
    /// The session, where the bridge is asked by it: at a gateway.
    pub(crate) gateway_session: Option<SessionKey>,
    pub(crate) started_at: Millis,
}

impl Order {
    /// A handle says what the run is asked for by.
    fn know(&mut self, handle: &Snapshot) {
        self.run = Some(handle.run_id.clone());
        if handle.openclaw_session_key.is_some() {
            self.gateway_session
                .clone_from(&handle.openclaw_session_key);
        }
    }
}

/// What was heard on the way.
#[derive(Debug)]
pub(crate) enum Heard {
    /// Something happened; the number is its place in the log.
    Update(Option<i64>, Box<SessionUpdate>),
    /// The bridge has taken the turn, as this run.
    Accepted(RunId),
    /// The run goes on: only good for asking again.
    Handle(Box<Snapshot>),
    /// The bridge cannot be heard and is tried again, or (`None`) it can be heard again.
    Away(Option<Away>),
}

/// Tells, once each, that the bridge went away and that it is back.
struct Watch<'a> {
    out: &'a mpsc::Sender<Heard>,
    patience: Duration,
    since: Option<Millis>,
}

impl<'a> Watch<'a> {
    fn new(bridge: &Bridge, out: &'a mpsc::Sender<Heard>) -> Self {
        Self {
            out,
            patience: bridge.timings.patience,
            since: None,
        }
    }

    async fn away(&mut self, trouble: &Trouble) -> Result<(), Trouble> {
        let since = *self.since.get_or_insert_with(Millis::now);
        let patience = i64::try_from(self.patience.as_millis()).unwrap_or(i64::MAX / 2);
        let away = Away {
            code: trouble.code,
            message: trouble.message.clone(),
            since_ms: since,
            gives_up_at_ms: since.plus(patience),
        };
        tell(self.out, Heard::Away(Some(away))).await
    }

    async fn back(&mut self) -> Result<(), Trouble> {
        match self.since.take() {
            Some(_) => tell(self.out, Heard::Away(None)).await,
            None => Ok(()),
        }
    }
}

/// How one stream ended.
enum Cut {
    /// It did not, in a way that asking again helps; `news` tells whether it brought anything.
    Broken { trouble: Trouble, news: bool },
    /// With a running handle.
    Handle,
}

/// Follows a turn until its registry has ended it, or until nothing can be heard any more.
pub(crate) async fn follow(
    bridge: &Bridge,
    mut order: Order,
    out: &mpsc::Sender<Heard>,
) -> Result<Told, Trouble> {
    if order.body.is_some() {
        match stream(bridge, &mut order, out).await? {
            Some(told) => return Ok(told),
            None => tracing::debug!(request = %order.request, "Polling request {}", order.request),
        }
    }
    poll(bridge, &order, out).await
}

/// Streams as long as streams bring something. `None`: the run must be polled from here on.
async fn stream(
    bridge: &Bridge,
    order: &mut Order,
    out: &mpsc::Sender<Heard>,
) -> Result<Option<Told>, Trouble> {
    let mut away = Patience::new(&bridge.timings);
    let mut watch = Watch::new(bridge, out);
    // Streams that open but bring nothing: the bridge is there and cannot stream this run.
    let mut barren = Patience::tries(bridge.timings.failures + 1, &bridge.timings);
    loop {
        let body = order.body.clone().unwrap_or_default();
        let opened = bridge.open_turn(body, order.after).await;
        let since = Instant::now();
        let pause = match opened {
            Err(trouble) if !trouble.again => return Err(trouble),
            Err(trouble) => {
                tracing::info!(thread = %order.thread, "The bridge is away: {}", trouble.message);
                watch.away(&trouble).await?;
                away.failed(Instant::now()).ok_or(trouble)?
            }
            Ok(opened) => {
                away.reset();
                watch.back().await?;
                let cut = match opened {
                    Opened::Answer(value) => match read(value, order, out).await? {
                        Some(told) => return Ok(Some(told)),
                        None => Cut::Handle,
                    },
                    Opened::Stream(mut frames) => match hear(&mut frames, order, out).await {
                        Ok(Ok(told)) => return Ok(Some(told)),
                        Ok(Err(cut)) => cut,
                        Err(trouble) => return Err(trouble),
                    },
                };
                match cut {
                    Cut::Handle => return Ok(None),
                    Cut::Broken { news: true, .. } => {
                        barren.reset();
                        Duration::ZERO
                    }
                    // A quiet run behind something that cuts quiet connections.
                    Cut::Broken { trouble, .. }
                        if trouble.code == ResultCode::Code(Code::ConnectionClosed)
                            && since.elapsed() >= bridge.timings.poll =>
                    {
                        Duration::ZERO
                    }
                    Cut::Broken { trouble, .. } => match barren.failed(Instant::now()) {
                        Some(pause) => pause,
                        None if order.run.is_some() => return Ok(None),
                        None => return Err(trouble),
                    },
                }
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Reads one stream. The outer error ends the turn, the inner one only this stream.
async fn hear(
    frames: &mut Frames,
    order: &mut Order,
    out: &mpsc::Sender<Heard>,
) -> Result<Result<Told, Cut>, Trouble> {
    let mut news = false;
    let broken = |trouble, news| Ok(Err(Cut::Broken { trouble, news }));
    loop {
        let frame = match frames.next().await {
            Ok(Some(frame)) => frame,
            Ok(None) => {
                let ended = Trouble::again(Code::SseNoResult, "The stream ended without a result.");
                return broken(ended, news);
            }
            Err(trouble) if !trouble.again => return Err(trouble),
            Err(trouble) => return broken(trouble, news),
        };
        if frame.data == sse::DONE {
            continue;
        }
        let Ok(envelope) = serde_json::from_str::<Value>(&frame.data) else {
            // Torn by the cut, or not JSON at all: asking again tells which.
            let torn = Trouble::again(
                Code::BadBridgeAnswer,
                "The stream holds something that is not JSON.",
            );
            return broken(torn, news);
        };
        if envelope.get("id").and_then(Value::as_str) == Some(order.request.as_str()) {
            return match rpc::outcome(envelope) {
                Ok(value) => Ok(read(value, order, out).await?.ok_or(Cut::Handle)),
                Err(fault) => {
                    let trouble = Trouble::from(fault);
                    if trouble.again {
                        broken(trouble, news)
                    } else {
                        Err(trouble)
                    }
                }
            };
        }
        if frame.id.is_some_and(|id| id <= order.after) {
            continue; // A replay may overlap; a second hand-over may not.
        }
        if let Some(run) = accepted_as(&envelope, &order.thread) {
            if order.run.as_ref() != Some(&run) {
                order.run = Some(run.clone());
                tell(out, Heard::Accepted(run)).await?;
            }
        } else if let Some(update) = update_of(envelope, &order.thread) {
            order.run = Some(update.run_id.clone());
            tell(out, Heard::Update(frame.id, Box::new(update))).await?;
        }
        if let Some(id) = frame.id {
            order.after = id;
            news = true;
        }
    }
}

/// Asks for the run's snapshot until it is terminal.
async fn poll(bridge: &Bridge, order: &Order, out: &mpsc::Sender<Heard>) -> Result<Told, Trouble> {
    let mut order = order.clone();
    let mut patience = Patience::new(&bridge.timings);
    let mut watch = Watch::new(bridge, out);
    // Time in which a person is asked something counts against no deadline.
    let mut asked = Duration::ZERO;
    let mut last = Instant::now();
    loop {
        let answered = match bridge.call_value(method::TASKS_GET, &lookup(&order)).await {
            Ok(value) => Ok(read_handle(value)?),
            Err(trouble) => Err(trouble),
        };
        match answered {
            Ok(told) if told.snapshot.status.is_terminal() => return Ok(told),
            Ok(told) => {
                patience.reset();
                watch.back().await?;
                let stage = told.snapshot.progress.as_ref().map(|p| p.stage);
                if stage == Some(Stage::Waiting) {
                    asked += last.elapsed();
                }
                last = Instant::now();
                order.know(&told.snapshot);
                let deadline = deadline(&told.snapshot, bridge.timings.deadline);
                tell(out, Heard::Handle(Box::new(told.snapshot))).await?;
                let running = Millis::now().since(order.started_at).unsigned_abs();
                let working = Duration::from_millis(running).saturating_sub(asked);
                if working > deadline && stage != Some(Stage::Waiting) {
                    return Err(Trouble::final_(
                        Code::PollTimeout,
                        "The run did not end in its time. It goes on at the bridge; `threadline sync` brings its result.",
                    ));
                }
            }
            Err(trouble) if !trouble.again => return Err(trouble),
            Err(trouble) => {
                watch.away(&trouble).await?;
                patience.failed(Instant::now()).ok_or(trouble)?;
            }
        }
        tokio::time::sleep(bridge.timings.poll).await;
    }
}

/// How long a run is waited for: a little longer than the bridge gives it.
fn deadline(snapshot: &Snapshot, otherwise: Duration) -> Duration {
    let minutes = snapshot.runtime_budget_minutes.map(u64::from);
    minutes.map_or(otherwise, |n| Duration::from_secs(n * 60) + BEYOND_BUDGET)
}

/// The parameters that find the run again.
pub(crate) fn lookup(order: &Order) -> method::TaskParams {
    method::TaskParams {
        app_thread_key: Some(order.thread.clone()),
        openclaw_session_key: order.gateway_session.clone(),
        run_id: order.run.clone(),
        include_artifacts: Some(true),
        ..method::TaskParams::default()
    }
}

/// A turn's result: terminal, or `None` after a running handle was passed on.
async fn read(
    value: Value,
    order: &mut Order,
    out: &mpsc::Sender<Heard>,
) -> Result<Option<Told>, Trouble> {
    let told = read_handle(value)?;
    order.know(&told.snapshot);
    if told.snapshot.status.is_terminal() {
        return Ok(Some(told));
    }
    tell(out, Heard::Handle(Box::new(told.snapshot))).await?;
    Ok(None)
}

fn read_handle(value: Value) -> Result<Told, Trouble> {
    let told = verdict::read(value)?;
    if told.snapshot.status == RunStatus::Running && !told.snapshot.success {
        return Err(strange("a running handle that was not accepted"));
    }
    Ok(told)
}

/// The run that a turn was accepted as, in a notice of it.
fn accepted_as(envelope: &Value, thread: &AppThreadKey) -> Option<RunId> {
    let params = envelope
        .get("params")
        .filter(|_| envelope.get("method").and_then(Value::as_str) == Some(method::ACCEPTED))?;
    let text = |key: &str| params.get(key).and_then(Value::as_str);
    RunId::new(text("runId").filter(|_| text("threadId") == Some(thread.as_str()))?).ok()
}

/// The update in an envelope, if it is one of this thread.
pub(crate) fn update_of(mut envelope: Value, thread: &AppThreadKey) -> Option<SessionUpdate> {
    let params = match envelope.get("method").and_then(Value::as_str) {
        Some(method::UPDATE) => envelope.get_mut("params")?.take(),
        Some(_) => return None,
        None => envelope,
    };
    let mut params = params;
    lenient::normalize_update(&mut params);
    verdict::known_code(&mut params);
    match serde_json::from_value::<SessionUpdate>(params) {
        Ok(update) if update.thread_id == *thread && update.session_id == *thread => Some(update),
        Ok(update) => {
            tracing::warn!(thread = %thread, "An update of thread {} came on the stream of {thread} and was ignored", update.thread_id);
            None
        }
        Err(e) => {
            tracing::warn!(thread = %thread, "An update of thread {thread} cannot be read: {e}");
            None
        }
    }
}

/// A frame of a thread's log as an update.
pub(crate) fn logged(frame: &Frame, thread: &AppThreadKey) -> Option<(i64, SessionUpdate)> {
    let id = frame.id?;
    let envelope = serde_json::from_str(&frame.data).ok()?;
    Some((id, update_of(envelope, thread)?))
}

async fn tell(out: &mpsc::Sender<Heard>, heard: Heard) -> Result<(), Trouble> {
    out.send(heard)
        .await
        .map_err(|_| Trouble::final_(Code::Internal, "Nobody listens any more."))
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
