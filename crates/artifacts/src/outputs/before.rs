//! What lay in the expected folders before a run.
//!
//! There a file's times tell whether it was written in the run. But changed rights, or a second name,
//! move the attribute time as moving a file in does; only who knows what was there can tell them apart.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use threadline_files::{Access, Durability, Reason, Root, Stamp};

use super::scan::{self, Seen};
use crate::{
    Error,
    clock::{now_ns, settled},
    dirs::ExpectedDirs,
    skip::{NOTES, collects_folder},
};

const NAME: &str = "expected.json";
/// So many files are noted, and no more: a run does not wait for it. What is not noted is judged by its
/// times.
const MOST: usize = 10_000;
const MOST_BYTES: u64 = 64 << 20;

/// Files of expected folders, by their paths in the workspace.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Before(BTreeMap<String, State>);

/// How a file was: another content would show in it, other rights do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    ino: u64,
    size: u64,
    mtime: i64,
}

impl State {
    fn of(stamp: &Stamp) -> Self {
        Self {
            ino: stamp.ino,
            size: stamp.size,
            mtime: stamp.mtime_ns,
        }
    }
}

impl Before {
    /// Looks at the folders as they are now.
    pub(super) fn look(workspace: &Root, dirs: &ExpectedDirs) -> Self {
        let now = now_ns();
        let mut files = BTreeMap::new();
        for dir in dirs.usable(&mut Vec::new()) {
            let Ok(folder) = workspace.open_dir(dir.as_str()) else {
                continue;
            };
            scan::each(&folder, MOST, collects_folder, |seen| {
                // One that was written just now could be written again and look the same.
                if let Seen::File(path, stamp) = seen
                    && settled(&stamp, now)
                    && files.len() < MOST
                {
                    files.insert(format!("{dir}/{path}"), State::of(&stamp));
                }
            });
        }
        Self(files)
    }

    /// Notes it in a scope. Where nothing was, nothing is noted.
    pub(super) fn keep(&self, scope_dir: &Root) -> Result<(), Error> {
        if self.0.is_empty() {
            return Ok(());
        }
        // What cannot be noted, or is lost by a crash, is only not known.
        let Ok(text) = serde_json::to_vec(self) else {
            return Ok(());
        };
        let notes = scope_dir.open_dir(NOTES)?;
        let staged = notes.stage(&mut text.as_slice(), Access::Shared, Durability::Later)?;
        staged.publish(&notes, NAME)?;
        Ok(())
    }

    /// What was noted in a scope. A note that is gone or damaged (agents tidy up) says nothing.
    pub(super) fn read(scope_dir: &Root) -> Result<Self, Error> {
        match scope_dir.read_limited(format!("{NOTES}/{NAME}"), MOST_BYTES) {
            Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_default()),
            Err(e) if e.reason() == Reason::NotFound => Ok(Self::default()),
            Err(e) => Err(e.into()),
        }
    }

    /// Whether a file of the workspace was there, with the content that it has now.
    pub(super) fn holds(&self, path: &str, stamp: &Stamp) -> bool {
        self.0.get(path) == Some(&State::of(stamp))
    }
}
