//! Names that people can type: two plain words.

use rand::RngExt as _;

const FIRST: [&str; 96] = [
    "amber", "apple", "autumn", "bamboo", "basil", "beach", "berry", "birch", "bird", "blue",
    "brook", "candle", "canyon", "cedar", "cherry", "clay", "clear", "cliff", "cloud", "clover",
    "cobalt", "copper", "coral", "cotton", "creek", "crystal", "dawn", "delta", "desert", "dune",
    "early", "echo", "elm", "ember", "evening", "falcon", "fern", "field", "fjord", "forest",
    "frost", "garden", "ginger", "glacier", "golden", "grain", "granite", "green", "harbor",
    "hazel", "hill", "honey", "island", "ivory", "ivy", "jade", "lake", "lemon", "lilac", "linen",
    "maple", "marble", "meadow", "mint", "misty", "moon", "morning", "moss", "north", "oak",
    "ocean", "olive", "opal", "orange", "orchid", "pearl", "pebble", "pepper", "pine", "plum",
    "quiet", "rain", "reed", "river", "rose", "sage", "sand", "silver", "snow", "spring", "stone",
    "summer", "sunny", "valley", "willow", "winter",
];
const SECOND: [&str; 96] = [
    "album", "anchor", "arrow", "atlas", "badge", "basket", "beacon", "bell", "bench", "board",
    "book", "bottle", "bridge", "bucket", "button", "cabin", "camera", "canvas", "card", "chart",
    "circle", "clock", "compass", "corner", "cup", "desk", "diary", "dish", "door", "draft",
    "drum", "engine", "fabric", "feather", "fence", "flag", "folder", "frame", "gate", "glass",
    "guide", "hammer", "handle", "harp", "jacket", "journal", "kettle", "key", "ladder", "lamp",
    "lantern", "ledger", "letter", "lens", "line", "list", "map", "market", "mirror", "mosaic",
    "motor", "needle", "note", "notebook", "packet", "page", "paint", "panel", "paper", "path",
    "pencil", "piano", "picture", "plan", "plate", "pocket", "poster", "puzzle", "report",
    "ribbon", "road", "saddle", "sail", "scale", "sheet", "shelf", "signal", "sketch", "station",
    "story", "table", "ticket", "tower", "train", "window", "wheel",
];

/// A name that `taken` does not know.
pub(crate) fn fresh(taken: impl Fn(&str) -> bool) -> String {
    let mut rng = rand::rng();
    let pair = |rng: &mut rand::rngs::ThreadRng| {
        let first = FIRST[rng.random_range(0..FIRST.len())];
        let second = SECOND[rng.random_range(0..SECOND.len())];
        format!("{first}-{second}")
    };
    // With few threads the first pair is free; with thousands a number is added before long.
    for _ in 0..16 {
        let name = pair(&mut rng);
        if !taken(&name) {
            return name;
        }
    }
    let name = pair(&mut rng);
    (2u64..)
        .map(|n| format!("{name}-{n}"))
        .find(|n| !taken(n))
        .unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn names_are_plain_words_and_never_double() {
        let mut seen = HashSet::new();
        for _ in 0..12_000 {
            let name = super::fresh(|n| seen.contains(n));
            assert!(
                name.chars()
                    .all(|c| c.is_ascii_lowercase() || c == '-' || c.is_ascii_digit())
            );
            assert!(seen.insert(name));
        }
    }
}
