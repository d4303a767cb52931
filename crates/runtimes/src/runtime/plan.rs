//! What a turn is given, and where it works.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use threadline_contract::{
    ArtifactScope, Deliverable, Owner, RunId, SessionKey, Sha256, ToolDefinition,
};

use super::RunRef;

/// Everything a turn needs; stored with the run, so that it can be resumed after a crash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnPlan {
    /// Whose session it is.
    #[serde(flatten, with = "crate::stored_owner")]
    pub owner: Owner,
    /// The session, from the durable mapping.
    pub session: SessionKey,
    /// The run.
    pub run: RunId,
    /// What to do, with the context that the app put in front of the user's words.
    pub prompt: String,
    /// Text that stands above the prompt. It never reaches a transcript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Tools that the agent may call beside its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolDefinition>,
    /// The turn goes on with a conversation rather than beginning one.
    pub continues: bool,
    /// The user's own folder, already checked, when the session works there.
    pub working_directory: Option<PathBuf>,
    /// Folders in which the runtime may leave files.
    pub expected_dirs: Vec<String>,
    /// What the run must deliver.
    pub deliverables: Vec<Deliverable>,
    /// Files that come with the prompt.
    pub attachments: Vec<Attachment>,
}

impl TurnPlan {
    /// The run's name for the registry.
    pub fn run_ref(&self) -> RunRef {
        RunRef {
            session: self.session.clone(),
            run: self.run.clone(),
        }
    }
}

/// A verified input file, kept until its turn is prepared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Its name in the work folder.
    pub name: String,
    /// Where its bytes lie.
    pub path: PathBuf,
    /// Their digest.
    pub sha256: Sha256,
}

/// Where a prepared turn works and what leaves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// The run's scope.
    pub scope: ArtifactScope,
    /// The scope's absolute folder on the runtime's host.
    pub artifact_directory: PathBuf,
    /// Where the agent works.
    pub work_folder: PathBuf,
    /// The attachments as they lie in the work folder, in the plan's order.
    #[serde(default)]
    pub attachments: Vec<String>,
}
