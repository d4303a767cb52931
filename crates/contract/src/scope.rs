//! Where a run's files live: the safe segment rule and the artifact scope `tasks/<session>/<run>`.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use unicode_normalization::UnicodeNormalization as _;

use crate::{RunId, SessionKey};

/// Characters of a segment, as existing plugins count them.
const MOST_CHARS: usize = 96;
/// Bytes of a segment: file systems stop at 255, and a temporary name needs room beside it.
const MOST_BYTES: usize = 240;
/// Digits of a key's digest that tell folder names apart.
const DIGEST_DIGITS: usize = 16;
/// The session's work folder stands beside its runs, so no run may be called so.
pub const WORK: &str = "work";
/// Our own notes stand there too.
pub const NOTES: &str = ".xworkmate";

/// Turns a key into one folder name: the rule of existing plugins (listed punctuation becomes `-`, 96
/// characters), extended where it is silent: NFC, control characters become `-`, at most 240
/// bytes on a character boundary, and a name of dots alone gets `_` in front.
///
/// The rule loses information on purpose; two keys that would share a folder are told apart by the
/// owner stamp inside it, which fails closed.
pub fn segment(key: &str) -> String {
    let mut out = String::new();
    for c in key.nfc().take(MOST_CHARS) {
        let c = match c {
            '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|' => '-',
            c if c.is_control() => '-',
            c => c,
        };
        if out.len() + c.len_utf8() > MOST_BYTES {
            break;
        }
        out.push(c);
    }
    if out.chars().all(|c| c == '.') {
        out.insert(0, '_');
    }
    out
}

/// Why a text is not a scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadScope {
    /// Absolute, or with `.`/`..`/NUL inside.
    #[error("artifactScope `{0}` escapes the workspace")]
    Escapes(String),
    /// Not of the form `tasks/<session>/<run>`.
    #[error("artifactScope `{0}` is not a task scope (tasks/<session>/<run>)")]
    NotATask(String),
    /// A well-formed scope of another session or run.
    #[error("artifactScope `{0}` does not match this session and run")]
    Mismatch(String),
    /// A run whose folder would be the session's work folder or our notes.
    #[error("run id `{0}` is reserved")]
    ReservedRun(String),
}

/// `tasks/<session>/<run>`, without a trailing slash: the only folder whose files can become that
/// run's artifacts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct ArtifactScope(String);

impl ArtifactScope {
    /// The scope of a run.
    pub fn of(session: &SessionKey, run: &RunId) -> Result<Self, BadScope> {
        let run_segment = segment(run.as_str());
        if run_segment == WORK || run_segment == NOTES {
            return Err(BadScope::ReservedRun(run.to_string()));
        }
        Ok(Self(format!("{}/{run_segment}", session_folder(session))))
    }

    /// Reads a scope that came from outside and holds it against the session and run it claims to
    /// belong to. Trailing and doubled slashes and backslashes are forgiven, nothing else is.
    pub fn check(text: &str, session: &SessionKey, run: &RunId) -> Result<Self, BadScope> {
        let parts = plain_parts(text)?;
        let own = Self::of(session, run)?;
        if parts.join("/") == own.0 {
            Ok(own)
        } else {
            Err(BadScope::Mismatch(text.to_owned()))
        }
    }

    /// The scope that the earlier plugin would have used for a run. Only for reading what it left:
    /// its rule lets several sessions share a folder, so nothing new is ever put there.
    pub fn peer(session: &SessionKey, run: &RunId) -> Self {
        let [session, run] = [session.as_str(), run.as_str()].map(peer_segment);
        Self(format!("tasks/{session}/{run}"))
    }

    /// As [`check`](Self::check), for reading: the earlier plugin's spelling is taken too, and given
    /// back as it is.
    pub fn check_to_read(text: &str, session: &SessionKey, run: &RunId) -> Result<Self, BadScope> {
        match Self::check(text, session, run) {
            Err(BadScope::Mismatch(_)) => {
                let peer = Self::peer(session, run);
                let parts = plain_parts(text)?;
                if parts.join("/") == peer.0 {
                    Ok(peer)
                } else {
                    Err(BadScope::Mismatch(text.to_owned()))
                }
            }
            done => done,
        }
    }

    /// The scope as a relative path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ArtifactScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The three parts of `tasks/<session>/<run>`.
fn plain_parts(text: &str) -> Result<Vec<String>, BadScope> {
    let slashed = text.replace('\\', "/");
    let parts: Vec<String> = slashed
        .split('/')
        .filter(|p| !p.is_empty())
        .map(str::to_owned)
        .collect();
    if slashed.starts_with('/')
        || slashed.contains('\0')
        || parts.iter().any(|p| matches!(p.as_str(), "." | ".."))
    {
        return Err(BadScope::Escapes(text.to_owned()));
    }
    if parts.len() != 3 || parts.first().is_none_or(|first| first != "tasks") {
        return Err(BadScope::NotATask(text.to_owned()));
    }
    Ok(parts)
}

/// The folder name that the earlier plugin makes from a key: everything outside
/// `A-Z a-z 0-9 . _ -` becomes `_`, runs of `_` become one, `.`, `_` and `-` go from both ends, 96
/// characters, and `scope` when nothing is left.
pub fn peer_segment(key: &str) -> String {
    let mut out = String::new();
    for c in key.trim().chars() {
        let c = match c {
            'A'..='Z' | 'a'..='z' | '0'..='9' | '.' | '-' => c,
            _ => '_',
        };
        if !(c == '_' && out.ends_with('_')) {
            out.push(c);
        }
    }
    let cut: String = out
        .trim_matches(['.', '_', '-'])
        .chars()
        .take(MOST_CHARS)
        .collect();
    if cut.is_empty() {
        "scope".to_owned()
    } else {
        cut
    }
}

/// The folder name of a session. Where the name of a board's or a build's session would be cut off, it ends with
/// digits of the key's digest: two generations of the same work must never share a folder.
pub fn session_segment(session: &SessionKey) -> String {
    let plain = segment(session.as_str());
    if session.as_str().chars().count() <= MOST_CHARS || !session.is_of_board_or_build() {
        return plain;
    }
    let digest = hex::encode(Sha256::digest(session.as_str().as_bytes()));
    let kept: String = plain.chars().take(MOST_CHARS - 1 - DIGEST_DIGITS).collect();
    let digits: String = digest.chars().take(DIGEST_DIGITS).collect();
    format!("{kept}-{digits}")
}

/// `tasks/<session>`: the folder that holds a session's work folder and its runs.
pub fn session_folder(session: &SessionKey) -> String {
    format!("tasks/{}", session_segment(session))
}

/// `tasks/<session>/work`: where a session's agent works when the user named no folder.
pub fn work_folder(session: &SessionKey) -> String {
    format!("{}/{WORK}", session_folder(session))
}

#[cfg(test)]
#[path = "scope_tests.rs"]
mod tests;
