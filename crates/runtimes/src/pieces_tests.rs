use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures_util::StreamExt as _;
use pretty_assertions::assert_eq;

use super::*;

/// Content of which some is in memory, and some is not.
struct Content {
    bytes: Vec<u8>,
    held: Range<u64>,
    waited: AtomicUsize,
}

impl Content {
    fn new(size: usize, held: Range<u64>) -> Arc<Self> {
        Arc::new(Self {
            bytes: (0..size).map(|n| (n % 251) as u8).collect(),
            held,
            waited: AtomicUsize::new(0),
        })
    }

    fn copy(&self, buffer: &mut [u8], offset: u64, most: usize) -> usize {
        let rest = &self.bytes[self.bytes.len().min(offset as usize)..];
        let got = rest.len().min(buffer.len()).min(most);
        buffer[..got].copy_from_slice(&rest[..got]);
        got
    }
}

impl Source for Content {
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Fault> {
        self.waited.fetch_add(1, Ordering::SeqCst);
        Ok(self.copy(buffer, offset, usize::MAX))
    }

    fn read_held(&self, buffer: &mut [u8], offset: u64) -> Result<Option<usize>, Fault> {
        if !self.held.contains(&offset) {
            return Ok(None);
        }
        let most = (self.held.end - offset) as usize;
        Ok(Some(self.copy(buffer, offset, most)))
    }
}

/// Says what it saw, slowly.
struct Seen {
    bytes: Vec<u8>,
    pace: Duration,
    verdict: Result<(), Fault>,
    told: Arc<Mutex<Vec<u8>>>,
}

impl Check for Seen {
    fn push(&mut self, bytes: &[u8]) {
        std::thread::sleep(self.pace);
        self.bytes.extend_from_slice(bytes);
    }

    fn finish(self) -> Result<(), Fault> {
        *self.told.lock().unwrap() = self.bytes;
        self.verdict
    }
}

async fn all(mut pieces: Pieces) -> (Vec<u8>, Option<Fault>) {
    let mut bytes = vec![];
    while let Some(piece) = pieces.next().await {
        match piece {
            Ok(piece) => bytes.extend_from_slice(&piece),
            Err(fault) => return (bytes, Some(fault)),
        }
    }
    (bytes, None)
}

#[tokio::test]
async fn ranges_come_whole_whatever_is_in_memory() {
    let size = 3 * PIECE + 17;
    let end = size as u64;
    for held in [0..0, 0..end, 0..1000, 5000..(PIECE as u64 + 9)] {
        for range in [0..end, 0..1, 999..1001, (end - 1)..end, 7..7] {
            let content = Content::new(size, held.clone());
            let want = content.bytes[range.start as usize..range.end as usize].to_vec();
            let got = all(of_source(content, range.clone())).await;
            assert!(got == (want, None), "{range:?} with {held:?} in memory");
        }
    }
    let content = Content::new(size, 0..end);
    all(of_source(content.clone(), 0..end)).await;
    assert_eq!(content.waited.load(Ordering::SeqCst), 0, "no thread waits");
}

#[tokio::test]
async fn a_file_that_ends_early_is_an_error() {
    for held in [0..0, 0..99] {
        let content = Content::new(10, held);
        let (bytes, fault) = all(of_source(content, 0..11)).await;
        assert_eq!(bytes.len(), 10);
        assert_eq!(fault.map(|f| f.code), Some(Code::ArtifactChanged));
    }
}

#[tokio::test]
async fn the_end_is_held_back_until_all_of_it_was_seen_and_judged() {
    let size = 3 * WAITING * PIECE + 5;
    let refusal = Fault::new(Code::ArtifactHashMismatch, "no");
    for pace in [Duration::ZERO, Duration::from_millis(2)] {
        for verdict in [Ok(()), Err(refusal.clone())] {
            let content = Content::new(size, 0..u64::MAX);
            let want = content.bytes.clone();
            let told = Arc::default();
            let seen = Seen {
                bytes: vec![],
                pace,
                verdict: verdict.clone(),
                told: Arc::clone(&told),
            };
            let size = size as u64;
            let (bytes, fault) = all(checked(of_source(content, 0..size), size, seen)).await;
            assert!(*told.lock().unwrap() == want, "each byte once, in order");
            assert_eq!(fault, verdict.clone().err());
            match verdict {
                Ok(()) => assert!(bytes == want),
                Err(_) => assert!(bytes.len() < want.len(), "a wrong file was whole"),
            }
        }
    }
}

#[tokio::test]
async fn buffers_are_used_again_and_only_when_nobody_holds_them() {
    let size = 64 * PIECE;
    let content = Content::new(size, 0..u64::MAX);
    let mut pieces = of_source(content.clone(), 0..size as u64);
    let first = pieces.next().await.unwrap().unwrap();
    let mut places = std::collections::HashSet::new();
    while let Some(piece) = pieces.next().await {
        places.insert(piece.unwrap().as_ptr());
    }
    assert_eq!(places.len(), 1, "one buffer was enough");
    assert!(*first == content.bytes[..PIECE], "what is held stays");
}
