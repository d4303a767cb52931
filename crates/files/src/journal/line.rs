//! The form of one line.

use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// Bytes of the digest that stand in front of a record.
const CHECK: usize = 8;
/// What a line has beside its JSON: the check in hex, a space and the newline.
pub(super) const OVERHEAD: usize = 2 * CHECK + 2;

/// Appends the line of a record that will stand at `offset`.
pub(super) fn encode(
    offset: u64,
    record: &impl Serialize,
    out: &mut Vec<u8>,
) -> serde_json::Result<()> {
    let start = out.len();
    out.resize(start + 2 * CHECK, b'0');
    out.push(b' ');
    serde_json::to_writer(&mut *out, record)?;
    let (head, json) = out.split_at_mut(start + 2 * CHECK + 1);
    if let Some(place) = head.get_mut(start..start + 2 * CHECK) {
        place.copy_from_slice(&check(offset, json));
    }
    out.push(b'\n');
    Ok(())
}

/// The JSON of a line (without its newline) that stands at `offset`, if the line is intact.
pub(super) fn decode(offset: u64, line: &[u8]) -> Option<&[u8]> {
    let (head, rest) = line.split_at_checked(2 * CHECK)?;
    let json = rest.strip_prefix(b" ")?;
    (head == check(offset, json)).then_some(json)
}

/// Whether an intact record ends a bad line: what a lost newline makes of two.
///
/// Text that is full of look-alikes could make this slow, so after so many of them the answer is
/// yes: better a false alarm than a record thrown away.
pub(super) fn hides_record(offset: u64, line: &[u8]) -> bool {
    const PATIENCE: usize = 1_000;
    let mut look_alikes = 0;
    line.windows(2 * CHECK + 1)
        .enumerate()
        .skip(1)
        .any(|(i, head)| {
            let (digits, space) = head.split_at(2 * CHECK);
            if space != b" "
                || !digits
                    .iter()
                    .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
            {
                return false;
            }
            look_alikes += 1;
            let rest = line.get(i..).unwrap_or_default();
            look_alikes > PATIENCE || decode(offset + i as u64, rest).is_some()
        })
}

fn check(offset: u64, json: &[u8]) -> [u8; 2 * CHECK] {
    let digest = Sha256::new()
        .chain_update(offset.to_le_bytes())
        .chain_update(json)
        .finalize();
    let mut text = [b'0'; 2 * CHECK];
    for (pair, byte) in text.chunks_exact_mut(2).zip(digest) {
        pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
    }
    text
}

fn digit(nibble: u8) -> u8 {
    if nibble < 10 {
        b'0' + nibble
    } else {
        b'a' + nibble - 10
    }
}
