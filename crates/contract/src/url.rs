//! Percent-encoding, for everything of ours that goes into a URL.

/// Encodes everything but the unreserved characters, so that a text can stand as one query value
/// or one path segment.
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte))
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_unreserved_characters_stay() {
        assert_eq!(
            super::encoded("a-Z_0.9~ /:%é\n"),
            "a-Z_0.9~%20%2F%3A%25%C3%A9%0A"
        );
    }
}
