//! `run --out DIR`: the verified files once more, where the person wants them.

use std::path::{Path, PathBuf};

use threadline_app::api::TurnView;
use threadline_contract::{Code, Fault, Sha256, thread::SyncedFile};
use threadline_files::{Access, Durability, Error, Reason, Root, atomic, hash};

use crate::screen::words;

/// The folder that files are copied to.
pub(crate) struct Out {
    root: Root,
    path: PathBuf,
}

impl Out {
    /// Opens the folder, and makes it if needed: before the run, so that nobody waits in vain.
    pub(crate) fn open(path: &Path) -> Result<Self, Fault> {
        let root = atomic::create_dir_all(path, Access::Shared).map_err(|e| {
            let fault = failed(&e);
            let shown = words::line(&path.display().to_string());
            Fault {
                message: format!(
                    "--out: the folder {shown} cannot be made or opened ({e}). Choose another one."
                ),
                ..fault
            }
        })?;
        Ok(Self {
            root,
            path: path.to_owned(),
        })
    }

    /// Copies the files of a turn, and says what it did. A file of the same name and other content is never replaced: all
    /// of those are named, and none of the run's files is written.
    pub(crate) fn fill(&self, turn: &TurnView) -> Result<Option<String>, Fault> {
        let files = &turn.result.artifacts;
        if turn.result.files > files.len() as u64 {
            return Err(Fault::new(
                Code::ReceiptInvalid,
                format!(
                    "--out: {} were delivered, but the receipt that names them is not in {} any more, so nothing was copied.",
                    words::count(turn.result.files, "file"),
                    turn.folders.join(" nor in ")
                ),
            ));
        }
        let open = |folder: &String| Root::open(folder).map_err(|e| failed(&e));
        // In this order: a file moves from the first to the second when the next run delivers.
        let sources: Vec<Root> = turn.folders.iter().map(open).collect::<Result<_, _>>()?;
        let mut wanted = Vec::new();
        let mut taken = Vec::new();
        for file in files {
            match self.there(file)? {
                There::Nothing => wanted.push(file),
                There::Same => {}
                There::Other => taken.push(file.path.as_str()),
            }
        }
        if !taken.is_empty() {
            return Err(self.taken(&taken));
        }
        for file in wanted {
            self.copy(&sources, file)?;
        }
        let count = words::count(files.len() as u64, "file");
        Ok((!files.is_empty()).then(|| format!("{count} to {}", self.path.display())))
    }

    fn there(&self, file: &SyncedFile) -> Result<There, Fault> {
        match self.root.open_file(file.path.as_str()) {
            Err(e) if e.reason() == Reason::NotFound => Ok(There::Nothing),
            // A link, a folder, or something else that is not ours to replace.
            Err(e)
                if matches!(
                    e.reason(),
                    Reason::Symlink | Reason::NotRegular | Reason::NotDirectory
                ) =>
            {
                Ok(There::Other)
            }
            Err(e) => Err(failed(&e)),
            Ok(open) => match hash::file(&open) {
                Ok(hash::Hashed::Stable { sha256, .. }) if Sha256(sha256) == file.sha256 => {
                    Ok(There::Same)
                }
                _ => Ok(There::Other),
            },
        }
    }

    /// Copies a file from the first of the folders that has it as it was verified.
    fn copy(&self, sources: &[Root], file: &SyncedFile) -> Result<(), Fault> {
        let mut refused = None;
        for source in sources {
            match self.copy_from(source, file) {
                Err(fault) if fault.code != Code::OutFileExists => {
                    refused = refused.or(Some(fault));
                }
                done => return done,
            }
        }
        refused.map_or(Ok(()), Err)
    }

    fn copy_from(&self, source: &Root, file: &SyncedFile) -> Result<(), Fault> {
        let path = Path::new(file.path.as_str());
        let mut from = source.open_file(path).map_err(|e| failed(&e))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let folder = self
            .root
            .create_dir_all(folder, Access::Shared)
            .map_err(|e| failed(&e))?;
        let staged = folder
            .stage(&mut from, Access::Shared, Durability::Now)
            .map_err(|e| failed(&e))?;
        let written = staged.written();
        if Sha256(written.sha256) != file.sha256 {
            return Err(Fault::new(
                Code::ArtifactChanged,
                format!(
                    "{} has been changed in the thread's folder since it was verified, so it was not copied to {}.",
                    file.path,
                    self.path.display()
                ),
            ));
        }
        match staged.publish_new(&self.root, path) {
            Ok(_) => Ok(()),
            Err(e) if e.reason() == Reason::AlreadyExists => Err(self.taken(&[file.path.as_str()])),
            Err(e) => Err(failed(&e)),
        }
    }

    fn taken(&self, names: &[&str]) -> Fault {
        let mut message = format!(
            "{} holds other files under these names. Nothing was replaced, and nothing was copied:",
            self.path.display()
        );
        for name in names {
            message.push_str(&format!("\n  {name}"));
        }
        Fault::new(Code::OutFileExists, message)
    }
}

enum There {
    Nothing,
    Same,
    Other,
}

fn failed(e: &Error) -> Fault {
    let code = match e.reason() {
        Reason::NoSpace => Code::StorageFull,
        Reason::ReadOnly | Reason::Denied => Code::StorageReadOnly,
        _ => Code::InvalidRequest,
    };
    Fault::new(code, format!("--out: {e}."))
}

#[cfg(test)]
#[path = "out_tests.rs"]
mod tests;
