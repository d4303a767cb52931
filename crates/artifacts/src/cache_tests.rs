use pretty_assertions::assert_eq;

use super::*;

fn entry(n: u64, kind: Option<&str>) -> (Stamp, Known) {
    let stamp = Stamp {
        dev: 1,
        ino: n,
        size: n * 3,
        mtime_ns: -5,
        ctime_ns: i64::MAX,
    };
    let known = Known {
        sha256: Sha256([n as u8; 32]),
        content_type: kind.map(Into::into),
    };
    (stamp, known)
}

fn rendered(entries: &[(Stamp, Known)]) -> Vec<u8> {
    render(
        &entries
            .iter()
            .map(|(stamp, known)| (stamp, known))
            .collect::<Vec<_>>(),
    )
}

#[test]
fn what_is_kept_is_what_is_loaded() {
    let entries = [entry(1, None), entry(2, Some("image/png")), entry(3, None)];
    assert_eq!(parse(&rendered(&entries)), Some(entries.to_vec()));
    assert_eq!(parse(&rendered(&[])), Some(Vec::new()));
}

#[test]
fn nothing_damaged_is_believed() {
    let entries = [entry(1, None), entry(2, Some("image/png"))];
    let text = rendered(&entries);
    for at in 0..text.len() {
        assert_eq!(parse(&text[..at]), None, "cut at {at}");
        let mut damaged = text.clone();
        damaged[at] ^= 0x10;
        assert_eq!(parse(&damaged), None, "flipped at {at}");
    }
    // Whole by its digest, and still not ours: another user, a count that lies, bytes behind the end.
    let forged = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut body = text[..text.len() - TRAILER].to_vec();
        change(&mut body);
        let sum = checksum(&body);
        body.extend_from_slice(&sum.to_le_bytes());
        body
    };
    assert!(parse(&forged(&|_| {})).is_some(), "the control");
    assert_eq!(parse(&forged(&|b| b[8] ^= 1)), None);
    assert_eq!(parse(&forged(&|b| b[12] = 1)), None);
    assert_eq!(parse(&forged(&|b| b[12] = 3)), None);
    assert_eq!(parse(&forged(&|b| b[12..16].fill(0xff))), None);
    assert_eq!(parse(&forged(&|b| b.push(0))), None);
}

#[test]
fn a_state_is_known_by_all_of_its_stamp() {
    let (stamp, known) = entry(1, None);
    let digests = Digests::of(vec![entry(7, None), (stamp, known.clone()), entry(0, None)]);
    assert_eq!(digests.get(&stamp), Some(&known));
    for other in [
        Stamp { dev: 2, ..stamp },
        Stamp { ino: 2, ..stamp },
        Stamp { size: 4, ..stamp },
        Stamp {
            mtime_ns: -4,
            ..stamp
        },
        Stamp {
            ctime_ns: 0,
            ..stamp
        },
    ] {
        assert_eq!(digests.get(&other), None, "{other:?}");
    }
}
