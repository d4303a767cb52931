//! The gateway's own pages.

use threadline_contract::{SessionKey, url::encoded};

/// The page of a session on the gateway with this address.
pub(super) fn of(gateway: &str, session: &SessionKey) -> Option<String> {
    // `ws://` and `wss://` become `http://` and `https://`.
    let served = gateway.trim_end_matches('/').strip_prefix("ws")?;
    let session = encoded(session.as_str());
    Some(format!("http{served}/chat?session={session}"))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_session_has_a_page_where_the_gateway_is() {
        let session = SessionKey::new("agent:main:draft:1").unwrap();
        let page = |gateway| of(gateway, &session);
        let there = "/chat?session=agent%3Amain%3Adraft%3A1";
        assert_eq!(
            [
                page("ws://127.0.0.1:18789"),
                page("wss://claw.example/gw/"),
                page("claw.example")
            ],
            [
                Some(format!("http://127.0.0.1:18789{there}")),
                Some(format!("https://claw.example/gw{there}")),
                None
            ]
        );
    }
}
