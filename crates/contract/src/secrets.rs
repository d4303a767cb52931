//! Errors as they may be stored and shown: providers like to repeat the key that they refuse.

/// How keys of well-known providers begin, before a `-` or `_`.
const PREFIXES: [&str; 9] = [
    "sk", "nvapi", "ghp", "gho", "xoxa", "xoxb", "xoxp", "xoxs", "AIza",
];
/// How those begin that have neither, and how long they are at least behind that.
const BARE: [(&str, usize); 3] = [("AIza", 20), ("AKIA", 12), ("ASIA", 12)];
/// What stands before a secret, in lower case and without `-`, `_` and spaces.
const NAMES: [&str; 5] = ["apikey", "accesstoken", "token", "secret", "password"];
/// What is shown in place of one.
const HIDDEN: &str = "…";

/// A text in which everything that looks like a secret is hidden: keys by how they begin, bearer tokens, JSON web
/// tokens, what is said to be a key, token, secret or password, and passwords in addresses. The gateway's plugin
/// hides the same.
pub fn without_secrets(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let is_inside = out.ends_with(|c: char| c.is_ascii_alphanumeric());
        let found = match c {
            ':' => login(rest),
            '?' | '&' => parameter(rest),
            c if !is_inside && c.is_ascii_alphabetic() => key(rest)
                .or_else(|| bare(rest))
                .or_else(|| web_token(rest))
                .or_else(|| bearer(rest))
                .or_else(|| named(rest)),
            _ => None,
        };
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

fn bare(text: &str) -> Found {
    BARE.iter().find_map(|(prefix, least)| {
        let secret = run(text.strip_prefix(prefix)?, is_word);
        (secret >= *least).then_some((prefix.len(), secret))
    })
}

/// `eyJ….….…`: three parts, of which the first is JSON in base64.
fn web_token(text: &str) -> Found {
    let rest = text.strip_prefix("eyJ")?;
    let secret = run(rest, |c| is_word(c) || c == '.');
    let parts: Vec<&str> = rest.get(..secret)?.split('.').collect();
    let is_token = parts.len() >= 3 && parts.iter().take(2).all(|part| part.len() >= 5);
    // A full stop behind it ends the sentence.
    let secret = rest.get(..secret)?.trim_end_matches('.').len();
    is_token.then_some((3, secret))
}

/// `?key=…` of an address, where other words for it are hidden by their names.
fn parameter(text: &str) -> Found {
    let shown = ["?key=", "&key="].iter().find(|name| {
        let begins = text.get(..name.len());
        begins.is_some_and(|begins| begins.eq_ignore_ascii_case(name))
    })?;
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '&' | '#' | ')' | ',');
    let secret = run(text.get(shown.len()..)?, |c| !ends(c));
    (secret > 0).then_some((shown.len(), secret))
}

/// The password of `scheme://user:password@host`.
fn login(text: &str) -> Found {
    let rest = text.strip_prefix("://")?;
    let ends = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'' | '<' | '>');
    let authority = rest.get(..run(rest, |c| !ends(c)))?;
    let (user, password) = authority.rsplit_once('@')?.0.split_once(':')?;
    (!password.is_empty()).then_some((3 + user.len() + 1, password.len()))
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
