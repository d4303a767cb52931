//! Listing a scope: what a run delivers, in one fixed order, in pages.

use rayon::{iter::Either, prelude::*};
use threadline_contract::{
    Artifact, ArtifactPath, ArtifactScope, EmptyReason, OmitReason, RunId, SessionKey,
    warnings_about_twins,
};
use threadline_files::{Root, Stamp, tree, walk::Found};

use crate::{
    ConstraintGaps, Constraints, Error, MAX_DEPTH, MAX_FILE_BYTES, Omissions, Workspace,
    cache::Digests,
    ignore::Ignore,
    measure,
    omissions::of_problem,
    outputs::{OthersFiles, prepared_ns},
    page::{self, Candidate},
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
                gaps: options.constraints.gaps([].into_iter()),
                ..nothing(scope, why)
            });
        };
        let own = options.style == ScopeStyle::Own;
        let since_ns = match options.since_ms.map(|ms| ms.saturating_mul(1_000_000)) {
            Some(since) if own => Some(since.min(prepared_ns(&dir)?)),
            since => since,
        };
        let (digests, listed) = rayon::join(
            || match options.style {
                ScopeStyle::Own => Digests::load(self, session, run),
                // What the earlier plugin left has no notes of ours, and gets none.
                ScopeStyle::Peer => Digests::default(),
            },
            || candidates(&dir, options, since_ns),
        );
        let Listed {
            all: mut before,
            omitted: walked,
            mut warnings,
        } = listed?;
        let stamps: Vec<Stamp> = before.iter().map(|c| c.stamp).collect();
        let asked = asked(options);
        let from = match &options.cursor {
            None => 0,
            Some(text) => {
                let begin = page::after(&before, text, &scope, &asked)?;
                if !begin.same {
                    warnings.push(CHANGED.to_owned());
                }
                begin.at
            }
        };
        let mut page = before.split_off(from);
        let later = page.split_off(options.max_files.max(1).min(page.len()));
        let next_cursor = match later.is_empty() {
            true => None,
            false => page::cursor(before.iter().chain(&page), &scope, &asked)?,
        };
        let mut omitted = Omissions::default();
        if options.cursor.is_none() {
            omitted = walked;
            let all = before.iter().chain(&page).chain(&later);
            warnings.extend(warnings_about_twins(all.map(|c| c.path.as_str())));
        }
        let reading = Reading {
            scope: &dir,
            max_file_bytes: options.max_file_bytes,
            verified: &self.verified,
            digests: &digests,
        };
        let artifacts = reading.all(from, page, &mut omitted);
        if own {
            digests.keep(self, session, run, &stamps);
        }
        let elsewhere = before.iter().chain(&later).map(|c| &c.path);
        let there = elsewhere.chain(artifacts.iter().map(|a| &a.path));
        let gaps = options.constraints.gaps(there.map(ArtifactPath::as_str));
        let empty = artifacts.is_empty() && from == 0 && later.is_empty();
        Ok(Export {
            scope,
            artifacts,
            total_candidates: stamps.len() as u64,
            remaining: later.len() as u64,
            remaining_bytes: later.iter().map(|c| c.stamp.size).sum(),
            next_cursor,
            empty_reason: empty.then(|| why_empty(&omitted)),
            omitted,
            gaps,
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

fn why_empty(omitted: &Omissions) -> EmptyReason {
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

/// What a walk of a scope came to.
pub(crate) struct Listed {
    /// What can be delivered, in order.
    pub all: Vec<Candidate>,
    pub omitted: Omissions,
    pub warnings: Vec<String>,
}

/// Everything in a scope that can be delivered, and what cannot.
fn candidates(
    scope: &Root,
    options: &ExportOptions,
    since_ns: Option<i64>,
) -> Result<Listed, Error> {
    let ignore = Ignore::of(scope)?;
    let others = OthersFiles::new(&options.others_files).beneath(scope);
    let tree = tree::list(scope, MAX_DEPTH, exports_folder);
    let judge = |(path, stamp): (String, Stamp)| {
        let reason = if others.contains(&path) {
            Some(OmitReason::AmbiguousOwner)
        } else if ignore.matches(&path) {
            Some(OmitReason::Ignored)
        } else if stamp.size > options.max_file_bytes {
            Some(OmitReason::TooLarge)
        } else if since_ns.is_some_and(|since| stamp.changed_ns() < since) {
            Some(OmitReason::ChangedOutsideRun)
        } else {
            None
        };
        if let Some(reason) = reason {
            return Either::Right((path, reason));
        }
        match ArtifactPath::to_deliver(path) {
            Ok(path) => Either::Left(Candidate {
                wanted: options.constraints.wants(path.as_str()),
                path,
                stamp,
            }),
            Err(bad) => Either::Right((bad.0, OmitReason::UnsafeName)),
        }
    };
    let (mut all, mut left_out): (Vec<Candidate>, Vec<_>) =
        tree.files.into_par_iter().partition_map(judge);
    let mut omitted = Omissions::default();
    left_out.sort_unstable();
    for (path, reason) in left_out {
        omitted.add(path, reason);
    }
    for other in tree.others {
        match other {
            // Our own notes are not something that was left out.
            Found::NotEntered { path } if path == NOTES => {}
            Found::NotEntered { path } => omitted.add(path, OmitReason::Skipped),
            Found::Problem { path, problem } => omitted.add(path, of_problem(problem)),
            Found::File { .. } => {}
        }
    }
    omitted.named.sort_unstable();
    all.par_sort_unstable_by(|a, b| a.key().cmp(&b.key()));
    Ok(Listed {
        all,
        omitted,
        warnings: ignore.warnings,
    })
}

/// How the files of a page are read.
pub(crate) struct Reading<'a> {
    pub scope: &'a Root,
    pub max_file_bytes: u64,
    pub verified: &'a Verified,
    pub digests: &'a Digests,
}

impl Reading<'_> {
    /// Reads a page's files, several at a time; the first of them stands at `from` in the listing.
    /// Those that cannot be read are added to what is omitted.
    pub(crate) fn all(
        &self,
        from: usize,
        page: Vec<Candidate>,
        omitted: &mut Omissions,
    ) -> Vec<Artifact> {
        let read_one = |(n, candidate): (usize, Candidate)| {
            let Candidate { path, stamp, .. } = candidate;
            match measure::listed(self, &path, from + n, &stamp) {
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
            page.into_par_iter().enumerate().partition_map(read_one);
        for (path, reason) in unread {
            omitted.add(path.as_str(), reason);
        }
        artifacts
    }
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
