//! A run's folders, before it begins.

use threadline_contract::{
    AppThreadKey, ArtifactScope, Fault,
    plugin::{PrepareParams, PrepareResult, SCHEMA_VERSION},
};

use super::{Service, keys_of};
use crate::dirs::ExpectedDirs;

impl Service {
    /// Makes the scope of a run and its session's work folder. Everything is checked first, so that
    /// a bad request leaves nothing behind; with `checkOnly` that is all. Can be repeated.
    pub fn prepare(&self, params: &PrepareParams) -> Result<PrepareResult, Fault> {
        let version = params.schema_version.unwrap_or(SCHEMA_VERSION);
        if version != SCHEMA_VERSION {
            return Err(Fault::invalid(format!(
                "`schemaVersion` {version} is not known; this is version {SCHEMA_VERSION}."
            )));
        }
        let thread = params.app_thread_key.as_deref();
        let thread = thread.ok_or_else(|| Fault::invalid("`appThreadKey` is required."))?;
        let thread = AppThreadKey::new(thread)?;
        let (session, run) = keys_of(&params.whose)?;
        let scope = ArtifactScope::of(&session, &run)?;
        if let Some(text) = &params.whose.artifact_scope {
            // Nothing new is put into an earlier plugin's scope.
            ArtifactScope::check(text, &session, &run)?;
        }
        let dirs = ExpectedDirs::new(&params.expected_artifact_dirs)?;
        let mut request = self.request(&params.whose)?;
        dirs.usable(&mut request.warnings);
        if params.check_only == Some(true) {
            request.workspace.check(&session, &run)?;
        } else {
            let ledger = &self.settings.ledger;
            let workspace = &request.workspace;
            workspace.prepare_known(&session, &run, ledger, &dirs)?;
        }
        Ok(PrepareResult {
            place: request.place(scope.clone()),
            app_thread_key: thread.to_string(),
            relative_artifact_directory: scope,
            expected_artifact_dirs: dirs.names(),
            expected_artifact_dir_status: dirs.status(request.workspace.root()),
            warnings: request.warnings,
        })
    }
}
