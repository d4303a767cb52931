//! `verify`: a synced folder held against the receipts in it. A folder needs no owner, and can only
//! speak for itself: whoever can write to it can write receipts that fit. Of a thread, the receipts
//! are held against what its record and the data folder know of them.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use threadline_app::api::{self, ThreadParams, ThreadView};
use threadline_artifacts::{Known, Progress, Report, VerifyOptions, Workspace};
use threadline_contract::{Code, Fault, RunId, thread::TaskThread};

use super::Context;
use crate::{
    args::Verify,
    exit::Exit,
    screen::{Terminal, area::Area, proof, words},
};

pub(super) async fn verify(context: &Context, args: Verify) -> Result<Exit, Fault> {
    let (folder, record) = folder(context, &args.what).await?;
    let options = VerifyOptions {
        receipts: args.receipt,
        run: args.run.map(RunId::new).transpose()?,
        known: record.as_ref().map_or_else(Vec::new, |r| known(context, r)),
    };
    let report = check(context, &folder, &options)?;
    let exit = match report.is_intact() {
        true => Exit::Done,
        false => Exit::FilesIncomplete,
    };
    context.print(&told(&report, &folder, exit), || {
        let report_text = proof::report(&report, context.out);
        match record {
            Some(_) => format!("{report_text}{}\n", context.out.dim(&on_record(&report))),
            None => report_text,
        }
    });
    Ok(exit)
}

/// What is known of a thread's receipts outside of its folder. The record has those of its turns; of turns
/// that an older version recorded they lie in the data folder, if they ran here.
fn known(context: &Context, record: &TaskThread) -> Vec<Known> {
    let state = &record.context_state;
    let Some(last) = &state.task_association else {
        return Vec::new();
    };
    let mut known = Vec::new();
    if let (Some(run), Some(digest)) = (&last.run_id, state.last_receipt) {
        known.push(Known {
            run: run.clone(),
            digest,
            required: true,
        });
    }
    for message in &state.messages {
        let receipt = message.result.as_ref().and_then(|result| result.receipt);
        if let (Some(run), Some(digest)) = (&message.run_id, receipt)
            && known.iter().all(|known| known.run != *run)
        {
            known.push(Known {
                run: run.clone(),
                digest,
                required: false,
            });
        }
    }
    let kept = Workspace::open(&context.config.data).ok();
    if let (Some(session), Some(kept)) = (&last.session_key, kept) {
        let runs = state.messages.iter().filter_map(|m| m.run_id.as_ref());
        for run in runs.collect::<BTreeSet<_>>() {
            if known.iter().any(|known| known.run == *run) {
                continue;
            }
            if let Ok(Some(receipt)) = kept.receipt(session, run) {
                known.push(Known {
                    run: run.clone(),
                    digest: receipt.digest(),
                    required: false,
                });
            }
        }
    }
    known
}

/// How many of the receipts are more than the folder's own word.
fn on_record(report: &Report) -> String {
    let all = report.receipts.len();
    match report.receipts.iter().filter(|r| r.on_record).count() {
        0 => "No receipt here is known outside of the folder.".to_owned(),
        n if n == all => "Every receipt here is the one on record.".to_owned(),
        n => format!("{n} of {all} receipts here are known outside of the folder, and the same."),
    }
}

/// A folder that is there, or else the folder of a thread, with its record.
async fn folder(context: &Context, what: &str) -> Result<(PathBuf, Option<TaskThread>), Fault> {
    let named = Path::new(what);
    if named.is_dir() {
        return Ok((named.to_owned(), None));
    }
    let none = |what: &str| Fault::new(Code::NotFound, what.to_owned());
    let shown = words::line(what);
    if named.exists() {
        return Err(none(&format!(
            "{shown} is not a folder. To check by a receipt: threadline verify FOLDER --receipt {}",
            words::quoted(what)
        )));
    }
    if what.contains('/') {
        return Err(none(&format!("There is no folder {shown}.")));
    }
    let thread = ThreadParams {
        thread: what.to_owned(),
    };
    let client = context.client().await?;
    let view: ThreadView = match client.call(api::SHOW, thread).await {
        Err(fault) if fault.code == Code::ThreadNotFound => {
            return Err(Fault {
                message: format!("There is no folder and no thread called {shown}."),
                ..fault
            });
        }
        found => found?,
    };
    let folder = view.thread.workspace_binding.workspace_path.clone();
    Ok((folder.into(), Some(view.thread)))
}

fn check(context: &Context, folder: &Path, options: &VerifyOptions) -> Result<Report, Fault> {
    let to = Terminal {
        person: context.err.person && !context.json,
        ..context.err
    };
    let area = Area::new(to);
    let tell = |at: Progress| area.file("checked", at.bytes, at.total_bytes);
    let report = threadline_artifacts::verify(folder, options, &tell);
    area.still();
    Ok(report?)
}

fn told(report: &Report, folder: &Path, exit: Exit) -> Value {
    let mut told = json!(report);
    if let Some(map) = told.as_object_mut() {
        map.insert("folder".into(), json!(folder));
        map.insert("intact".into(), json!(report.is_intact()));
        map.insert("exitCode".into(), exit.number().into());
    }
    told
}
