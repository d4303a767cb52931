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
    for key in ["a\0b", "a\nb", "a\tb", "a\u{7f}b", "a\u{85}b"] {
        assert_eq!(
            AppThreadKey::new(key),
            Err(BadId::Control {
                what: "appThreadKey"
            })
        );
    }
    assert!(AppThreadKey::new("x".repeat(512)).is_ok());
    assert!(AppThreadKey::new("x".repeat(513)).is_err());
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
        SessionKey::for_openclaw(&thread, "main", 1).as_str(),
        "agent:main:draft:abc-1"
    );
    assert_eq!(
        SessionKey::for_openclaw(&thread, "writer", 2).as_str(),
        "agent:writer:draft:abc-1-2"
    );
    for (thread, key) in [
        ("agent:Writer:Notes:1", "agent:writer:notes:1"),
        ("agent:writer:", "agent:main:agent:writer:"),
        ("agent:writer", "agent:main:agent:writer"),
        ("agent::x", "agent:main:agent::x"),
        ("agent:no one:x", "agent:main:agent:no one:x"),
    ] {
        let thread = AppThreadKey::new(thread).unwrap();
        let made = SessionKey::for_openclaw(&thread, "main", 1);
        assert_eq!(made.as_str(), key);
    }
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

#[test]
fn an_agent_is_named_as_the_gateway_names_it() {
    for (said, id) in [
        (" Writer ", Some("writer")),
        ("Night  Shift!", Some("night-shift")),
        ("a_b-c", Some("a_b-c")),
        ("--", None),
        ("日本", None),
        ("", None),
    ] {
        assert_eq!(gateway_agent(said).as_deref(), id, "{said:?}");
    }
}
