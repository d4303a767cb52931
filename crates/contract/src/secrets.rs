//! Errors as they may be stored and shown: providers like to repeat the key that they refuse.

/// How keys of well-known providers begin.
const PREFIXES: [&str; 9] = [
    "sk", "nvapi", "ghp", "gho", "xoxa", "xoxb", "xoxp", "xoxs", "AIza",
];
/// What stands before a secret, in lower case and without `-`, `_` and spaces.
const NAMES: [&str; 5] = ["apikey", "accesstoken", "token", "secret", "password"];
/// What is shown in place of one.
const HIDDEN: &str = "…";

/// A text in which everything that looks like a secret is hidden: keys by how they begin, bearer tokens, and
/// what is said to be a key, token, secret or password. The gateway's plugin hides the same.
pub fn without_secrets(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let is_inside = out.ends_with(|c: char| c.is_ascii_alphanumeric());
        let found = (!is_inside && c.is_ascii_alphabetic())
            .then(|| key(rest).or_else(|| bearer(rest)).or_else(|| named(rest)))
            .flatten();
        match found {
            Some((shown, secret)) => {
                out.push_str(rest.get(..shown).unwrap_or_default());
                out.push_str(HIDDEN);
                rest = rest.get(shown + secret..).unwrap_or_default();
            }
            None => {
                out.push(c);
                rest = rest.get(c.len_utf8()..).unwrap_or_default();
            }
        }
    }
    out
}

/// How many bytes at the beginning of a text are shown, and how many behind them are hidden.
type Found = Option<(usize, usize)>;

fn run(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn key(text: &str) -> Found {
    let prefix = PREFIXES.iter().find(|prefix| {
        let rest = text.strip_prefix(**prefix);
        rest.is_some_and(|rest| rest.starts_with(['-', '_']))
    })?;
    let shown = prefix.len() + 1;
    let secret = run(text.get(shown..)?, is_word);
    (secret >= 6).then_some((shown, secret))
}

fn bearer(text: &str) -> Found {
    let is_bearer = text.get(..6)?.eq_ignore_ascii_case("bearer");
    let rest = text.get(6..).filter(|_| is_bearer)?;
    let space = run(rest, char::is_whitespace);
    let belongs = |c: char| is_word(c) || matches!(c, '.' | '~' | '+' | '/' | '=');
    let secret = run(rest.get(space..)?, belongs);
    (space > 0 && secret >= 8).then_some((6 + space, secret))
}

fn named(text: &str) -> Found {
    let name = NAMES.iter().find_map(|name| length(text, name))?;
    let mut shown = name;
    let mut pass = |belongs: fn(char) -> bool, most: usize| {
        let passed = run(text.get(shown..).unwrap_or_default(), belongs).min(most);
        shown += passed;
        passed
    };
    pass(|c| c == '"', 1);
    pass(char::is_whitespace, usize::MAX);
    if pass(|c| matches!(c, '=' | ':'), 1) == 0 {
        return None;
    }
    pass(char::is_whitespace, usize::MAX);
    pass(|c| c == '"', 1);
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';' | '&');
    let secret = run(text.get(shown..)?, |c| !ends(c));
    // A bearer token has its own rule.
    let is_scheme = text.get(shown..).and_then(bearer).is_some();
    (secret > 0 && !is_scheme).then_some((shown, secret))
}

/// How long a name is at the beginning of a text, with what may stand between its words.
fn length(text: &str, name: &str) -> Option<usize> {
    let mut left = name.chars();
    let mut wanted = left.next();
    for (at, c) in text.char_indices() {
        match wanted {
            None => return Some(at),
            Some(letter) if c.eq_ignore_ascii_case(&letter) => wanted = left.next(),
            Some(_) if at > 0 && matches!(c, '-' | '_' | ' ') => {}
            Some(_) => return None,
        }
    }
    wanted.is_none().then_some(text.len())
}

#[cfg(test)]
#[path = "secrets_tests.rs"]
mod tests;
