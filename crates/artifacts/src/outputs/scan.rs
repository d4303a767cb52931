//! Looking through shared folders, with a limit.

use threadline_files::{
    Root, Stamp,
    walk::{Found, walk},
};

use super::OthersFiles;
use crate::{MAX_DEPTH, skip::exports_folder};

/// How many files of one folder are looked at for a run's. A shared folder may have grown for years.
pub(super) const MOST: usize = 100_000;

/// Goes through a folder in byte order; `false` if it was too large to be seen whole.
pub(super) fn each(
    folder: &Root,
    most: usize,
    enter: impl FnMut(&str) -> bool,
    mut see: impl FnMut(Seen),
) -> bool {
    let mut files = 0;
    for found in walk(folder, MAX_DEPTH).enter_if(enter) {
        match found {
            Found::File { .. } if files == most => return false,
            Found::File { path, stamp } => {
                files += 1;
                see(Seen::File(path, stamp));
            }
            other => see(Seen::Other(other)),
        }
    }
    true
}

/// One thing in a folder.
pub(super) enum Seen {
    File(String, Stamp),
    Other(Found),
}

/// Whether a scope has nothing of its run to deliver.
pub(super) fn has_no_files(scope: &Root, others: &OthersFiles) -> bool {
    let others = others.beneath(scope);
    !walk(scope, MAX_DEPTH)
        .enter_if(exports_folder)
        .any(|found| matches!(found, Found::File { path, .. } if !others.contains(&path)))
}
