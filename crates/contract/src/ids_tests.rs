use pretty_assertions::assert_eq;

use super::*;

#[test]
fn blank_long_and_reserved_keys_are_refused() {
    assert_eq!(RunId::new("  "), Err(BadId::Blank { what: "run id" }));
    assert_eq!(
        RequestId::new("x".repeat(129)),
        Err(BadId::TooLong {
            what: "requestId",
            got: 129,
            most: 128
        })
    );
    assert_eq!(
        RequestId::new("é".repeat(128)).map(|r| r.as_str().len()),
        Ok(256)
    );
    for key in ["acp:1", "draft:cron:2", "SubAgent:x"] {
        assert!(
            matches!(AppThreadKey::new(key), Err(BadId::Reserved { .. })),
            "{key}"
        );
    }
    assert_eq!(
        AppThreadKey::new("a\0b"),
        Err(BadId::Nul {
            what: "appThreadKey"
        })
    );
    for key in ["draft:acp", "acp", "cronies:1"] {
        assert_eq!(
            AppThreadKey::new(key).map(|k| k.to_string()),
            Ok(key.to_owned())
        );
    }
}

#[test]
fn keys_are_made_by_policy_once() {
    let thread = AppThreadKey::new("draft:ABC-1").unwrap();
    assert_eq!(
        SessionKey::for_openclaw(&thread, 1).as_str(),
        "agent:main:draft:abc-1"
    );
    assert_eq!(
        SessionKey::for_openclaw(&thread, 2).as_str(),
        "agent:main:draft:abc-1-2"
    );
    assert_eq!(
        SessionKey::for_runtime("builtin", "main", &thread).as_str(),
        "builtin:main:draft:ABC-1"
    );
    assert_eq!(
        AppThreadKey::draft(Millis(1_780_658_097_668), 1).as_str(),
        "draft:1780658097668000-1"
    );
}

#[test]
fn ids_are_checked_when_read_from_json() {
    assert_eq!(
        serde_json::from_str::<RunId>("\" turn-1 \"")
            .unwrap()
            .as_str(),
        "turn-1"
    );
    let refused = serde_json::from_str::<RunId>("\"\"")
        .unwrap_err()
        .to_string();
    assert!(refused.starts_with("run id is required"), "{refused}");
}
