//! The id of a request of which only the beginning was kept: whoever waits for an answer under it
//! shall get one.

use std::fmt;

use serde::{
    Deserializer as _,
    de::{IgnoredAny, MapAccess, Visitor},
};
use threadline_contract::rpc::Id;

/// The id, if it stands in what was kept.
pub(crate) fn id_of(beginning: &[u8]) -> Option<Id> {
    let mut id = None;
    let mut input = serde_json::Deserializer::from_slice(beginning);
    // The text ends in the middle, so this fails in any case; what counts is how far it came.
    let _ = input.deserialize_map(Seek(&mut id));
    id
}

struct Seek<'a>(&'a mut Option<Id>);

impl<'de> Visitor<'de> for Seek<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if key == "id" {
                *self.0 = Some(map.next_value()?);
                return Ok(());
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_id_is_found_as_far_as_the_text_goes() {
        let text = |id: &str| Some(Id::Text(id.to_owned()));
        for (kept, want) in [
            (
                r#"{"jsonrpc":"2.0","id":"a","method":"x","params":{"a":"#,
                text("a"),
            ),
            (r#"{"id":7,"params":["#, Some(Id::Number(7.into()))),
            (r#"{"params":{"id":"inner","x":"#, None),
            (
                r#"{"params":[1,{"id":2}],"id":"late","more":"#,
                text("late"),
            ),
            (r#"{"id":{},"#, None),
            (r#"{"id":"cut"#, None),
            ("[[[[[", None),
            ("", None),
        ] {
            assert_eq!(id_of(kept.as_bytes()), want, "{kept}");
        }
    }
}
