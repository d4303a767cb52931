//! JSON columns: to text and back, where "back" can only fail on a damaged database.

use serde::{Serialize, de::DeserializeOwned};
use threadline_contract::Millis;

use crate::{Result, StoreError};

/// A value as JSON text.
pub(crate) fn to_text<T: Serialize + ?Sized>(what: &str, value: &T) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|e| StoreError::Invalid(format!("{what} cannot be written as JSON: {e}")))
}

/// Texts as a JSON list.
pub(crate) fn list<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts: Vec<serde_json::Value> = texts.into_iter().map(Into::into).collect();
    serde_json::Value::from(texts).to_string()
}

/// The same, for a value that may be absent.
pub(crate) fn maybe_to_text<T: Serialize>(what: &str, value: Option<&T>) -> Result<Option<String>> {
    value.map(|v| to_text(what, v)).transpose()
}

/// A value out of JSON text.
pub(crate) fn from_text<T: DeserializeOwned>(what: &str, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|e| StoreError::corrupt(what, e))
}

/// The same, for a column that may be null.
pub(crate) fn maybe_from_text<T: DeserializeOwned>(
    what: &str,
    text: Option<&str>,
) -> Result<Option<T>> {
    text.map(|t| from_text(what, t)).transpose()
}

/// A word that serde spells, as plain text (`"open"` without its quotes).
pub(crate) fn word<T: Serialize>(what: &str, value: &T) -> Result<String> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Ok(word),
        _ => Err(StoreError::Invalid(format!("{what} is not one word"))),
    }
}

/// The value that serde spells with this word.
pub(crate) fn from_word<T: DeserializeOwned>(what: &str, word: &str) -> Result<T> {
    serde_json::from_value(serde_json::Value::String(word.to_owned()))
        .map_err(|e| StoreError::corrupt(what, e))
}

/// An id that was checked before it was stored.
pub(crate) fn id<T: std::str::FromStr<Err = E>, E: std::fmt::Display>(
    what: &str,
    text: &str,
) -> Result<T> {
    text.parse().map_err(|e| StoreError::corrupt(what, e))
}

pub(crate) fn millis(at: Option<i64>) -> Option<Millis> {
    at.map(Millis)
}
