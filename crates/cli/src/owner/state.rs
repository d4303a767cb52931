//! Who owns a data folder: one process, which holds its lock and says how to reach it.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use threadline_contract::{Code, Fault, Millis};
use threadline_files::{Access, Lock, LockError, Reason, atomic};

use super::{Places, storage};
use crate::config::Config;

/// This program's version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The file is a few lines; anything larger is not ours.
const LARGEST: u64 = 64 << 10;

/// How an owner runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// Started by a command that needed it; ends by itself.
    Background,
    /// `threadline up`.
    Up,
    /// `threadline serve`.
    Serve,
}

/// `owner.json`: written when the owner is ready, removed when it goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct State {
    /// Its process.
    pub(crate) pid: u32,
    /// Where it answers.
    pub(crate) url: String,
    /// What it is.
    pub(crate) version: String,
    /// Since when.
    pub(crate) started_at: Millis,
    /// How it runs.
    pub(crate) mode: Mode,
    /// What it was started with: each setting's digest, so that a command can tell which differ.
    #[serde(default)]
    pub(crate) settings: BTreeMap<String, String>,
}

/// What is known about a data folder's owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// There is none.
    Nobody,
    /// Somebody has the lock and is not ready yet, or is on its way out.
    Busy {
        /// Who, if it has said so yet.
        pid: Option<u32>,
    },
    /// It is ready.
    Ready(Box<State>),
}

/// Looks who owns the folder. The lock is asked, not the file: a file can be left over, and what
/// answers at its address could be anybody, who must not be sent our token.
pub(crate) fn look(places: &Places) -> Result<Owner, Fault> {
    match Lock::try_acquire(places.lock()) {
        Ok(lock) => {
            // Nobody has it, so nobody can be reached by what the file says.
            let removed = std::fs::remove_file(places.state());
            drop(lock);
            match removed {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    let path = places.state();
                    Err(Fault::new(
                        Code::StorageReadOnly,
                        format!("{}: {e}.", path.display()),
                    ))
                }
                _ => Ok(Owner::Nobody),
            }
        }
        Err(LockError::Held { pid, .. }) => Ok(match (read(places)?, pid) {
            (Some(state), Some(pid)) if state.pid == pid => Owner::Ready(Box::new(state)),
            _ => Owner::Busy { pid },
        }),
        Err(LockError::Files(e)) if e.reason() == Reason::NotFound => Ok(Owner::Nobody),
        Err(LockError::Files(e)) => Err(storage(e)),
    }
}

/// What the file says; `None` when there is none, or it is half a file of another version.
fn read(places: &Places) -> Result<Option<State>, Fault> {
    match atomic::read_limited(places.state(), LARGEST) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
        Err(e) if e.reason() == Reason::NotFound => Ok(None),
        Err(e) => Err(storage(e)),
    }
}

/// How often an owner looks whether it can still be found.
const FOUND: Duration = Duration::from_secs(1);

impl State {
    /// Writes the file anew whenever somebody damaged or removed it: without it nobody finds us.
    pub(crate) async fn keep(&self, places: &Places) {
        loop {
            tokio::time::sleep(FOUND).await;
            if read(places).ok().flatten().as_ref() != Some(self)
                && let Err(fault) = self.write(places)
            {
                tracing::warn!("How to reach this process cannot be written down: {fault}");
            }
        }
    }

    /// Says how to reach us.
    pub(crate) fn write(&self, places: &Places) -> Result<(), Fault> {
        let text = serde_json::to_vec_pretty(self)
            .map_err(|e| Fault::new(Code::Internal, e.to_string()))?;
        atomic::write(places.state(), &text, Access::Private).map_err(storage)?;
        Ok(())
    }

    /// The settings in which a command and this owner differ.
    pub(crate) fn differs(&self, config: &Config, token: &str) -> Vec<String> {
        let wanted = settings(config, token);
        let other = |(key, digest): (&String, &String)| {
            (self.settings.get(key) != Some(digest)).then(|| key.clone())
        };
        wanted.iter().filter_map(other).collect()
    }
}

impl State {
    /// In what it differs from what a command would start: its settings, and its version.
    pub(crate) fn outdated(&self, config: &Config, token: &str) -> Vec<String> {
        let mut other = self.differs(config, token);
        if self.version != VERSION {
            other.insert(
                0,
                format!("version ({}, and this is {VERSION})", self.version),
            );
        }
        other
    }

    /// Who it is, for people.
    pub(crate) fn who(&self) -> String {
        let pid = self.pid;
        match self.mode {
            Mode::Background => format!("The background process ({pid})"),
            Mode::Up => format!("`threadline up` (process {pid})"),
            Mode::Serve => format!("`threadline serve` (process {pid})"),
        }
    }

    /// Says that it runs with other settings.
    pub(crate) fn note(&self, other: &[String]) -> String {
        format!(
            "note: {} runs with another {}. What is set here takes effect when it is started again.",
            self.who(),
            other.join(", ")
        )
    }
}

/// Each setting that the owner acts on, as a digest. Keyed with the token, so that the file gives
/// away no weak secret even if it leaks alone.
pub(crate) fn settings(config: &Config, token: &str) -> BTreeMap<String, String> {
    let digest = |key: &str, value: Option<&str>| {
        let mut hasher = Sha256::new();
        for part in [token, key, value.unwrap_or("\0")] {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        hex::encode(&hasher.finalize()[..8])
    };
    let acted_on = config
        .shown
        .iter()
        .filter(|s| !s.key.starts_with("bridge."));
    acted_on
        .map(|s| (s.key.to_string(), digest(&s.key, s.value.as_deref())))
        .collect()
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
