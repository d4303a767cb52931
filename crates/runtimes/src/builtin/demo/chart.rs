//! The picture of the demonstration: a bar for each of the most frequent words.

use std::fmt::Write as _;

use super::words::{Words, several};

/// How many words get a bar.
const BARS: usize = 10;
const WIDTH: usize = 720;
const TOP: usize = 96;
const ROW: usize = 36;
/// Where bars begin, and how long the longest is.
const LEFT: usize = 190;
const LONGEST: usize = 440;

/// The colours stand in the elements, so that the picture is whole even where styles are blocked;
/// the style only turns it dark for who likes it dark.
const STYLE: &str = "\
.card{fill:#fbfaf7;stroke:#e4e0d6}.title{fill:#1d2433}.soft{fill:#667085}.bar{fill:#2f6f6d}.track{fill:#ece8de}\
@media (prefers-color-scheme:dark){\
.card{fill:#14181f;stroke:#2a313c}.title{fill:#eef1f5}.soft{fill:#98a2b3}.bar{fill:#5fb3ae}.track{fill:#222a35}}";

/// `words.svg`.
pub(super) fn chart(words: &Words<'_>) -> String {
    let bars = words.counted.get(..BARS).unwrap_or(&words.counted);
    let most = bars.first().map_or(1, |w| w.count);
    let height = TOP + bars.len().max(1) * ROW + 28;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"The most frequent words\" font-family=\"system-ui, sans-serif\">\n\
         <style>{STYLE}</style>\n\
         <rect class=\"card\" x=\"1\" y=\"1\" width=\"{}\" height=\"{}\" rx=\"16\" fill=\"#fbfaf7\" stroke=\"#e4e0d6\"/>\n\
         <text class=\"title\" x=\"28\" y=\"44\" font-size=\"20\" font-weight=\"600\" fill=\"#1d2433\">The most frequent words</text>\n\
         <text class=\"soft\" x=\"28\" y=\"68\" font-size=\"13\" fill=\"#667085\">{}, {} different</text>\n",
        WIDTH - 2,
        height - 2,
        several(words.total, "word"),
        words.counted.len(),
    );
    if bars.is_empty() {
        let _ = writeln!(
            out,
            "<text class=\"soft\" x=\"28\" y=\"{}\" font-size=\"14\" fill=\"#667085\">There were no words to count.</text>",
            TOP + 22
        );
    }
    for (row, word) in bars.iter().enumerate() {
        let y = TOP + row * ROW;
        let long = (word.count * LONGEST / most).max(6);
        let _ = write!(
            out,
            "<text class=\"title\" x=\"{}\" y=\"{}\" font-size=\"14\" text-anchor=\"end\" fill=\"#1d2433\">{}</text>\n\
             <rect class=\"track\" x=\"{LEFT}\" y=\"{y}\" width=\"{LONGEST}\" height=\"20\" rx=\"6\" fill=\"#ece8de\"/>\n\
             <rect class=\"bar\" x=\"{LEFT}\" y=\"{y}\" width=\"{long}\" height=\"20\" rx=\"6\" fill=\"#2f6f6d\"/>\n\
             <text class=\"soft\" x=\"{}\" y=\"{}\" font-size=\"13\" fill=\"#667085\">{}</text>\n",
            LEFT - 14,
            y + 15,
            escaped(&shortened(&word.word)),
            LEFT + LONGEST + 14,
            y + 15,
            word.count,
        );
    }
    out.push_str("</svg>\n");
    out
}

/// A word that fits in front of its bar.
fn shortened(word: &str) -> String {
    const MOST: usize = 18;
    if word.chars().count() <= MOST {
        return word.to_owned();
    }
    word.chars().take(MOST - 1).chain(['…']).collect()
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
#[path = "chart_tests.rs"]
mod tests;
