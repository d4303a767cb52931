//! Deleting a thread, for people: what would go, what went, and what stays.

use threadline_app::api::{Deleted, DeletionPreview, FileTotal, OwnFile};

use super::{
    Terminal,
    words::{count, line, quoted, size},
};

/// Files that are named one by one before the rest is counted.
const NAMED: usize = 30;

/// What a deletion would do, and how it is done.
pub(crate) fn before(would: &DeletionPreview, with_my_files: bool, to: Terminal) -> String {
    let name = quoted(&would.name);
    let mut out = format!("This removes {name} for good");
    match &would.folder {
        None => out.push('.'),
        Some(folder) => out.push_str(&format!(
            ", and {} that {} delivered to it in {}.",
            total(would.delivered),
            if would.delivered.files == 1 {
                "was"
            } else {
                "were"
            },
            line(folder)
        )),
    }
    out.push_str(" What its bridge holds of it goes too, files of cancelled runs among it.");
    if would.yours_total.files > 0 {
        let becomes = match with_my_files {
            true => "go too",
            false => "stay there",
        };
        out.push_str(&format!(
            " {} that you made or edited {becomes}:\n{}",
            total(would.yours_total),
            files(&would.yours, would.yours_total, to)
        ));
    } else {
        out.push('\n');
    }
    let flag = if with_my_files {
        " --with-my-files"
    } else {
        ""
    };
    out.push_str(&format!("To do so: threadline delete {name} --yes{flag}"));
    out
}

/// What a deletion did.
pub(crate) fn after(gone: &Deleted, folder: &str, to: Terminal) -> String {
    let mut out = format!("{} is gone", line(&gone.name));
    match (&gone.removed_folder, &gone.kept_folder) {
        (Some(folder), _) => out.push_str(&format!(", and with it {}.\n", line(folder))),
        (None, Some(folder)) => out.push_str(&format!(
            ". {} that you made or edited stay in {}:\n{}",
            total(gone.kept_total),
            line(folder),
            files(&gone.kept, gone.kept_total, to)
        )),
        (None, None) => out.push_str(&format!("; {} stays.\n", line(folder))),
    }
    if let Some(why) = &gone.pending {
        out.push_str(&format!("{}\n", line(why)));
    }
    out
}

fn total(all: FileTotal) -> String {
    match all.files {
        0 => "no files".to_owned(),
        n => format!("{} ({})", count(n, "file"), size(all.bytes)),
    }
}

fn files(list: &[OwnFile], all: FileTotal, to: Terminal) -> String {
    let mut out = String::new();
    for file in list.iter().take(NAMED) {
        let edited = if file.edited { ", edited" } else { "" };
        let about = format!("{}{edited}", size(file.size));
        out.push_str(&format!("  {}  {}\n", line(&file.path), to.dim(&about)));
    }
    let rest = all.files.saturating_sub(list.len().min(NAMED) as u64);
    if rest > 0 {
        out.push_str(&format!("  … and {} more\n", count(rest, "file")));
    }
    out
}

#[cfg(test)]
#[path = "deletion_tests.rs"]
mod tests;
