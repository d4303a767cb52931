//! Artifacts on the wire: safe relative paths, digests, what was left out and why, and what a run
//! declared it must deliver.

use std::{borrow::Cow, fmt};

use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{ArtifactScope, Fault, Millis, misleads};

/// A SHA-256 digest, lower-case hex on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256(pub [u8; 32]);

impl Sha256 {
    /// Reads 64 hex digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut out = [0; 32];
        hex::decode_to_slice(text, &mut out).ok()?;
        Some(Self(out))
    }
    /// 64 lower-case hex digits.
    pub fn to_hex(&self) -> String {
        hex::encode(self.0)
    }
}
impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}
impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}
impl Serialize for Sha256 {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.to_hex())
    }
}
impl<'de> Deserialize<'de> for Sha256 {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        Self::from_hex(&text)
            .ok_or_else(|| serde::de::Error::custom("sha256 must be 64 hex digits"))
    }
}
impl schemars::JsonSchema for Sha256 {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Sha256".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "pattern": "^[0-9a-f]{64}$"})
    }
}

/// Why a text is not an artifact path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a plain relative path")]
pub struct BadPath(pub String);

/// A path inside a scope: relative, `/` between parts, no `.` or `..`, no NUL, no backslash.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ArtifactPath(String);

impl ArtifactPath {
    /// Takes a path as it is or refuses it; nothing is repaired, so that what was checked is what
    /// is used.
    pub fn new(text: impl Into<String>) -> Result<Self, BadPath> {
        let text = text.into();
        let plain = !text.is_empty() && text.split('/').all(|p| !matches!(p, "" | "." | ".."));
        // A backslash separates parts on other systems: a name that holds one could escape there.
        if plain && !text.contains(['\0', '\\']) {
            Ok(Self(text))
        } else {
            Err(BadPath(text))
        }
    }
    /// As [`new`](Self::new), for a file that is to be delivered: refuses names that cannot be shown as
    /// they are, or that show as another name. What was delivered before keeps its name.
    pub fn to_deliver(text: impl Into<String>) -> Result<Self, BadPath> {
        match Self::new(text) {
            Ok(path) if path.0.contains(is_unfit) => Err(BadPath(path.0)),
            path => path,
        }
    }
    /// The path itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// The last part.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }
}
impl fmt::Display for ArtifactPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl<'de> Deserialize<'de> for ArtifactPath {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(d)?).map_err(serde::de::Error::custom)
    }
}
impl schemars::JsonSchema for ArtifactPath {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ArtifactPath".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "minLength": 1, "description": "relative, no `.` or `..` part"})
    }
}

/// Letters that no name should hold. Names that hold a line break are rare, harmless, and delivered.
fn is_unfit(c: char) -> bool {
    misleads(c) && c != '\n'
}

/// A name as it can be shown: letters that no name should hold are escaped.
pub fn shown_name(name: &str) -> Cow<'_, str> {
    if !name.contains(is_unfit) {
        return name.into();
    }
    let mut out = String::with_capacity(name.len() + 8);
    for c in name.chars() {
        match is_unfit(c) {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    out.into()
}

/// A regular file in a run's scope after its terminal state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Where it lies in the scope.
    pub path: ArtifactPath,
    /// Its length in bytes.
    pub size: u64,
    /// The digest of its bytes.
    pub sha256: Sha256,
    /// What it is. Mostly one of few known texts, and there are many artifacts.
    pub content_type: Cow<'static, str>,
}

/// An artifact as a client sees it: with the link that fetches it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactItem {
    /// The artifact.
    #[serde(flatten)]
    pub artifact: Artifact,
    /// Signed download link, relative to the bridge. Fresh on every answer.
    pub url: String,
    /// The path as shown to a person. Never used for access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_path: Option<String>,
}

/// The files of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactSet {
    /// The scope that they all lie in.
    pub scope: ArtifactScope,
    /// This page of them.
    pub items: Vec<ArtifactItem>,
    /// How many there are on all pages.
    #[serde(default)]
    pub total: u64,
    /// Ask again with this cursor for the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Files that were seen and not taken, each with its reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<Omitted>,
    /// Why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_reason: Option<EmptyReason>,
    /// The digest of the run's receipt: what all of the items, in one canonical form, must come to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Sha256>,
    /// The files are listed, but their bytes are gone: they were removed to make room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<Removed>,
}

/// That the files of a run were removed to make room. What they were is known for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Removed {
    /// When.
    pub at: Millis,
    /// Why.
    pub why: RemovedFor,
}

/// Why a run's files were removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RemovedFor {
    /// They were older than files may get.
    Age,
    /// All together had too many bytes, and these were the oldest.
    Bytes,
    /// An earlier removal was interrupted.
    Unfinished,
}

/// Why a run has no artifacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EmptyReason {
    /// The scope was never prepared.
    ScopeMissing,
    /// The scope was removed by retention; its receipt says what it held.
    ScopeRemoved,
    /// The run wrote nothing.
    ScopeEmpty,
    /// Everything there was left out; `omitted` says why.
    AllOmitted,
    /// Everything there is named by the ignore file.
    AllIgnored,
    /// Everything there is older than what was asked for.
    FilteredSince,
}

/// A file that was seen and not taken.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct Omitted {
    /// Its path, escaped where it is not text.
    pub path: String,
    /// Why it was not taken.
    pub reason: OmitReason,
}

/// Why a file was not taken.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum OmitReason {
    /// A symbolic link; links are never followed.
    Symlink,
    /// A FIFO, socket or device.
    SpecialFile,
    /// A hard link to a file of another user.
    HardLink,
    /// The name is not UTF-8.
    NameNotUtf8,
    /// More bytes than a file may have.
    TooLarge,
    /// Too many folders deep.
    TooDeep,
    /// It could not be opened.
    Unreadable,
    /// It was there when listed and gone when opened.
    Vanished,
    /// It changed while it was read.
    ChangedWhileReading,
    /// A dotfile, cache or tool folder.
    Skipped,
    /// A rule of the ignore file.
    Ignored,
    /// It was there before this run and did not change in it.
    ChangedOutsideRun,
    /// Nothing shows that this run made it, or another run did.
    AmbiguousOwner,
    /// Written outside every accepted place.
    OutsideScope,
    /// Flagged by a peer as a placeholder.
    Placeholder,
    /// A name with a backslash, which would escape on other systems, with a control character, or with
    /// a mark that turns the direction of writing.
    UnsafeName,
    /// The run did not succeed, so what it made is not final and stays at the runtime.
    RunFailed,
    /// The run was cancelled, so what it made stays at the runtime.
    RunCancelled,
    /// The scope has something else under this name, which the agent itself put there.
    NameTaken,
    /// More files than one request takes.
    OverLimit,
    /// A file of Threadline itself: its data, its settings, or a host's.
    Protected,
    /// A reason that this version does not know: another bridge says so.
    #[serde(other)]
    Unknown,
}

impl OmitReason {
    /// Every one.
    pub const ALL: [Self; 22] = [
        Self::Symlink,
        Self::SpecialFile,
        Self::HardLink,
        Self::NameNotUtf8,
        Self::TooLarge,
        Self::TooDeep,
        Self::Unreadable,
        Self::Vanished,
        Self::ChangedWhileReading,
        Self::Skipped,
        Self::Ignored,
        Self::ChangedOutsideRun,
        Self::AmbiguousOwner,
        Self::OutsideScope,
        Self::Placeholder,
        Self::UnsafeName,
        Self::RunFailed,
        Self::RunCancelled,
        Self::NameTaken,
        Self::OverLimit,
        Self::Protected,
        Self::Unknown,
    ];

    /// What people read after the file's name, wherever it is told.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Symlink => "is a link, and links are never followed",
            Self::SpecialFile => "is not a plain file",
            Self::HardLink => "is a hard link to a file outside",
            Self::NameNotUtf8 => "has a name that is not text",
            Self::TooLarge => "is larger than a file may be",
            Self::TooDeep => "lies too many folders deep",
            Self::Unreadable => "could not be opened",
            Self::Vanished => "was gone before it could be read",
            Self::ChangedWhileReading => "changed while it was read",
            Self::Skipped => "is a hidden file, a cache or a tool's own",
            Self::Ignored => "is left out by an ignore rule",
            Self::ChangedOutsideRun => "was not made or changed by this run",
            Self::AmbiguousOwner => "may be somebody else's: nothing shows that this run made it",
            Self::OutsideScope => "was written outside the run's folders",
            Self::Placeholder => "is a placeholder, not a result",
            Self::UnsafeName => "has a name that is not safe everywhere",
            Self::RunFailed => "is not final, because the run did not succeed",
            Self::RunCancelled => "was left by a run that was cancelled",
            Self::NameTaken => "has the name of another file of this run",
            Self::OverLimit => "came after as many files as are taken at once",
            Self::Protected => "belongs to Threadline itself and never leaves it",
            Self::Unknown => "was left out for a reason that is not known here",
        }
    }
}

/// Something a run must deliver, declared by its caller. Nobody guesses it from the prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Deliverable {
    /// A path or glob over scope-relative paths.
    pub glob: String,
    /// The content type that it must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The least size of each file that counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_bytes: Option<u64>,
    /// How many files must match (one, when not said).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_count: Option<u32>,
}

/// Why a text is not a glob that files of a run could match.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{glob}` is not a pattern that files can match: {why}")]
pub struct BadGlob {
    /// The text.
    pub glob: String,
    /// What is wrong with it.
    pub why: String,
}

impl Deliverable {
    /// Its glob, ready to be matched. `*` stays within one folder, `**` crosses folders.
    pub fn matcher(&self) -> Result<GlobMatcher, BadGlob> {
        let glob = self.glob.as_str();
        let bad = |why: String| BadGlob {
            glob: glob.to_owned(),
            why,
        };
        if glob.is_empty() {
            return Err(bad("it is empty".to_owned()));
        }
        // A pattern that can match nothing would make every run fail at its end.
        if glob.starts_with('/') || glob.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(bad("it must be relative to the run's folder".to_owned()));
        }
        let built = GlobBuilder::new(glob).literal_separator(true).build();
        built
            .map(|g| g.compile_matcher())
            .map_err(|e| bad(e.kind().to_string()))
    }
}

impl From<BadGlob> for Fault {
    fn from(e: BadGlob) -> Self {
        Self::invalid(format!("{e}. Write it like `reports/*.pdf`."))
    }
}

/// A declared deliverable that is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Missing {
    /// What was declared.
    pub deliverable: Deliverable,
    /// How many files matched.
    pub found: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_relative_paths_pass() {
        for bad in [
            "",
            "/etc/x",
            "../../.ssh/authorized_keys",
            "a/../../b",
            "C:\\x",
            "./x",
            "a//b",
            "a/",
            "a\0b",
            "a\\b",
        ] {
            assert_eq!(ArtifactPath::new(bad), Err(BadPath(bad.to_owned())));
        }
        for good in [
            "reports/final.md",
            "a b/ü \"q\"\n::%2F😀.txt",
            "...",
            ".env",
            "a:b",
        ] {
            assert_eq!(
                ArtifactPath::new(good).map(|p| p.to_string()),
                Ok(good.to_owned())
            );
        }
    }
}
