//! Files with several names.
//!
//! A second name may be anybody's: a link to a file outside gives away bytes that no run wrote. So a
//! file that has more than one name is taken only if all of them lie in folders that are the run's
//! to give from. Tools that link within their own folder (package managers, compilers) are not hurt.

use std::{
    collections::HashMap, fs::File, io, os::unix::fs::MetadataExt as _, path::PathBuf,
    sync::OnceLock,
};

use threadline_contract::{ArtifactScope, SessionKey, scope::session_folder};
use threadline_files::{
    Root,
    walk::{Found, walk},
};

use crate::{Error, MAX_DEPTH, Workspace};

/// How many files are looked at for names. Of one whose names were not all found, nothing is known.
const MOST: usize = 500_000;

/// Asked before a folder is entered.
type Enter<'a> = Box<dyn Fn(&str) -> bool + Send + Sync + 'a>;

/// The folders whose files may have names in each other.
#[derive(Default)]
pub(crate) struct Names<'a> {
    places: Vec<(Root, Enter<'a>)>,
    /// How many names each file has in them. Looked for when first asked: most files have one.
    seen: OnceLock<HashMap<(u64, u64), u64>>,
}

impl<'a> Names<'a> {
    /// One more folder.
    #[must_use]
    pub(crate) fn and(
        mut self,
        root: &Root,
        enter: impl Fn(&str) -> bool + Send + Sync + 'a,
    ) -> Self {
        self.places.push((root.clone(), Box::new(enter)));
        self
    }

    /// Whether every name of an open file lies in these folders.
    pub(crate) fn hold_all_of(&self, file: &File) -> io::Result<bool> {
        let facts = file.metadata()?;
        if facts.nlink() <= 1 {
            return Ok(true);
        }
        let seen = self.seen.get_or_init(|| self.look());
        let names = seen.get(&(facts.dev(), facts.ino()));
        Ok(names.is_some_and(|names| *names >= facts.nlink()))
    }

    fn look(&self) -> HashMap<(u64, u64), u64> {
        let mut seen = HashMap::new();
        // One folder may lie in another. A name that was counted twice would stand for one outside.
        let tops: Vec<PathBuf> = self
            .places
            .iter()
            .map(|(root, _)| root.real_path())
            .collect();
        let places = self.places.iter().zip(&tops).enumerate();
        let places = places.filter(|(i, (_, top))| !tops.iter().take(*i).any(|t| t == *top));
        let all = places.flat_map(|(_, ((root, enter), top))| {
            let tops = &tops;
            walk(root, MAX_DEPTH)
                .enter_if(move |path| enter(path) && !tops.contains(&top.join(path)))
        });
        let files = all.filter_map(|found| match found {
            Found::File { stamp, .. } => Some((stamp.dev, stamp.ino)),
            _ => None,
        });
        for file in files.take(MOST) {
            *seen.entry(file).or_default() += 1;
        }
        seen
    }
}

impl Workspace {
    /// The names within a session's folder: its work folder and the scopes of its runs.
    pub(crate) fn names_of(&self, session: &SessionKey) -> Result<Names<'static>, Error> {
        self.names_in(&session_folder(session))
    }

    /// The same for a scope, of whichever style.
    pub(crate) fn names_around(&self, scope: &ArtifactScope) -> Result<Names<'static>, Error> {
        let folder = scope.as_str().rsplit_once('/');
        self.names_in(folder.map_or(scope.as_str(), |(above, _)| above))
    }

    fn names_in(&self, folder: &str) -> Result<Names<'static>, Error> {
        let root = self.root.open_dir(folder);
        Ok(Names::default().and(&root.map_err(|e| Error::folder(e, folder))?, |_| true))
    }
}
