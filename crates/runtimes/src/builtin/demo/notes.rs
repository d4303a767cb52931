//! The text and the table of the demonstration.

use std::fmt::Write as _;

use super::words::{Words, several};

/// `notes.md`: what was asked, sentence by sentence, and what was counted.
pub(super) fn notes(words: &Words<'_>) -> String {
    let mut out = String::from("# Notes\n\nYou wrote:\n\n");
    for line in words.text.lines() {
        let _ = writeln!(out, "> {}", line.trim_end());
    }
    out.push_str("\n## Sentence by sentence\n\n");
    for (index, sentence) in words.sentences.iter().enumerate() {
        let _ = writeln!(out, "{}. {sentence}", index + 1);
    }
    let _ = write!(
        out,
        "\n## Counted\n\n- {}\n- {}, {} different\n- {}\n",
        several(words.sentences.len(), "sentence"),
        several(words.total, "word"),
        words.counted.len(),
        several(words.text.chars().count(), "character"),
    );
    if let Some(longest) = words.counted.iter().max_by_key(|w| w.length) {
        let _ = writeln!(out, "- the longest word is “{}”", longest.word);
    }
    out.push_str(
        "\nThis file comes from the demonstration of Threadline: no model read your words.\n",
    );
    out
}

/// `words.csv`: every word with its count and length.
pub(super) fn table(words: &Words<'_>) -> String {
    let mut out = String::from("word,count,length\r\n");
    for word in &words.counted {
        // A word holds letters, digits and apostrophes only: nothing that a table needs quoted.
        let _ = write!(out, "{},{},{}\r\n", word.word, word.count, word.length);
    }
    out
}
