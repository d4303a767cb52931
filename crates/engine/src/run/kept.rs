//! What the engine keeps about a run's turn; the store holds it as a text that only we read.

use serde::{Deserialize, Serialize};
use threadline_contract::{Code, Fault, LoadClass, PermissionPolicy, RunId, Sha256};
use threadline_runtimes::TurnPlan;
use threadline_store::Store;

/// A run's turn and what became of its folders.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// What the turn is.
    pub(crate) plan: TurnPlan,
    /// Who executes calls of the tools that the turn brings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) executor: Option<String>,
    /// What becomes of the permissions that its agent asks for.
    #[serde(default)]
    pub(crate) policy: PermissionPolicy,
    /// How long it may take.
    #[serde(default)]
    pub(crate) load_class: LoadClass,
    /// The same in minutes; runs of older versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) budget_minutes: Option<u32>,
    /// It was said that its time is over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) overdue: bool,
    /// Its scope's folder, once it is prepared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) artifact_directory: Option<String>,
    /// Why its files could not be collected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) artifacts_failed: Option<String>,
    /// How long it has waited for a place in the lane, in milliseconds; only where that is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lane_waited_ms: Option<u64>,
    /// The digest of its receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) receipt: Option<Sha256>,
}

impl Kept {
    pub(crate) fn new(plan: TurnPlan, policy: PermissionPolicy) -> Self {
        Self {
            plan,
            executor: None,
            policy,
            load_class: LoadClass::default(),
            budget_minutes: None,
            overdue: false,
            artifact_directory: None,
            artifacts_failed: None,
            lane_waited_ms: None,
            receipt: None,
        }
    }

    pub(crate) async fn read(store: &Store, run: &RunId) -> Result<Self, Fault> {
        let text = store.turn(run).await?;
        serde_json::from_str(&text).map_err(|e| {
            Fault::new(
                Code::Internal,
                format!("The record of run {run} is damaged: {e}."),
            )
        })
    }

    pub(crate) fn text(&self) -> Result<String, Fault> {
        serde_json::to_string(self).map_err(|e| {
            tracing::error!(error = %e, "A turn could not be written as JSON");
            Fault::internal()
        })
    }
}
