//! Digests that outlive a process, so that listing an unchanged scope reads no contents.
//!
//! One file per run among its notes (see [`notes`](crate::notes)): a listing loads what it needs and
//! nothing else, retention takes it away with the run, and a damaged one costs one run one reading.
//!
//! Records are held in the order of device and inode, so that each is found without an index of them.
//!
//! A digest is known by device, inode, size and both times of the file it was taken from, and kept
//! only if those times would show a change made since ([`settled`]). An entry is only as good as its
//! file is private, so bytes are never *delivered* on its word: on it a delivery may begin
//! ([`promised`](crate::promised)), not end. What a forged entry can do is to list a digest that no
//! reading will then confirm.

use std::{
    hash::Hasher as Mixing,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use rayon::slice::ParallelSliceMut as _;
use threadline_contract::{RunId, SessionKey, Sha256};
use threadline_files::{Access, Durability, Reason, Root, Stamp};

use crate::{Error, Workspace, clock::settled, notes};

const NAME: &str = "digests";
const MAGIC: &[u8; 8] = b"tl-dig\0\x02";
/// Files that are remembered per run: 20 MB on disk. A run with more has its rest hashed each time.
const MOST: usize = 256 * 1024;
/// A record with the longest type that can be written.
const RECORD: usize = 5 * 8 + 32 + 1 + u8::MAX as usize;
const TRAILER: usize = 8;

/// What is known about the bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub sha256: Sha256,
    /// What they are, where the file's name does not say. Shared: there are many files and few types.
    pub content_type: Option<Arc<str>>,
}

/// Inode numbers are spread well enough, and nobody can choose them: a multiplication does.
#[derive(Default)]
pub(crate) struct Mix(u64);

impl Mixing for Mix {
    fn finish(&self) -> u64 {
        // The high bits are mixed best, and tables look at the low ones.
        self.0 ^ (self.0 >> 32)
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(26) ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// The digests of one run's files, as many as are remembered.
#[derive(Debug, Default)]
pub(crate) struct Digests {
    /// By device and inode: a file has one state at a time.
    known: Vec<(Stamp, Known)>,
    /// Which of them a listing came upon.
    there: Vec<AtomicBool>,
    learned: Mutex<Vec<(Stamp, Known)>>,
}

impl Digests {
    /// What earlier listings left. Whatever is wrong with it, the listing goes on without.
    pub(crate) fn load(ws: &Workspace, session: &SessionKey, run: &RunId) -> Self {
        let most = (MAGIC.len() + 8 + MOST * RECORD + TRAILER) as u64;
        let bytes = match ws.notes(session, run) {
            Ok(Some(notes)) => notes::read(&notes, NAME, most),
            Ok(None) => Ok(None),
            Err(e) => Err(e),
        };
        let known = match bytes {
            Ok(None) => Vec::new(),
            Ok(Some(bytes)) => parse(&bytes).unwrap_or_else(|| {
                tracing::warn!(run.id = %run, "The digests kept for run {run} are damaged; its files are read anew");
                Vec::new()
            }),
            Err(error) => {
                tracing::warn!(run.id = %run, %error, "The digests kept for run {run} cannot be read ({error}); its files are read anew");
                Vec::new()
            }
        };
        Self::of(known)
    }

    fn of(mut known: Vec<(Stamp, Known)>) -> Self {
        known.par_sort_unstable_by_key(|(stamp, _)| key(stamp));
        Self {
            there: known.iter().map(|_| AtomicBool::new(false)).collect(),
            known,
            ..Self::default()
        }
    }

    /// What a file that looks like this holds. It is there, so what is known of it is kept.
    pub(crate) fn get(&self, stamp: &Stamp) -> Option<&Known> {
        let at = self
            .known
            .binary_search_by_key(&key(stamp), |(s, _)| key(s));
        let at = at.ok()?;
        let (_, known) = self.known.get(at).filter(|(seen, _)| seen == stamp)?;
        self.there.get(at)?.store(true, Ordering::Relaxed);
        Some(known)
    }

    /// What a file that looks like this holds, for who asks once.
    pub(crate) fn find(&self, stamp: &Stamp) -> Option<&Known> {
        let found = self.known.iter().find(|(seen, _)| seen == stamp)?;
        Some(&found.1)
    }

    /// Remembers what was read of a file, if its stamp would have shown a change since the reading
    /// began.
    pub(crate) fn learn(&self, stamp: Stamp, began_ns: i64, known: Known) {
        if settled(&stamp, began_ns) {
            let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
            if learned.len() < MOST {
                learned.push((stamp, known));
            }
        }
    }

    /// Keeps what is now known about the files that are there. A disk that refuses costs the next listing
    /// its time, not this one its result.
    pub(crate) fn keep(mut self, ws: &Workspace, session: &SessionKey, run: &RunId) {
        let learned = std::mem::take(&mut self.learned);
        let learned = learned.into_inner().unwrap_or_else(PoisonError::into_inner);
        if learned.is_empty() {
            return;
        }
        let there = self.known.iter().zip(&self.there);
        let there = there.filter(|(_, there)| there.load(Ordering::Relaxed));
        let kept: Vec<_> = learned
            .iter()
            .chain(there.map(|(record, _)| record))
            .map(|(stamp, known)| (stamp, known))
            .take(MOST)
            .collect();
        if let Err(error) = save(ws, session, run, &kept) {
            tracing::warn!(run.id = %run, %error, "The digests of run {run} could not be kept ({error})");
        }
    }
}

fn key(stamp: &Stamp) -> (u64, u64) {
    (stamp.dev, stamp.ino)
}

impl Workspace {
    /// Forgets the digests that listings of a run left behind: the next one reads every file again.
    pub fn forget_digests(&self, session: &SessionKey, run: &RunId) -> Result<(), Error> {
        match self.notes(session, run)?.map(|n| n.remove_file(NAME)) {
            Some(Err(e)) if e.reason() != Reason::NotFound => Err(e.into()),
            _ => Ok(()),
        }
    }

    /// How many bytes of file contents were read so far, by this workspace and its clones, to list
    /// and to check artifacts.
    pub fn content_bytes_read(&self) -> u64 {
        self.verified.meter.total()
    }
}

/// Counts bytes.
#[derive(Debug, Default)]
pub(crate) struct Meter(AtomicU64);

impl Meter {
    pub(crate) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
    fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

fn save(
    ws: &Workspace,
    session: &SessionKey,
    run: &RunId,
    kept: &[(&Stamp, &Known)],
) -> Result<(), Error> {
    let notes = ws.make_notes(session, run)?;
    // Alone: so whatever temporary file lies here is a dead process's.
    let _alone = notes.lock()?;
    sweep(&notes)?;
    let text = render(kept);
    // Not worth waiting for the disk: a torn one is noticed and costs one reading.
    let mut staging = notes.begin(Access::Shared, Durability::Later)?;
    staging.write(&text)?;
    staging.publish(&notes, NAME)?;
    Ok(())
}

/// Removes what killed writers left in a folder that the caller holds locked.
pub(crate) fn sweep(notes: &Root) -> Result<(), Error> {
    for entry in notes.entries("")? {
        if threadline_files::is_temporary(&entry.name) {
            match notes.remove_file(&entry.name) {
                Err(e) if e.reason() != Reason::NotFound => return Err(e.into()),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Tells damage, not malice: who can write the file can write a right sum as well. (See above for
/// why that does not matter.) Every step can be undone, so no single change is lost on the way.
fn checksum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut mix = Mix(bytes.len() as u64);
    for word in words {
        mix.write_u64(u64::from_le_bytes(*word));
    }
    mix.write(rest);
    mix.0
}

/// Magic, user, count, records, and the sum of all that. Another user may be refused files that
/// this one could read, so its entries are not ours.
fn render(kept: &[(&Stamp, &Known)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(kept.len() * 80 + 64);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&threadline_files::user().to_le_bytes());
    // No more than MOST, so it fits.
    out.extend_from_slice(&u32::try_from(kept.len()).unwrap_or(0).to_le_bytes());
    for (stamp, known) in kept {
        for number in [stamp.dev, stamp.ino, stamp.size] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for time in [stamp.mtime_ns, stamp.ctime_ns] {
            out.extend_from_slice(&time.to_le_bytes());
        }
        out.extend_from_slice(&known.sha256.0);
        let kind = known.content_type.as_deref().unwrap_or_default().as_bytes();
        let kind = kind.get(..kind.len().min(u8::MAX.into())).unwrap_or(kind);
        out.push(u8::try_from(kind.len()).unwrap_or(0));
        out.extend_from_slice(kind);
    }
    let sum = checksum(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

fn parse(bytes: &[u8]) -> Option<Vec<(Stamp, Known)>> {
    let (body, trailer) = bytes.split_at_checked(bytes.len().checked_sub(TRAILER)?)?;
    if checksum(body).to_le_bytes() != *trailer {
        return None;
    }
    let mut rest = body.strip_prefix(MAGIC)?;
    let user = u32::from_le_bytes(take(&mut rest)?);
    let count = u32::from_le_bytes(take(&mut rest)?) as usize;
    if user != threadline_files::user() || count > MOST {
        return None;
    }
    let mut kinds: Vec<Arc<str>> = Vec::new();
    let mut known = Vec::with_capacity(count);
    for _ in 0..count {
        let mut number = || take(&mut rest).map(u64::from_le_bytes);
        let (dev, ino, size) = (number()?, number()?, number()?);
        let mut time = || take(&mut rest).map(i64::from_le_bytes);
        let stamp = Stamp {
            dev,
            ino,
            size,
            mtime_ns: time()?,
            ctime_ns: time()?,
        };
        let sha256 = Sha256(take(&mut rest)?);
        let [length] = take(&mut rest)?;
        let (kind, after) = rest.split_at_checked(length.into())?;
        rest = after;
        let kind = std::str::from_utf8(kind).ok()?;
        let content_type = (!kind.is_empty()).then(|| shared(kind, &mut kinds));
        let what = Known {
            sha256,
            content_type,
        };
        known.push((stamp, what));
    }
    rest.is_empty().then_some(known)
}

/// The one copy of a text. Few are different, and files of a kind stand together.
fn shared(text: &str, all: &mut Vec<Arc<str>>) -> Arc<str> {
    if let Some(known) = all.iter().rev().take(64).find(|known| ***known == *text) {
        return Arc::clone(known);
    }
    let new: Arc<str> = text.into();
    all.push(Arc::clone(&new));
    new
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*head)
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
