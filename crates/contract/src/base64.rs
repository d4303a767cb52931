//! Bytes inside JSON.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

/// Bytes as base64 text. It is kept as the JSON string that it will be sent as: megabytes go out as
/// they are, without a search for characters to escape.
#[derive(Clone)]
pub struct Base64(Box<RawValue>);

impl Base64 {
    /// Encodes bytes.
    pub fn encode(bytes: &[u8]) -> Self {
        let mut json = String::with_capacity(bytes.len().div_ceil(3) * 4 + 2);
        json.push('"');
        STANDARD.encode_string(bytes, &mut json);
        json.push('"');
        Self::of_json(json)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.get().trim_matches('"')
    }

    /// The bytes.
    pub fn decode(&self) -> Vec<u8> {
        // It was encoded here, or decoded once when it came.
        STANDARD.decode(self.as_str()).unwrap_or_default()
    }

    #[expect(
        clippy::expect_used,
        reason = "base64 between quotes is a JSON string: its letters need no escape"
    )]
    fn of_json(json: String) -> Self {
        Self(RawValue::from_string(json).expect("base64 between quotes"))
    }
}

impl PartialEq for Base64 {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}
impl Eq for Base64 {}

impl fmt::Debug for Base64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} characters of base64", self.as_str().len())
    }
}

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD
            .decode(&text)
            .map_err(|e| de::Error::custom(format!("not base64: {e}")))?;
        Ok(Self::of_json(format!("\"{text}\"")))
    }
}

impl JsonSchema for Base64 {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Base64".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn bytes_go_out_as_a_string_and_come_back() {
        for bytes in [&b""[..], b"a", b"ab", b"abc", &[0xff; 1000]] {
            let text = Base64::encode(bytes);
            assert_eq!(text.as_str(), STANDARD.encode(bytes));
            assert_eq!(text.decode(), bytes);
            let json = serde_json::to_string(&json!({"content": text})).unwrap();
            assert_eq!(
                json,
                format!(r#"{{"content":"{}"}}"#, STANDARD.encode(bytes))
            );
            let back: Base64 = serde_json::from_value(json!(text.as_str())).unwrap();
            assert_eq!(back, text);
        }
    }

    #[test]
    fn what_is_not_base64_is_refused() {
        for (text, want) in [
            (r#""a\"b""#, "not base64: Invalid symbol 34, offset 1."),
            (r#""abc""#, "not base64: Invalid padding"),
            (
                "7",
                "invalid type: integer `7`, expected a string at line 1 column 1",
            ),
        ] {
            let error = serde_json::from_str::<Base64>(text).unwrap_err();
            assert_eq!(error.to_string(), want, "{text}");
        }
    }
}
