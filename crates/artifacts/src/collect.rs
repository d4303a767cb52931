//! Copying into a run's scope what its turn provably wrote elsewhere.

mod plan;

use threadline_contract::{ArtifactPath, RunId, SessionKey, Sha256};

use crate::{
    Error, Evidence, MAX_FILE_BYTES, Omissions, WorkFolder, Workspace,
    copy::{Copier, Item, Other, Outcome, notes_of},
    diff::Diff,
    evidence::Named,
    ignore::Ignore,
    listing::Listing,
};

/// Limits of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectOptions {
    /// Larger files are named, not copied.
    pub max_file_bytes: u64,
    /// How many of the copied files the answer names.
    pub max_named: usize,
}

impl Default for CollectOptions {
    fn default() -> Self {
        Self {
            max_file_bytes: MAX_FILE_BYTES,
            max_named: usize::MAX,
        }
    }
}

/// A file that was copied into the scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Where it lies in the scope.
    pub path: ArtifactPath,
    /// How many bytes it has.
    pub size: u64,
    /// The digest of them.
    pub sha256: Sha256,
}

/// What a collection came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// What was copied now, in the order of paths: the first of them, if there are more than shall be
    /// named.
    pub copied: Vec<Copied>,
    /// How many files were in the scope already, byte for byte: from an earlier, interrupted
    /// collection, or because the agent wrote them to both places.
    pub already_present: u64,
    /// What was not taken, and why. Where the scope keeps what the agent itself put there (a newer
    /// file, or something that no file can replace), the reason is `name_taken`.
    pub omitted: Omissions,
    /// In a user's own folder: what else changed there.
    pub summary: Option<ChangeSummary>,
    /// Rules of the work folder's ignore file that have no effect.
    pub warnings: Vec<String>,
}

/// What changed in a user's own folder and was not copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeSummary {
    /// Files that were not there before.
    pub created: u64,
    /// Files that were written.
    pub modified: u64,
    /// Files that are gone.
    pub removed: u64,
    /// The first of them.
    pub first: Vec<Change>,
    /// Whether everything in the folder was looked at. A huge folder is not.
    pub complete: bool,
}

/// One change in a user's own folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where, relative to the folder.
    pub path: String,
    /// What became of it.
    pub kind: ChangeKind,
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was not there before.
    Created,
    /// It was written.
    Modified,
    /// It is gone.
    Removed,
}

impl Workspace {
    /// Copies into the scope what the turn wrote in its work folder, keeping relative paths.
    ///
    /// In the session's own folder that is every file which differs from the listing taken before
    /// the turn, except dotfiles and caches that no evidence names. In a user's own folder it is
    /// only what evidence names or a declared pattern matches, again only if it differs; the rest
    /// becomes a summary.
    ///
    /// What the work folder's ignore file names is left where it is.
    ///
    /// A file that the agent itself put into the scope under the same path stays if it is newer
    /// than the one in the work folder. Otherwise the work folder's wins: the agent went on
    /// working there.
    ///
    /// Can be repeated at any time, also after a kill in the middle; the scope ends up the same.
    pub fn collect(
        &self,
        session: &SessionKey,
        run: &RunId,
        folder: &WorkFolder,
        evidence: &Evidence,
        options: &CollectOptions,
    ) -> Result<Collected, Error> {
        let (scope, scope_dir) = self.prepared(session, run)?;
        let notes = notes_of(&scope_dir)?;
        let _alone = notes.lock()?;
        let work = self.work(session, run, folder)?;
        let listing = Listing::open(&scope_dir, scope.as_str(), &work)?;

        let mut collected = Collected::default();
        let places = [work.root.path().to_owned(), work.root.real_path()];
        let scope_places = [
            self.place.join(scope.as_str()),
            self.root.path().join(scope.as_str()),
        ];
        let named = Named::resolve(evidence, &places, &scope_places, &mut collected.omitted)?;
        let diff = Diff::new(listing, work.walk())?;
        let mut ignore = Ignore::of(&work.root)?;
        collected.warnings.append(&mut ignore.warnings);
        // What is taken is copied as the plan comes upon it: there may be more than memory should hold.
        let mut taken = Collected::default();
        let done = |item: Item<'_>, outcome| {
            taken.add(item.from, item.to, outcome, options.max_named);
        };
        let mut copier = Copier::new(&scope_dir, &notes, options.max_file_bytes, done)?;
        let mut take = |path: ArtifactPath| {
            copier.add(Item {
                source: &work.root,
                from: path.as_str().to_owned(),
                to: path,
                shown: None,
                other: Other::StaysIfNewer,
            })
        };
        let omitted = &mut collected.omitted;
        collected.summary = plan::make(&work, diff, named, &ignore, omitted, &mut take)?;
        copier.finish()?;
        collected.copied = taken.copied;
        collected.copied.sort_by(|a, b| a.path.cmp(&b.path));
        collected.already_present = taken.already_present;
        collected.omitted.append(taken.omitted);
        collected.omitted.named.sort();
        Ok(collected)
    }
}

impl Collected {
    pub(crate) fn add(
        &mut self,
        shown: String,
        path: ArtifactPath,
        outcome: Outcome,
        max_named: usize,
    ) {
        match outcome {
            Outcome::Copied { size, sha256 } => {
                if self.copied.len() < max_named {
                    self.copied.push(Copied { path, size, sha256 });
                }
            }
            Outcome::Present => self.already_present += 1,
            Outcome::Omitted(reason) => self.omitted.add(shown, reason),
        }
    }
}
