//! Addresses of our own pages. Names come from users and agents, so every part is encoded.

/// One part of a path.
pub(crate) use threadline_contract::url::encoded as segment;

/// A path of several parts.
pub(crate) fn path(text: &str) -> String {
    text.split('/').map(segment).collect::<Vec<_>>().join("/")
}

/// A thread's page.
pub(crate) fn thread(name: &str) -> String {
    format!("/threads/{}", segment(name))
}

/// The page that shows one file of a thread.
pub(crate) fn preview(thread: &str, file: &str) -> String {
    format!("/threads/{}/files/{}", segment(thread), path(file))
}

/// The file itself.
pub(crate) fn file(thread: &str, file: &str) -> String {
    format!("/app/files/{}/{}", segment(thread), path(file))
}

/// What happens in a thread, beginning with the last so many events of its log.
pub(crate) fn events(thread: &str, last: u32) -> String {
    format!("/app/events?thread={}&last={last}", segment(thread))
}

/// A path of ours to go back to; anything that could lead elsewhere is not taken.
pub(crate) fn back(given: Option<&str>) -> &str {
    match given {
        Some(path)
            if path.starts_with('/')
                && !path.starts_with("//")
                && !path.contains(['\\', '\r', '\n']) =>
        {
            path
        }
        _ => "/",
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn hostile_names_stay_one_address() {
        assert_eq!(
            preview("a/b?c#d", "x y/../ü\"<>.md"),
            "/threads/a%2Fb%3Fc%23d/files/x%20y/../%C3%BC%22%3C%3E.md"
        );
        assert_eq!(segment("100%"), "100%25");
    }

    #[test]
    fn back_never_leads_away() {
        for (given, want) in [
            (Some("/threads/x"), "/threads/x"),
            (Some("//evil.example"), "/"),
            (Some("/\\evil.example"), "/"),
            (Some("https://evil.example"), "/"),
            (Some("/a\r\nSet-Cookie: x"), "/"),
            (None, "/"),
        ] {
            assert_eq!(back(given), want);
        }
    }
}
