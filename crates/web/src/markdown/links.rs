//! Which addresses a text may lead to.

const MAX_ADDRESS_BYTES: usize = 2048;

/// The next address that stands in the text by itself, with the text before and after it.
pub(super) fn next_address(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(at) = text[from..].find("http") {
        let at = from + at;
        let is_in_a_word = text[..at].ends_with(char::is_alphanumeric);
        match bare(&text[at..]).filter(|_| !is_in_a_word) {
            Some(url) => return Some((&text[..at], url, &text[at + url.len()..])),
            None => from = at + "http".len(),
        }
    }
    None
}

/// The address that the text begins with.
fn bare(text: &str) -> Option<&str> {
    if !text.starts_with("http://") && !text.starts_with("https://") {
        return None;
    }
    let ends = |c: char| c.is_whitespace() || matches!(c, '<' | '>' | '"' | '`' | '|' | '”' | '*');
    // One that is longer is refused anyway, and is not to be read at each `http` in it.
    let text = &text[..text.floor_char_boundary(MAX_ADDRESS_BYTES + 1)];
    let url = text.split(ends).next().unwrap_or_default();
    let url = url.trim_end_matches(['.', ',', ';', ':', '!', '?', '\'']);
    // A bracket around the address is not part of it, one inside is.
    let url = match url.contains('(') {
        true => url,
        false => url.trim_end_matches(')').trim_end_matches('.'),
    };
    web_address(url)
}

/// The address, if it is one of the web's and could not mean anything else.
pub(super) fn web_address(url: &str) -> Option<&str> {
    let begins = |scheme: &&str| {
        let start = url.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    let scheme = ["https://", "http://", "mailto:"]
        .into_iter()
        .find(begins)?;
    let odd = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '"' | '<' | '>' | '\\');
    let fits = scheme.len() < url.len() && url.len() <= MAX_ADDRESS_BYTES;
    (fits && !url.contains(odd)).then_some(url)
}
