//! A run's files: the plugin makes the folders, and says what came of the run.
//!
//! The plugin may be an earlier one whose answers are not always true. What it says is held against
//! what was asked: another session, run or scope is refused, and folders in which other threads' files
//! lie are not named to it.

use std::{borrow::Cow, collections::HashSet, path::PathBuf, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use threadline_contract::{
    Artifact, ArtifactPath, ArtifactScope, Code, EmptyReason, Fault, Millis, OmitReason, Omitted,
    RunId, SessionKey, Sha256,
    plugin::{
        COLLECT, CollectParams, ExportParams, LIST, OmittedSet, PREPARE, PrepareParams, Proof,
        SCHEMA_VERSION, Whose,
    },
};
use tokio::time::{Instant, sleep};

use super::{
    gateway::{CallError, Conn, Gateway},
    notes::Note,
    turn::{NEVER, RESTARTING, SMALL, unreachable},
};
use crate::{End, EndStatus, Manifest, Places, TurnPlan};

/// How long listing and hashing a large scope may take.
pub(super) const LARGE: Duration = Duration::from_secs(300);
/// Files on a page of a listing.
const PAGE: i64 = 500;
/// Pages that are asked for at most.
const PAGES: usize = 2_000;

/// How far the gateway's clock may be behind ours. The session's own turns are not at work at once, so
/// nothing of another slips in.
const SKEW_MS: i64 = 2_000;

/// Files on a gateway.
#[derive(Clone)]
pub(super) struct Files {
    pub(super) gateway: Gateway,
    pub(super) http: reqwest::Client,
}

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
#[serde(rename_all = "camelCase")]
struct Flat {
    relative_path: String,
    #[serde(default)]
    content_type: Option<Cow<'static, str>>,
    size_bytes: u64,
    sha256: Sha256,
    #[serde(default)]
    artifact_scope: Option<String>,
    /// A peer's mark of a file that nobody's agent made.
    #[serde(default)]
    placeholder: bool,
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

impl Files {
    /// Makes the run's folder on the gateway's host, and the mapping of its session.
    pub(super) async fn prepare(&self, plan: &TurnPlan) -> Result<Places, Fault> {
        let conn = self.gateway.wait_for_work(NEVER, RESTARTING).await;
        let conn = conn.map_err(unreachable)?;
        if !conn.hello().has(PREPARE) {
            return Err(Fault::new(Code::OpenClawPrepareFailed, NO_PLUGIN));
        }
        let params = PrepareParams {
            whose: whose(&plan.session, &plan.run),
            schema_version: Some(SCHEMA_VERSION),
            app_thread_key: Some(plan.thread.to_string()),
            expected_artifact_dirs: vec![],
            check_only: None,
        };
        let (mut prepared, mut scope) = self.prepare_once(plan, &params).await?;
        if !plan.expected_dirs.is_empty() && is_ours(&scope, plan) {
            let params = PrepareParams {
                expected_artifact_dirs: plan.expected_dirs.clone(),
                ..params
            };
            (prepared, scope) = self.prepare_once(plan, &params).await?;
        }
        let folder = PathBuf::from(prepared.artifact_directory);
        Ok(Places {
            scope,
            artifact_directory: folder.clone(),
            // The agent's own workspace is shared with others; this folder is the run's alone.
            work_folder: folder,
            attachments: plan.attachments.iter().map(|a| a.name.clone()).collect(),
        })
    }

    async fn prepare_once(
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
        let prepared: Prepared = self.ask(PREPARE, &params, SMALL, code).await?;
        let scope = own_scope(&prepared.artifact_scope, &plan.session, &plan.run);
        let same =
            prepared.run_id == plan.run.as_str() && prepared.session_key == plan.session.as_str();
        match scope {
            Some(scope) if same => Ok((prepared, scope)),
            _ => Err(foreign(code)),
        }
    }

    /// Brings what the run made elsewhere into its scope, on evidence, and lists the scope.
    pub(super) async fn collect(
        &self,
        plan: &TurnPlan,
        end: &End,
        note: &Note,
    ) -> Result<Manifest, Fault> {
        let conn = self.conn(RESTARTING).await?;
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
            let touched = conn.call::<Touched>("sessions.files.list", params, SMALL);
            match touched.await {
                Ok(touched) => written.extend(touched.files.into_iter().filter_map(|file| {
                    let ours = file.updated_at_ms? >= note.sent_at.0.saturating_sub(SKEW_MS);
                    let path = file.workspace_path.unwrap_or(file.path);
                    let wrote = ours && !file.missing && file.kind == "modified";
                    (wrote && !path.is_empty()).then_some(path)
                })),
                Err(CallError::Refused(error)) => {
                    tracing::warn!(run.id = %note.run, "The gateway does not say what run {} wrote: {error}", note.run);
                }
                Err(error) => return Err(unreachable(error)),
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

    /// Asks the plugin. A gateway that starts or stops turns everybody away for a while: it is asked
    /// again when it is back.
    async fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
        limit: Duration,
        code: Code,
    ) -> Result<T, Fault> {
        let params = plain(params)?;
        let begun = Instant::now();
        loop {
            let conn = self.gateway.wait_for_work(NEVER, RESTARTING).await;
            let conn = conn.map_err(unreachable)?;
            let error = match conn.call(method, &params, limit).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let pause = match &error {
                CallError::Refused(away) if away.code == "UNAVAILABLE" && away.retryable => {
                    let asked = away.retry_after_ms.unwrap_or(1000).clamp(100, 5_000);
                    Duration::from_millis(asked)
                }
                CallError::Offline(_) => Duration::from_millis(200),
                _ => return Err(refused(error, code)),
            };
            if begun.elapsed() > RESTARTING {
                return Err(refused(error, code));
            }
            sleep(pause).await;
        }
    }

    pub(super) async fn conn(&self, restarting: Duration) -> Result<Arc<Conn>, Fault> {
        let up = self.gateway.wait_up(NEVER, restarting).await;
        up.map_err(unreachable)
    }
}

/// What is said where the plugin is missing.
pub(super) const NO_PLUGIN: &str = "The OpenClaw gateway has no Threadline plugin, so it cannot keep a run's files apart. `threadline openclaw install` puts it there.";

/// What the scope has.
#[derive(Default)]
struct Listed {
    artifacts: Vec<Artifact>,
    omitted: Vec<Omitted>,
    empty_reason: Option<EmptyReason>,
    /// By a plugin that tells runs apart.
    ours: bool,
}

pub(super) fn whose(session: &SessionKey, run: &RunId) -> Whose {
    Whose {
        openclaw_session_key: Some(session.to_string()),
        run_id: Some(run.to_string()),
        ..Whose::default()
    }
}

/// Whether the plugin tells runs apart: an earlier one spells scopes in another way, and cannot tell
/// whose the files in a shared folder are.
fn is_ours(scope: &ArtifactScope, plan: &TurnPlan) -> bool {
    ArtifactScope::of(&plan.session, &plan.run).as_ref() == Ok(scope)
}

/// The scope, if it is this run's: in our spelling, or in that of the earlier plugin.
fn own_scope(text: &str, session: &SessionKey, run: &RunId) -> Option<ArtifactScope> {
    ArtifactScope::check_to_read(text, session, run).ok()
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

/// Parameters without the fields that say nothing: an earlier plugin takes `null` for zero.
pub(super) fn plain(params: &impl Serialize) -> Result<Value, Fault> {
    let mut value = serde_json::to_value(params).map_err(|_| Fault::internal())?;
    if let Value::Object(fields) = &mut value {
        fields.retain(|_, value| !value.is_null());
    }
    Ok(value)
}

/// What a caller is told when the plugin said no.
pub(super) fn refused(error: CallError, code: Code) -> Fault {
    let refusal = match error {
        CallError::Refused(refusal) => refusal,
        other => return unreachable(other),
    };
    if refusal.detail("code") == Some("MISSING_SCOPE") {
        return Fault::new(
            code,
            "The plugin in the OpenClaw gateway answers administrators only. `threadline openclaw install` puts one there that does not need it, or set `openclaw.admin = true`.",
        );
    }
    match Code::find(&refusal.code) {
        Some(Code::InvalidRequest) | None => Fault::new(code, format!("{refusal}.")),
        Some(own) => Fault::new(own, format!("{}.", refusal.message.trim_end_matches('.'))),
    }
}

pub(super) fn foreign(code: Code) -> Fault {
    Fault::new(
        code,
        "The plugin in the OpenClaw gateway answered for another run. Nothing of it was taken.",
    )
}
