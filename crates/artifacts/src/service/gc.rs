//! Making room: what old runs left.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use threadline_contract::{
    Fault, RunId, SessionKey,
    plugin::{GcParams, Whose, WorkspaceSource},
};

use super::Service;
use crate::{Kept, Removal, Retention};

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// What was removed, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GcResult {
    /// The workspace.
    pub remote_working_directory: String,
    /// Who named it.
    pub workspace_source: WorkspaceSource,
    /// Whether nothing was touched.
    pub dry_run: bool,
    /// The scopes that are gone, or would be.
    pub removed: Vec<Removal>,
    /// How many bytes they had.
    pub freed_bytes: u64,
    /// Scopes that stay although they are old, or large.
    pub kept: Vec<Kept>,
    /// Folders that have no stamp of ours: they are never touched.
    pub unknown: Vec<String>,
    /// What a person should know.
    pub warnings: Vec<String>,
}

impl Service {
    /// Removes the scopes of old runs: never one whose run goes on or that references lead to. A
    /// run goes on if the gateway says so, or if it began here and nobody told its end.
    pub fn gc(&self, params: &GcParams) -> Result<GcResult, Fault> {
        let whose = Whose {
            workspace_dir: params.workspace_dir.clone(),
            agent_workspace_dir: params.agent_workspace_dir.clone(),
            ..Whose::default()
        };
        let (workspace, source, warnings) = self.locate(&whose)?;
        let above_zero = |number: Option<i64>, what: &str| match number.map(u64::try_from) {
            None => Ok(None),
            Some(Ok(number)) => Ok(Some(number)),
            Some(Err(_)) => Err(Fault::invalid(format!("`{what}` must not be below zero."))),
        };
        let days = above_zero(params.max_age_days, "maxAgeDays")?;
        let retention = Retention {
            max_age: days.map(|days| Duration::from_secs(days.saturating_mul(DAY_SECONDS))),
            max_bytes: above_zero(params.max_bytes, "maxBytes")?,
            ..Retention::default()
        };
        // A run that begins from here on has a young scope, which stays in any case.
        let going_on = workspace.book(&self.settings.ledger)?.live_runs();
        let is_live = |session: &SessionKey, run: &RunId| {
            let told = params.live_runs.iter().any(|live| {
                live.openclaw_session_key == *session
                    && live.run_id.as_ref().is_none_or(|live| live == run)
            });
            told || going_on.contains(&workspace.claimant(session, run))
        };
        let now = SystemTime::now();
        let plan = workspace.plan_removal(&retention, now, &is_live)?;
        let dry_run = params.dry_run == Some(true);
        let mut kept = plan.keep.clone();
        let removed = if dry_run {
            plan.remove
        } else {
            let mut removed = Vec::new();
            let mut gone = |removal: &Removal| removed.push(removal.clone());
            kept.extend(workspace.remove(&plan, &retention, now, &is_live, &mut gone)?);
            removed
        };
        Ok(GcResult {
            remote_working_directory: workspace.path().to_string_lossy().into_owned(),
            workspace_source: source,
            dry_run,
            freed_bytes: removed.iter().map(|removal| removal.scope.bytes).sum(),
            removed,
            kept,
            unknown: plan.unknown,
            warnings,
        })
    }
}
