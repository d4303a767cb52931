//! Files whose bytes this process hashed itself and whose stamp would show a change: they need not be
//! hashed again.

use std::{
    collections::{HashMap, VecDeque},
    hash::BuildHasherDefault,
    sync::{Mutex, PoisonError},
};

use threadline_contract::Sha256;
use threadline_files::Stamp;

use crate::{
    cache::{Meter, Mix},
    clock::settled,
};

/// How many are remembered; the oldest go first.
const MOST: usize = 16 * 1024;
/// Parts with a lock each, so that threads that hash many small files do not wait for each other.
const PARTS: usize = 16;

/// Digests by stamp, in memory, bounded.
#[derive(Debug, Default)]
pub(crate) struct Verified {
    parts: [Mutex<Part>; PARTS],
    /// What was read to find them out.
    pub meter: Meter,
}

#[derive(Debug, Default)]
struct Part {
    /// By device and inode: a file has one state at a time.
    known: HashMap<(u64, u64), (Stamp, Sha256), BuildHasherDefault<Mix>>,
    order: VecDeque<(u64, u64)>,
}

impl Verified {
    /// What a file with this stamp was found to hold.
    pub(crate) fn get(&self, stamp: &Stamp) -> Option<Sha256> {
        self.part(stamp, |part| {
            let (seen, sha256) = part.known.get(&(stamp.dev, stamp.ino))?;
            (seen == stamp).then_some(*sha256)
        })
    }

    /// Remembers a digest, unless the file changed so shortly before it was read that a further
    /// change might not show.
    pub(crate) fn put(&self, stamp: Stamp, sha256: Sha256, began_ns: i64) {
        if !settled(&stamp, began_ns) {
            return;
        }
        self.part(&stamp, |part| {
            let key = (stamp.dev, stamp.ino);
            if part.known.insert(key, (stamp, sha256)).is_some() {
                return;
            }
            part.order.push_back(key);
            if part.order.len() > MOST / PARTS
                && let Some(oldest) = part.order.pop_front()
            {
                part.known.remove(&oldest);
            }
        });
    }

    fn part<T>(&self, stamp: &Stamp, work: impl FnOnce(&mut Part) -> T) -> T {
        // A remainder is always in range.
        let part = &self.parts[(stamp.ino % PARTS as u64) as usize];
        // A panic elsewhere cannot leave a wrong digest behind: each is put in whole.
        work(&mut part.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn stamp(ino: u64, mtime_ns: i64, ctime_ns: i64) -> Stamp {
        Stamp {
            dev: 1,
            ino,
            size: 3,
            mtime_ns,
            ctime_ns,
        }
    }

    #[test]
    fn a_fresh_file_is_not_trusted() {
        let cache = Verified::default();
        let now = 100 * SECOND;
        let sha = Sha256([7; 32]);
        let cases = [
            (stamp(1, 97 * SECOND, 97 * SECOND), true),
            (stamp(2, 99 * SECOND, 90 * SECOND), false),
            (stamp(3, 90 * SECOND, 99 * SECOND), false),
            (stamp(4, 98 * SECOND, 98 * SECOND), false),
            (stamp(5, 200 * SECOND, 90 * SECOND), false),
        ];
        for (stamp, kept) in cases {
            cache.put(stamp, sha, now);
            assert_eq!(cache.get(&stamp), kept.then_some(sha), "{stamp:?}");
        }
        assert_eq!(cache.get(&stamp(1, 97 * SECOND, 96 * SECOND)), None);
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_goes_first() {
        let cache = Verified::default();
        let total = MOST as u64 + 10;
        for ino in 0..total {
            cache.put(stamp(ino, 0, 0), Sha256([1; 32]), 100 * SECOND);
        }
        let sizes = cache.parts.iter().map(|part| {
            let part = part.lock().unwrap();
            assert_eq!(part.known.len(), part.order.len());
            part.known.len()
        });
        assert_eq!(sizes.sum::<usize>(), MOST);
        assert_eq!(cache.get(&stamp(9, 0, 0)), None);
        assert!(cache.get(&stamp(10, 0, 0)).is_some());
    }
}
