//! The files that runs leave.

use std::{ops::Range, sync::Arc, time::Duration};

use bytes::Bytes;
use threadline_artifacts::{ArtifactIdentity, FileList, Kept, Removal};
use threadline_contract::{Artifact, EmptyReason, Fault, Omitted, Removed, Sha256, Usage};

use super::{End, Pending, RunRef, TurnPlan};
use crate::pieces::{self, Pieces};

/// The files that runs leave, from the end of a run until they are removed.
pub trait Files: Send + Sync + 'static {
    /// Brings what the ended run made into its scope, on evidence, lists the scope, and writes the
    /// run's receipt. Can be repeated.
    fn collect<'a>(
        &'a self,
        plan: &'a TurnPlan,
        end: &'a End,
    ) -> Pending<'a, Result<Manifest, Fault>>;

    /// Keeps the run's files from being removed until then (seconds since 1970): asked for before
    /// links of that age are given out. Tells when they are gone already.
    fn hold<'a>(
        &'a self,
        run: &'a RunRef,
        until: i64,
    ) -> Pending<'a, Result<Option<Removed>, Fault>>;

    /// Removes the files of old runs, or only says which would go: never those of a run that goes
    /// on, or that links lead to. What stays of each is its receipt. Can be repeated.
    fn make_room(&self, rules: RoomRules) -> Pending<'_, Result<Room, Fault>>;

    /// Opens an artifact whose content is proven to be the one that was exported, or will be before
    /// its end is given ([`ReadAt::pieces`]).
    fn open<'a>(&'a self, artifact: &'a ArtifactIdentity) -> Pending<'a, Result<Body, Fault>>;
}

/// The files of an ended run.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Manifest {
    /// Every artifact.
    pub artifacts: FileList,
    /// Everything that was seen and not taken.
    pub omitted: Vec<Omitted>,
    /// Why there are none.
    pub empty_reason: Option<EmptyReason>,
    /// The digest of the receipt that says so for ever, where one could be written.
    pub receipt: Option<Sha256>,
    /// What the run used, where that is told only after its end.
    pub usage: Option<Usage>,
}

/// Which files may go.
#[derive(Clone)]
pub struct RoomRules {
    /// Those that did not change for so long.
    pub max_age: Option<Duration>,
    /// The oldest, while all together have more bytes.
    pub max_bytes: Option<u64>,
    /// Touch nothing.
    pub dry_run: bool,
    /// How each run stands. Asked where blocking is allowed.
    pub stands: Arc<dyn Fn(&RunRef) -> Stands + Send + Sync>,
}

/// How a run stands, for whoever makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// It has ended.
    Ended,
    /// It goes on, or nobody knows: its files stay.
    GoesOn,
    /// It is not one of those that are looked at.
    NotOurs,
}

/// What making room came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// What is gone, or would be, the oldest first.
    pub removed: Vec<Removal>,
    /// What stays although a rule would have it go.
    pub kept: Vec<Kept>,
    /// Bytes of all that were looked at, afterwards.
    pub bytes_after: u64,
    /// Folders that nobody can tell the owner of. They are left alone.
    pub unknown: u64,
    /// It took so long that the rest was left for the next time.
    pub more: bool,
}

/// An open artifact. Chunks are read on demand, so any size takes constant memory.
pub trait ReadAt: Send + Sync + 'static {
    /// Reads up to `len` bytes at `offset`; an empty answer is the end.
    fn read_at(&self, offset: u64, len: usize) -> Pending<'_, Result<Bytes, Fault>>;

    /// The bytes of a range, which the artifact has, as they are taken. Of a whole artifact that
    /// turns out not to be the exported one, the end is not given.
    fn pieces(self: Box<Self>, range: Range<u64>) -> Pieces {
        pieces::of_reader(self, range)
    }
}

/// An artifact that can be read.
pub struct Body {
    /// What it is.
    pub artifact: Artifact,
    /// Its bytes.
    pub reader: Box<dyn ReadAt>,
}
