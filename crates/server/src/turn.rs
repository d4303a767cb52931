//! The beginning of a turn, the same for every way in.

use std::sync::Arc;

use serde_json::{Value, json, value::RawValue};
use threadline_contract::{
    Fault, Millis, Principal, RunId, method,
    rpc::{self, Request},
};
use threadline_engine::{Accepted, Feed, Node, TurnAnswer};

use crate::{Bridge, dispatch::value};

/// Where a caller that comes back says what it saw last, when the transport has no header for it.
/// It belongs to the conversation, not to the request: the same request may come with any number.
const LAST_EVENT_ID: &str = "lastEventId";

/// What became of it.
pub(crate) enum Begun {
    /// Its runtime cannot take it now: a result.
    Unavailable(Arc<RawValue>),
    /// Another server has its session.
    Elsewhere(Node),
    /// It has a run.
    Accepted(Box<Turn>),
}

/// A turn that has a run.
pub(crate) struct Turn {
    pub(crate) run: RunId,
    /// What is said first.
    pub(crate) notice: Value,
    after: i64,
}

impl Turn {
    /// The run's events after those that the caller has, then its result.
    pub(crate) async fn feed(&self, bridge: &Bridge, caller: &Principal) -> Result<Feed, Fault> {
        bridge.engine.run_feed(caller, &self.run, self.after).await
    }
}

/// Hands a turn to the engine. `seen` is what the transport says about the last event.
pub(crate) async fn begin(
    bridge: &Bridge,
    caller: &Principal,
    mut request: Request,
    seen: Option<i64>,
    path: &str,
) -> Result<Begun, Fault> {
    let said = match request.params.as_object_mut() {
        Some(params) => params.remove(LAST_EVENT_ID),
        None => None,
    };
    let said = match said {
        None => None,
        Some(number) => Some(number.as_i64().filter(|n| *n >= 0).ok_or_else(|| {
            Fault::invalid("`lastEventId` must be a number that this server gave.")
        })?),
    };
    let (name, params) = (request.method, request.params);
    match bridge.engine.turn(caller, &name, params).await? {
        TurnAnswer::Unavailable(resolved) => Ok(Begun::Unavailable(value(resolved)?)),
        TurnAnswer::Elsewhere(node) => Ok(Begun::Elsewhere(node)),
        TurnAnswer::Accepted(accepted) => Ok(Begun::Accepted(Box::new(Turn {
            notice: notice(&accepted, &name, path),
            run: accepted.run,
            after: seen.or(said).unwrap_or(0),
        }))),
    }
}

fn notice(accepted: &Accepted, name: &str, path: &str) -> Value {
    rpc::notification(
        method::ACCEPTED,
        &json!({
            "sessionId": accepted.thread, "threadId": accepted.thread, "runId": accepted.run, "turnId": accepted.run,
            "method": name, "path": path, "acceptedAt": Millis::now(),
        }),
    )
}
