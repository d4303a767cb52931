//! An owner in a stored turn: `"thread": "<key>"` for a thread, as in every journal and record there is, and
//! `"owner": "<text>"` for any other.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use threadline_contract::{AppThreadKey, Owner};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Field {
    Thread(AppThreadKey),
    Owner(Owner),
}

pub(crate) fn serialize<S: Serializer>(owner: &Owner, s: S) -> Result<S::Ok, S::Error> {
    let field = match owner.thread() {
        Some(key) => Field::Thread(key.clone()),
        None => Field::Owner(owner.clone()),
    };
    field.serialize(s)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Owner, D::Error> {
    Ok(match Field::deserialize(d)? {
        Field::Thread(key) => Owner::Thread(key),
        Field::Owner(owner) => owner,
    })
}

#[cfg(test)]
#[path = "stored_owner_tests.rs"]
mod tests;
