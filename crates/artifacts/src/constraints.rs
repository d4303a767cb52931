//! File types that a caller asks for. They decide the order of a list and what is said about it,
//! never what belongs to a run.

use std::collections::BTreeMap;

use threadline_contract::plugin::CountGap;

/// What a caller asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Constraints {
    /// Types of which there must be a file.
    extensions: Vec<String>,
    /// How many of a type there must be.
    counts: BTreeMap<String, u64>,
}

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

    /// What is missing among these files.
    pub(crate) fn gaps<'a>(&self, paths: impl Iterator<Item = &'a str> + Clone) -> ConstraintGaps {
        let count = |extension: &str| {
            let of_type = paths.clone().filter(|path| has(path, extension));
            of_type.count() as u64
        };
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
        let gaps = constraints.gaps(["a.md", "b.png"].into_iter());
        assert_eq!(gaps.extensions, ["pdf", "tar.gz"]);
        let gap = CountGap {
            expected: 2,
            actual: 1,
        };
        assert_eq!(gaps.counts, [("png".to_owned(), gap)].into());
        assert!(!gaps.satisfied() && Constraints::default().gaps([].into_iter()).satisfied());
    }
}
