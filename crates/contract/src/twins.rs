//! Names that some systems take for one: those that differ in letter case only, or in how letters with
//! marks are composed.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use unicode_normalization::UnicodeNormalization as _;

/// How many pairs are told one by one.
const TOLD: usize = 20;

/// Finds twins among many paths, and holds few bytes for each.
#[derive(Debug, Default)]
pub struct Twins {
    hashes: Vec<u64>,
}

impl Twins {
    /// Looks at a path.
    pub fn see(&mut self, path: &str) {
        self.hashes.push(hash(path));
    }

    /// What a person should know about the paths that were seen, a sentence for each pair. They are gone
    /// through once more, and only if there are any.
    pub fn warnings<P: AsRef<str>>(mut self, paths: impl Iterator<Item = P>) -> Vec<String> {
        self.hashes.sort_unstable();
        let mut twice: Vec<u64> = self
            .hashes
            .iter()
            .zip(self.hashes.iter().skip(1))
            .filter(|(a, b)| a == b)
            .map(|(hash, _)| *hash)
            .collect();
        twice.dedup();
        if twice.is_empty() {
            return Vec::new();
        }
        let mut first: HashMap<String, String> = HashMap::new();
        let mut pairs = Vec::new();
        let mut more = 0;
        for path in paths {
            let path = path.as_ref();
            if twice.binary_search(&hash(path)).is_err() {
                continue;
            }
            match first.get(&folded(path)) {
                Some(twin) if pairs.len() < TOLD => pairs.push((twin.clone(), path.to_owned())),
                Some(_) => more += 1,
                None => drop(first.insert(folded(path), path.to_owned())),
            }
        }
        pairs.sort_unstable();
        let sentence = |(a, b): (String, String)| {
            format!(
                "`{a}` and `{b}` have names that some systems take for one: both were delivered."
            )
        };
        let mut told: Vec<String> = pairs.into_iter().map(sentence).collect();
        if more > 0 {
            told.push(format!(
                "{more} more files have names that some systems take for another's."
            ));
        }
        told
    }
}

/// The same for paths that can be gone through twice.
pub fn warnings_about_twins<'a>(paths: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let mut twins = Twins::default();
    paths.clone().for_each(|path| twins.see(path));
    twins.warnings(paths)
}

/// A path as systems see it that make no difference.
fn folded(path: &str) -> String {
    if path.is_ascii() {
        return path.to_ascii_lowercase();
    }
    // Lower case may come apart again.
    let lower: String = path.nfc().flat_map(char::to_lowercase).collect();
    lower.nfc().collect()
}

fn hash(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    folded(path).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn case_and_composition_make_twins() {
        let paths = [
            "Read.me",
            "a/b",
            "nai\u{308}ve",
            "A/B",
            "na\u{ef}ve",
            "read.me",
            "b",
            "strasse",
            "stra\u{df}e",
        ];
        assert_eq!(
            warnings_about_twins(paths.into_iter()),
            [
                "`Read.me` and `read.me` have names that some systems take for one: both were delivered.",
                "`a/b` and `A/B` have names that some systems take for one: both were delivered.",
                "`nai\u{308}ve` and `na\u{ef}ve` have names that some systems take for one: both were delivered.",
            ]
        );
        assert_eq!(
            warnings_about_twins(["a", "b"].into_iter()),
            Vec::<String>::new()
        );
    }

    #[test]
    fn many_are_counted() {
        let names: Vec<String> = (0..25)
            .flat_map(|n| [format!("f{n}"), format!("F{n}")])
            .collect();
        let told = warnings_about_twins(names.iter().map(String::as_str));
        assert_eq!(
            (told.len(), told.last().map(String::as_str)),
            (
                21,
                Some("5 more files have names that some systems take for another's.")
            )
        );
    }
}
