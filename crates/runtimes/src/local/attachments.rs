//! Files that come with a prompt, put where the agent works.

use std::{fs::File, path::Path};

use threadline_artifacts::Error;
use threadline_contract::{Code, Fault, scope::segment};
use threadline_files::{
    Access, Durability, Protected, Reason, Root,
    hash::{self, Hashed},
};

use super::{not_prepared, storage_fault};
use crate::Attachment;

/// Where they lie in the work folder.
const FOLDER: &str = "attachments";
/// Where the scope remembers what they are called.
const NOTE: &str = ".xworkmate/attachments.json";
const NOTE_BYTES: u64 = 1024 * 1024;
/// Names that are tried for one file.
const TRIES: u32 = 1000;

/// Copies attachments into the work folder and says where each lies in it. Nothing that is there is
/// replaced: another file of the same name gets a number. Done once per run; repeating it finds the
/// names that were chosen, because by then the agent may have changed the files.
pub(super) fn place(
    attachments: &[Attachment],
    work: &Path,
    scope: &Path,
    protected: &Protected,
) -> Result<Vec<String>, Fault> {
    if attachments.is_empty() {
        return Ok(Vec::new());
    }
    let scope = Root::open(scope).map_err(storage_fault)?;
    match scope.read_limited(NOTE, NOTE_BYTES) {
        Ok(note) => {
            return serde_json::from_slice(&note).map_err(|e| {
                tracing::error!(error = %e, "the note of a run's attachments cannot be read");
                Fault::new(
                    Code::PrepareFailed,
                    "The run's own notes are damaged. Start it again.",
                )
            });
        }
        Err(e) if e.reason() == Reason::NotFound => {}
        Err(e) => return Err(storage_fault(e)),
    }
    let work = Root::open(work)
        .and_then(|root| root.avoiding(protected))
        .map_err(|e| not_prepared(no_folder(e, work)))?;
    let folder = work
        .create_dir_all(FOLDER, Access::Shared)
        .map_err(storage_fault)?;
    let placed: Result<Vec<String>, Fault> = attachments.iter().map(|a| copy(a, &folder)).collect();
    let placed = placed?;
    let note = serde_json::to_vec(&placed).map_err(|_| Fault::internal())?;
    scope
        .write_atomic(NOTE, &note, Access::Shared)
        .map_err(storage_fault)?;
    Ok(placed)
}

fn no_folder(e: threadline_files::Error, folder: &Path) -> Error {
    match e.reason() {
        Reason::NotFound | Reason::NotDirectory => Error::NoWorkFolder {
            folder: folder.display().to_string(),
        },
        Reason::Protected => Error::ProtectedWorkFolder {
            folder: folder.display().to_string(),
        },
        _ => e.into(),
    }
}

/// Puts one attachment into the folder and gives its path in the work folder.
fn copy(attachment: &Attachment, folder: &Root) -> Result<String, Fault> {
    let gone = |why: &str| {
        let text = format!("The attachment `{}` {why}. Send it again.", attachment.name);
        Fault::new(Code::AttachmentInvalid, text)
    };
    let source = attachment.path.parent().zip(attachment.path.file_name());
    let (above, name) = source.ok_or_else(|| gone("has no file"))?;
    let mut source = Root::open(above)
        .and_then(|root| root.open_file(name))
        .map_err(|e| {
            tracing::warn!(error = %e, "an attachment cannot be opened");
            gone("is no longer there")
        })?;
    let staged = folder
        .stage(&mut source, Access::Shared, Durability::Now)
        .map_err(storage_fault)?;
    if staged.written().sha256 != attachment.sha256.0 {
        return Err(gone("is damaged"));
    }
    // Publishing consumes what was staged, so the name is looked for first. Only this run works in
    // the folder now; should somebody else take the name meanwhile, preparing fails and is repeated.
    for number in 1..=TRIES {
        let name = numbered(&segment(&attachment.name), number);
        let path = format!("{FOLDER}/{name}");
        match folder.open_file(&name) {
            Ok(file) if holds(&file, attachment) => return Ok(path),
            Ok(_) => {}
            Err(e) if e.reason() == Reason::NotFound => {
                staged.publish_new(folder, &name).map_err(storage_fault)?;
                return Ok(path);
            }
            // A folder or a link of that name: the next one, then.
            Err(_) => {}
        }
    }
    Err(gone("finds no free name in the work folder"))
}

fn holds(file: &File, attachment: &Attachment) -> bool {
    matches!(hash::file(file), Ok(Hashed::Stable { sha256, .. }) if sha256 == attachment.sha256.0)
}

/// `report.csv`, `report-2.csv`, `report-3.csv`.
fn numbered(name: &str, number: u32) -> String {
    if number == 1 {
        return name.to_owned();
    }
    match name.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() => format!("{stem}-{number}.{ending}"),
        _ => format!("{name}-{number}"),
    }
}
