use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

/// What we would have signed, also where no artifact can have such a path.
fn write(key: &Key, signed: &Signed<'_>, expires: i64) -> String {
    let mac = hex::encode(signature(key, signed, expires).finalize().into_bytes());
    let [session, run, path] = [signed.session, signed.run, signed.path].map(|part| {
        let mut text = String::new();
        encode(part, &mut text);
        text
    });
    let (size, sha256) = (signed.size, signed.sha256);
    format!(
        "{session}::{run}::{path}::{}.{size}.{sha256}.{mac}",
        key.kid
    )
}
use crate::LINK_SECONDS;

const NOW: i64 = 1_800_000_000;

fn ring() -> KeyRing {
    KeyRing::from_keys(vec![Key::new("k1", [1; 32], NOW)]).unwrap()
}

fn identity(session: &str, run: &str, path: &str) -> ArtifactIdentity {
    ArtifactIdentity {
        session: SessionKey::new(session).unwrap(),
        run: RunId::new(run).unwrap(),
        path: ArtifactPath::new(path).unwrap(),
        size: 7,
        sha256: Sha256([0xab; 32]),
    }
}

/// P81: the primitive itself.
#[test]
fn p81_the_primitive_is_hmac_sha256() {
    let mut secret = [0; 32];
    secret[0] = b'k';
    let mut mac = new_mac(&secret);
    mac.update(b"agent:main:draft:1::run-1::reports/final.md");
    assert_eq!(
        hex::encode(mac.finalize().into_bytes()),
        "cd5b727c79a69b7ccd2bb2363d9983218995b75a6549cac25269f87573fc5783"
    );
}

#[test]
fn the_text_has_the_agreed_form() {
    let text = ring().sign(
        &identity("agent:main:draft:1", "run-1", "a::b/50%.md"),
        NOW + 60,
    );
    let (head, mac) = text.rsplit_once('.').unwrap();
    assert_eq!(
        head,
        format!(
            "agent%3Amain%3Adraft%3A1::run-1::a%3A%3Ab/50%25.md::k1.7.{}",
            "ab".repeat(32)
        )
    );
    assert_eq!((mac.len(), mac.to_lowercase().as_str()), (64, mac));
}

#[test]
fn every_part_and_the_expiry_are_covered() {
    let ring = ring();
    let good = identity("s:1", "run-1", "a.txt");
    let expires = NOW + 100;
    let text = ring.sign(&good, expires);
    assert_eq!(ring.verify(&text, expires, NOW), Ok(good));

    let change = |from: &str, to: &str| {
        assert!(text.contains(from));
        ring.verify(&text.replacen(from, to, 1), expires, NOW)
    };
    assert_eq!(change("s%3A1", "s%3A2"), Err(RefError::Forged));
    assert_eq!(change("run-1", "run-2"), Err(RefError::Forged)); // P84
    assert_eq!(change("a.txt", "b.txt"), Err(RefError::Forged)); // P89
    assert_eq!(change("k1.7.", "k1.8."), Err(RefError::Forged));
    assert_eq!(change("k1.7.", "k1.07."), Err(RefError::Forged));
    assert_eq!(change("k1.", "k2."), Err(RefError::UnknownKey)); // P92
    assert_eq!(change("abab", "abac"), Err(RefError::Forged));
    for t in [expires - 1, expires + 1, NOW + LINK_SECONDS * 365] {
        assert_eq!(ring.verify(&text, t, NOW), Err(RefError::Forged));
    }
    let mut mac = text.clone();
    let last = if mac.pop() == Some('0') { '1' } else { '0' };
    mac.push(last);
    assert_eq!(ring.verify(&mac, expires, NOW), Err(RefError::Forged));

    let (head, mac) = text.rsplit_once('.').unwrap();
    let shouted = format!("{head}.{}", mac.to_uppercase());
    assert_eq!(ring.verify(&shouted, expires, NOW), Err(RefError::BadRef));
}

/// Moving a letter from one part to the next gives another identity, not another spelling.
#[test]
fn parts_do_not_flow_into_each_other() {
    let ring = ring();
    let text = ring.sign(&identity("ab", "c", "d/e"), NOW);
    for moved in ["a::bc::d/e::", "abc::d::/e::", "ab::cd::e::"] {
        let forged = text.replacen("ab::c::d/e::", moved, 1);
        assert_ne!(forged, text);
        assert_eq!(
            ring.verify(&forged, NOW, NOW),
            Err(RefError::Forged),
            "{moved}"
        );
    }
    let sized = text.replacen("k1.7.", "k.17.", 1);
    let twins = vec![Key::new("k", [1; 32], NOW)];
    let other = KeyRing::from_keys(twins).unwrap();
    assert_eq!(other.verify(&sized, NOW, NOW), Err(RefError::Forged));
}

/// D02, D03, E06.
#[test]
fn the_signature_is_judged_before_the_expiry() {
    let ring = ring();
    let text = ring.sign(&identity("s", "r", "f"), NOW);
    assert!(ring.verify(&text, NOW, NOW).is_ok());
    assert_eq!(ring.verify(&text, NOW, NOW + 1), Err(RefError::Expired));
    assert_eq!(
        ring.verify(&text.replace("::f::", "::g::"), NOW, NOW + 1),
        Err(RefError::Forged)
    );
    let old = ring.sign(&identity("s", "r", "f"), i64::MIN);
    assert_eq!(ring.verify(&old, i64::MIN, NOW), Err(RefError::Expired));
    let far = ring.sign(&identity("s", "r", "f"), i64::MAX);
    assert!(ring.verify(&far, i64::MAX, i64::MAX).is_ok());
}

/// D17, and what else no identity can hold.
#[test]
fn a_correct_signature_does_not_make_a_path_good() {
    let ring = ring();
    let sha256 = "ab".repeat(32);
    let of = |session, run, path| {
        let signed = Signed {
            session,
            run,
            path,
            size: "7",
            sha256: &sha256,
        };
        ring.verify(&write(ring.current(), &signed, NOW), NOW, NOW)
    };
    assert!(of("s", "r", "a/b").is_ok());
    for path in [
        "../../etc/passwd",
        "/etc/passwd",
        "a/../b",
        "",
        ".",
        "a//b",
        "a\0",
        "a\\..\\b",
    ] {
        assert_eq!(of("s", "r", path), Err(RefError::BadRef), "{path:?}");
    }
    assert_eq!(of("", "r", "a"), Err(RefError::BadRef));
    assert_eq!(of("s", " ", "a"), Err(RefError::BadRef));
}

#[test]
fn what_is_not_built_like_a_reference_is_not_one() {
    let ring = ring();
    let text = ring.sign(&identity("s", "r", "f"), NOW);
    let mut bad = vec![
        String::new(),
        "::".into(),
        "a::b::c".into(),
        "a::b::c::d".into(),
    ];
    bad.push(format!("{text}::x"));
    bad.push(format!("x::{text}"));
    bad.push(text.replace("s::r", "s:r"));
    bad.push(text.replace("::f::", "::%66::")); // an escape that we do not write
    bad.push(text.replace("::f::", "::%3a::"));
    bad.push(text.replace("::f::", "::%::"));
    bad.push(text.replace("k1.7.", "k1.-7."));
    bad.push(text.replace("k1.7.", "k1.99999999999999999999."));
    bad.push(text.replace("k1.7.", "k1.7"));
    bad.push(text.replace("abab", "zzzz"));
    bad.push(text[..text.len() - 1].to_owned());
    // P85: another generation's token, whoever signed it.
    bad.push("eyJ2IjoxfQ.c2lnbmF0dXJl".into());
    for text in bad {
        assert_eq!(
            ring.verify(&text, NOW, NOW),
            Err(RefError::BadRef),
            "{text}"
        );
    }
}

/// P92.
#[test]
fn rotation_keeps_old_links_until_they_expire() {
    let first = ring();
    let link = identity("s", "r", "f");
    let expires = NOW + LINK_SECONDS;
    let old = first.sign(&link, expires);
    let second = first.rotated(NOW + 10);
    assert_eq!(second.verify(&old, expires, expires), Ok(link.clone()));
    assert_eq!(
        second.verify(&old, expires, expires + 1),
        Err(RefError::Expired)
    );
    let new = second.sign(&link, expires);
    assert_eq!(second.verify(&new, expires, NOW), Ok(link.clone()));
    assert_eq!(
        first.verify(&new, expires, NOW),
        Err(RefError::UnknownKey),
        "unknown kid"
    );

    // A retired key that leaked signs nothing new.
    let later = NOW + 10 + LINK_SECONDS + 61;
    let stolen = first.sign(&link, later);
    assert_eq!(
        second.verify(&stolen, later, NOW + 20),
        Err(RefError::Forged)
    );

    // Forgotten when its last link has expired, not before.
    let third = second.rotated(NOW + 20);
    assert_eq!(third.keys().count(), 3);
    assert_eq!(third.verify(&old, expires, NOW), Ok(link));
    assert_eq!(
        second.rotated(NOW + 10 + LINK_SECONDS + 120).keys().count(),
        3
    );
    let pruned = second.rotated(NOW + 10 + LINK_SECONDS + 121);
    assert_eq!(pruned.keys().count(), 2);
    assert_eq!(pruned.verify(&old, expires, NOW), Err(RefError::UnknownKey));
}

#[test]
fn the_expiry_may_travel_in_the_text_or_beside_it() {
    let ring = ring();
    let id = identity("s", "r", "odd;t=5::;t=7");
    let expires = NOW + 100;
    let (bare, whole) = (ring.sign(&id, expires), ring.sign_whole(&id, expires));
    assert_eq!(whole, format!("{bare};t={expires}"));
    assert_eq!(ring.verify_whole(&whole, None, NOW), Ok(id.clone()));
    assert_eq!(
        ring.verify_whole(&whole, Some(1), NOW),
        Ok(id.clone()),
        "its own counts"
    );
    assert_eq!(ring.verify_whole(&bare, Some(expires), NOW), Ok(id));
    assert_eq!(ring.verify_whole(&bare, None, NOW), Err(RefError::BadRef));
    assert_eq!(
        ring.verify_whole(&bare, Some(expires + 1), NOW),
        Err(RefError::Forged)
    );
    assert_eq!(
        ring.verify_whole(&format!("{bare};t={}", expires + 1), None, NOW),
        Err(RefError::Forged)
    );
    assert_eq!(
        ring.verify_whole(&whole, None, expires + 1),
        Err(RefError::Expired)
    );
    for odd in ["", "x", "+5", "05", "99999999999999999999"] {
        assert_eq!(
            ring.verify_whole(&format!("{bare};t={odd}"), Some(expires), NOW),
            Err(RefError::BadRef)
        );
    }
}

proptest! {
    /// Whatever the names, a reference comes back as it was (P74), and no two share one.
    #[test]
    fn references_round_trip(
        session in "[a-z:%.\n\"'\u{1f600} ]{1,24}", run in "[a-zA-Z0-9:%._-]{1,16}",
        path in prop_oneof![
            "[a-z:%.\n\"'\u{1f600}]{1,8}(/[a-z:% \u{e9}]{1,8}){0,3}",
            Just("%2F%3A%25::..%2e/::\n\"".to_owned()),
            "\\PC{1,40}",
        ],
        size in any::<u64>(), sha in any::<[u8; 32]>(), expires in 0..4_000_000_000i64)
    {
        let (Ok(session), Ok(run), Ok(path)) =
            (SessionKey::new(&session), RunId::new(&run), ArtifactPath::new(&path)) else { return Ok(()) };
        let id = ArtifactIdentity { session, run, path, size, sha256: Sha256(sha) };
        let ring = ring();
        let text = ring.sign(&id, expires);
        let whole = ring.sign_whole(&id, expires);
        prop_assert_eq!(ring.verify_whole(&whole, None, expires), Ok(id.clone()));
        prop_assert_eq!(ring.verify(&text, expires, expires), Ok(id));
        prop_assert_eq!(text.matches("::").count(), 3);
        let head = text.rsplit_once("::").map(|(head, _)| head).unwrap_or_default();
        prop_assert!(!head.replace("::", "").contains(':'));
    }

    /// Nothing that was not signed is taken.
    #[test]
    fn noise_is_never_taken(text in "\\PC{0,80}", expires in any::<i64>()) {
        prop_assert!(ring().verify(&text, expires, 0).is_err());
        prop_assert!(ring().verify_whole(&text, Some(expires), 0).is_err());
    }
}
