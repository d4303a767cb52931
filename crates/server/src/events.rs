//! `GET /acp/events?threadId=…`: a thread's log as an event stream, or page by page for those who
//! poll. The same log, the same cursor.

use std::time::Duration;

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use threadline_contract::{AppThreadKey, Code, Fault, Owner, Principal, sse::CONTENT_TYPE};
use threadline_store::StoredEvent;

use crate::{
    Bridge, Refusal,
    answer::{self, Asked},
    sse,
};

/// The longest that a poll waits.
const LONGEST_WAIT: Duration = Duration::from_secs(55);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Wanted {
    thread_id: String,
    /// For a first connection; after a cut the header wins, because a browser's URL still carries
    /// the old number.
    #[serde(default)]
    after: Option<i64>,
    /// Begins with the last so many events instead; 0 for only what is added.
    #[serde(default)]
    last: Option<u32>,
    /// Seconds that a poll waits for news.
    #[serde(default)]
    wait: Option<u64>,
}

pub(crate) async fn handle(
    State(bridge): State<Bridge>,
    Extension(caller): Extension<Principal>,
    Asked(wanted): Asked<Wanted>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let owner = Owner::Thread(AppThreadKey::new(&wanted.thread_id).map_err(Fault::from)?);
    let after = match (last_event_id(&headers)?, wanted.after, wanted.last) {
        (_, Some(_), Some(_)) => {
            return Err(Fault::invalid("`after` and `last` exclude each other.").into());
        }
        (Some(seen), ..) => seen,
        (None, after, None) => after.unwrap_or(0),
        (None, None, Some(count)) => bridge.engine.owner_tail(&caller, &owner, count).await?,
    };
    if after < 0 {
        return Err(Fault::invalid("`after` must not be negative.").into());
    }
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default();
    if accept.contains(CONTENT_TYPE) {
        return Ok(sse::follow(
            &bridge,
            bridge.engine.owner_feed(&caller, &owner, after).await?,
        ));
    }
    let mut page = bridge.engine.owner_page(&caller, &owner, after).await?;
    if page.is_empty() {
        let wait = Duration::from_secs(wanted.wait.unwrap_or(0)).min(LONGEST_WAIT);
        let mut feed = bridge.engine.owner_feed(&caller, &owner, after).await?;
        tokio::select! {
            news = tokio::time::timeout(wait, feed.next()) => {
                if let Ok(news) = news {
                    news?;
                    page = bridge.engine.owner_page(&caller, &owner, after).await?;
                }
            }
            () = bridge.stop.cancelled() => {}
        }
    }
    Ok(page_answer(&page, after))
}

fn page_answer(page: &[StoredEvent], after: i64) -> Response {
    #[derive(serde::Serialize)]
    struct Item<'a> {
        id: i64,
        update: &'a RawValue,
    }
    let items: Result<Vec<Item<'_>>, _> = page
        .iter()
        .map(|e| serde_json::from_str(&e.body).map(|update| Item { id: e.seq, update }))
        .collect();
    match items {
        Ok(items) => {
            answer::json(&json!({"events": items, "next": page.last().map_or(after, |e| e.seq)}))
        }
        Err(e) => {
            tracing::error!(error = %e, "A stored event is not JSON");
            Refusal(Fault::internal()).into_response()
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct One {
    thread_id: String,
    id: i64,
}

/// One event whole, for those that were sent shortened.
pub(crate) async fn whole(
    State(bridge): State<Bridge>,
    Extension(caller): Extension<Principal>,
    Asked(one): Asked<One>,
) -> Result<Response, Refusal> {
    let owner = Owner::Thread(AppThreadKey::new(&one.thread_id).map_err(Fault::from)?);
    let page = bridge
        .engine
        .owner_page(&caller, &owner, one.id.saturating_sub(1).max(0))
        .await?;
    let event = page.into_iter().next().filter(|e| e.seq == one.id);
    let event = event.ok_or_else(|| {
        Fault::new(
            Code::NotFound,
            format!("The thread has no event {}.", one.id),
        )
    })?;
    Ok((
        [(header::CONTENT_TYPE, "application/json")],
        event.body.to_string(),
    )
        .into_response())
}

/// The `Last-Event-ID` header; nonsense is refused rather than read as zero.
/// The last event of a log that a caller saw, as it says in the head of its request.
pub fn last_event_id(headers: &HeaderMap) -> Result<Option<i64>, Fault> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let number = value
        .to_str()
        .ok()
        .and_then(|t| t.trim().parse::<i64>().ok())
        .filter(|n| *n >= 0);
    number
        .map(Some)
        .ok_or_else(|| Fault::invalid("Last-Event-ID must be a number that this server gave."))
}
