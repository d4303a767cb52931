use std::collections::HashSet;

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn every_code_is_spelled_once_and_says_what_to_do() {
    let spelled: HashSet<&str> = Code::ALL.iter().map(|c| c.as_str()).collect();
    assert_eq!(spelled.len(), Code::ALL.len());
    for code in Code::ALL {
        assert_eq!(Code::find(code.as_str()), Some(*code));
        assert!(
            code.advice().ends_with('.') && code.advice().len() > 15,
            "{code}: {}",
            code.advice()
        );
        assert!((400..=599).contains(&code.http()), "{code}");
        assert!(code.rpc() < 0, "{code}");
    }
}

#[test]
fn result_codes_round_trip() {
    for text in [
        "success",
        "failed",
        "aborted",
        "artifact_missing",
        "ACP_HTTP_502",
        "AGENT_LOST",
    ] {
        assert_eq!(
            text.parse::<ResultCode>().map(|c| c.to_string()),
            Ok(text.to_owned())
        );
    }
    assert_eq!("running".parse::<ResultCode>(), Err(()));
    assert_eq!("ACP_HTTP_x".parse::<ResultCode>(), Err(()));
}
