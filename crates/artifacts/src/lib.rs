//! From a workspace folder to verified, signed, readable artifacts.
//!
//! A run's life, as seen from here:
//!
//! 1. [`Workspace::prepare`] makes the run's scope `tasks/<session>/<run>` and stamps it with its
//!    owner, so that no other key can ever use the folder.
//! 2. [`Workspace::list_before`] notes what the work folder looks like before the turn.
//! 3. The agent works. It may write into the scope itself.
//! 4. [`Workspace::collect`] copies into the scope what the turn provably wrote elsewhere.
//! 5. [`Workspace::export`] lists the scope: path, size, digest, type; and what was left out, why.
//! 6. [`KeyRing::sign`] turns an item into a link's reference, [`KeyRing::verify`] back.
//! 7. [`Workspace::read`] serves the bytes, after checking that they are still the signed ones.
//!
//! Everything blocks; callers on an async runtime use its blocking threads.
//!
//! **Invariants.** No file outside the scope is ever listed or read as an artifact. No symlink is
//! followed. Nothing is left out without a reason. Every step can be repeated after a kill at any
//! instruction and ends in the same state.

mod cache;
mod clock;
mod collect;
pub mod content_type;
pub mod deliverables;
mod diff;
mod error;
mod evidence;
mod export;
mod keys;
mod listing;
mod measure;
mod notes;
mod omissions;
mod read;
mod reference;
mod skip;
mod verified;
mod work;
mod workspace;

pub use collect::{Change, ChangeKind, ChangeSummary, CollectOptions, Collected, Copied};
pub use error::Error;
pub use evidence::Evidence;
pub use export::{Export, ExportOptions};
pub use keys::{Key, KeyRing, LINK_SECONDS};
pub use listing::Listed;
pub use omissions::Omissions;
pub use read::{Chunk, MAX_CHUNK, Reader};
pub use reference::{ArtifactIdentity, RefError};
pub use work::WorkFolder;
pub use workspace::{Prepared, Workspace};

/// The largest file that is taken, unless the caller says otherwise.
pub const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024 * 1024;

/// How many folders deep a file may lie.
pub const MAX_DEPTH: usize = 256;
