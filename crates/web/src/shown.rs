//! Text from elsewhere as a page shows it: letters that would turn the direction of what is read, and
//! control characters, stand there as the replacement character. So `notes-<U+202E>txt.exe` cannot be
//! read as `notes-exe.txt` where somebody is asked to allow it. `assets/dom.js` does the same to what the
//! script draws.

use maud::{Markup, PreEscaped, html};

/// Whether a letter could make a page read as another one. Line breaks and tabs are part of a text; letters
/// that are written from the right are letters.
fn misleads(c: char) -> bool {
    threadline_contract::misleads(c) && !matches!(c, '\n' | '\r' | '\t')
}

/// A whole page, in which nothing misleads.
pub(crate) fn page(page: Markup) -> Markup {
    match page.0.contains(misleads) {
        true => PreEscaped(page.0.replace(misleads, "\u{fffd}")),
        false => page,
    }
}

/// A value that is sent back, or a text that the user goes on writing: it stays exactly as it is.
pub(crate) fn verbatim(text: &str) -> Markup {
    let escaped = html! { (text) }.0;
    // HTML has no way to write the others.
    let can_be_referred_to =
        |c: char| misleads(c) && c != '\0' && !('\x7f'..='\u{9f}').contains(&c);
    let mut out = String::with_capacity(escaped.len());
    for c in escaped.chars() {
        match can_be_referred_to(c) {
            true => out.push_str(&format!("&#x{:x};", c as u32)),
            false => out.push(c),
        }
    }
    PreEscaped(out)
}

#[cfg(test)]
#[path = "shown_tests.rs"]
mod tests;
