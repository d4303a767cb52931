//! Listing a scope: what a run delivers, in one fixed order, in pages.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use threadline_contract::{
    Artifact, ArtifactPath, ArtifactScope, EmptyReason, OmitReason, RunId, SessionKey,
};
use threadline_files::{Root, Stamp, tree, walk::Found};

use crate::{
    Error, MAX_DEPTH, MAX_FILE_BYTES, Omissions, Workspace,
    cache::Digests,
    measure,
    omissions::of_problem,
    skip::{NOTES, exports_folder},
    verified::Verified,
};

/// What to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportOptions {
    /// Files on a page.
    pub max_files: usize,
    /// Where the page before ended.
    pub cursor: Option<String>,
    /// Larger files are named, not listed.
    pub max_file_bytes: u64,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self {
            max_files: 200,
            cursor: None,
            max_file_bytes: MAX_FILE_BYTES,
        }
    }
}

/// A page of a run's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The scope that they lie in.
    pub scope: ArtifactScope,
    /// This page: the latest written first, those of one instant by the bytes of their paths.
    pub artifacts: Vec<Artifact>,
    /// How many files the scope has to deliver, on all pages.
    pub total_candidates: u64,
    /// How many of them come after this page.
    pub remaining: u64,
    /// Asks for the next page.
    pub next_cursor: Option<String>,
    /// What was seen and not listed. What the walk left out is told on the first page, what could
    /// not be read on the page where it would have stood.
    pub omitted: Omissions,
    /// Why there is nothing at all.
    pub empty_reason: Option<EmptyReason>,
}

/// A file that can be delivered, not read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub path: ArtifactPath,
    /// What it looked like when the walk came by.
    pub stamp: Stamp,
}

impl Candidate {
    /// Latest first, then by path. The time is the one of the bytes: collecting keeps it, so that
    /// the order tells when the agent wrote, not when we copied.
    fn key(&self) -> (std::cmp::Reverse<i64>, &str) {
        (std::cmp::Reverse(self.stamp.mtime_ns), self.path.as_str())
    }
}

/// Where a page ended. Names the scope, so that it cannot be used on another.
#[derive(Serialize, Deserialize)]
struct Cursor {
    scope: String,
    mtime: i64,
    path: String,
}

impl Workspace {
    /// Lists a page of a run's scope. Nothing outside the scope is looked at.
    pub fn export(
        &self,
        session: &SessionKey,
        run: &RunId,
        options: &ExportOptions,
    ) -> Result<Export, Error> {
        let (scope, dir) = self.scope(session, run)?;
        let Some(dir) = dir else {
            return Ok(nothing(scope, EmptyReason::ScopeMissing));
        };
        let digests = Digests::load(self, session, run);
        let (all, walked) = candidates(&dir, options.max_file_bytes);
        let from = match &options.cursor {
            None => 0,
            Some(text) => after(&all, text, &scope)?,
        };
        let rest = all.get(from..).unwrap_or_default();
        let page = rest.get(..options.max_files.max(1)).unwrap_or(rest);
        let remaining = (rest.len() - page.len()) as u64;
        let next_cursor = match page.last() {
            Some(last) if remaining > 0 => Some(cursor(last, &scope)?),
            _ => None,
        };
        let mut omitted = if options.cursor.is_none() {
            walked
        } else {
            Omissions::default()
        };
        let artifacts = read_all(
            &dir,
            page,
            options.max_file_bytes,
            &self.verified,
            &digests,
            &mut omitted,
        );
        digests.keep(self, session, run, all.iter().map(|c| &c.stamp));
        let empty_reason = match (
            artifacts.is_empty() && from == 0 && remaining == 0,
            omitted.total(),
        ) {
            (false, _) => None,
            (true, 0) => Some(EmptyReason::ScopeEmpty),
            (true, _) => Some(EmptyReason::AllOmitted),
        };
        let total_candidates = all.len() as u64;
        Ok(Export {
            scope,
            artifacts,
            total_candidates,
            remaining,
            next_cursor,
            omitted,
            empty_reason,
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
        next_cursor: None,
        omitted: Omissions::default(),
        empty_reason: Some(why),
    }
}

/// Everything in a scope that can be delivered, in order, and what cannot.
pub(crate) fn candidates(scope: &Root, max_file_bytes: u64) -> (Vec<Candidate>, Omissions) {
    let mut omitted = Omissions::default();
    let tree = tree::list(scope, MAX_DEPTH, exports_folder);
    let mut all = Vec::with_capacity(tree.files.len());
    for (path, stamp) in tree.files {
        if stamp.size > max_file_bytes {
            omitted.add(path, OmitReason::TooLarge);
            continue;
        }
        match ArtifactPath::new(path) {
            Ok(path) => all.push(Candidate { path, stamp }),
            Err(bad) => omitted.add(bad.0, OmitReason::UnsafeName),
        }
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
    (all, omitted)
}

/// Reads a page's files, several at a time.
pub(crate) fn read_all(
    scope: &Root,
    page: &[Candidate],
    max_file_bytes: u64,
    verified: &Verified,
    digests: &Digests,
    omitted: &mut Omissions,
) -> Vec<Artifact> {
    let read: Vec<Result<Artifact, OmitReason>> = page
        .par_iter()
        .map(|candidate| {
            let path = &candidate.path;
            let seen = &candidate.stamp;
            let found = measure::listed(scope, path, seen, max_file_bytes, verified, digests)?;
            Ok(Artifact {
                path: path.clone(),
                size: found.stamp.size,
                sha256: found.sha256,
                content_type: found.content_type.into_owned(),
            })
        })
        .collect();
    let mut artifacts = Vec::with_capacity(read.len());
    for (candidate, result) in page.iter().zip(read) {
        match result {
            Ok(artifact) => artifacts.push(artifact),
            Err(reason) => omitted.add(candidate.path.as_str(), reason),
        }
    }
    artifacts
}

fn cursor(last: &Candidate, scope: &ArtifactScope) -> Result<String, Error> {
    let cursor = Cursor {
        scope: scope.to_string(),
        mtime: last.stamp.mtime_ns,
        path: last.path.as_str().to_owned(),
    };
    let text = serde_json::to_vec(&cursor).map_err(|_| Error::BadCursor)?;
    Ok(URL_SAFE_NO_PAD.encode(text))
}

/// The first candidate after a cursor. Also right when files came or went since it was given out.
fn after(all: &[Candidate], text: &str, scope: &ArtifactScope) -> Result<usize, Error> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| Error::BadCursor)?;
    let cursor: Cursor = serde_json::from_slice(&bytes).map_err(|_| Error::BadCursor)?;
    if cursor.scope != scope.as_str() {
        return Err(Error::BadCursor);
    }
    let end = (std::cmp::Reverse(cursor.mtime), cursor.path.as_str());
    Ok(all.partition_point(|candidate| candidate.key() <= end))
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
