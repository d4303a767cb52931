//! What a host is asked to run.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Variables that every agent gets, as far as they are set: what a program needs to find its files, its
/// language and its way to the network. An entry that ends in `*` stands for all that begin so.
pub const ALLOWED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TMPDIR",
    "XDG_*",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];

/// What a host is asked to run, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The session, which has at most one host.
    pub session: String,
    /// The program (a path, or a name to be found on the `PATH` of `env`) and its arguments.
    pub command: Vec<String>,
    /// Where it works. No two agents work in one folder.
    pub folder: PathBuf,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// How long a host stays that has no bridge and whose agent has nothing to do.
    pub idle: Duration,
    /// What a request of the agent's is answered that is open while no turn is, by its method. Nobody would answer
    /// it otherwise. Any other gets an error.
    #[serde(default)]
    pub unattended: BTreeMap<String, Value>,
    /// How many bytes the agent may be ahead of what was acknowledged.
    pub lead_bytes: u64,
    /// How many entries it may be ahead.
    pub lead_entries: usize,
}

impl Spec {
    /// With the usual limits, and nothing in the environment.
    pub fn new(session: impl Into<String>, command: Vec<String>, folder: PathBuf) -> Self {
        Self {
            session: session.into(),
            command,
            folder,
            env: BTreeMap::new(),
            idle: Duration::from_secs(15 * 60),
            unattended: BTreeMap::new(),
            lead_bytes: 64 * 1024 * 1024,
            lead_entries: 65_536,
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let has_nul = |text: &String| text.contains('\0');
        if self.session.is_empty() || self.session.len() > 1_024 {
            return Err("A session's key has 1 to 1024 bytes.".into());
        }
        if self.command.first().is_none_or(String::is_empty) || self.command.iter().any(has_nul) {
            return Err("The command names no program.".into());
        }
        if !self.folder.is_absolute() {
            return Err("The folder's path is not absolute.".into());
        }
        let bad = |(name, value): (&String, &String)| {
            name.is_empty() || name.contains('=') || has_nul(name) || has_nul(value)
        };
        if let Some((name, _)) = self.env.iter().find(|pair| bad(*pair)) {
            return Err(format!(
                "{name:?} cannot be the name of a variable with this value."
            ));
        }
        if self.lead_bytes == 0 || self.lead_entries == 0 {
            return Err("The agent must be allowed some lead.".into());
        }
        Ok(())
    }
}

/// Of these variables, those that an agent gets: [`ALLOWED`] and `more`, which are written in the same
/// way. What is not UTF-8 is left out.
pub fn allowed(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    more: &[impl AsRef<str>],
) -> BTreeMap<String, String> {
    let more: Vec<&str> = more.iter().map(AsRef::as_ref).collect();
    let is_allowed = |name: &str| {
        ALLOWED
            .iter()
            .chain(&more)
            .any(|pattern| match pattern.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => name == *pattern,
            })
    };
    variables
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| is_allowed(name))
        .collect()
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
