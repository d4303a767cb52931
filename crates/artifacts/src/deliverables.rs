//! What a run was declared to deliver, held against what it delivered. Nothing is guessed.

use globset::GlobMatcher;
use threadline_contract::{Artifact, Deliverable, Missing};

use crate::{Error, FileList, file_list::unreadable};

/// The declared deliverables that are not there. Each needs `minCount` files (one, when not said)
/// whose path matches the glob, of the content type and at least the size that it asks for.
///
/// In a glob `*` stays within one folder, `**` crosses folders.
pub fn missing(files: &FileList, declared: &[Deliverable]) -> Result<Vec<Missing>, Error> {
    if declared.is_empty() {
        return Ok(Vec::new());
    }
    let patterns = Patterns::new(declared)?;
    let mut found = vec![0_u32; declared.len()];
    for file in files.iter() {
        let file = file.map_err(|e| unreadable(&e))?;
        let declared = declared.iter().zip(&patterns.0).zip(&mut found);
        for ((deliverable, pattern), found) in declared {
            *found = found.saturating_add(counts(deliverable, pattern, &file).into());
        }
    }
    let short = |(deliverable, found): (&Deliverable, u32)| {
        let missing = Missing {
            deliverable: deliverable.clone(),
            found,
        };
        (found < deliverable.min_count.unwrap_or(1)).then_some(missing)
    };
    Ok(declared.iter().zip(found).filter_map(short).collect())
}

/// Whether every glob can be understood: asked before a run is admitted.
pub fn check(declared: &[Deliverable]) -> Result<(), Error> {
    Patterns::new(declared).map(|_| ())
}

fn counts(deliverable: &Deliverable, pattern: &GlobMatcher, item: &Artifact) -> bool {
    pattern.is_match(item.path.as_str())
        && deliverable.min_bytes.is_none_or(|least| item.size >= least)
        && deliverable
            .content_type
            .as_ref()
            .is_none_or(|t| same_type(t, &item.content_type))
}

/// Content types are compared without parameters (`; charset=…`) and without regard to case.
fn same_type(a: &str, b: &str) -> bool {
    let bare = |t: &str| {
        t.split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase()
    };
    bare(a) == bare(b)
}

/// Declared globs, ready to be matched against many paths.
#[derive(Debug)]
pub(crate) struct Patterns(Vec<GlobMatcher>);

impl Patterns {
    pub(crate) fn new(declared: &[Deliverable]) -> Result<Self, Error> {
        declared
            .iter()
            .map(|d| d.matcher().map_err(Error::from))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub(crate) fn matches(&self, path: &str) -> bool {
        self.0.iter().any(|pattern| pattern.is_match(path))
    }
}

#[cfg(test)]
#[path = "deliverables_tests.rs"]
mod tests;
