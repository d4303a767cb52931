//! `session.start` and `session.message`: what a turn is asked to do.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    AppThreadKey, Base64, Code, Deliverable, Fault, LoadClass, PermissionLevel, PermissionPolicy,
    RequestId, Routing, Sha256, gateway_agent,
};

/// Bytes that one inline attachment may have.
pub const ATTACHMENT_BYTES: usize = 10 << 20;
/// Bytes that all inline attachments of a turn may have together.
pub const ATTACHMENTS_BYTES: usize = 25 << 20;
/// How many of a file's first bytes an outline holds: enough to tell what the file is.
const OUTLINE_BYTES: usize = 264;
/// The folders that the app names when its user names none.
pub const DEFAULT_ARTIFACT_DIRS: [&str; 6] = [
    "artifacts/",
    "reports/",
    "exports/",
    "assets/",
    "assets/images/",
    "dist/",
];

/// The parameters of `session.start` and `session.message`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnParams {
    /// The app's thread key; `threadId` is the same thing and defaults to it.
    pub session_id: AppThreadKey,
    /// See `sessionId`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<AppThreadKey>,
    /// Makes the request repeatable: the same id and body give the same run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    /// What to do. Other apps say `taskPrompt`, `message`, `input`, `content` or `messages`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// See `prompt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_prompt: Option<String>,
    /// See `prompt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// See `prompt`; the last entry of role `user` counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<ChatMessage>>,
    /// See `prompt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// See `prompt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The user's own folder, when the runtime runs on this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// How the app calls the remote workspace. Never used as a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_working_directory_hint: Option<String>,
    /// Where to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<Routing>,
    /// The target in the words of existing apps; it counts where `routing` names nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_target: Option<String>,
    /// See `executionTarget`, which counts before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_execution_target: Option<String>,
    /// The agent in the words of existing apps; it counts where `routing` names nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The gateway's agent that a new thread works with, when not its default one. A thread keeps its
    /// agent: later turns need not name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Files that come with the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inline_attachments: Vec<InlineAttachment>,
    /// Typed metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// A session key is the bridge's to choose: naming one is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub openclaw_session_key: Option<Value>,
}

/// One entry of a chat history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ChatMessage {
    /// `user` or `assistant`.
    pub role: String,
    /// What was said.
    pub content: String,
}

/// A file that travels inside the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InlineAttachment {
    /// Its file name.
    pub name: String,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Its bytes in base64; a `data:` prefix is forgiven.
    pub content: String,
    /// Its length, checked when given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Its digest, checked when given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256>,
}

/// A file that is to come with a turn, as far as it must be known to say whether it would be taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttachmentOutline {
    /// Its file name.
    pub name: String,
    /// Its length.
    pub size_bytes: u64,
    /// How it begins, in base64: its first 264 bytes, or all of them if it has fewer.
    pub head: Base64,
    /// All of it is text in UTF-8.
    pub is_text: bool,
}

impl AttachmentOutline {
    /// Of a file that is here.
    pub fn of(name: &str, bytes: &[u8]) -> Self {
        Self {
            name: name.to_owned(),
            size_bytes: bytes.len() as u64,
            head: Base64::encode(bytes.get(..OUTLINE_BYTES).unwrap_or(bytes)),
            is_text: std::str::from_utf8(bytes).is_ok(),
        }
    }
}

/// The metadata block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The artifact contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xworkmate_task_artifact_contract: Option<ArtifactContract>,
    /// What becomes of the permissions that the agent asks for. The thread keeps it for its later
    /// turns; where none was ever given, the server's default holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_policy: Option<PermissionPolicy>,
    /// The same in the words of existing apps; `permissionPolicy` counts before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_level: Option<PermissionLevel>,
    /// How long the task may take; `long_task` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_load_class: Option<LoadClass>,
    /// Whatever else the app sends; kept, never interpreted.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: Map<String, Value>,
}

/// What the app and the bridge agree on about files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactContract {
    /// 1.
    pub schema_version: u32,
    /// The thread this turn belongs to: the only place it is read from.
    pub app_thread_key: AppThreadKey,
    /// Folders in which the runtime may leave files.
    #[serde(default)]
    pub expected_artifact_dirs: Vec<String>,
    /// The user's folder, or empty; the bridge fills it in after prepare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_task_workspace: Option<String>,
    /// What the run must deliver.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deliverables: Vec<Deliverable>,
    /// The older form of `deliverables`: `pdf` means `**/*.pdf`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_artifact_extensions: Vec<String>,
    /// A session key is the bridge's to choose: naming one is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub openclaw_session_key: Option<Value>,
    /// As above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub session_key: Option<Value>,
}

/// Which thread a turn is for and where it should run: what must be known to tell which server it
/// belongs to, without a look at the rest.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnAddress {
    routing: Routing,
    #[serde(default)]
    execution_target: Option<String>,
    #[serde(default)]
    requested_execution_target: Option<String>,
    #[serde(default)]
    provider: Option<String>,
    metadata: AddressedMetadata,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AddressedMetadata {
    xworkmate_task_artifact_contract: AddressedContract,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AddressedContract {
    app_thread_key: AppThreadKey,
}

impl TurnAddress {
    /// Of a turn's parameters; `None` where they do not say.
    pub fn of(params: &Value) -> Option<Self> {
        Self::deserialize(params).ok()
    }

    /// The thread, and where the turn should run.
    pub fn parts(self) -> (AppThreadKey, Routing) {
        let target = self.execution_target.or(self.requested_execution_target);
        let contract = self.metadata.xworkmate_task_artifact_contract;
        (
            contract.app_thread_key,
            self.routing.or_else(target, self.provider),
        )
    }
}

/// A turn whose parameters were checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// The thread.
    pub thread: AppThreadKey,
    /// The idempotency key, when there is one.
    pub request: Option<RequestId>,
    /// What to do.
    pub prompt: String,
    /// The user's own folder.
    pub working_directory: Option<String>,
    /// Where to run.
    pub routing: Routing,
    /// The gateway's agent that a new thread works with.
    pub agent: Option<String>,
    /// Files that come with it.
    pub attachments: Vec<InlineAttachment>,
    /// Folders in which the runtime may leave files, normalised.
    pub expected_dirs: Vec<String>,
    /// What must be delivered.
    pub deliverables: Vec<Deliverable>,
    /// What becomes of permissions, when the turn says so.
    pub permission_policy: Option<PermissionPolicy>,
    /// How long it may take.
    pub load_class: LoadClass,
}

impl TurnParams {
    /// Checks everything that can be checked without asking anybody.
    pub fn check(self) -> Result<Turn, Fault> {
        let refused_key = "The session key is the bridge's to choose: leave openclawSessionKey out and send metadata.xworkmateTaskArtifactContract.appThreadKey.";
        let prompt = self.prompt_text();
        if self.openclaw_session_key.is_some() {
            return Err(Fault::invalid(refused_key));
        }
        let routing = self.routing.ok_or_else(|| {
            Fault::new(
                Code::RoutingRequired,
                "`routing` is required: name a target and provider, or routingMode auto.",
            )
        })?;
        let target = self.execution_target.or(self.requested_execution_target);
        let routing = routing.or_else(target, self.provider);
        let metadata = self.metadata.unwrap_or_default();
        let contract = metadata.xworkmate_task_artifact_contract.ok_or_else(|| {
            Fault::invalid(
                "metadata.xworkmateTaskArtifactContract is required: it carries appThreadKey.",
            )
        })?;
        if contract.openclaw_session_key.is_some() || contract.session_key.is_some() {
            return Err(Fault::invalid(refused_key));
        }
        if contract.schema_version != 1 {
            return Err(Fault::invalid(format!(
                "xworkmateTaskArtifactContract.schemaVersion {} is unknown; 1 is.",
                contract.schema_version
            )));
        }
        let thread = contract.app_thread_key;
        for (name, other) in [
            ("sessionId", Some(&self.session_id)),
            ("threadId", self.thread_id.as_ref()),
        ] {
            if let Some(other) = other.filter(|o| **o != thread) {
                return Err(Fault::invalid(format!(
                    "{name} `{other}` and appThreadKey `{thread}` must be the same thread."
                )));
            }
        }
        let prompt = prompt.ok_or_else(|| {
            Fault::new(
                Code::PromptRequired,
                "The turn has no prompt. Send one in `prompt`.",
            )
        })?;
        let mut deliverables = contract.deliverables;
        for extension in &contract.required_artifact_extensions {
            deliverables.push(Deliverable {
                glob: format!("**/*.{}", extension.trim_start_matches('.').to_lowercase()),
                content_type: None,
                min_bytes: None,
                min_count: None,
            });
        }
        Ok(Turn {
            thread,
            request: self.request_id,
            prompt,
            working_directory: self
                .working_directory
                .map(|w| w.trim().to_owned())
                .filter(|w| !w.is_empty()),
            routing,
            agent: self.agent_id.as_deref().and_then(gateway_agent),
            attachments: self.inline_attachments,
            expected_dirs: expected_dirs(&contract.expected_artifact_dirs)?,
            deliverables,
            permission_policy: metadata
                .permission_policy
                .or(metadata.permission_level.map(Into::into)),
            load_class: metadata.task_load_class.unwrap_or_default(),
        })
    }

    fn prompt_text(&self) -> Option<String> {
        let last_user = self
            .messages
            .as_ref()
            .and_then(|m| m.iter().rev().find(|m| m.role == "user"))
            .map(|m| &m.content);
        [
            self.prompt.as_ref(),
            self.task_prompt.as_ref(),
            self.message.as_ref(),
            last_user,
            self.input.as_ref(),
            self.content.as_ref(),
        ]
        .into_iter()
        .flatten()
        .find(|text| !text.trim().is_empty())
        .cloned()
    }
}

/// Brings the expected folders into one form: relative, `/` between and after parts, no doubles.
pub fn expected_dirs(given: &[String]) -> Result<Vec<String>, Fault> {
    let mut out: Vec<String> = Vec::new();
    for dir in given.iter().map(|d| d.trim()).filter(|d| !d.is_empty()) {
        let slashed = dir.replace('\\', "/");
        let drive = slashed.as_bytes().get(1) == Some(&b':');
        let parts: Vec<&str> = slashed.split('/').filter(|p| !p.is_empty()).collect();
        if slashed.starts_with('/')
            || drive
            || slashed.contains('\0')
            || parts.iter().any(|p| matches!(*p, "." | ".."))
        {
            return Err(Fault::invalid(format!(
                "expectedArtifactDirs: `{dir}` must be a plain folder inside the workspace."
            )));
        }
        let clean = format!("{}/", parts.join("/"));
        if !parts.is_empty() && !out.contains(&clean) {
            out.push(clean);
        }
    }
    Ok(out)
}

#[cfg(test)]
#[path = "turn_tests.rs"]
mod tests;
