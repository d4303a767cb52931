//! Keys that outlive a process.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{fs, os::unix::fs::PermissionsExt as _};

use common::World;
use pretty_assertions::assert_eq;
use threadline_artifacts::{Error, Key, KeyRing};

const NOW: i64 = 1_800_000_000;

/// P93.
#[test]
fn links_live_on_after_a_restart_and_a_rotation() {
    let w = World::new();
    let file = w.temp.path().join("keys.json");
    let identity = w.identity("a::b.md", b"content");
    let first = KeyRing::load_or_create(&file, NOW).unwrap();
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let link = first.sign(&identity, NOW + 100);

    let again = KeyRing::load_or_create(&file, NOW + 5).unwrap();
    assert_eq!(again, first);
    assert_eq!(
        again.verify(&link, NOW + 100, NOW + 50),
        Ok(identity.clone())
    );

    again.rotated(NOW + 10).save(&file).unwrap();
    let rotated = KeyRing::load_or_create(&file, NOW + 20).unwrap();
    assert_eq!(rotated.keys().count(), 2);
    assert_eq!(rotated.verify(&link, NOW + 100, NOW + 50), Ok(identity));
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[test]
fn two_processes_that_start_at_once_agree() {
    for _ in 0..20 {
        let t = tempfile::tempdir().unwrap();
        let file = t.path().join("keys.json");
        let rings: Vec<KeyRing> = std::thread::scope(|s| {
            let all: Vec<_> = (0..4)
                .map(|_| s.spawn(|| KeyRing::load_or_create(&file, NOW).unwrap()))
                .collect();
            all.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(rings.iter().all(|ring| *ring == rings[0]));
    }
}

#[test]
fn damaged_keys_are_left_alone_and_secrets_stay_secret() {
    let t = tempfile::tempdir().unwrap();
    let file = t.path().join("keys.json");
    for text in [
        "",
        "[]",
        "{",
        r#"[{"kid":"a.b","secret":"00","createdAt":1}]"#,
    ] {
        fs::write(&file, text).unwrap();
        let refused = KeyRing::load_or_create(&file, NOW).unwrap_err();
        assert!(matches!(refused, Error::BadKeys { .. }), "{refused}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    let shown = format!(
        "{:?}",
        KeyRing::from_keys(vec![Key::new("k", [0x5a; 32], NOW)])
    );
    assert!(
        shown.contains("\"k\"") && !shown.contains("5a") && !shown.contains("90"),
        "{shown}"
    );
}

#[test]
fn a_ring_has_one_signer_and_plain_names() {
    let key = |kid: &str| Key::new(kid, [1; 32], NOW);
    let retired = |kid: &str| key(kid).retired(NOW);
    assert!(KeyRing::from_keys(vec![key("a"), retired("b")]).is_some());
    for bad in [
        vec![],
        vec![retired("a")],
        vec![key("a"), key("b")],
        vec![key("a"), retired("a")],
        vec![key("a.b")],
        vec![key("a:b")],
        vec![key("")],
    ] {
        assert_eq!(KeyRing::from_keys(bad), None);
    }
}
