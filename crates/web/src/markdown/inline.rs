//! From a line's text to its parts.

use std::cell::Cell;

/// How far away the end of something may be.
const FARTHEST: usize = 2048;
/// How many characters may be looked at for each one that there is.
const EFFORT: usize = 32;
/// How deep emphasis and links may lie in each other.
const DEEPEST: usize = 6;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inline {
    Text(String),
    Code(String),
    Strong(Vec<Inline>),
    Emphasis(Vec<Inline>),
    Strike(Vec<Inline>),
    /// An address on the web, and what it says.
    Link(String, Vec<Inline>),
}

pub(super) fn read(text: &str) -> Vec<Inline> {
    let reader = Reader {
        left: Cell::new(text.len().saturating_mul(EFFORT)),
    };
    reader.parts(text, DEEPEST)
}

/// Reads with a bounded effort: marks that open and never close would otherwise each be looked
/// after up to the end. When the effort is used up, the rest is plain text.
struct Reader {
    left: Cell<usize>,
}

impl Reader {
    fn parts(&self, text: &str, depth: usize) -> Vec<Inline> {
        let mut out = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if let Some((part, used)) = self.part(rest, plain.chars().next_back(), depth) {
                if !plain.is_empty() {
                    out.push(Inline::Text(std::mem::take(&mut plain)));
                }
                out.push(part);
                rest = &rest[used..];
                continue;
            }
            // Marks that mean nothing stay together: each would be counted again otherwise.
            if matches!(c, '*' | '_' | '~' | '`') {
                let len = rest.chars().take_while(|x| *x == c).count();
                plain.push_str(&rest[..len]);
                rest = &rest[len..];
                continue;
            }
            let escaped = rest
                .strip_prefix('\\')
                .and_then(|r| r.chars().next())
                .filter(char::is_ascii_punctuation);
            let c = match escaped {
                Some(escaped) => {
                    rest = &rest[1..];
                    escaped
                }
                None => c,
            };
            plain.push(c);
            rest = &rest[c.len_utf8()..];
        }
        if !plain.is_empty() {
            out.push(Inline::Text(plain));
        }
        out
    }

    /// What begins here, if it is more than text, and how many bytes it takes.
    fn part(&self, rest: &str, before: Option<char>, depth: usize) -> Option<(Inline, usize)> {
        match rest.as_bytes().first()? {
            b'`' => self.code(rest),
            b'*' | b'_' | b'~' if depth > 0 => self.emphasis(rest, before, depth),
            b'[' if depth > 0 => self.link(rest, depth),
            b'!' if depth > 0 => {
                // A picture from elsewhere is not loaded; its address and its words are shown.
                let (link, used) = self.link(rest.strip_prefix('!')?, depth)?;
                Some((link, used + 1))
            }
            b'<' => {
                let end = self.find(rest, ">")?;
                Some((plain_link(web_address(&rest[1..end])?), end + 1))
            }
            b'h' if before.is_none_or(|c| !c.is_alphanumeric()) => bare(rest),
            _ => None,
        }
    }

    fn code(&self, rest: &str) -> Option<(Inline, usize)> {
        let ticks = rest.bytes().take_while(|b| *b == b'`').count();
        let (mark, inner) = rest.split_at(ticks);
        let mut from = 0;
        loop {
            let at = from + self.find(&inner[from..], mark)?;
            let run = inner[at..].bytes().take_while(|b| *b == b'`').count();
            if run == ticks {
                let text = inner[..at].replace('\n', " ");
                let bare = text.strip_prefix(' ').and_then(|t| t.strip_suffix(' '));
                let bare = bare.filter(|t| !t.trim().is_empty());
                return Some((
                    Inline::Code(bare.unwrap_or(&text).to_owned()),
                    2 * ticks + at,
                ));
            }
            from = at + run;
        }
    }

    fn emphasis(&self, rest: &str, before: Option<char>, depth: usize) -> Option<(Inline, usize)> {
        let mark = rest.chars().next()?;
        let len = rest.chars().take_while(|c| *c == mark).count();
        let len = match (mark, len) {
            ('~', 2) => 2,
            ('*' | '_', 1 | 2) => len,
            ('*' | '_', 3) => 2,
            _ => return None,
        };
        // `snake_case` is a word.
        if mark == '_' && before.is_some_and(char::is_alphanumeric) {
            return None;
        }
        let inner = &rest[len..];
        if inner.starts_with(char::is_whitespace) {
            return None;
        }
        let end = self.closing(inner, &rest[..len], mark)?;
        let parts = self.parts(&inner[..end], depth - 1);
        let part = match (mark, len) {
            ('~', _) => Inline::Strike(parts),
            (_, 2) => Inline::Strong(parts),
            _ => Inline::Emphasis(parts),
        };
        Some((part, 2 * len + end))
    }

    /// Where the mark closes what it opened.
    fn closing(&self, inner: &str, mark: &str, c: char) -> Option<usize> {
        let mut from = 0;
        loop {
            let at = from + self.find(&inner[from..], mark)?;
            let run = inner[at..].chars().take_while(|x| *x == c).count();
            let after = inner[at + run..].chars().next();
            let closes = (run == mark.len() || run > 2)
                && at > 0
                && !inner[..at].ends_with(char::is_whitespace)
                && !(c == '_' && after.is_some_and(char::is_alphanumeric));
            if closes {
                return Some(at + run - mark.len());
            }
            from = at + run;
            if from > FARTHEST {
                return None;
            }
        }
    }

    fn link(&self, rest: &str, depth: usize) -> Option<(Inline, usize)> {
        let label_end = self.balanced(rest, '[', ']')?;
        let target = rest[label_end + 1..].strip_prefix('(')?;
        let end = self.balanced(&rest[label_end + 1..], '(', ')')?;
        let target = &target[..end - 1];
        let used = label_end + 1 + end + 1;
        let label = &rest[1..label_end];
        let url = target.split_whitespace().next().unwrap_or_default();
        let words = self.parts(if label.is_empty() { url } else { label }, depth - 1);
        match web_address(url) {
            Some(url) => Some((Inline::Link(url.to_owned(), words), used)),
            // It leads somewhere that is not the web (a local path, a script): only its words stay.
            None => Some((Inline::Emphasis(words), used)),
        }
    }

    /// Where the bracket that opens a text is closed.
    fn balanced(&self, text: &str, open: char, close: char) -> Option<usize> {
        if !text.starts_with(open) {
            return None;
        }
        let mut depth = 0usize;
        let within = self.window(text);
        for (at, c) in within.char_indices() {
            if c == open {
                depth += 1;
            } else if c == close {
                depth -= 1;
                if depth == 0 {
                    self.spend(at);
                    return Some(at);
                }
            } else if c == '\n' && open == '(' {
                self.spend(at);
                return None;
            }
        }
        self.spend(within.len());
        None
    }

    fn find(&self, text: &str, wanted: &str) -> Option<usize> {
        let within = self.window(text);
        let at = within.find(wanted);
        self.spend(at.unwrap_or(within.len()));
        at
    }

    fn window<'a>(&self, text: &'a str) -> &'a str {
        &text[..text.floor_char_boundary(FARTHEST.min(self.left.get()))]
    }

    fn spend(&self, effort: usize) {
        self.left.set(self.left.get().saturating_sub(effort + 1));
    }
}

/// An address that stands in the text by itself.
fn bare(rest: &str) -> Option<(Inline, usize)> {
    if !rest.starts_with("http://") && !rest.starts_with("https://") {
        return None;
    }
    let ends = |c: char| c.is_whitespace() || matches!(c, '<' | '>' | '"' | '`' | '|' | '”' | '*');
    let url = rest.split(ends).next().unwrap_or_default();
    let url = url.trim_end_matches(['.', ',', ';', ':', '!', '?', '\'']);
    // A bracket around the address is not part of it, one inside is.
    let url = if url.contains('(') {
        url
    } else {
        url.trim_end_matches(')').trim_end_matches('.')
    };
    let url = web_address(url)?;
    Some((plain_link(url), url.len()))
}

fn plain_link(url: &str) -> Inline {
    Inline::Link(url.to_owned(), vec![Inline::Text(url.to_owned())])
}

/// The address, if it is one of the web's and could not mean anything else.
fn web_address(url: &str) -> Option<&str> {
    let begins = |scheme: &&str| {
        let start = url.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    let scheme = ["https://", "http://", "mailto:"]
        .into_iter()
        .find(begins)?;
    let odd = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '"' | '<' | '>' | '\\');
    (url.len() > scheme.len() && url.len() <= FARTHEST && !url.contains(odd)).then_some(url)
}
