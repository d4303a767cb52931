//! A run's folder on the gateway's host.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;
use threadline_contract::{
    ArtifactScope, Code, Fault,
    plugin::{GATHER, PREPARE, PrepareParams, SCHEMA_VERSION},
};
use tokio::time::Instant;

use super::{Files, foreign, no_plugin, own_scope, plain, whose};
use crate::{
    Places, TurnPlan,
    openclaw::turn::{RESTARTING, SMALL, unreachable},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Prepared {
    #[serde(default)]
    run_id: String,
    #[serde(default)]
    session_key: String,
    artifact_scope: String,
    artifact_directory: String,
}

impl Files {
    /// Makes the run's folder on the gateway's host, and the mapping of its session.
    pub(in crate::openclaw) async fn prepare(&self, plan: &TurnPlan) -> Result<Places, Fault> {
        let conn = self.gateway.wait_to_begin(RESTARTING).await;
        let conn = conn.map_err(unreachable)?;
        if !self.has(&conn, PREPARE).await {
            return Err(no_plugin(Code::OpenClawPrepareFailed));
        }
        let params = PrepareParams {
            whose: whose(&plan.session, &plan.run),
            schema_version: Some(SCHEMA_VERSION),
            app_thread_key: Some(plan.owner.app_thread_key().to_string()),
            // An earlier plugin cannot tell whose the files in a shared folder are.
            expected_artifact_dirs: match conn.hello().has(GATHER) {
                true => plan.expected_dirs.clone(),
                false => vec![],
            },
            check_only: None,
        };
        let (prepared, scope) = self.ask_for_places(plan, &params).await?;
        let folder = PathBuf::from(prepared.artifact_directory);
        Ok(Places {
            scope,
            artifact_directory: folder.clone(),
            // The agent's own workspace is shared with others; this folder is the run's alone.
            work_folder: folder,
            attachments: plan.attachments.iter().map(|a| a.name.clone()).collect(),
        })
    }

    async fn ask_for_places(
        &self,
        plan: &TurnPlan,
        params: &PrepareParams,
    ) -> Result<(Prepared, ArtifactScope), Fault> {
        let mut params = plain(params)?;
        if let Value::Object(params) = &mut params {
            params.insert("requestId".into(), plan.run.as_str().into());
            params.insert("externalTaskId".into(), plan.run.as_str().into());
        }
        let code = Code::OpenClawPrepareFailed;
        let begun = Instant::now();
        let prepared: Prepared = loop {
            match self.ask(PREPARE, &params, SMALL, code).await {
                // Nothing has begun, so a gateway that hangs can be asked again.
                Err(fault)
                    if fault.code == Code::ProviderUnavailable && begun.elapsed() < RESTARTING =>
                {
                    let conn = self.gateway.wait_to_begin(RESTARTING).await;
                    conn.map_err(unreachable)?;
                }
                prepared => break prepared?,
            }
        };
        let scope = own_scope(&prepared.artifact_scope, &plan.session, &plan.run);
        let same =
            prepared.run_id == plan.run.as_str() && prepared.session_key == plan.session.as_str();
        match scope {
            Some(scope) if same => Ok((prepared, scope)),
            _ => Err(foreign(code)),
        }
    }
}
