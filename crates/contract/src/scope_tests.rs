use pretty_assertions::assert_eq;

use super::*;

fn session(s: &str) -> SessionKey {
    SessionKey::new(s).unwrap()
}
fn run(s: &str) -> RunId {
    RunId::new(s).unwrap()
}

#[test]
fn segments_follow_the_rule() {
    // P01, P02, P08, P10
    let cases = [
        (
            "agent:main:draft:1780658097668838-1",
            "agent-main-draft-1780658097668838-1".to_owned(),
        ),
        ("a/b\\c:d*e?f\"g<h>i|j", "a-b-c-d-e-f-g-h-i-j".to_owned()),
        (".", "_.".to_owned()),
        ("..", "_..".to_owned()),
        ("a\0b", "a-b".to_owned()),
        ("tab\tkey", "tab-key".to_owned()),
        (&"語".repeat(60), "語".repeat(60)),
        (&"語".repeat(200), "語".repeat(80)),
        (&"😀".repeat(96), "😀".repeat(60)),
        (&"a".repeat(200), "a".repeat(96)),
        ("a..b", "a..b".to_owned()),
    ];
    for (key, want) in cases {
        assert_eq!(segment(key), want, "{key:?}");
    }
}

#[test]
fn nfc_and_nfd_twins_share_a_segment() {
    assert_eq!(segment("na\u{ef}ve"), segment("nai\u{308}ve")); // P09
}

#[test]
fn scopes_from_outside_are_held_against_session_and_run() {
    let (s, r) = (session("s"), run("r"));
    for text in ["tasks/s/r", "tasks/s/r/", "tasks//s//r", "tasks\\s\\r"] {
        assert_eq!(
            ArtifactScope::check(text, &s, &r).map(|x| x.to_string()),
            Ok("tasks/s/r".into()),
            "{text}"
        ); // P18
    }
    for text in ["/tasks/s/r", "tasks/s/../r", "tasks/./r", "tasks/s\0/r"] {
        assert_eq!(
            ArtifactScope::check(text, &s, &r),
            Err(BadScope::Escapes(text.into()))
        ); // P16
    }
    for text in ["tasks/s", "tasks/s/r/x", "other/s/r", ""] {
        assert_eq!(
            ArtifactScope::check(text, &s, &r),
            Err(BadScope::NotATask(text.into()))
        ); // P17
    }
    assert_eq!(
        ArtifactScope::check("tasks/s/turn-1", &s, &run("turn-2")),
        Err(BadScope::Mismatch("tasks/s/turn-1".into())) // P14
    );
    for reserved in ["work", ".xworkmate"] {
        assert_eq!(
            ArtifactScope::of(&s, &run(reserved)),
            Err(BadScope::ReservedRun(reserved.into()))
        );
    }
}

/// P04, P05, P06: what the earlier plugin was seen to make.
#[test]
fn the_earlier_plugins_segments_are_understood() {
    let long = "x".repeat(95);
    for (key, want) in [
        (
            "agent:main:draft:1780658097668838-1",
            "agent_main_draft_1780658097668838-1",
        ),
        ("agent::main:main", "agent_main_main"),
        ("run alpha", "run_alpha"),
        ("a/b\\c", "a_b_c"),
        (".", "scope"),
        ("..", "scope"),
        ("...", "scope"),
        ("___", "scope"),
        ("---", "scope"),
        ("\u{65e5}\u{672c}\u{8a9e}", "scope"),
        ("na\u{ef}ve", "na_ve"),
        ("nai\u{308}ve", "nai_ve"),
        ("-a-", "a"),
        ("a.", "a"),
        ("a..b", "a..b"),
        ("a\0b", "a_b"),
        ("tab\tkey", "tab_key"),
        (&"a".repeat(200), &"a".repeat(96)),
        (&format!("{long}-y"), &format!("{long}-")),
    ] {
        assert_eq!(peer_segment(key), want, "{key:?}");
    }
}

#[test]
fn the_earlier_plugins_scope_is_taken_for_reading_only() {
    let (s, r) = (session("agent::main:main"), run("run alpha"));
    let peer = "tasks/agent_main_main/run_alpha";
    for text in [peer, "tasks/agent_main_main//run_alpha/"] {
        assert_eq!(
            ArtifactScope::check(text, &s, &r),
            Err(BadScope::Mismatch(text.into()))
        );
        assert_eq!(
            ArtifactScope::check_to_read(text, &s, &r).map(|x| x.to_string()),
            Ok(peer.into())
        );
    }
    assert_eq!(
        ArtifactScope::check_to_read("tasks/agent--main-main/run alpha/", &s, &r),
        ArtifactScope::of(&s, &r)
    );
    for (text, want) in [
        (
            "tasks/agent_main_main/run_beta",
            BadScope::Mismatch as fn(String) -> _,
        ),
        ("tasks/../agent_main_main/run_alpha", BadScope::Escapes),
        ("/tasks/agent_main_main/run_alpha", BadScope::Escapes),
        ("tasks/agent_main_main", BadScope::NotATask),
    ] {
        assert_eq!(
            ArtifactScope::check_to_read(text, &s, &r),
            Err(want(text.into()))
        );
    }
}

#[test]
fn a_long_folder_name_of_the_board_or_a_build_ends_with_the_keys_digest() {
    let agent = "g".repeat(64);
    let of = |tail: &str| session_segment(&session(&format!("agent:{agent}:mc:local:{tail}")));
    let first = of("task:t12345678901:a12345678901:v1");
    let second = of("task:t12345678901:a12345678901:v2");
    assert_eq!(first, format!("agent-{agent}-mc-local-daf61511f401be80"));
    assert_ne!(first, second);
    assert_eq!((first.len(), second.len()), (96, 96));
    // What fits is not touched, and neither is a thread's, however long.
    assert_eq!(
        of("base:a1:v1"),
        format!("agent-{agent}-mc-local-base-a1-v1")
    );
    let thread = format!("agent:main:{}", "x".repeat(120));
    assert_eq!(session_segment(&session(&thread)), segment(&thread));
}
