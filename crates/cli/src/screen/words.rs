//! Texts, times and paths as people read them in a terminal.

use jiff::{Timestamp, tz::TimeZone};
use threadline_app::api::FilesNow;
pub(crate) use threadline_contract::amounts::{ago, count, duration, limit, size};
use threadline_contract::{
    Code, Millis, ResultCode, misleads,
    thread::{Lifecycle, SyncStatus, TurnState},
    url::encoded,
};
use unicode_width::UnicodeWidthChar as _;

/// A JSON text in which nothing can act on a terminal: what could is escaped, so that a program reads the
/// same as before.
pub(crate) fn escaped_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match misleads(c) {
            // They all lie in the basic plane.
            true => out.push_str(&format!("\\u{:04x}", c as u32)),
            false => out.push(c),
        }
    }
    out
}

/// A text from elsewhere, made safe for a terminal: an agent's words or a file's name must not be
/// able to move the cursor, change the title or write to the clipboard.
pub(crate) fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            c if misleads(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// As [`clean`], on one line.
pub(crate) fn line(text: &str) -> String {
    clean(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// As [`line`], and no longer than this.
pub(crate) fn short(text: &str, most: usize) -> String {
    let text = line(text);
    if text.chars().count() <= most {
        return text;
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// The columns of a terminal that a text takes; colours take none.
pub(crate) fn columns(text: &str) -> usize {
    let mut parts = text.split("\x1b[");
    let plain = parts.next().unwrap_or_default();
    let after = parts.map(|part| part.split_once('m').map_or(part, |(_, rest)| rest));
    std::iter::once(plain)
        .chain(after)
        .flat_map(str::chars)
        .map(column_count)
        .sum()
}

fn column_count(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// As [`short`], measured in columns of a terminal.
pub(crate) fn fit(text: &str, most: usize) -> String {
    let text = line(text);
    if columns(&text) <= most {
        return text;
    }
    let mut left = most.saturating_sub(1);
    let fits = |c: &char| {
        let takes = column_count(*c);
        let room = left >= takes;
        left = left.saturating_sub(takes);
        room
    };
    let kept: String = text.chars().take_while(fits).collect();
    format!("{}…", kept.trim_end())
}

/// A sentence of its own: with a capital letter, and a full stop.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), letters.as_str()),
        None => String::new(),
    }
}

/// The time of day.
pub(crate) fn clock(at: Millis, zone: &TimeZone) -> String {
    match Timestamp::from_millisecond(at.0) {
        Ok(at) => at.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string(),
        Err(_) => "the end of time".into(),
    }
}

/// A path with the home folder as `~`.
pub(crate) fn short_path(path: &str, home: Option<&str>) -> String {
    match home.map(|home| path.strip_prefix(home.trim_end_matches('/'))) {
        Some(Some("")) => "~".into(),
        Some(Some(rest)) if rest.starts_with('/') => format!("~{rest}"),
        _ => path.to_owned(),
    }
}

/// A path as the tail of a `file:` address.
pub(crate) fn url_path(path: &str) -> String {
    path.split('/').map(encoded).collect::<Vec<_>>().join("/")
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@+,=".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", clean(word).replace('\'', "'\\''")),
    }
}

/// What became of a turn, where its answer does not say it.
pub(crate) const fn turn(state: TurnState) -> Option<&'static str> {
    match state {
        TurnState::Queued => Some("waits"),
        TurnState::Running => Some("running"),
        TurnState::Cancelled => Some("cancelled"),
        TurnState::Dropped => Some("dropped before it ran"),
        TurnState::Done | TurnState::Failed => None,
    }
}

/// Where a thread stands, in a word or two.
pub(crate) fn standing(
    lifecycle: Lifecycle,
    result: Option<ResultCode>,
    sync: Option<SyncStatus>,
    files: Option<FilesNow>,
    asks: bool,
    away: bool,
    queued: bool,
) -> &'static str {
    match (lifecycle, result) {
        _ if asks => "asks you",
        (Lifecycle::Running, _) if away => "waiting for its bridge",
        (Lifecycle::Running, _) if queued => "queued",
        (Lifecycle::Running, _) => "running",
        (Lifecycle::Queued, _) => "queued",
        (Lifecycle::Ready | Lifecycle::Archived, Some(ResultCode::Success)) => {
            match (sync, files) {
                (Some(SyncStatus::Syncing), _) => "syncing",
                (Some(SyncStatus::Partial | SyncStatus::Failed), _)
                | (_, Some(FilesNow::Missing)) => "files missing",
                (_, Some(FilesNow::Changed)) => "files changed",
                _ => "done",
            }
        }
        (Lifecycle::Ready | Lifecycle::Archived, Some(code)) if code.is_cancelled() => "cancelled",
        (
            Lifecycle::Ready | Lifecycle::Archived,
            Some(ResultCode::ArtifactMissing | ResultCode::Code(Code::RequiredArtifactMissing)),
        ) => "not delivered",
        (Lifecycle::Ready | Lifecycle::Archived, Some(_)) => "failed",
        (Lifecycle::Ready | Lifecycle::Archived, None) => "new",
    }
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
