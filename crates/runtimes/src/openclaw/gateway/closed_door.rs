//! Why no socket came about, and whether waiting can help.

use std::io::{Error as IoError, ErrorKind};

use serde_json::Value;
use tokio_tungstenite::tungstenite::{Error, http::StatusCode};

use super::handshake::{APPROVED, NotOpened};

/// What is said of a gateway that nobody answers for.
pub(crate) const NO_ANSWER: &str = "The OpenClaw gateway does not answer";
/// Characters of an answer that are passed on.
const MOST: usize = 400;

/// A gateway that is not there may come; one that says no, or that is not believed, needs somebody.
pub(super) fn of(error: &Error) -> NotOpened {
    match error {
        Error::Http(answer) => {
            let body = answer.body().as_deref().unwrap_or_default();
            turned_away(answer.status(), &words(body))
        }
        Error::Io(error) if error.kind() == ErrorKind::InvalidData => not_believed(error),
        Error::Tls(error) => not_believed(error),
        Error::Io(error) => NotOpened::failed(format!("{NO_ANSWER}: {}.", plainly(error))),
        other => NotOpened::failed(format!("The OpenClaw gateway cannot be reached: {other}.")),
    }
}

fn turned_away(status: StatusCode, said: &str) -> NotOpened {
    let said = match said {
        "" => format!("HTTP {}", status.as_u16()),
        said => format!("{said} (HTTP {})", status.as_u16()),
    };
    if status.is_server_error() {
        return NotOpened::failed(format!(
            "What answers at `openclaw.url` cannot help: {said}."
        ));
    }
    let advice = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            "A proxy in front of it must be named in the gateway's `gateway.trustedProxies`; else connect without the proxy."
        }
        _ => "Check `openclaw.url`.",
    };
    NotOpened::Refused {
        instruction: format!(
            "What answers at `openclaw.url` refuses the connection: {said}. {advice}"
        ),
        again: APPROVED,
    }
}

fn not_believed(error: &dyn std::fmt::Display) -> NotOpened {
    NotOpened::Refused {
        instruction: format!(
            "The OpenClaw gateway cannot be reached safely: {error}. Check `openclaw.url`, and `openclaw.ca` if its certificate is of an authority of your own."
        ),
        again: APPROVED,
    }
}

/// Without the numbers of the system.
fn plainly(error: &IoError) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "nothing listens at its address".into(),
        ErrorKind::TimedOut => "it took too long".into(),
        ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe => {
            "the connection was cut".into()
        }
        _ => {
            let text = error.to_string();
            let end = text.find(" (os error").unwrap_or(text.len());
            text[..end].to_owned()
        }
    }
}

/// What an answer says, for a person: on one line, and not too long.
fn words(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let json: Option<Value> = serde_json::from_str(text.trim()).ok();
    let told = json.as_ref().and_then(|json| {
        let places = ["/error/message", "/message", "/error"];
        places
            .iter()
            .find_map(|place| json.pointer(place)?.as_str())
    });
    let text = match told {
        Some(told) => told,
        // A page for browsers tells nothing here.
        None if text.contains("</") => "",
        None => text.as_ref(),
    };
    let plain: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let line = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().take(MOST).collect();
    line.trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_answer_is_passed_on_in_one_clean_line() {
        for (body, line) in [
            (
                r#"{"error":{"message":"Proxy client attribution is required.","type":"x"}}"#,
                "Proxy client attribution is required",
            ),
            (r#"{"error":"no\u001b[31m way"}"#, "no [31m way"),
            ("plain\r\n  text.\n", "plain text"),
            ("<html><body>no</body></html>", ""),
            ("", ""),
        ] {
            assert_eq!(words(body.as_bytes()), line);
        }
        assert_eq!(words("x".repeat(9000).as_bytes()).len(), MOST);
    }

    #[test]
    fn only_what_may_pass_is_waited_for() {
        let refused = |status| match turned_away(status, "no") {
            NotOpened::Refused { .. } => true,
            NotOpened::Failed { .. } => false,
        };
        assert!(refused(StatusCode::FORBIDDEN));
        assert!(refused(StatusCode::NOT_FOUND));
        assert!(!refused(StatusCode::BAD_GATEWAY));
        let gone = IoError::from(ErrorKind::ConnectionRefused);
        let NotOpened::Failed { why, .. } = of(&Error::Io(gone)) else {
            panic!("it would not be tried again");
        };
        assert_eq!(
            why,
            "The OpenClaw gateway does not answer: nothing listens at its address."
        );
    }
}
