//! What the gateway's plugin is asked about a run's files, and what it answers:
//! `xworkmate.session.prepare` (its folders) and `xworkmate.artifacts.*`.
//!
//! Older callers are sloppy, so parameters are read with patience (see [`lenient`]): a text that is
//! not a text counts as absent. What must be there is checked afterwards, and named.

pub mod lenient;

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize};

use crate::{
    ArtifactPath, ArtifactScope, Base64, EmptyReason, OmitReason, Omitted, RunId, SessionKey,
    Sha256,
};

/// Makes a run's folders.
pub const PREPARE: &str = "xworkmate.session.prepare";
/// Copies into the run's scope what the run provably wrote elsewhere.
pub const COLLECT: &str = "xworkmate.artifacts.collect-and-snapshot";
/// Lists the scope, with contents where they are small.
pub const EXPORT: &str = "xworkmate.artifacts.export";
/// Lists the scope, without contents.
pub const LIST: &str = "xworkmate.artifacts.list";
/// Reads one file, or a part of it.
pub const READ: &str = "xworkmate.artifacts.read";
/// Collects and lists at once. Of our own plugin alone, which so says that it tells runs apart.
pub const GATHER: &str = "xworkmate.artifacts.gather";
/// Cleans up old scopes.
pub const GC: &str = "xworkmate.artifacts.gc";

/// The version of the mapping that is spoken.
pub const SCHEMA_VERSION: i64 = 1;

/// Which run a request is about, and where. Part of every request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Whose {
    /// The session on the gateway. Required; the older `sessionKey` is not taken for it.
    #[serde(default, deserialize_with = "lenient::text")]
    pub openclaw_session_key: Option<String>,
    /// The run. Required.
    #[serde(default, deserialize_with = "lenient::text")]
    pub run_id: Option<String>,
    /// The run's scope, held against session and run when given. A trailing slash is fine.
    #[serde(default, deserialize_with = "lenient::text")]
    pub artifact_scope: Option<String>,
    /// The workspace, when the caller knows it.
    #[serde(default, deserialize_with = "lenient::text")]
    pub workspace_dir: Option<String>,
    /// The workspace in the settings of the session's agent, which the gateway knows.
    #[serde(default, deserialize_with = "lenient::text")]
    pub agent_workspace_dir: Option<String>,
}

/// Parameters of [`PREPARE`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrepareParams {
    /// Which run, and where.
    #[serde(flatten)]
    pub whose: Whose,
    /// 1, also when not said.
    #[serde(default, deserialize_with = "lenient::number")]
    pub schema_version: Option<i64>,
    /// The app's name for the thread. Required.
    #[serde(default, deserialize_with = "lenient::text")]
    pub app_thread_key: Option<String>,
    /// Folders of the workspace where the run may leave files.
    #[serde(default, deserialize_with = "lenient::texts")]
    pub expected_artifact_dirs: Vec<String>,
    /// Check everything and make nothing: asked before the mapping is written, so that a request
    /// that cannot be served leaves nothing half-done.
    #[serde(default, deserialize_with = "lenient::flag")]
    pub check_only: Option<bool>,
}

/// When a run was, and what is known about who wrote files then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Proof {
    /// When the run began, in milliseconds since 1970. When it was prepared, if not said.
    #[serde(default, deserialize_with = "lenient::number")]
    pub since_unix_ms: Option<i64>,
    /// When it ended. Absent while it goes on.
    #[serde(default, deserialize_with = "lenient::number")]
    pub until_unix_ms: Option<i64>,
    /// Files that the runtime itself names as written by this session in this run: absolute, or
    /// relative to the workspace.
    #[serde(default, deserialize_with = "lenient::texts")]
    pub written_files: Vec<String>,
    /// When a command (a tool call that executes something) of this run was running, and none of
    /// another run: what changed then is the run's, although nothing names it. Everything else needs
    /// a name. A host that does not watch its tools leaves this out, and `overlapped` counts instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_spans: Option<Vec<CommandSpan>>,
    /// Files that tool calls of other runs name and that are those runs' as they are now, as absolute
    /// paths without links. They are not this run's, wherever they lie.
    #[serde(
        default,
        deserialize_with = "lenient::exact_texts",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub others_files: Vec<String>,
    /// Files that other runs may have written as they are now: a call that has not come back, or a
    /// process that a command left running, names them. Not this run's either, but told.
    #[serde(
        default,
        deserialize_with = "lenient::exact_texts",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub maybe_others_files: Vec<String>,
    /// Without `commandSpans`: whether another session's run overlapped with this one on the gateway.
    /// When not said, what was prepared and collected here tells.
    #[serde(default, deserialize_with = "lenient::flag")]
    pub overlapped: Option<bool>,
}

/// From when to when a command was running, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandSpan {
    /// When it began.
    pub since_unix_ms: i64,
    /// When it ended.
    pub until_unix_ms: i64,
}

/// Parameters of [`COLLECT`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CollectParams {
    /// Which run, and where.
    #[serde(flatten)]
    pub whose: Whose,
    /// What is known about its files.
    #[serde(flatten)]
    pub proof: Proof,
    /// Absolute paths beneath the output roots. When given, only they are looked at.
    #[serde(
        default,
        deserialize_with = "lenient::some_texts",
        skip_serializing_if = "Option::is_none"
    )]
    pub source_files: Option<Vec<String>>,
    /// How many files are copied at most.
    #[serde(default, deserialize_with = "lenient::number")]
    pub max_files: Option<i64>,
}

/// Parameters of [`EXPORT`] and [`LIST`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExportParams {
    /// Which run, and where.
    #[serde(flatten)]
    pub whose: Whose,
    /// What is known about its files.
    #[serde(flatten)]
    pub proof: Proof,
    /// Files on a page: 200, when not said.
    #[serde(default, deserialize_with = "lenient::number")]
    pub max_files: Option<i64>,
    /// Files up to this size carry their content: 512 KiB, when not said.
    #[serde(default, deserialize_with = "lenient::number")]
    pub max_inline_bytes: Option<i64>,
    /// Whether contents are wanted at all: yes, when not said.
    #[serde(default, deserialize_with = "lenient::flag")]
    pub include_content: Option<bool>,
    /// Where the page before ended.
    #[serde(default, deserialize_with = "lenient::text")]
    pub cursor: Option<String>,
    /// Folders of the workspace that are looked at when the scope is empty.
    #[serde(default, deserialize_with = "lenient::texts")]
    pub expected_artifact_dirs: Vec<String>,
    /// File types that must be there.
    #[serde(default, deserialize_with = "lenient::texts")]
    pub required_artifact_extensions: Vec<String>,
    /// How many files of a type must be there.
    #[serde(default, deserialize_with = "lenient::counts")]
    pub expected_file_count_by_extension: BTreeMap<String, u64>,
}

/// Parameters of [`READ`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadParams {
    /// Which run, and where.
    #[serde(flatten)]
    pub whose: Whose,
    /// A signed reference from an export.
    #[serde(default, deserialize_with = "lenient::text")]
    pub artifact_ref: Option<String>,
    /// When the reference expires (seconds since 1970), where it does not carry that itself.
    #[serde(default, deserialize_with = "lenient::number")]
    pub t: Option<i64>,
    /// Where the file lies in the scope. Not trimmed: a name may begin or end with a space.
    #[serde(default, deserialize_with = "lenient::exact_text")]
    pub relative_path: Option<String>,
    /// Where to begin. With `length`, a part of the file is read, of any size.
    #[serde(default, deserialize_with = "lenient::number")]
    pub offset: Option<i64>,
    /// How many bytes.
    #[serde(default, deserialize_with = "lenient::number")]
    pub length: Option<i64>,
    /// Without a range: the whole content is given up to this size.
    #[serde(default, deserialize_with = "lenient::number")]
    pub max_inline_bytes: Option<i64>,
}

/// Parameters of [`GC`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GcParams {
    /// The workspace, when the caller knows it.
    #[serde(default, deserialize_with = "lenient::text")]
    pub workspace_dir: Option<String>,
    /// The workspace in the settings of an agent.
    #[serde(default, deserialize_with = "lenient::text")]
    pub agent_workspace_dir: Option<String>,
    /// Scopes that did not change for so many days go.
    #[serde(default, deserialize_with = "lenient::number")]
    pub max_age_days: Option<i64>,
    /// While all scopes together have more bytes, the oldest go.
    #[serde(default, deserialize_with = "lenient::number")]
    pub max_bytes: Option<i64>,
    /// Say what would go, and remove nothing.
    #[serde(default, deserialize_with = "lenient::clear_flag")]
    pub dry_run: Option<bool>,
    /// Runs that have not ended, as the gateway knows them.
    #[serde(default)]
    pub live_runs: Vec<LiveRun>,
}

/// A run that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LiveRun {
    /// Its session.
    pub openclaw_session_key: SessionKey,
    /// The run; every run of the session, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
}

/// Where a workspace was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WorkspaceSource {
    /// `workspaceDir` of the request.
    Params,
    /// The plugin's own settings.
    PluginConfig,
    /// The agent's settings.
    AgentConfig,
    /// The profile in the environment.
    Profile,
    /// `~/.openclaw/workspace`.
    Default,
}

/// How every answer begins: which run it is about, and where its files lie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// The run.
    pub run_id: RunId,
    /// The session, under the name that older callers read.
    pub session_key: SessionKey,
    /// The session.
    pub openclaw_session_key: SessionKey,
    /// The workspace.
    pub remote_working_directory: String,
    /// Always `remotePath`.
    pub remote_workspace_ref_kind: String,
    /// Who named the workspace.
    pub workspace_source: WorkspaceSource,
    /// The run's scope, relative to the workspace, without a trailing slash.
    pub artifact_scope: ArtifactScope,
    /// Always `task`.
    pub scope_kind: String,
    /// The scope as an absolute path.
    pub artifact_directory: String,
}

/// A folder that the run may leave files in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DirStatus {
    /// The folder, relative to the workspace, with a trailing slash.
    pub relative_path: String,
    /// Whether it is there and is a folder.
    pub exists: bool,
}

/// Result of [`PREPARE`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrepareResult {
    /// Which run, and where.
    #[serde(flatten)]
    pub place: Place,
    /// The app's name for the thread.
    pub app_thread_key: String,
    /// The scope again, under the name that older callers read.
    pub relative_artifact_directory: ArtifactScope,
    /// Where the run may leave files.
    pub expected_artifact_dirs: Vec<String>,
    /// Which of them are there.
    pub expected_artifact_dir_status: Vec<DirStatus>,
    /// What a person should know.
    pub warnings: Vec<String>,
}

/// What an answer does not hold, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OmittedSet {
    /// How many files, those of later pages among them.
    pub count: u64,
    /// The bytes of those of later pages.
    pub bytes: u64,
    /// How many for which reason.
    pub by_reason: BTreeMap<OmitReason, u64>,
    /// The first of them.
    pub files: Vec<Omitted>,
}

/// Result of [`COLLECT`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CollectResult {
    /// Which run, and where.
    #[serde(flatten)]
    pub place: Place,
    /// Where copies go.
    pub snapshot_directory: String,
    /// What was copied now, relative to the scope.
    pub copied_files: Vec<ArtifactPath>,
    /// How many were there already.
    pub already_present: u64,
    /// What was not taken.
    pub omitted: OmittedSet,
    /// What a person should know.
    pub warnings: Vec<String>,
}

/// The manifest of a page, as the first document of the protocol has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PageManifest {
    /// The scope.
    pub scope: ArtifactScope,
    /// The session.
    pub session_key: SessionKey,
    /// The run.
    pub run_id: RunId,
    /// How many files there are on all pages.
    pub total_candidates: u64,
    /// This page of them.
    pub files: Vec<ManifestFile>,
}

/// A file of a [`PageManifest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestFile {
    /// Where it lies in the scope.
    pub relative_path: ArtifactPath,
    /// The path as shown to a person. Never used for access.
    pub display_path: String,
    /// How many bytes it has.
    pub size: u64,
    /// What it is.
    pub content_type: Cow<'static, str>,
    /// The digest of its bytes.
    pub sha256: Sha256,
    /// Whether its content is in the answer, in `artifacts`.
    pub inline: bool,
    /// The signed reference that reads it.
    #[serde(rename = "ref")]
    pub reference: String,
}

/// A file as the earlier plugin lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FlatArtifact {
    /// Where it lies in the scope.
    pub relative_path: ArtifactPath,
    /// Its name.
    pub label: String,
    /// What it is.
    pub content_type: Cow<'static, str>,
    /// How many bytes it has.
    pub size_bytes: u64,
    /// The digest of all of them.
    pub sha256: Sha256,
    /// The signed reference that reads it.
    pub artifact_ref: String,
    /// When the reference expires, in seconds since 1970.
    pub expires_at: i64,
    /// The scope.
    pub artifact_scope: ArtifactScope,
    /// Always `task`.
    pub scope_kind: String,
    /// `base64`, when there is content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// The content, or the part of it that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Base64>,
    /// Why there is no content, when contents were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_inlined: Option<NotInlined>,
}

/// Why a file's content is not in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotInlined {
    /// It is larger than `maxInlineBytes`.
    OverMaxInlineBytes,
    /// The answer as a whole would become too large.
    AnswerFull,
}

/// How many files of a type were asked for, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CountGap {
    /// Asked for.
    pub expected: u64,
    /// There.
    pub actual: u64,
}

/// Result of [`EXPORT`] and [`LIST`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExportResult {
    /// Which run, and where.
    #[serde(flatten)]
    pub place: Place,
    /// The page, as the first document of the protocol has it.
    pub manifest: PageManifest,
    /// The same files, as the earlier plugin lists them; contents are only here.
    pub artifacts: Vec<FlatArtifact>,
    /// What is not on this page, and why.
    pub omitted: OmittedSet,
    /// Asks for the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Why there is nothing at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_reason: Option<EmptyReason>,
    /// Where the run may have left files.
    pub expected_artifact_dirs: Vec<String>,
    /// Which of them are there.
    pub expected_artifact_dir_status: Vec<DirStatus>,
    /// Whether everything that was required is there, on whatever page.
    pub constraint_satisfied: bool,
    /// Required types of which there is no file.
    pub missing_required_extensions: Vec<String>,
    /// Types of which there are too few files.
    pub missing_required_file_counts: BTreeMap<String, CountGap>,
    /// What a person should know.
    pub warnings: Vec<String>,
}

/// Result of [`READ`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadResult {
    /// Which run, and where.
    #[serde(flatten)]
    pub place: Place,
    /// The file, and nothing else.
    pub artifacts: Vec<FlatArtifact>,
    /// Where the content begins in the file.
    pub offset: u64,
    /// How many bytes of it there are.
    pub length: u64,
    /// Whether the file ends with them.
    pub eof: bool,
    /// What a person should know.
    pub warnings: Vec<String>,
}

#[cfg(test)]
#[path = "plugin_tests.rs"]
mod tests;
