//! Whoever reads an agent's journal, from wherever and whenever, reads what one who was there from the start
//! has heard.

use std::fs;

use pretty_assertions::assert_eq;
use proptest::{prelude::*, sample::Index};

use super::*;
use crate::{EndCause, Ended, Frame, Stray, StrayReason, What};

fn what() -> impl Strategy<Value = What> {
    let frame = |text: String| {
        let frame =
            serde_json::json!({"jsonrpc": "2.0", "method": "tell", "params": {"text": text}});
        Frame::of(&frame).unwrap()
    };
    let text = || "[a-zé✓\\n\" ]{0,90}";
    let stray = |head: String| {
        What::Stray(Stray {
            reason: StrayReason::NotJson,
            bytes: head.len() as u64,
            head,
            meant: None,
        })
    };
    prop_oneof![
        6 => text().prop_map(move |text| What::Said(frame(text))),
        2 => (0u8..9, text()).prop_map(move |(key, text)| What::Sent {
            key: format!("key-{key}"),
            frame: Some(frame(text)),
        }),
        1 => text().prop_map(stray),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    /// The host writes down the next thing.
    Write(What),
    /// A bridge attaches after any entry that it may have.
    Attach(Index),
    /// One of the bridges reads what is there.
    Read(Index),
    /// The bridge has everything up to here in its own keeping.
    Acknowledge(Index),
}

fn step() -> impl Strategy<Value = Step> {
    let at = any::<Index>;
    prop_oneof![
        8 => what().prop_map(Step::Write),
        2 => at().prop_map(Step::Attach),
        4 => at().prop_map(Step::Read),
        1 => at().prop_map(Step::Acknowledge),
    ]
}

fn all_of(cursor: &mut Cursor) -> Vec<Entry> {
    std::iter::from_fn(|| cursor.read().unwrap()).collect()
}

struct Reader {
    cursor: Cursor,
    /// How many entries it has.
    has: usize,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn reading_from_anywhere_is_the_same_as_having_listened(
        steps in prop::collection::vec(step(), 1..60),
        piece_bytes in 100u64..900,
        cut in any::<Index>(),
        is_over: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut segments = Segments::create(folder, piece_bytes).unwrap();
        let (mut told, mut acked): (Vec<Entry>, usize) = (vec![], 0);
        let mut readers: Vec<Reader> = vec![];
        // Where each entry ends in the piece that it is in.
        let mut ends: Vec<(u64, u64)> = vec![];
        let over = is_over.then(|| Step::Write(What::Ended(Ended {
            cause: EndCause::Exited,
            status: Some(0),
            signal: None,
            stderr: String::new(),
        })));
        for step in steps.into_iter().chain(over) {
            match step {
                Step::Write(what) => {
                    let no = told.len() as u64 + 1;
                    let entry = Entry { no, at: no as i64, what };
                    segments.append(&entry, Durability::Later).unwrap();
                    ends.push((*segments.pieces.back().unwrap(), segments.journal.end()));
                    told.push(entry);
                }
                Step::Attach(after) => {
                    let after = acked + after.index(told.len() + 1 - acked);
                    let cursor = Cursor::after(folder, after as u64).unwrap();
                    readers.push(Reader { cursor, has: after });
                }
                Step::Read(which) if !readers.is_empty() => {
                    let at = which.index(readers.len());
                    let reader = &mut readers[at];
                    let read = all_of(&mut reader.cursor);
                    assert_eq!(read, told[reader.has..]);
                    reader.has = told.len();
                }
                Step::Acknowledge(upto) => {
                    // By the bridge that is attached last: the others were replaced by it.
                    readers.drain(..readers.len().saturating_sub(1));
                    let most = readers.last().map_or(acked, |reader| reader.has);
                    acked = acked.max(upto.index(most + 1));
                    segments.forget(acked as u64).unwrap();
                }
                Step::Read(_) => {}
            }
            let first = segments.first() as usize;
            prop_assert!(first <= acked + 1, "entry {first} is the first one, but only {acked} were acknowledged");
        }
        for after in first_readable(&segments)..=told.len() {
            assert_eq!(all_of(&mut Cursor::after(folder, after as u64).unwrap()), told[after..]);
        }

        // The host is killed in the middle of a write: what it had written stands, and what was torn is not there.
        let piece_of_last = *segments.pieces.back().unwrap();
        let size = segments.journal.end();
        drop(segments);
        let kept = cut.index(usize::try_from(size).unwrap() + 1) as u64;
        let file = fs::OpenOptions::new().write(true).open(piece(folder, piece_of_last)).unwrap();
        file.set_len(kept).unwrap();
        let stands = |(piece, end): &&(u64, u64)| *piece < piece_of_last || *end <= kept;
        let whole = ends.iter().take_while(stands).count();
        for after in acked..=told.len() {
            match Cursor::after(folder, after as u64) {
                Ok(mut cursor) => assert_eq!(all_of(&mut cursor), told[after..whole]),
                Err(error) => assert!(
                    after > whole && matches!(error, HostError::Gap { .. }),
                    "after entry {after} of {whole}: {error}"
                ),
            }
        }
    }
}

/// After which entry reading can begin, at the earliest.
fn first_readable(segments: &Segments) -> usize {
    segments.first() as usize - 1
}
