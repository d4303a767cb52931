//! Bringing what a run left in the gateway's output folders into its scope.

use threadline_contract::{
    ArtifactScope, Fault,
    plugin::{CollectParams, CollectResult, OmittedSet, Proof},
};

use super::{Service, positive, warn};
use crate::{
    Omissions, Testimony,
    outputs::{MAX_COPIES, Outputs, SNAPSHOT},
};

impl Service {
    /// Copies into the scope what the run provably wrote into the output folders. Can be repeated
    /// at any time; what is there already is counted, not copied again.
    pub fn collect(&self, params: &CollectParams) -> Result<CollectResult, Fault> {
        let request = self.request(&params.whose)?;
        let (session, run) = (&request.session, &request.run);
        if let Some(text) = &params.whose.artifact_scope {
            ArtifactScope::check(text, session, run)?;
        }
        let testimony = testimony(&params.proof);
        let outputs = Outputs {
            roots: &self.settings.output_roots,
            scan: true,
            only: params.source_files.as_deref(),
            dirs: None,
            testimony: &testimony,
            max_files: positive(params.max_files).unwrap_or(MAX_COPIES),
        };
        let gathered = self.gather(&request, &outputs)?;
        let place = request.place(ArtifactScope::of(session, run)?);
        let mut warnings = request.warnings;
        warnings.extend(gathered.warnings);
        let collected = gathered.collected;
        warn::about(&collected.omitted, &mut warnings);
        Ok(CollectResult {
            snapshot_directory: format!("{}/{SNAPSHOT}", place.artifact_directory),
            place,
            copied_files: collected.copied.into_iter().map(|c| c.path).collect(),
            already_present: collected.already_present,
            omitted: omitted_set(collected.omitted, 0, 0),
            warnings,
        })
    }
}

pub(super) fn testimony(proof: &Proof) -> Testimony {
    Testimony {
        since_ms: proof.since_unix_ms.filter(|ms| *ms > 0),
        until_ms: proof.until_unix_ms.filter(|ms| *ms > 0),
        written: proof.written_files.clone(),
        command_spans: proof.command_spans.clone(),
        others_files: proof.others_files.clone(),
        maybe_others_files: proof.maybe_others_files.clone(),
        overlapped: proof.overlapped,
    }
}

/// Omissions as they are told, with what later pages hold.
pub(super) fn omitted_set(omitted: Omissions, later: u64, later_bytes: u64) -> OmittedSet {
    OmittedSet {
        count: omitted.total() + later,
        bytes: later_bytes,
        by_reason: omitted.counts,
        files: omitted.named,
    }
}
