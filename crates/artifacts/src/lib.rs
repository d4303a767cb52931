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
//! 8. [`Workspace::deliver`] lists all that the run delivered and notes it in its receipt, however much it
//!    is; [`verify()`] holds a synced folder against it, [`Workspace::plan_removal`] and [`Workspace::remove`] make room again.
//!
//! Everything blocks; callers on an async runtime use its blocking threads.
//!
//! **Invariants.** No file outside the scope is ever listed or read as an artifact. No symlink is
//! followed. Nothing is left out without a reason. Every step can be repeated after a kill at any
//! instruction and ends in the same state.

mod cache;
mod claims;
mod clock;
mod collect;
mod constraints;
pub mod content_type;
mod copy;
pub mod deliverables;
mod delivery;
mod diff;
mod dirs;
mod error;
mod evidence;
mod export;
mod file_list;
mod ignore;
mod keys;
mod listing;
mod measure;
mod notes;
mod omissions;
mod outputs;
mod page;
mod peer;
mod promised;
mod read;
mod receipt;
mod reference;
mod resolve;
mod restore;
mod retention;
mod seal;
mod service;
mod signer;
mod skip;
mod verified;
mod verify;
mod window;
mod work;
mod workspace;

pub use claims::Ledger;
pub use collect::{Change, ChangeKind, ChangeSummary, CollectOptions, Collected, Copied};
pub use constraints::{ConstraintGaps, Constraints};
pub use delivery::Delivery;
pub use error::Error;
pub use evidence::Evidence;
pub use export::{Export, ExportOptions, ScopeStyle};
pub use file_list::{FileList, Files};
pub use keys::{Key, KeyRing, LINK_SECONDS};
pub use listing::Listed;
pub use omissions::Omissions;
pub use outputs::{OutputRoot, Testimony};
pub use promised::{Promised, Proof};
pub use read::{Chunk, MAX_CHUNK, Reader};
pub use receipt::RECEIPT;
pub use reference::{ArtifactIdentity, RefError};
pub use resolve::{Resolved, WorkspaceSources};
pub use retention::{
    IsLive, IsWanted, Kept, KeptFor, Removal, RemovalPlan, RemovedFor, Retention, ScopeFacts,
    Tombstone,
};
pub use service::{GcResult, MAX_PAGE, Service, ServiceSettings};
pub use signer::Signer;
pub use verify::{Checked, Finding, Known, Progress, Refused, Report, VerifyOptions, What, verify};
pub use work::WorkFolder;
pub use workspace::{DATA_FOLDER_MARK, Prepared, Workspace};

/// The largest file that is taken, unless the caller says otherwise.
pub const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024 * 1024;

/// How many folders deep a file may lie.
pub const MAX_DEPTH: usize = 256;
