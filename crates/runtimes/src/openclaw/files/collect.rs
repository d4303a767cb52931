//! What a run made: brought into its scope on evidence, and listed.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use threadline_contract::{
    Artifact, ArtifactPath, Code, EmptyReason, Fault, Millis, OmitReason, Omitted,
    plugin::{COLLECT, CollectParams, ExportParams, GATHER, LIST, OmittedSet, PREPARE, Proof},
    shown_name,
};

use super::{Files, Flat, LARGE, foreign, left, no_plugin, own_scope, whose};
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

/// How an entry begins that stands for files which are counted and not named.
const UNNAMED: &str = "(and ";

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

/// What [`GATHER`] is asked.
#[derive(Serialize)]
struct Gather<'a> {
    #[serde(flatten)]
    list: &'a ExportParams,
    /// What lies elsewhere, too.
    collect: bool,
}

#[derive(Deserialize)]
struct Gathered {
    #[serde(flatten)]
    page: Page,
    #[serde(default)]
    collected: Option<Collected>,
    /// The plugin heard every tool call of the run.
    #[serde(default)]
    watched: bool,
}

#[derive(Default, Deserialize)]
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
        if !self.has(&conn, PREPARE).await {
            return Err(no_plugin(Code::RuntimeReadFailed));
        }
        let mut params = ExportParams {
            whose: whose(&plan.session, &plan.run),
            proof: self.proof(end, note),
            max_files: Some(PAGE),
            include_content: Some(false),
            ..ExportParams::default()
        };
        let (left, listed) = match conn.hello().has(GATHER) {
            true => {
                // It knows whose the files in folders of the shared workspace are, and when they count.
                params.expected_artifact_dirs = plan.expected_dirs.clone();
                self.gather(&conn, plan, end, note, params).await?
            }
            false => self.in_steps(&conn, plan, end, note, params).await?,
        };
        let all = named(left).into_iter().chain(listed.omitted);
        let mut omitted = left::told(all, end, plan);
        let taken: HashSet<&str> = listed.artifacts.iter().map(|a| a.path.as_str()).collect();
        let mut told = HashSet::new();
        // Each file has one fate, and what collecting says of it is more than what listing does.
        omitted.retain(|o| {
            let is_count = o.path.starts_with(UNNAMED);
            !taken.contains(o.path.as_str()) && (told.insert(o.path.clone()) || is_count)
        });
        let mut manifest = Manifest {
            artifacts: listed.artifacts.into(),
            omitted,
            empty_reason: listed.empty_reason,
            ..Manifest::default()
        };
        if manifest.artifacts.is_empty() {
            manifest.empty_reason =
                Some(match (manifest.omitted.is_empty(), manifest.empty_reason) {
                    (false, None | Some(EmptyReason::ScopeEmpty)) => EmptyReason::AllOmitted,
                    (true, Some(EmptyReason::AllOmitted)) => EmptyReason::ScopeEmpty,
                    (_, reason) => reason.unwrap_or(EmptyReason::ScopeEmpty),
                });
        }
        Ok(manifest)
    }

    /// Asks our own plugin, which does everything at once. It was there when the run's tools were called;
    /// if it was not all the time, the gateway is asked as well.
    async fn gather(
        &self,
        conn: &Conn,
        plan: &TurnPlan,
        end: &End,
        note: &Note,
        mut params: ExportParams,
    ) -> Result<(OmittedSet, Listed), Fault> {
        let collect = end.status == EndStatus::Completed;
        let mut gathered = self.gather_once(&params, collect).await?;
        if !gathered.watched && self.add_touched(conn, note, &mut params.proof).await? {
            gathered = self.gather_once(&params, collect).await?;
        }
        let collected = gathered.collected.unwrap_or_default();
        warn(plan, &collected.warnings);
        let listed = self.list(plan, &mut params, gathered.page).await?;
        Ok((collected.omitted, listed))
    }

    async fn gather_once(&self, list: &ExportParams, collect: bool) -> Result<Gathered, Fault> {
        let params = Gather { list, collect };
        self.ask(GATHER, &params, LARGE, Code::RuntimeReadFailed)
            .await
    }

    /// Asks an earlier plugin, one thing after the other.
    async fn in_steps(
        &self,
        conn: &Conn,
        plan: &TurnPlan,
        end: &End,
        note: &Note,
        mut params: ExportParams,
    ) -> Result<(OmittedSet, Listed), Fault> {
        let code = Code::RuntimeReadFailed;
        self.add_touched(conn, note, &mut params.proof).await?;
        let mut collected = Collected::default();
        if end.status == EndStatus::Completed && conn.hello().has(COLLECT) {
            let params = CollectParams {
                whose: params.whose.clone(),
                proof: params.proof.clone(),
                source_files: None,
                max_files: None,
            };
            collected = self.ask(COLLECT, &params, LARGE, code).await?;
            warn(plan, &collected.warnings);
        }
        let first = self.ask(LIST, &params, LARGE, code).await?;
        let listed = self.list(plan, &mut params, first).await?;
        Ok((collected.omitted, listed))
    }

    /// Everything in the scope: what is on this page, and on those after it.
    async fn list(
        &self,
        plan: &TurnPlan,
        params: &mut ExportParams,
        mut page: Page,
    ) -> Result<Listed, Fault> {
        let code = Code::RuntimeReadFailed;
        let mut listed = Listed::default();
        let mut seen = HashSet::new();
        for _ in 0..PAGES {
            own_scope(&page.artifact_scope, &plan.session, &plan.run)
                .ok_or_else(|| foreign(code))?;
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
            page = self.ask(LIST, &*params, LARGE, code).await?;
        }
        let text = "The run has more files than are listed.";
        Err(Fault::new(code, text))
    }

    /// What is known here about whose files are whose.
    fn proof(&self, end: &End, note: &Note) -> Proof {
        let until = note.heard_at.unwrap_or_else(Millis::now);
        let others = self
            .gateway
            .others_between(note.session.as_str(), note.sent_at, until);
        Proof {
            since_unix_ms: None,
            until_unix_ms: note.ended_at,
            written_files: end.wrote.clone(),
            // What was not seen may have been all the same: then the plugin's own books tell.
            overlapped: others.then_some(true),
            ..Proof::default()
        }
    }

    /// Adds what the gateway itself says that the session wrote while the run went on. `true` when that
    /// is more than was known.
    async fn add_touched(
        &self,
        conn: &Conn,
        note: &Note,
        proof: &mut Proof,
    ) -> Result<bool, Fault> {
        if !conn.hello().has("sessions.files.list") {
            return Ok(false);
        }
        let params = serde_json::json!({"sessionKey": note.session});
        let code = Code::RuntimeReadFailed;
        let touched = self.ask::<Touched>("sessions.files.list", &params, SMALL, code);
        let touched = match touched.await {
            Ok(touched) => touched.files,
            Err(fault) if fault.code == Code::ProviderUnavailable => return Err(fault),
            Err(fault) => {
                tracing::warn!(run.id = %note.run, "The gateway does not say what run {} wrote: {}", note.run, fault.message);
                return Ok(false);
            }
        };
        let written = &mut proof.written_files;
        let before = written.len();
        for file in touched {
            let at = file.updated_at_ms;
            let ours = at.is_some_and(|at| at >= note.sent_at.0.saturating_sub(SKEW_MS));
            let path = file.workspace_path.unwrap_or(file.path);
            let wrote = ours && !file.missing && file.kind == "modified";
            if wrote && !path.is_empty() && !written.contains(&path) {
                written.push(path);
            }
        }
        Ok(written.len() > before)
    }
}

fn take(file: Flat, plan: &TurnPlan) -> Result<Artifact, Omitted> {
    let omit = |reason| Omitted {
        path: shown_name(&file.relative_path).into_owned(),
        reason,
    };
    if file.placeholder {
        return Err(omit(OmitReason::Placeholder));
    }
    let scope = file.artifact_scope.as_deref();
    if scope.is_some_and(|scope| own_scope(scope, &plan.session, &plan.run).is_none()) {
        return Err(omit(OmitReason::OutsideScope));
    }
    let path = ArtifactPath::to_deliver(&file.relative_path);
    let path = path.map_err(|_| omit(OmitReason::UnsafeName))?;
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
            let path = format!("{UNNAMED}{} more)", count - listed);
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
