//! File types that a caller asks for. They decide the order of a list and what is said about it,
//! never what belongs to a run.

use std::collections::{BTreeMap, BTreeSet};

use threadline_contract::plugin::CountGap;

/// What a caller asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Constraints {
    /// Types of which there must be a file.
    extensions: Vec<String>,
    /// How many of a type there must be.
    counts: BTreeMap<String, u64>,
}

/// How many files there are of each type that is asked for.
#[derive(Debug, Default)]
pub(crate) struct Found(BTreeMap<String, u64>);

/// What of it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConstraintGaps {
    /// Types of which there is no file.
    pub extensions: Vec<String>,
    /// Types of which there are too few.
    pub counts: BTreeMap<String, CountGap>,
}

impl ConstraintGaps {
    /// Whether everything is there.
    pub fn satisfied(&self) -> bool {
        self.extensions.is_empty() && self.counts.is_empty()
    }
}

impl Constraints {
    /// Takes types with or without a dot, in any case; what cannot be a type is dropped.
    pub fn new(extensions: &[String], counts: &BTreeMap<String, u64>) -> Self {
        let mut out = Self::default();
        for extension in extensions.iter().filter_map(|text| plain(text)) {
            if !out.extensions.contains(&extension) {
                out.extensions.push(extension);
            }
        }
        for (text, count) in counts {
            if let Some(extension) = plain(text) {
                out.counts.insert(extension, *count);
            }
        }
        out
    }

    /// Whether a file is of a type that must be there: such files are listed first, so that a short
    /// page has them.
    pub(crate) fn wants(&self, path: &str) -> bool {
        self.extensions.iter().any(|extension| has(path, extension))
    }

    /// What is asked for, in one spelling.
    pub(crate) fn text(&self) -> String {
        self.extensions.join(",")
    }

    /// Counts a file that is there.
    pub(crate) fn count(&self, path: &str, found: &mut Found) {
        for extension in self.asked(path) {
            *found.0.entry(extension.clone()).or_default() += 1;
        }
    }

    /// Takes a file out of the count: it could not be read.
    pub(crate) fn discount(&self, path: &str, found: &mut Found) {
        for extension in self.asked(path) {
            let count = found.0.entry(extension.clone()).or_default();
            *count = count.saturating_sub(1);
        }
    }

    /// The types that are asked for and that a file has.
    fn asked(&self, path: &str) -> impl Iterator<Item = &String> {
        let all: BTreeSet<&String> = self.extensions.iter().chain(self.counts.keys()).collect();
        all.into_iter()
            .filter(move |extension| has(path, extension))
    }

    /// What is missing among these files.
    pub(crate) fn gaps(&self, found: &Found) -> ConstraintGaps {
        let count = |extension: &String| found.0.get(extension).copied().unwrap_or_default();
        let extensions = self.extensions.iter().filter(|e| count(e) == 0);
        let counts = self.counts.iter().map(|(extension, expected)| {
            let gap = CountGap {
                expected: *expected,
                actual: count(extension),
            };
            (extension.clone(), gap)
        });
        ConstraintGaps {
            extensions: extensions.cloned().collect(),
            counts: counts
                .filter(|(_, gap)| gap.actual < gap.expected)
                .collect(),
        }
    }
}

fn plain(text: &str) -> Option<String> {
    let text = text.trim().trim_start_matches('.').to_lowercase();
    (!text.is_empty() && !text.contains(['/', '\\', '\0'])).then_some(text)
}

/// Whether a name ends so, after a dot. `tar.gz` is a type too.
fn has(path: &str, extension: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
    name.strip_suffix(extension)
        .is_some_and(|stem| stem.len() > 1 && stem.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn types_are_read_as_callers_write_them() {
        let asked = ["PDF", ".md", "..Tar.GZ", "md", " ", "a/b", "a\\b", "."].map(str::to_owned);
        let counts = [(".PNG".to_owned(), 2), ("a/b".to_owned(), 1)].into();
        let constraints = Constraints::new(&asked, &counts);
        assert_eq!(constraints.extensions, ["pdf", "md", "tar.gz"]);
        assert_eq!(constraints.counts, [("png".to_owned(), 2)].into());
        for (path, want) in [
            ("x/final.pdf", true),
            ("X.Pdf", true),
            ("a.tar.gz", true),
            ("a.gz", false),
            (".md", false),
            ("md", false),
            ("pdf/x", false),
            ("apdf", false),
        ] {
            assert_eq!(constraints.wants(path), want, "{path}");
        }
        let mut found = Found::default();
        for path in ["a.md", "b.png", "unread.pdf"] {
            constraints.count(path, &mut found);
        }
        constraints.discount("unread.pdf", &mut found);
        let gaps = constraints.gaps(&found);
        assert_eq!(gaps.extensions, ["pdf", "tar.gz"]);
        let gap = CountGap {
            expected: 2,
            actual: 1,
        };
        assert_eq!(gaps.counts, [("png".to_owned(), gap)].into());
        assert!(!gaps.satisfied() && Constraints::default().gaps(&Found::default()).satisfied());
    }
}
