//! Where a host keeps its things: one folder per session (0700, everything in it 0600).
//!
//! | name | is |
//! | --- | --- |
//! | `lock` | held by the host as long as it lives |
//! | `state.json` | who it is, and how it ended |
//! | `frames/` | the journal |
//! | `socket` | where it listens; gone once the host and all that its agent started have ended |
//! | `stderr.log`, `stderr.old.log` | what the agent wrote to standard error, the last of it |
//! | `family` | who descends from the host, noted while it lives |
//! | `host.log` | what the host itself could tell nobody else |
//!
//! Beside the sessions' folders lies `folders/`, with a lock for each work folder. The agent and what it
//! starts hold it too, so that it is free only when none of them is left.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use threadline_files::{Access, Reason, Root, atomic};

use crate::{Ended, HostError, ProcessId};

/// The largest state file that is read.
const STATE_MOST: u64 = 1024 * 1024;
/// The longest path of a socket, without the zero at its end.
const SOCKET_MOST: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// A host as it described itself when it had started its agent, and when it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The version of the socket's protocol that it speaks.
    pub version: u32,
    /// The session.
    pub session: String,
    /// Which life of the session's host this is.
    pub boot: String,
    /// The host.
    pub host: ProcessId,
    /// The agent, which leads its own process group and session.
    pub agent: ProcessId,
    /// What was started.
    pub command: Vec<String>,
    /// Where.
    pub folder: PathBuf,
    /// When, in milliseconds since 1970.
    pub began: i64,
    /// How it ended, once it has.
    pub ended: Option<Ended>,
    /// Its last entry, once it has ended.
    pub last: Option<u64>,
    /// What a bridge ended of what it left, where it was killed. Absent: nobody has looked yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleaned_up: Option<CleanedUp>,
}

/// What became of the processes that a killed host left: none of them is there any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanedUp {
    /// When they were gone, in milliseconds since 1970.
    pub at: i64,
    /// How many had to be killed.
    pub killed: usize,
}

impl State {
    /// Whether nothing that its agent started can still be there, although it never said how it ended.
    pub(crate) fn is_clean(&self, system: &str) -> bool {
        self.cleaned_up.is_some() || self.agent.system != system
    }
}

/// The folder of one session's host.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    folder: PathBuf,
}

impl Place {
    /// The folder of a session below the folder of all hosts.
    pub(crate) fn of(root: &Path, session: &str) -> Self {
        let digest = Sha256::digest(session.as_bytes());
        let name = hex::encode(digest.get(..8).unwrap_or_default());
        Self::at(root.join(name))
    }

    pub(crate) fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.folder.join("lock")
    }

    pub(crate) fn frames(&self) -> PathBuf {
        self.folder.join("frames")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join("host.log")
    }

    fn state(&self) -> PathBuf {
        self.folder.join("state.json")
    }

    /// The lock of a work folder. The folder itself is the user's, and gets no file of ours.
    pub(crate) fn folder_lock(&self, work: &Root) -> Result<PathBuf, HostError> {
        let stamp = work.stat("")?.stamp;
        let beside = self.folder.parent().unwrap_or(&self.folder).join("folders");
        atomic::create_dir_all(&beside, Access::Private)?;
        Ok(beside.join(format!("{:x}-{:x}.lock", stamp.dev, stamp.ino)))
    }

    pub(crate) fn read_state(&self) -> Result<Option<State>, HostError> {
        let bytes = match atomic::read_limited(self.state(), STATE_MOST) {
            Ok(bytes) => bytes,
            Err(e) if matches!(e.reason(), Reason::NotFound | Reason::NotDirectory) => {
                return Ok(None);
            }
            Err(e) => return Err(e.into()),
        };
        let state = serde_json::from_slice(&bytes).map_err(|e| HostError::Unreachable {
            why: format!("{} is not understood ({e})", self.state().display()),
        })?;
        Ok(Some(state))
    }

    pub(crate) fn write_state(&self, state: &State) -> Result<(), HostError> {
        let bytes = serde_json::to_vec_pretty(state)
            .map_err(|e| HostError::io("The host's state could not be written", e.into()))?;
        atomic::write(self.state(), &bytes, Access::Private)?;
        Ok(())
    }

    /// Removes what an earlier host left, but not the lock.
    pub(crate) fn clear(&self) -> Result<(), HostError> {
        let root = Root::open(&self.folder)?;
        for entry in root.entries("")? {
            if entry.name == "lock" || entry.name == "host.log" {
                continue;
            }
            match entry.kind {
                threadline_files::FileKind::Dir => root.remove_dir_all(&entry.name)?,
                _ => root.remove_file(&entry.name)?,
            }
        }
        Ok(())
    }

    /// Whether there is a socket. A host that has ended, with all that its agent started, has removed its own:
    /// so where there is none, nothing is left running, and nothing needs to be read to know that.
    pub(crate) fn has_socket(&self) -> bool {
        self.folder.join("socket").symlink_metadata().is_ok()
    }

    /// Removes the socket of a host that is gone with all that its agent started.
    pub(crate) fn remove_socket(&self) -> Result<(), HostError> {
        match Root::open(&self.folder)?.remove_file("socket") {
            Err(e) if e.reason() != Reason::NotFound => Err(e.into()),
            _ => Ok(()),
        }
    }

    /// Does something with a path of the socket that is short enough for the system.
    pub(crate) fn with_socket<T>(
        &self,
        act: impl FnOnce(&Path) -> std::io::Result<T>,
    ) -> Result<T, HostError> {
        let path = self.folder.join("socket");
        let failed = |e| HostError::io(path.display().to_string(), e);
        if path.as_os_str().len() <= SOCKET_MOST {
            return act(&path).map_err(failed);
        }
        if !cfg!(target_os = "linux") {
            return Err(HostError::PathTooLong { path });
        }
        // Through the folder, held open: however long its path is, this one is short.
        use std::os::fd::AsRawFd as _;
        let held = std::fs::File::open(&self.folder).map_err(failed)?;
        act(Path::new(&format!(
            "/proc/self/fd/{}/socket",
            held.as_raw_fd()
        )))
        .map_err(failed)
    }
}

/// Milliseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}
