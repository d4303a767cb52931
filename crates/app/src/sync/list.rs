//! The list of a run's files: all pages of it, each held against the run, and fresh links on demand.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Instant,
};

use threadline_contract::{
    ArtifactItem, ArtifactPath, Code, Fault, Omitted, Removed, Sha256, method,
};

use super::{Job, Missed};
use crate::{
    bridge::{Bridge, patience::Patience},
    verdict::{self, Told},
    workspace,
};

/// Files of a page, the most that the bridge gives.
const PAGE: u32 = 1_000;

/// What a run has.
pub(super) struct Listed {
    pub(super) items: Vec<ArtifactItem>,
    pub(super) missed: Vec<Missed>,
    pub(super) omitted: Vec<Omitted>,
    /// The digest of the receipt that the list must come to.
    pub(super) receipt: Option<Sha256>,
    /// The bytes are gone from the bridge.
    pub(super) removed: Option<Removed>,
}

/// Waits until the bridge has collected the files.
pub(super) async fn settled(job: &mut Job) -> Result<(), Fault> {
    let begun = Instant::now();
    while job.told.snapshot.artifacts_pending {
        if begun.elapsed() > job.bridge.timings.collect {
            return Err(Fault::new(
                Code::RuntimeReadFailed,
                "The bridge has not finished collecting the run's files. `threadline sync` asks again.",
            ));
        }
        tokio::time::sleep(job.bridge.timings.poll).await;
        job.told = ask(job, None).await?;
    }
    Ok(())
}

/// Every page, from the snapshot on.
pub(super) async fn all(job: &Job) -> Result<Listed, Fault> {
    gather(job, job.told.clone()).await
}

async fn gather(job: &Job, first: Told) -> Result<Listed, Fault> {
    let mut out = Listed {
        items: Vec::new(),
        missed: Vec::new(),
        omitted: Vec::new(),
        receipt: None,
        removed: None,
    };
    let mut seen: HashSet<ArtifactPath> = HashSet::new();
    let mut total = 0;
    let mut listed = 0;
    let mut cursors: HashSet<String> = HashSet::new();
    let mut page = first;
    loop {
        verdict::check_scope(&page, job.scope.as_ref())?;
        let Some(set) = page.snapshot.artifacts else {
            break;
        };
        total = total.max(set.total);
        out.receipt = out.receipt.or(set.receipt);
        out.removed = out.removed.or(set.removed);
        listed += page.items.len() as u64 + page.refused.len() as u64;
        if out.omitted.is_empty() {
            out.omitted = set.omitted;
        }
        for (path, why) in page.refused {
            out.missed
                .push(refused(path, &format!("was refused: {why}.")));
        }
        for item in page.items {
            let path = &item.artifact.path;
            let top = path.as_str().split('/').next();
            if top == Some(workspace::NOTES) {
                out.missed.push(refused(
                    path.to_string(),
                    "was refused: the name is reserved.",
                ));
            } else if seen.insert(path.clone()) {
                out.items.push(item);
            } else {
                out.missed.push(refused(
                    path.to_string(),
                    "was listed twice; the second was refused.",
                ));
            }
        }
        let Some(cursor) = set.next_cursor else { break };
        if !cursors.insert(cursor.clone()) {
            return Err(Fault::new(
                Code::BadBridgeAnswer,
                "The bridge's list of files goes round in circles.",
            ));
        }
        page = ask(job, Some(cursor)).await?;
    }
    if total > listed {
        out.missed.push(Missed {
            path: format!("{} files", total - listed),
            code: Code::BadBridgeAnswer,
            why: "were announced by the bridge but not listed.".into(),
        });
    }
    Ok(out)
}

fn refused(path: String, why: &str) -> Missed {
    Missed {
        path,
        code: Code::BadBridgeAnswer,
        why: why.to_owned(),
    }
}

/// A page of the run's files; a bridge that is away is waited for.
async fn ask(job: &Job, cursor: Option<String>) -> Result<Told, Fault> {
    let params = method::TaskParams {
        run_id: Some(job.run.clone()),
        include_artifacts: Some(true),
        max_files: Some(PAGE),
        cursor,
        ..job.lookup.clone()
    };
    let told = ask_again(&job.bridge, &params).await?;
    if told.snapshot.run_id != job.run || told.snapshot.thread_id != job.thread {
        return Err(Fault::new(
            Code::ScopeMismatch,
            format!(
                "The bridge answered about run {} when asked for {}.",
                told.snapshot.run_id, job.run
            ),
        ));
    }
    Ok(told)
}

/// What the bridge knows of a run, asked for until it answers or patience ends.
pub(crate) async fn ask_again(bridge: &Bridge, params: &method::TaskParams) -> Result<Told, Fault> {
    let mut patience = Patience::new(&bridge.timings);
    loop {
        let asked = bridge.call_value(method::TASKS_GET, params).await;
        match asked.and_then(verdict::read) {
            Ok(told) => return Ok(told),
            Err(trouble) if !trouble.again => return Err(trouble.into()),
            Err(trouble) => match patience.failed(Instant::now()) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(trouble.into()),
            },
        }
    }
}

/// Fresh links for those that are past their time, asked for once.
pub(super) struct Links {
    job: Arc<Job>,
    fresh: tokio::sync::Mutex<Option<HashMap<ArtifactPath, String>>>,
}

impl Links {
    pub(super) fn new(job: Arc<Job>) -> Self {
        Self {
            job,
            fresh: tokio::sync::Mutex::new(None),
        }
    }

    /// A fresh link to a file; `None` when the run no longer has it.
    pub(super) async fn fresh(&self, path: &ArtifactPath) -> Result<Option<String>, Fault> {
        let mut fresh = self.fresh.lock().await;
        if fresh.is_none() {
            let first = ask(&self.job, None).await?;
            let listed = gather(&self.job, first).await?;
            let links = listed
                .items
                .into_iter()
                .map(|item| (item.artifact.path, item.url));
            *fresh = Some(links.collect());
        }
        Ok(fresh.as_ref().and_then(|links| links.get(path)).cloned())
    }
}
