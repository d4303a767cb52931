//! Finding the receipts that a folder is held against.

use std::path::Path;

use threadline_contract::{
    Code, Fault, MAX_RECEIPT_BYTES, Receipt,
    scope::{NOTES, segment},
};
use threadline_files::{FileKind, Reason, Root, atomic};

use super::{Refused, VerifyOptions};
use crate::{Error, receipt::RECEIPT};

/// Receipts, and those that are none.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub receipts: Vec<Sourced>,
    pub refused: Vec<Refused>,
    /// Run folders among the notes, with or without a receipt.
    pub folders: Vec<String>,
}

/// A receipt, and where its run's earlier files would lie.
#[derive(Debug)]
pub(super) struct Sourced {
    pub receipt: Receipt,
    pub folder: Option<String>,
}

pub(super) fn receipts(root: &Root, options: &VerifyOptions) -> Result<Found, Error> {
    let mut found = if options.receipts.is_empty() {
        in_folder(root)?
    } else {
        let mut found = Found::default();
        for path in &options.receipts {
            let read = given(path)?;
            // Named twice, it still speaks for its files once.
            if !found.receipts.iter().any(|r| r.receipt == read.receipt) {
                found.receipts.push(read);
            }
        }
        found
    };
    hold_against(&mut found, options);
    let mut there: Vec<String> = Vec::new();
    if let Some(run) = &options.run {
        let receipts = found.receipts.iter().map(|r| r.receipt.run_id.to_string());
        there.extend(receipts);
        found.receipts.retain(|r| r.receipt.run_id == *run);
        let own = format!("{}/{RECEIPT}", run_folder(&segment(run.as_str())));
        let all = format!("{NOTES}/runs");
        found.refused.retain(|r| r.path == own || r.path == all);
    }
    if found.receipts.is_empty() && found.refused.is_empty() {
        return Err(match &options.run {
            Some(run) if !there.is_empty() => Error::NoReceiptOfRun {
                run: run.to_string(),
                there,
            },
            _ => Error::NoReceipt {
                folder: root.path().display().to_string(),
            },
        });
    }
    Ok(found)
}

/// Takes out the receipts that are not what a record says, and names those that it says are there.
fn hold_against(found: &mut Found, options: &VerifyOptions) {
    for known in &options.known {
        let name = segment(known.run.as_str());
        let path = format!("{}/{RECEIPT}", run_folder(&name));
        let of_run = |r: &Sourced| r.receipt.run_id == known.run;
        let other = |r: &Sourced| of_run(r) && r.receipt.digest() != known.digest;
        // Of itself, or of the folder of all.
        let mut refused = found.refused.iter();
        let told = refused.any(|refused| path.starts_with(&refused.path));
        let (code, why) = if found.receipts.iter().any(other) {
            let why = "The receipt is not the one that the thread's record names: somebody wrote another one.";
            (Code::ReceiptInvalid, why)
        } else if !known.required || told || found.receipts.iter().any(of_run) {
            continue;
        } else if options.receipts.is_empty() {
            let why = "The receipt that the thread's record names is not there.";
            (Code::ReceiptMissing, why)
        } else {
            continue;
        };
        found.receipts.retain(|r| !other(r));
        found.refused.push(Refused {
            path,
            code,
            why: why.to_owned(),
        });
    }
}

/// Where our notes about a run lie in a synced folder.
pub(super) fn run_folder(name: &str) -> String {
    format!("{NOTES}/runs/{name}")
}

fn given(path: &Path) -> Result<Sourced, Error> {
    let bytes = atomic::read_limited(path, MAX_RECEIPT_BYTES).map_err(|e| match e.reason() {
        Reason::NotFound => Error::NoReceipt {
            folder: path.display().to_string(),
        },
        Reason::TooLarge => Error::BadReceipt(threadline_contract::BadReceipt::TooLarge),
        Reason::NotRegular => Error::NotAFile {
            path: path.display().to_string(),
        },
        _ => e.into(),
    })?;
    Ok(Sourced {
        receipt: Receipt::from_bytes(&bytes)?,
        folder: None,
    })
}

fn in_folder(root: &Root) -> Result<Found, Error> {
    let mut found = Found::default();
    let runs = format!("{NOTES}/runs");
    let entries = match root.entries(&runs) {
        Ok(entries) => entries,
        Err(e) if e.reason() == Reason::NotFound => return Ok(found),
        Err(e) if matches!(e.reason(), Reason::Symlink | Reason::NotDirectory) => {
            // What lies behind a link is not this folder's, and is not believed.
            found.refused.push(Refused {
                path: runs,
                code: Code::ReceiptInvalid,
                why: "The folder of the receipts is a link or no folder, so they were not read."
                    .to_owned(),
            });
            return Ok(found);
        }
        Err(e) => return Err(Error::folder(e, &runs)),
    };
    for entry in entries {
        // What some system keeps about every folder is nobody's run.
        let Some(name) = entry.name.to_str().filter(|name| !name.starts_with('.')) else {
            continue;
        };
        let folder = run_folder(name);
        let path = format!("{folder}/{RECEIPT}");
        if entry.kind != FileKind::Dir {
            found.refused.push(Refused {
                path,
                code: Code::ReceiptInvalid,
                why: "The run's folder is a link or no folder, so its receipt was not read."
                    .to_owned(),
            });
            continue;
        }
        found.folders.push(folder.clone());
        let fault = match root.read_limited(&path, MAX_RECEIPT_BYTES) {
            Ok(bytes) => match Receipt::from_bytes(&bytes) {
                // One that was put into another run's folder would be held against its files.
                Ok(receipt) if segment(receipt.run_id.as_str()) != name => Fault::new(
                    Code::ReceiptInvalid,
                    format!("The receipt is of another run ({}).", receipt.run_id),
                ),
                Ok(receipt) => {
                    let folder = Some(folder);
                    found.receipts.push(Sourced { receipt, folder });
                    continue;
                }
                Err(bad) => bad.into(),
            },
            Err(e) if e.reason() == Reason::NotFound => continue,
            Err(e) => Fault::new(
                Code::ReceiptInvalid,
                format!("The receipt cannot be read ({e})."),
            ),
        };
        found.refused.push(Refused {
            path,
            code: fault.code,
            why: fault.message,
        });
    }
    Ok(found)
}
