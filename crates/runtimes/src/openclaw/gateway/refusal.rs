//! Why a gateway does not let us in, and what a person can do about it.

use std::time::Duration;

use super::wire::WireError;

/// What came of a refused `connect`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It passes by itself.
    Later(Option<Duration>),
    /// Trying again cannot help: somebody has to do something. The sentence says what.
    Final(String),
}

/// Judges the error of a `connect`.
pub(super) fn judge(error: &WireError) -> Refusal {
    let detail = error.detail("code").unwrap_or_default();
    if let Some(instruction) = instruction(&error.code, detail, error) {
        return Refusal::Final(instruction);
    }
    if error.retryable || error.code == "UNAVAILABLE" {
        return Refusal::Later(error.retry_after_ms.map(Duration::from_millis));
    }
    match error.code.as_str() {
        "INVALID_REQUEST" | "UNAUTHORIZED" | "FORBIDDEN" => Refusal::Final(format!(
            "The OpenClaw gateway refused the connection: {error}."
        )),
        _ => Refusal::Later(error.retry_after_ms.map(Duration::from_millis)),
    }
}

fn instruction(code: &str, detail: &str, error: &WireError) -> Option<String> {
    Some(match (code, detail) {
        (_, "AUTH_TOKEN_MISSING") => "The OpenClaw gateway wants a token. Set THREADLINE_OPENCLAW_TOKEN to the value of `gateway.auth.token` in openclaw.json, and try again.".into(),
        (_, "AUTH_TOKEN_MISMATCH" | "AUTH_PASSWORD_MISMATCH") => "The OpenClaw gateway does not take this token. Set THREADLINE_OPENCLAW_TOKEN to the value of `gateway.auth.token` in openclaw.json, and try again.".into(),
        (_, "AUTH_RATE_LIMITED") => "The OpenClaw gateway refuses us for a while, after too many wrong tokens. Mend THREADLINE_OPENCLAW_TOKEN, wait a minute, and try again.".into(),
        (_, "DEVICE_IDENTITY_REQUIRED") => "The OpenClaw gateway wants a token. Set THREADLINE_OPENCLAW_TOKEN to the value of `gateway.auth.token` in openclaw.json, and try again.".into(),
        (_, "PROTOCOL_MISMATCH") => format!(
            "The OpenClaw gateway speaks another protocol than Threadline ({}). Use OpenClaw 2026.9 or a Threadline that fits it.",
            error.message
        ),
        (_, "CONTROL_UI_ORIGIN_NOT_ALLOWED") => "Something between Threadline and the OpenClaw gateway adds an Origin header, which the gateway refuses. Connect without that proxy.".into(),
        (_, "PAIRING_REQUIRED") | ("NOT_PAIRED", _) => match error.detail("requestId") {
            Some(request) => format!(
                "This machine waits to be let in. On the gateway's host run `openclaw devices approve {request}`, and try again."
            ),
            None => "This machine waits to be let in. On the gateway's host run `openclaw devices list` and `openclaw devices approve <id>`, and try again.".into(),
        },
        (_, detail) if detail.starts_with("AUTH_") || detail.starts_with("DEVICE_") => format!(
            "The OpenClaw gateway does not let this machine in: {error}. Check THREADLINE_OPENCLAW_TOKEN, and try again."
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn error(frame: serde_json::Value) -> WireError {
        serde_json::from_value(frame).unwrap()
    }

    #[test]
    fn wrong_tokens_and_missing_pairings_are_not_tried_again() {
        for (detail, names) in [
            ("AUTH_TOKEN_MISMATCH", "gateway.auth.token"),
            ("DEVICE_IDENTITY_REQUIRED", "gateway.auth.token"),
            ("PROTOCOL_MISMATCH", "another protocol"),
            ("CONTROL_UI_ORIGIN_NOT_ALLOWED", "Origin"),
            ("DEVICE_SIGNATURE_INVALID", "does not let this machine in"),
        ] {
            let said = error(json!({
                "code": "INVALID_REQUEST", "message": "no", "details": {"code": detail}, "retryable": true
            }));
            let Refusal::Final(sentence) = judge(&said) else {
                panic!("{detail} would be tried again");
            };
            assert!(sentence.contains(names), "{detail}: {sentence}");
        }
        let pairing = error(json!({
            "code": "NOT_PAIRED", "message": "pairing required",
            "details": {"code": "PAIRING_REQUIRED", "requestId": "r-1"}
        }));
        assert_eq!(
            judge(&pairing),
            Refusal::Final(
                "This machine waits to be let in. On the gateway's host run `openclaw devices approve r-1`, and try again."
                    .into()
            )
        );
    }

    #[test]
    fn a_gateway_that_is_starting_is_tried_again() {
        let starting = error(json!({
            "code": "UNAVAILABLE", "message": "starting", "retryAfterMs": 750, "retryable": true,
            "details": {"reason": "startup-sidecars"}
        }));
        assert_eq!(
            judge(&starting),
            Refusal::Later(Some(Duration::from_millis(750)))
        );
        assert_eq!(
            judge(&error(json!({"code": "SOMETHING_NEW", "message": "x"}))),
            Refusal::Later(None)
        );
    }

    #[test]
    fn a_request_that_the_gateway_calls_wrong_is_not_repeated() {
        let wrong = error(json!({"code": "INVALID_REQUEST", "message": "invalid connect params"}));
        assert_eq!(
            judge(&wrong),
            Refusal::Final(
                "The OpenClaw gateway refused the connection: invalid connect params (INVALID_REQUEST)."
                    .into()
            )
        );
    }
}
