//! Files that are other runs', by what those runs' tool calls name.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use threadline_files::Root;

/// Places of files that are other runs', as absolute paths.
#[derive(Debug, Default)]
pub(crate) struct OthersFiles(HashSet<PathBuf>);

impl OthersFiles {
    pub(crate) fn new<'a>(paths: impl IntoIterator<Item = &'a String>) -> Self {
        Self(paths.into_iter().map(PathBuf::from).collect())
    }

    /// Whether the file at this path of a folder is another run's.
    pub(crate) fn hold(&self, folder: &Root, path: &str) -> bool {
        let at = |folder: &Path| self.0.contains(&folder.join(path));
        !self.0.is_empty() && (at(folder.path()) || at(&folder.real_path()))
    }

    /// Paths of a folder that are other runs'.
    pub(crate) fn beneath(&self, folder: &Root) -> HashSet<String> {
        if self.0.is_empty() {
            return HashSet::new();
        }
        let spellings = [folder.path().to_owned(), folder.real_path()];
        let inner = |place: &PathBuf| {
            let inner = spellings.iter().find_map(|s| place.strip_prefix(s).ok())?;
            inner.to_str().map(str::to_owned)
        };
        self.0.iter().filter_map(inner).collect()
    }
}
