//! Reading the parameters of callers that are not strict: numbers as text, texts with spaces around
//! them, `null` for nothing.

use std::collections::BTreeMap;

use serde::{Deserialize as _, Deserializer, de::Error as _};
use serde_json::Value;

/// A text without the white space around it. Anything else, and nothing but white space, is absent;
/// so is `<nil>`, which one of the callers writes for nothing.
pub fn text<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    Ok(exact_text(d)?.and_then(|text| trimmed(&text)))
}

/// A text as it is.
pub fn exact_text<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    Ok(match Value::deserialize(d)? {
        Value::String(text) => Some(text),
        _ => None,
    })
}

/// A list of texts, blank ones left out; anything else is an empty list.
pub fn texts<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    Ok(some_texts(d)?.unwrap_or_default())
}

/// A list of texts as they are; what is no text is left out.
pub fn exact_texts<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    let Value::Array(items) = Value::deserialize(d)? else {
        return Ok(Vec::new());
    };
    let texts = items.iter().filter_map(Value::as_str);
    Ok(texts.map(str::to_owned).collect())
}

/// As [`texts`], but tells an empty list from none.
pub fn some_texts<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Vec<String>>, D::Error> {
    let Value::Array(items) = Value::deserialize(d)? else {
        return Ok(None);
    };
    let texts = items.iter().filter_map(Value::as_str).filter_map(trimmed);
    Ok(Some(texts.collect()))
}

/// A whole number: fractions are cut off, a decimal text is read, `null` and other kinds of values
/// are absent. A text that is no number is an error, and so is one that no number can hold.
pub fn number<'de, D: Deserializer<'de>>(d: D) -> Result<Option<i64>, D::Error> {
    whole(&Value::deserialize(d)?).map_err(D::Error::custom)
}

/// `true` or `false`, also as text; anything else is absent.
pub fn flag<'de, D: Deserializer<'de>>(d: D) -> Result<Option<bool>, D::Error> {
    Ok(match Value::deserialize(d)? {
        Value::Bool(flag) => Some(flag),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    })
}

/// As [`flag`], but what is neither is an error: for what must not be done by mistake.
pub fn clear_flag<'de, D: Deserializer<'de>>(d: D) -> Result<Option<bool>, D::Error> {
    match Value::deserialize(d)? {
        Value::Null => Ok(None),
        value => match flag(&value).map_err(D::Error::custom)? {
            None => Err(D::Error::custom(format!(
                "`{value}` is neither true nor false"
            ))),
            clear => Ok(clear),
        },
    }
}

/// Numbers by name; what is no number, or not above zero, asks for nothing.
pub fn counts<'de, D: Deserializer<'de>>(d: D) -> Result<BTreeMap<String, u64>, D::Error> {
    let Value::Object(fields) = Value::deserialize(d)? else {
        return Ok(BTreeMap::new());
    };
    let count = |value: &Value| whole(value).ok()??.try_into().ok().filter(|n| *n > 0);
    let named = fields
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), count(value)?)));
    Ok(named.collect())
}

fn trimmed(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty() && text != "<nil>").then(|| text.to_owned())
}

/// The largest whole number that a fraction can stand for exactly: what callers in JavaScript have.
const LARGEST: f64 = 9_007_199_254_740_992.0;

fn whole(value: &Value) -> Result<Option<i64>, String> {
    let bad = || format!("{value} is not a number that can be used");
    let fraction = |number: f64| {
        let floor = number.floor();
        // Compares false for what is not a number, too.
        if floor.abs() <= LARGEST {
            #[expect(clippy::cast_possible_truncation, reason = "within what both can hold")]
            Ok(Some(floor as i64))
        } else {
            Err(bad())
        }
    };
    match value {
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Ok(Some(whole)),
            (None, Some(number)) => fraction(number),
            (None, None) => Err(bad()),
        },
        Value::String(text) if text.trim().is_empty() => Ok(None),
        Value::String(text) => match text.trim().parse::<i64>() {
            Ok(whole) => Ok(Some(whole)),
            Err(_) => fraction(text.trim().parse().map_err(|_| bad())?),
        },
        _ => Ok(None),
    }
}
