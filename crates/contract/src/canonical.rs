//! Canonical JSON: sorted keys, no white space. The only form that is ever hashed or signed.
//!
//! `serde_json::Map` may keep insertion order (a feature that any dependency can switch on for the
//! whole binary), so hashing `to_string(&value)` would depend on who sent the keys in which order.

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256 as Hasher};

use crate::Sha256;

/// The canonical text of a value.
pub fn to_string(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// The digest of a value's canonical text.
pub fn digest(value: &Value) -> Sha256 {
    Sha256(Hasher::digest(to_string(value).as_bytes()).into())
}

/// The canonical text of anything that serialises.
pub fn of(value: &impl Serialize) -> Result<String, serde_json::Error> {
    Ok(to_string(&serde_json::to_value(value)?))
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            out.push('{');
            for (i, key) in keys.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                write(&map[key], out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        leaf => out.push_str(&leaf.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn key_order_does_not_matter() {
        let a = json!({"b": [1, {"y": null, "x": "é\n"}], "a": 1.5});
        assert_eq!(
            super::to_string(&a),
            r#"{"a":1.5,"b":[1,{"x":"é\n","y":null}]}"#
        );
        let b: serde_json::Value =
            serde_json::from_str(r#"{"a":1.5,"b":[1,{"x":"é\n","y":null}]}"#).unwrap();
        assert_eq!(super::digest(&a), super::digest(&b));
    }
}
