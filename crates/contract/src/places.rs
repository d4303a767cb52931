//! Texts for callers who must not learn where anything of the server is.

/// What is shown in place of an address or a path.
const HIDDEN: &str = "…";
/// What can stand around an address or a path in a sentence.
const AROUND: [char; 14] = [
    '"', '\'', '`', '(', ')', '[', ']', '<', '>', ',', '.', ';', '!', '?',
];

/// A text in which addresses and absolute paths are hidden: URLs, hosts with a port, IP addresses, and what begins
/// with a `/`.
pub fn without_places(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_inclusive(char::is_whitespace) {
        let body = word.trim_end();
        // A dot before a path belongs to it.
        let opened = body.trim_start_matches(|c| c != '.' && AROUND.contains(&c));
        let start = body.len() - opened.len();
        let core = opened.trim_end_matches(AROUND);
        match place_in(core) {
            Some(at) if !core.is_empty() => {
                let end = start + core.len();
                out.push_str(word.get(..start + at).unwrap_or_default());
                out.push_str(HIDDEN);
                out.push_str(word.get(end..).unwrap_or_default());
            }
            _ => out.push_str(word),
        }
    }
    out
}

/// Where in a word an address or a path begins.
fn place_in(word: &str) -> Option<usize> {
    let after_name = word.find('=').map_or(0, |at| at + 1);
    let value = word.get(after_name..)?;
    if value.contains("://") || is_host(value) {
        return Some(after_name);
    }
    let mut before = None;
    for (at, c) in word.char_indices() {
        let begins = before.is_none_or(|b: char| !b.is_alphanumeric() && !matches!(b, '.' | '/'));
        if c == '/' && begins && word.len() > at + 1 {
            // Behind a `~`, that belongs to it.
            return Some(at - usize::from(before == Some('~')));
        }
        before = Some(c);
    }
    None
}

/// An IP address, or a host with its port.
fn is_host(word: &str) -> bool {
    let word = word.trim_end_matches(':');
    if word.parse::<std::net::IpAddr>().is_ok() && word.contains(['.', ':']) {
        return true;
    }
    match word.rsplit_once(':') {
        Some((host, port)) => {
            let named = host.contains('.') || host == "localhost" || host.ends_with(']');
            // Behind the port there may be a path.
            let port = port.split('/').next().unwrap_or_default();
            named && !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())
        }
        None => false,
    }
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
