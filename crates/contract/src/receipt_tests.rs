use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::canonical;

fn artifact(path: &str, content: &[u8]) -> Artifact {
    Artifact {
        path: ArtifactPath::new(path).unwrap(),
        size: content.len() as u64,
        sha256: digest(content),
        content_type: "text/plain".into(),
    }
}

fn receipt(files: Vec<Artifact>) -> Result<Receipt, BadReceipt> {
    let session = SessionKey::new("agent:main:draft:1").unwrap();
    let run = RunId::new("turn-1").unwrap();
    let scope = ArtifactScope::of(&session, &run).unwrap();
    Receipt::new(session, run, scope, files)
}

/// A receipt with another inside, and the digest that belongs to it: what a forger would make.
fn forged(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let honest = receipt(vec![artifact("a.txt", b"a"), artifact("b.txt", b"b")]).unwrap();
    let mut value: Value = serde_json::from_slice(&honest.to_bytes().unwrap()).unwrap();
    change(&mut value["receipt"]);
    value["digest"] = json!(canonical::digest(&value["receipt"]));
    format!("{}\n", canonical::to_string(&value)).into_bytes()
}

#[test]
fn the_same_files_give_the_same_canonical_bytes() {
    let a = receipt(vec![
        artifact("b/ü \"q\"\n\u{1}😀.txt", b"1"),
        artifact("b.txt", b"22"),
        artifact("a", b""),
    ])
    .unwrap();
    let b = receipt(a.files().iter().rev().cloned().collect()).unwrap();
    let bytes = a.to_bytes().unwrap();
    assert_eq!((&a, &bytes), (&b, &b.to_bytes().unwrap()));
    // The form written by hand is the form of `canonical`, digest included.
    let value: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(
        String::from_utf8(bytes.clone()).unwrap(),
        format!("{}\n", canonical::to_string(&value))
    );
    assert_eq!(value["digest"], json!(canonical::digest(&value["receipt"])));
    assert_eq!(Receipt::from_bytes(&bytes), Ok(a.clone()));
    let paths: Vec<&str> = a.files().iter().map(|f| f.path.as_str()).collect();
    assert_eq!(paths, ["a", "b.txt", "b/ü \"q\"\n\u{1}😀.txt"]);
    assert_eq!(a.bytes(), 3);
    let empty = receipt(vec![]).unwrap();
    assert_eq!(Receipt::from_bytes(&empty.to_bytes().unwrap()), Ok(empty));
}

#[test]
fn hostile_receipts_are_refused() {
    let path = |text: &str| ArtifactPath::new(text).unwrap();
    assert_eq!(
        receipt(vec![artifact("a", b"1"), artifact("a", b"2")]),
        Err(BadReceipt::Twice(path("a")))
    );
    assert!(Receipt::from_bytes(&forged(|_| {})).is_ok(), "the control");
    let twice = forged(|r| r["files"][1]["path"] = json!("a.txt"));
    assert_eq!(
        Receipt::from_bytes(&twice),
        Err(BadReceipt::Twice(path("a.txt")))
    );
    let disorder = forged(|r| r["files"][0]["path"] = json!("z"));
    assert_eq!(
        Receipt::from_bytes(&disorder),
        Err(BadReceipt::Order(path("b.txt")))
    );
    let notes = forged(|r| r["files"][0]["path"] = json!(".xworkmate/owner.json"));
    assert_eq!(
        Receipt::from_bytes(&notes),
        Err(BadReceipt::Reserved(path(".xworkmate/owner.json")))
    );
    let newer = forged(|r| {
        r["v"] = json!(2);
        r["more"] = json!(1);
    });
    assert_eq!(Receipt::from_bytes(&newer), Err(BadReceipt::Version(2)));
    for (name, bad) in [
        ("up", json!("../x")),
        ("absolute", json!("/etc/passwd")),
        ("nul", json!("a\0b")),
        ("backslash", json!("..\\x")),
        ("empty part", json!("a//b")),
        ("empty", json!("")),
        ("number", json!(7)),
    ] {
        let bytes = forged(|r| r["files"][0]["path"] = bad);
        let refused = Receipt::from_bytes(&bytes);
        assert!(
            matches!(refused, Err(BadReceipt::Unreadable(_))),
            "{name}: {refused:?}"
        );
    }
    for (name, bytes) in [
        (
            "negative size",
            forged(|r| r["files"][0]["size"] = json!(-1)),
        ),
        ("unknown field", forged(|r| r["extra"] = json!(1))),
        (
            "short digest",
            forged(|r| r["files"][0]["sha256"] = json!("ab")),
        ),
        ("empty", vec![]),
        ("not JSON", b"receipt".to_vec()),
        ("deep", b"[".repeat(100_000)),
    ] {
        let refused = Receipt::from_bytes(&bytes);
        assert!(
            matches!(refused, Err(BadReceipt::Unreadable(_))),
            "{name}: {refused:?}"
        );
    }
    let upper = forged(|r| {
        let sha = r["files"][0]["sha256"].as_str().unwrap().to_uppercase();
        r["files"][0]["sha256"] = json!(sha);
    });
    assert_eq!(Receipt::from_bytes(&upper), Err(BadReceipt::Digest));
}

#[test]
fn every_flipped_bit_is_noticed() {
    let honest = receipt(vec![artifact("a.txt", b"a")]).unwrap();
    let bytes = honest.to_bytes().unwrap();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            assert!(
                Receipt::from_bytes(&damaged).is_err(),
                "byte {at}, bit {bit}"
            );
        }
    }
    let spaced = String::from_utf8(bytes.clone()).unwrap().replace(":", ": ");
    assert!(Receipt::from_bytes(spaced.as_bytes()).is_err());
    assert_eq!(
        Receipt::from_bytes(bytes.strip_suffix(b"\n").unwrap()),
        Err(BadReceipt::NotCanonical)
    );
}
