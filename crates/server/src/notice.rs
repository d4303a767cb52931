//! A logged update on its way out: whole, or shortened where it is too large to be pushed.

use std::borrow::Cow;

use serde_json::Value;
use threadline_contract::{SessionUpdate, method, sse::Frame, url};

/// A notification over this size is sent shortened; the log holds it whole.
const LARGEST: usize = 64 << 10;
/// Characters of each long text that a shortened notification keeps.
const KEPT: usize = 8 << 10;

/// The parameters of an update. The stored body is JSON on one line already, so it is not parsed.
pub(crate) fn params(seq: i64, body: &str) -> Cow<'_, str> {
    if body.len() > LARGEST {
        Cow::Owned(shortened(seq, body))
    } else {
        Cow::Borrowed(body)
    }
}

/// An update for a connection that has no place for a number beside the text: it stands among the
/// parameters, as `eventId`.
pub(crate) fn numbered(seq: i64, body: &str) -> String {
    let params = params(seq, body);
    let rest = params.strip_prefix('{').unwrap_or(&params);
    format!(
        r#"{{"jsonrpc":"2.0","method":"{}","params":{{"eventId":{seq},{rest}}}"#,
        method::UPDATE
    )
}

/// What another server says in a stream, as it is said on a connection that stays. Keep-alives are for the
/// stream, and so is a result that nobody asked for.
pub(crate) fn relayed(frame: Frame, wants_result: bool, path: &str) -> Option<String> {
    let Ok(mut envelope) = serde_json::from_str::<Value>(&frame.data) else {
        return Some(frame.data);
    };
    match envelope.get("method").and_then(Value::as_str) {
        Some(method::KEEPALIVE) => return None,
        Some(method::ACCEPTED) => envelope["params"]["path"] = path.into(),
        None if !wants_result => return None,
        _ => {}
    }
    if let Some(seq) = frame.id {
        envelope["params"]["eventId"] = seq.into();
    }
    Some(envelope.to_string())
}

fn shortened(seq: i64, body: &str) -> String {
    let Ok(mut update) = serde_json::from_str::<SessionUpdate>(body) else {
        return body.to_owned();
    };
    let cut = |text: &mut Option<String>| {
        if let Some(t) = text.as_mut().filter(|t| t.len() > KEPT) {
            *t = t.chars().take(KEPT).collect();
        }
    };
    cut(&mut update.text);
    cut(&mut update.message);
    if let Some(step) = &mut update.step {
        cut(&mut step.detail);
    }
    if let Some(question) = update.question.as_mut().filter(|q| q.text.len() > KEPT) {
        question.text = question.text.chars().take(KEPT).collect();
    }
    update.truncated = true;
    update.whole_at = Some(format!(
        "/acp/events/whole?id={seq}&threadId={}",
        url::encoded(update.thread_id.as_str())
    ));
    serde_json::to_string(&update).unwrap_or_else(|_| body.to_owned())
}
