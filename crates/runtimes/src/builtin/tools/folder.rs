//! The agent's hands: everything it does to files, beneath the folders that are its own.

use std::{
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use threadline_contract::{Code, Fault, RunId, SessionKey};
use threadline_files::{
    Access, Error, Reason, Root,
    walk::{Found, Problem, walk},
};

use super::{EditFile, ListFiles, ReadFile, Tool, WriteFile};
use crate::{LocalWorkspace, local::storage_fault};

/// Bytes that one reading gives at most.
const READ: u64 = 64 * 1024;
/// The largest file that can be edited.
const EDIT: u64 = 4 * 1024 * 1024;
/// Files that one listing names, and how deep it goes.
const LISTED: usize = 500;
const DEEP: usize = 12;
/// Our own notes: nothing an agent may touch.
const NOTES: &str = ".xworkmate";

/// Where the agent may work: its work folder, and the folder that leaves.
#[derive(Clone, Debug)]
pub(in crate::builtin) struct Folder {
    pub(in crate::builtin) work: PathBuf,
    pub(in crate::builtin) leaves: PathBuf,
    /// The workspace that both may lie in, and whose turn this is: the rest of it is not the agent's.
    pub(in crate::builtin) workspace: LocalWorkspace,
    pub(in crate::builtin) session: SessionKey,
    pub(in crate::builtin) run: RunId,
}

/// What came of a tool call on files.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::builtin) struct Work {
    /// What the model is told, and whether it worked.
    pub(in crate::builtin) result: Result<String, String>,
    /// The file in the work folder that was written.
    pub(in crate::builtin) wrote: Option<String>,
}

/// Why a tool call did not work.
enum Why {
    /// A sentence for the model, which can try something else.
    Tell(String),
    /// Nothing the model could do about it.
    End(Fault),
}

impl From<String> for Why {
    fn from(sentence: String) -> Self {
        Self::Tell(sentence)
    }
}

/// A path that was understood: the folder it lies beneath, and where.
struct Place {
    root: Root,
    path: String,
    in_work: bool,
}

impl Folder {
    /// Runs a tool. Blocks. The error ends the run.
    pub(in crate::builtin) fn run(&self, tool: &Tool) -> Result<Work, Fault> {
        let mut wrote = None;
        let result = match tool {
            Tool::Write(write) => self.write(write, &mut wrote),
            Tool::Read(read) => self.read(read),
            Tool::List(list) => self.list(list),
            Tool::Edit(edit) => self.edit(edit, &mut wrote),
            Tool::Ask(_) => Err(Why::Tell("Nobody can be asked here.".into())),
        };
        match result {
            Ok(text) => Ok(Work {
                result: Ok(text),
                wrote,
            }),
            Err(Why::Tell(text)) => Ok(Work {
                result: Err(text),
                wrote,
            }),
            Err(Why::End(fault)) => Err(fault),
        }
    }

    /// The file that a tool call names as written, if it can be one.
    pub(in crate::builtin) fn names(&self, tool: &Tool) -> Option<String> {
        let (Tool::Write(WriteFile { path, .. }) | Tool::Edit(EditFile { path, .. })) = tool else {
            return None;
        };
        let place = self.place(path).ok()?;
        place.in_work.then_some(place.path)
    }

    fn write(&self, write: &WriteFile, wrote: &mut Option<String>) -> Result<String, Why> {
        let place = self.place(&write.path)?;
        let told = |e| told(e, &write.path);
        if let Some((above, _)) = place.path.rsplit_once('/') {
            place
                .root
                .create_dir_all(above, Access::Shared)
                .map_err(told)?;
        }
        let bytes = write.content.as_bytes();
        place.root.rewrite(&place.path, bytes).map_err(told)?;
        *wrote = place.in_work.then_some(place.path);
        Ok(format!("Wrote {} ({} bytes).", write.path, bytes.len()))
    }

    fn read(&self, read: &ReadFile) -> Result<String, Why> {
        let place = self.place(&read.path)?;
        let told = |e| told(e, &read.path);
        let file = place.root.open_file(&place.path).map_err(told)?;
        let failed = |e: std::io::Error| Why::Tell(format!("{} cannot be read: {e}.", read.path));
        let size = file.metadata().map_err(failed)?.len();
        let from = read.offset.unwrap_or(0);
        let most = read.limit.unwrap_or(READ).min(READ);
        let mut bytes = vec![0; usize::try_from(most.min(size.saturating_sub(from))).unwrap_or(0)];
        let mut got = 0;
        while let Some(rest) = bytes.get_mut(got..).filter(|rest| !rest.is_empty()) {
            match file.read_at(rest, from + got as u64).map_err(failed)? {
                0 => break,
                n => got += n,
            }
        }
        bytes.truncate(got);
        let more = from + (got as u64) < size;
        let (skipped, text) = text_at(&bytes, from > 0, more)
            .ok_or_else(|| format!("{} is not text ({size} bytes).", read.path))?;
        let from = from + skipped;
        let to = from + text.len() as u64;
        if from == 0 && !more {
            return Ok(text.to_owned());
        }
        Ok(format!("(bytes {from} to {to} of {size})\n{text}"))
    }

    fn list(&self, list: &ListFiles) -> Result<String, Why> {
        let asked = list
            .path
            .as_deref()
            .unwrap_or_default()
            .trim_end_matches('/');
        let root = match asked {
            "" | "." => self.root(&self.work)?,
            path => {
                let place = self.place(path)?;
                place
                    .root
                    .open_dir(&place.path)
                    .map_err(|e| told(e, path))?
            }
        };
        let mut lines = Vec::new();
        let mut bytes = 0;
        let enter = |path: &str| !matches!(name(path), NOTES | ".git" | "node_modules");
        for found in walk(&root, DEEP).enter_if(enter) {
            let line = match found {
                Found::File { path, stamp } => format!("{path} ({} bytes)", stamp.size),
                Found::NotEntered { path } if name(&path) == NOTES => continue,
                Found::NotEntered { path } => format!("{path}/ (not listed)"),
                Found::Problem { path, problem, .. } => format!("{path} ({})", words(problem)),
            };
            bytes += line.len() as u64;
            if lines.len() == LISTED || bytes > READ {
                lines.push(format!("(more than {}; list a folder inside)", lines.len()));
                break;
            }
            lines.push(line);
        }
        if lines.is_empty() {
            return Ok("There are no files.".into());
        }
        Ok(lines.join("\n"))
    }

    fn edit(&self, edit: &EditFile, wrote: &mut Option<String>) -> Result<String, Why> {
        let EditFile { path, old, new } = edit;
        let place = self.place(path)?;
        let told = |e| told(e, path);
        let bytes = place.root.read_limited(&place.path, EDIT).map_err(told)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| format!("{path} is not text and cannot be edited."))?;
        if old.is_empty() {
            return Err(format!("`old` is empty. Give the piece of {path} to replace.").into());
        }
        match text.matches(old.as_str()).count() {
            0 => {
                return Err(format!(
                    "`old` does not occur in {path}. Read the file and copy it exactly."
                )
                .into());
            }
            1 => {}
            n => {
                return Err(format!(
                    "`old` occurs {n} times in {path}. Give more of the text around it."
                )
                .into());
            }
        }
        let text = text.replacen(old.as_str(), new, 1);
        place
            .root
            .rewrite(&place.path, text.as_bytes())
            .map_err(told)?;
        *wrote = place.in_work.then_some(place.path);
        Ok(format!("Edited {path} (now {} bytes).", text.len()))
    }

    /// Understands a path as models write them: relative to the work folder, perhaps with `./` in
    /// front, or absolute inside one of the two folders. Links are followed as long as they stay in the
    /// folder. The root refuses everything hostile.
    fn place(&self, path: &str) -> Result<Place, Why> {
        let outside = || {
            Why::Tell(format!(
                "`{path}` is outside the work folder. Use a plain relative path such as reports/final.md."
            ))
        };
        let (folder, rest) = self.folder_of(path.trim()).ok_or_else(outside)?;
        if rest.split('/').any(|part| matches!(part, "" | "." | ".."))
            || rest.contains(['\0', '\\'])
        {
            return Err(outside());
        }
        let root = self.root(folder)?;
        let real = root.follow(rest).map_err(|e| told(e, path))?;
        let real = real.to_str().filter(|real| !real.is_empty());
        let real = real.ok_or_else(outside)?.to_owned();
        if [rest, &real]
            .iter()
            .any(|path| path.split('/').any(|part| part == NOTES))
        {
            return Err(format!("`{NOTES}` belongs to Threadline and is not for you.").into());
        }
        Ok(Place {
            root,
            path: real,
            in_work: folder == self.work,
        })
    }

    /// The folder that a path lies in, and where. The folder that leaves may itself lie in a work folder
    /// that is the user's, and is not reached through it.
    fn folder_of<'a>(&'a self, path: &'a str) -> Option<(&'a Path, &'a str)> {
        let within =
            |folder: &Path, path: &'a str| path.strip_prefix(folder.to_str()?)?.strip_prefix('/');
        if path.starts_with('/') {
            return [&self.leaves, &self.work]
                .into_iter()
                .find_map(|folder| Some((folder.as_path(), within(folder, path)?)));
        }
        let mut rest = path;
        while let Some(inside) = rest.strip_prefix("./") {
            rest = inside;
        }
        let leaves = self.leaves.strip_prefix(&self.work).ok();
        match leaves.and_then(|leaves| within(leaves, rest)) {
            Some(inside) => Some((&self.leaves, inside)),
            None => Some((&self.work, rest)),
        }
    }

    fn root(&self, folder: &Path) -> Result<Root, Why> {
        let protected = self.workspace.protected(&self.session, &self.run);
        let protected = protected.map_err(Why::End)?;
        Root::open(folder)
            .and_then(|root| root.avoiding(&protected))
            .map_err(|e| told(e, "the work folder"))
    }
}

/// What the disk said, for the model; or the end, where no model can help.
fn told(error: Error, path: &str) -> Why {
    let why = match error.reason() {
        Reason::ReadOnly => return Why::End(storage_fault(error)),
        Reason::NoSpace => {
            "was not written: the disk is full. Write less, or tell the person to make room"
        }
        Reason::NotRelative => "is not a plain relative path",
        Reason::Symlink => "leads out of the work folder through a symbolic link",
        Reason::Protected => {
            return Why::Tell(format!(
                "{path}: {} ({}).",
                Code::PathProtected.advice().trim_end_matches('.'),
                Code::PathProtected
            ));
        }
        Reason::NotRegular => "is not a regular file",
        Reason::NotDirectory => "leads through something that is not a folder",
        Reason::HardLinked => "is a hard link to a file of another user",
        Reason::NotFound => "does not exist",
        Reason::AlreadyExists => "exists already",
        Reason::NameTooLong => "is too long a name",
        Reason::Denied => "may not be used: permission denied",
        Reason::TooLarge => "is too large for this",
        Reason::Source | Reason::Io => "cannot be used: the disk reported an error",
    };
    Why::Tell(format!("{path} {why}."))
}

/// Bytes as text, and how many were skipped at their beginning: a piece of a file may begin and end
/// inside a character. `None` when it is no text at all.
fn text_at(bytes: &[u8], inside: bool, more: bool) -> Option<(u64, &str)> {
    let tails = bytes
        .iter()
        .take(3)
        .take_while(|b| inside && **b & 0xC0 == 0x80);
    let skipped = tails.count();
    let bytes = bytes.get(skipped..)?;
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) if more && e.error_len().is_none() => {
            std::str::from_utf8(bytes.get(..e.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    (!text.contains('\0')).then_some((skipped as u64, text))
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn words(problem: Problem) -> &'static str {
    match problem {
        Problem::Symlink => "a symbolic link, not followed",
        Problem::Special => "not a regular file",
        Problem::NameNotUtf8 => "its name is not text",
        Problem::Unreadable => "cannot be read",
        Problem::TooDeep => "too deep",
        Problem::Protected => "Threadline's own, not listed",
    }
}
