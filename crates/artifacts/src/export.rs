//! Listing a scope: what a run delivers, in one fixed order, in pages.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use rayon::{iter::Either, prelude::*};
use threadline_contract::{
    Artifact, ArtifactPath, ArtifactScope, EmptyReason, OmitReason, RunId, SessionKey, Twins,
};
use threadline_files::{
    Root, Stamp, tree,
    walk::{Found, walk},
};

use crate::{
    ConstraintGaps, Constraints, Error, MAX_DEPTH, MAX_FILE_BYTES, Omissions, Workspace,
    cache::Digests,
    constraints,
    ignore::Ignore,
    measure,
    omissions::{Unordered, of_problem},
    outputs::{OthersFiles, prepared_ns},
    page::{self, Candidate, First, Paths, Position},
    skip::{NOTES, exports_folder},
    verified::Verified,
};

/// Said on a page whose cursor no longer stands where it stood.
const CHANGED: &str = "Files were written or removed since the page before; some may be missing or be here twice. Begin again without a cursor to have all of them.";

/// What to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportOptions {
    /// Files on a page.
    pub max_files: usize,
    /// Where the page before ended.
    pub cursor: Option<String>,
    /// Larger files are named, not listed.
    pub max_file_bytes: u64,
    /// Files that did not change since then (milliseconds since 1970) are left out. Files of a
    /// scope that was prepared later count as changed: they are the run's, whatever the clocks say.
    pub since_ms: Option<i64>,
    /// Files, as absolute paths, that tool calls of other runs name: those in the scope are not this
    /// run's.
    pub others_files: Vec<String>,
    /// Types that are asked for: listed first, and what is missing is said.
    pub constraints: Constraints,
    /// Which rule made the scope's name.
    pub style: ScopeStyle,
}

/// Which rule made a scope's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScopeStyle {
    /// Ours; the scope has its owner's stamp.
    #[default]
    Own,
    /// The earlier plugin's, whose scopes have no stamp. Only read, when a caller names it.
    Peer,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self {
            max_files: 200,
            cursor: None,
            max_file_bytes: MAX_FILE_BYTES,
            since_ms: None,
            others_files: Vec::new(),
            constraints: Constraints::default(),
            style: ScopeStyle::Own,
        }
    }
}

/// A page of a run's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The scope that they lie in.
    pub scope: ArtifactScope,
    /// This page: what was asked for first, then the latest written, those of one instant by the
    /// bytes of their paths.
    pub artifacts: Vec<Artifact>,
    /// How many files the scope has to deliver, on all pages.
    pub total_candidates: u64,
    /// How many of them come after this page.
    pub remaining: u64,
    /// How many bytes those have.
    pub remaining_bytes: u64,
    /// Asks for the next page.
    pub next_cursor: Option<String>,
    /// What was seen and not listed. What the walk left out is told on the first page, what could
    /// not be read on the page where it would have stood.
    pub omitted: Omissions,
    /// Why there is nothing at all.
    pub empty_reason: Option<EmptyReason>,
    /// What was asked for and is on no page.
    pub gaps: ConstraintGaps,
    /// Rules of the ignore file that have no effect, and that files changed between two pages.
    pub warnings: Vec<String>,
}

impl Workspace {
    /// Lists a page of a run's scope. Nothing outside the scope is looked at.
    pub fn export(
        &self,
        session: &SessionKey,
        run: &RunId,
        options: &ExportOptions,
    ) -> Result<Export, Error> {
        let (scope, dir) = self.scope_in(options.style, session, run)?;
        let Some(dir) = dir else {
            let removed = options.style == ScopeStyle::Own && self.is_removed(session, run)?;
            let why = if removed {
                EmptyReason::ScopeRemoved
            } else {
                EmptyReason::ScopeMissing
            };
            return Ok(Export {
                gaps: options.constraints.gaps(&constraints::Found::default()),
                ..nothing(scope, why)
            });
        };
        let own = options.style == ScopeStyle::Own;
        let since_ns = match options.since_ms.map(|ms| ms.saturating_mul(1_000_000)) {
            Some(since) if own => Some(since.min(prepared_ns(&dir)?)),
            since => since,
        };
        let asked = asked(options);
        let behind = match &options.cursor {
            None => None,
            Some(text) => Some(Position::read(text, &scope, &asked)?),
        };
        let digests = match options.style {
            ScopeStyle::Own => Digests::load(self, session, run),
            // What the earlier plugin left has no notes of ours, and gets none.
            ScopeStyle::Peer => Digests::default(),
        };
        let mut rules = Rules::new(&dir, options, since_ns)?;
        let Looked {
            first,
            total,
            before,
            before_paths,
            after,
            after_bytes,
            mut found,
            twins,
            omitted: walked,
        } = look(&dir, &rules, behind.as_ref(), &digests);
        let mut warnings = std::mem::take(&mut rules.ignore.warnings);
        if behind.is_some_and(|behind| !behind.is_same(before_paths)) {
            warnings.push(CHANGED.to_owned());
        }
        let page = first.ordered();
        let remaining = after.saturating_sub(page.len() as u64);
        let page_bytes: u64 = page.iter().map(|c| c.stamp.size).sum();
        let next_cursor = match page.last().filter(|_| remaining > 0) {
            None => None,
            Some(last) => {
                let mut listed = before_paths;
                page.iter().for_each(|candidate| listed.add(candidate));
                Some(page::cursor(last, listed, &scope, &asked)?)
            }
        };
        let mut omitted = Omissions::default();
        if options.cursor.is_none() {
            omitted = walked.ordered();
            // Gone through once more only if there are any.
            let names = walk(&dir, MAX_DEPTH).enter_if(exports_folder);
            let names = names.filter_map(|found| match found {
                Found::File { path, stamp } => rules.judge(path, stamp).ok(),
                _ => None,
            });
            warnings.extend(twins.warnings(names.map(|c| c.path.to_string())));
        }
        let reading = Reading {
            scope: &dir,
            max_file_bytes: options.max_file_bytes,
            verified: &self.verified,
            digests: &digests,
        };
        let mut unread: HashSet<ArtifactPath> = page.iter().map(|c| c.path.clone()).collect();
        let artifacts = reading.all(page, &mut omitted);
        if own {
            digests.keep(self, session, run);
        }
        for artifact in &artifacts {
            unread.remove(&artifact.path);
        }
        for path in unread {
            options.constraints.discount(path.as_str(), &mut found);
        }
        let empty = artifacts.is_empty() && before == 0 && remaining == 0;
        Ok(Export {
            scope,
            artifacts,
            total_candidates: total,
            remaining,
            remaining_bytes: after_bytes.saturating_sub(page_bytes),
            next_cursor,
            empty_reason: empty.then(|| why_empty(&omitted)),
            omitted,
            gaps: options.constraints.gaps(&found),
            warnings,
        })
    }

    /// Everything that a run delivers, on one page: for the record.
    pub fn manifest(&self, session: &SessionKey, run: &RunId) -> Result<Export, Error> {
        let options = ExportOptions {
            max_files: usize::MAX,
            ..ExportOptions::default()
        };
        self.export(session, run, &options)
    }
}

fn nothing(scope: ArtifactScope, why: EmptyReason) -> Export {
    Export {
        scope,
        artifacts: Vec::new(),
        total_candidates: 0,
        remaining: 0,
        remaining_bytes: 0,
        next_cursor: None,
        omitted: Omissions::default(),
        empty_reason: Some(why),
        gaps: ConstraintGaps::default(),
        warnings: Vec::new(),
    }
}

pub(crate) fn why_empty(omitted: &Omissions) -> EmptyReason {
    let mut reasons = omitted.counts.keys();
    match (reasons.next(), reasons.next()) {
        (None, _) => EmptyReason::ScopeEmpty,
        (Some(OmitReason::Ignored), None) => EmptyReason::AllIgnored,
        (Some(OmitReason::ChangedOutsideRun), None) => EmptyReason::FilteredSince,
        _ => EmptyReason::AllOmitted,
    }
}

/// What decides which files are listed and in which order, for a cursor.
fn asked(options: &ExportOptions) -> String {
    let style = if options.style == ScopeStyle::Own {
        ""
    } else {
        "peer"
    };
    let since = options.since_ms.unwrap_or_default();
    format!(
        "{style}/{since}/{}/{}",
        options.max_file_bytes,
        options.constraints.text()
    )
}

/// What a look through a scope came to. Of what can be delivered, only the page is held.
#[derive(Debug)]
pub(crate) struct Looked {
    /// The page.
    pub first: First,
    /// How many files can be delivered.
    pub total: u64,
    /// How many of them come before the page, and which.
    pub before: u64,
    before_paths: Paths,
    /// How many come on the page and after it.
    after: u64,
    after_bytes: u64,
    found: constraints::Found,
    twins: Twins,
    pub omitted: Unordered,
}

/// Looks through a scope, by all threads at once.
fn look(scope: &Root, rules: &Rules<'_>, behind: Option<&Position>, digests: &Digests) -> Looked {
    let options = rules.options;
    let looked = Mutex::new(Looked {
        first: First::new(options.max_files.max(1)),
        total: 0,
        before: 0,
        before_paths: Paths::default(),
        after: 0,
        after_bytes: 0,
        found: constraints::Found::default(),
        twins: Twins::default(),
        omitted: Unordered::default(),
    });
    tree::visit(scope, MAX_DEPTH, exports_folder, |part| {
        let judged: Vec<_> = part
            .files
            .into_iter()
            .map(|(path, stamp)| {
                // What is known of files on other pages is kept, because they are there.
                digests.get(&stamp);
                rules.judge(path, stamp)
            })
            .collect();
        // A panic elsewhere ends the whole listing.
        let mut looked = looked.lock().unwrap_or_else(PoisonError::into_inner);
        for judged in judged {
            match judged {
                Ok(candidate) => looked.add(candidate, behind, &options.constraints),
                Err((path, reason)) => looked.omitted.add(&path, reason),
            }
        }
        for other in part.others {
            if let Some((path, reason)) = left_out(other) {
                looked.omitted.add(&path, reason);
            }
        }
    });
    looked.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl Looked {
    fn add(&mut self, candidate: Candidate, behind: Option<&Position>, asked: &Constraints) {
        self.total += 1;
        let path = candidate.path.as_str();
        asked.count(path, &mut self.found);
        if behind.is_none() {
            self.twins.see(path);
        }
        if behind.is_some_and(|behind| behind.is_behind(&candidate)) {
            self.before += 1;
            self.before_paths.add(&candidate);
        } else {
            self.after += 1;
            self.after_bytes += candidate.stamp.size;
            self.first.add(candidate);
        }
    }
}

/// What can be delivered of a scope.
pub(crate) struct Rules<'a> {
    pub ignore: Ignore,
    others: HashSet<String>,
    options: &'a ExportOptions,
    since_ns: Option<i64>,
}

impl<'a> Rules<'a> {
    pub(crate) fn new(
        scope: &Root,
        options: &'a ExportOptions,
        since_ns: Option<i64>,
    ) -> Result<Self, Error> {
        Ok(Self {
            ignore: Ignore::of(scope)?,
            others: OthersFiles::new(&options.others_files).beneath(scope),
            options,
            since_ns,
        })
    }

    /// A file that can be delivered, or why it cannot.
    pub(crate) fn judge(
        &self,
        path: String,
        stamp: Stamp,
    ) -> Result<Candidate, (String, OmitReason)> {
        let reason = if self.others.contains(&path) {
            Some(OmitReason::AmbiguousOwner)
        } else if self.ignore.matches(&path) {
            Some(OmitReason::Ignored)
        } else if stamp.size > self.options.max_file_bytes {
            Some(OmitReason::TooLarge)
        } else if self
            .since_ns
            .is_some_and(|since| stamp.changed_ns() < since)
        {
            Some(OmitReason::ChangedOutsideRun)
        } else {
            None
        };
        if let Some(reason) = reason {
            return Err((path, reason));
        }
        match ArtifactPath::to_deliver(path) {
            Ok(path) => Ok(Candidate {
                wanted: self.options.constraints.wants(path.as_str()),
                path,
                stamp,
            }),
            Err(bad) => Err((bad.0, OmitReason::UnsafeName)),
        }
    }
}

/// What a walk found beside files, and why it is left out.
pub(crate) fn left_out(other: Found) -> Option<(String, OmitReason)> {
    match other {
        // Our own notes are not something that was left out.
        Found::NotEntered { path } if path == NOTES => None,
        Found::NotEntered { path } => Some((path, OmitReason::Skipped)),
        Found::Problem { path, problem, .. } => Some((path, of_problem(problem))),
        Found::File { .. } => None,
    }
}

/// How the files of a page are read.
pub(crate) struct Reading<'a> {
    pub scope: &'a Root,
    pub max_file_bytes: u64,
    pub verified: &'a Verified,
    pub digests: &'a Digests,
}

impl Reading<'_> {
    /// Reads a page's files, several at a time, in order. Those that cannot be read are added to what is
    /// omitted.
    pub(crate) fn all(&self, page: Vec<Candidate>, omitted: &mut Omissions) -> Vec<Artifact> {
        let read_one = |candidate: Candidate| {
            let Candidate { path, stamp, .. } = candidate;
            match measure::listed(self, &path, &stamp) {
                Ok(found) => Either::Left(Artifact {
                    path,
                    size: found.stamp.size,
                    sha256: found.sha256,
                    content_type: found.content_type,
                }),
                Err(reason) => Either::Right((path, reason)),
            }
        };
        let (artifacts, unread): (Vec<Artifact>, Vec<_>) =
            page.into_par_iter().partition_map(read_one);
        for (path, reason) in unread {
            omitted.add(path.as_str(), reason);
        }
        artifacts
    }
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
