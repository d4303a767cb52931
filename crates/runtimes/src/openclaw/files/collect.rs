//! What a run made: brought into its scope on evidence, and listed.

use std::collections::HashSet;

use serde::Deserialize;
use threadline_contract::{
    Artifact, ArtifactPath, Code, EmptyReason, Fault, Millis, OmitReason, Omitted,
    plugin::{COLLECT, CollectParams, ExportParams, LIST, OmittedSet, Proof},
};

use super::{Files, Flat, LARGE, foreign, is_ours, own_scope, whose};
use crate::{
    End, EndStatus, Manifest, TurnPlan,
    openclaw::{
        gateway::Conn,
        notes::Note,
        turn::{NEVER, RESTARTING, SMALL, unreachable},
    },
};

/// Files on a page of a listing.
const PAGE: i64 = 500;
/// Pages that are asked for at most.
const PAGES: usize = 2_000;
/// How far the gateway's clock may be behind ours. The session's own turns are not at work at once, so
/// nothing of another slips in.
const SKEW_MS: i64 = 2_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    artifact_scope: String,
    #[serde(default)]
    artifacts: Vec<Flat>,
    #[serde(default)]
    omitted: OmittedSet,
    #[serde(default)]
    next_cursor: Option<String>,
    #[serde(default)]
    empty_reason: Option<EmptyReason>,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Deserialize)]
struct Collected {
    #[serde(default)]
    omitted: OmittedSet,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Deserialize)]
struct Touched {
    #[serde(default)]
    files: Vec<TouchedFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TouchedFile {
    #[serde(default)]
    path: String,
    #[serde(default)]
    workspace_path: Option<String>,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    missing: bool,
    #[serde(default)]
    updated_at_ms: Option<i64>,
}

/// What the scope has.
#[derive(Default)]
struct Listed {
    artifacts: Vec<Artifact>,
    omitted: Vec<Omitted>,
    empty_reason: Option<EmptyReason>,
    /// By a plugin that tells runs apart.
    ours: bool,
}

impl Files {
    /// Brings what the run made elsewhere into its scope, on evidence, and lists the scope.
    pub(in crate::openclaw) async fn collect(
        &self,
        plan: &TurnPlan,
        end: &End,
        note: &Note,
    ) -> Result<Manifest, Fault> {
        let conn = self.gateway.wait_for_work(NEVER, RESTARTING).await;
        let conn = conn.map_err(unreachable)?;
        let proof = self.proof(&conn, end, note).await?;
        let mut omitted = vec![];
        if end.status == EndStatus::Completed && conn.hello().has(COLLECT) {
            let params = CollectParams {
                whose: whose(&plan.session, &plan.run),
                proof: proof.clone(),
                source_files: None,
                max_files: None,
            };
            let code = Code::RuntimeReadFailed;
            let done: Collected = self.ask(COLLECT, &params, LARGE, code).await?;
            warn(plan, &done.warnings);
            omitted.extend(named(done.omitted));
        }
        let mut params = ExportParams {
            whose: whose(&plan.session, &plan.run),
            proof,
            max_files: Some(PAGE),
            include_content: Some(false),
            ..ExportParams::default()
        };
        let mut listed = self.list(plan, &mut params).await?;
        // Our plugin knows whose the files in folders of the shared workspace are, and when they count.
        if !plan.expected_dirs.is_empty() && listed.ours {
            params.expected_artifact_dirs = plan.expected_dirs.clone();
            params.cursor = None;
            listed = self.list(plan, &mut params).await?;
        }
        omitted.extend(listed.omitted);
        let mut manifest = Manifest {
            artifacts: listed.artifacts,
            empty_reason: listed.empty_reason,
            ..Manifest::default()
        };
        let taken: HashSet<&str> = manifest.artifacts.iter().map(|a| a.path.as_str()).collect();
        let mut told = HashSet::new();
        omitted.retain(|o| {
            !taken.contains(o.path.as_str()) && told.insert((o.path.clone(), o.reason))
        });
        manifest.omitted = omitted;
        if manifest.artifacts.is_empty() {
            manifest.empty_reason =
                Some(match (manifest.omitted.is_empty(), manifest.empty_reason) {
                    (false, None | Some(EmptyReason::ScopeEmpty)) => EmptyReason::AllOmitted,
                    (_, reason) => reason.unwrap_or(EmptyReason::ScopeEmpty),
                });
        }
        Ok(manifest)
    }

    /// Lists the scope, page after page.
    async fn list(&self, plan: &TurnPlan, params: &mut ExportParams) -> Result<Listed, Fault> {
        let mut listed = Listed::default();
        let mut seen = HashSet::new();
        for _ in 0..PAGES {
            let page: Page = self
                .ask(LIST, &*params, LARGE, Code::RuntimeReadFailed)
                .await?;
            let scope = own_scope(&page.artifact_scope, &plan.session, &plan.run)
                .ok_or_else(|| foreign(Code::RuntimeReadFailed))?;
            listed.ours = is_ours(&scope, plan);
            listed.empty_reason = page.empty_reason;
            warn(plan, &page.warnings);
            for file in page.artifacts {
                match take(file, plan) {
                    Ok(artifact) if seen.insert(artifact.path.clone()) => {
                        listed.artifacts.push(artifact);
                    }
                    Ok(_) => {}
                    Err(left) => listed.omitted.push(left),
                }
            }
            let last = page.next_cursor.is_none();
            // Later pages are not left out: they come.
            let left = named(page.omitted).into_iter();
            let left = left.filter(|o| last || o.reason != OmitReason::OverLimit);
            listed.omitted.extend(left);
            if last {
                return Ok(listed);
            }
            params.cursor = page.next_cursor;
        }
        let text = "The run has more files than are listed.";
        Err(Fault::new(Code::RuntimeReadFailed, text))
    }

    /// What is known about whose files are whose: tools of this run, and what the gateway itself says
    /// that the session wrote while the run went on.
    async fn proof(&self, conn: &Conn, end: &End, note: &Note) -> Result<Proof, Fault> {
        let mut written = end.wrote.clone();
        if conn.hello().has("sessions.files.list") {
            let params = serde_json::json!({"sessionKey": note.session});
            let code = Code::RuntimeReadFailed;
            let touched = self.ask::<Touched>("sessions.files.list", &params, SMALL, code);
            match touched.await {
                Ok(touched) => written.extend(touched.files.into_iter().filter_map(|file| {
                    let ours = file.updated_at_ms? >= note.sent_at.0.saturating_sub(SKEW_MS);
                    let path = file.workspace_path.unwrap_or(file.path);
                    let wrote = ours && !file.missing && file.kind == "modified";
                    (wrote && !path.is_empty()).then_some(path)
                })),
                Err(fault) if fault.code == Code::ProviderUnavailable => return Err(fault),
                Err(fault) => {
                    tracing::warn!(run.id = %note.run, "The gateway does not say what run {} wrote: {}", note.run, fault.message);
                }
            }
        }
        let mut known = HashSet::new();
        written.retain(|path| known.insert(path.clone()));
        let until = note.heard_at.unwrap_or_else(Millis::now);
        let others = self
            .gateway
            .others_between(note.session.as_str(), note.sent_at, until);
        Ok(Proof {
            since_unix_ms: None,
            until_unix_ms: note.ended_at,
            written_files: written,
            // What was not seen may have been all the same: then the plugin's own books tell.
            overlapped: others.then_some(true),
        })
    }
}

fn take(file: Flat, plan: &TurnPlan) -> Result<Artifact, Omitted> {
    let omit = |reason| Omitted {
        path: file.relative_path.clone(),
        reason,
    };
    if file.placeholder {
        return Err(omit(OmitReason::Placeholder));
    }
    let scope = file.artifact_scope.as_deref();
    if scope.is_some_and(|scope| own_scope(scope, &plan.session, &plan.run).is_none()) {
        return Err(omit(OmitReason::OutsideScope));
    }
    let path = ArtifactPath::new(&file.relative_path).map_err(|_| omit(OmitReason::UnsafeName))?;
    Ok(Artifact {
        path,
        size: file.size_bytes,
        sha256: file.sha256,
        content_type: file
            .content_type
            .unwrap_or_else(|| "application/octet-stream".into()),
    })
}

/// Omissions one by one; those beyond what is named are still counted.
fn named(set: OmittedSet) -> Vec<Omitted> {
    let mut all = set.files;
    for (reason, count) in set.by_reason {
        let listed = all.iter().filter(|o| o.reason == reason).count() as u64;
        if count > listed {
            let path = format!("(and {} more)", count - listed);
            all.push(Omitted { path, reason });
        }
    }
    all
}

fn warn(plan: &TurnPlan, warnings: &[String]) {
    for warning in warnings {
        tracing::warn!(run.id = %plan.run, "Run {}: {warning}", plan.run);
    }
}
