//! What a run was declared to deliver, held against what it delivered. Nothing is guessed.

use globset::GlobMatcher;
use threadline_contract::{Artifact, Deliverable, Missing};

use crate::Error;

/// The declared deliverables that are not there. Each needs `minCount` files (one, when not said)
/// whose path matches the glob, of the content type and at least the size that it asks for.
///
/// In a glob `*` stays within one folder, `**` crosses folders.
pub fn missing(items: &[Artifact], declared: &[Deliverable]) -> Result<Vec<Missing>, Error> {
    let mut out = Vec::new();
    for deliverable in declared {
        let pattern = deliverable.matcher()?;
        let found = items
            .iter()
            .filter(|item| counts(deliverable, &pattern, item))
            .count();
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        if found < deliverable.min_count.unwrap_or(1) {
            out.push(Missing {
                deliverable: deliverable.clone(),
                found,
            });
        }
    }
    Ok(out)
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
