//! `verify`: a synced folder held against the receipts in it. A folder needs no owner.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use threadline_app::api::{self, ThreadParams, ThreadView};
use threadline_artifacts::{Progress, Report, VerifyOptions};
use threadline_contract::{Code, Fault, RunId};

use super::Context;
use crate::{
    args::Verify,
    exit::Exit,
    screen::{Terminal, area::Area, proof, words},
};

pub(super) async fn verify(context: &Context, args: Verify) -> Result<Exit, Fault> {
    let folder = folder(context, &args.what).await?;
    let options = VerifyOptions {
        receipts: args.receipt,
        run: args.run.map(RunId::new).transpose()?,
    };
    let report = check(context, &folder, &options)?;
    let exit = match report.is_intact() {
        true => Exit::Done,
        false => Exit::FilesIncomplete,
    };
    context.print(&told(&report, &folder, exit), || {
        proof::report(&report, context.out)
    });
    Ok(exit)
}

/// A folder that is there, or else the folder of a thread.
async fn folder(context: &Context, what: &str) -> Result<PathBuf, Fault> {
    let named = Path::new(what);
    if named.is_dir() {
        return Ok(named.to_owned());
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
    Ok(view.thread.workspace_binding.workspace_path.into())
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
