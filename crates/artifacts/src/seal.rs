//! Short texts that one server gives another: whoever has the same keys knows that they were not made by
//! anybody else.

use hmac::Mac as _;

use crate::{
    KeyRing, RefError,
    keys::Key,
    reference::{add, new_mac},
};

impl KeyRing {
    /// Seals a text for a purpose, good until `expires` (seconds since 1970).
    pub fn seal(&self, purpose: &str, text: &str, expires: i64) -> String {
        let key = self.current();
        let mac = hex::encode(sealed(key, purpose, text, expires).finalize().into_bytes());
        format!("{}.{expires}.{}.{mac}", key.kid, hex::encode(text))
    }

    /// Reads a sealed text back, if it was sealed for this purpose and its time is not over.
    pub fn unseal(&self, purpose: &str, text: &str, now: i64) -> Result<String, RefError> {
        let parts: Vec<&str> = text.split('.').collect();
        let [kid, expires, text, mac] = parts[..] else {
            return Err(RefError::BadRef);
        };
        let expires: i64 = expires.parse().map_err(|_| RefError::BadRef)?;
        let text = hex::decode(text).map_err(|_| RefError::BadRef)?;
        let text = String::from_utf8(text).map_err(|_| RefError::BadRef)?;
        let mac = hex::decode(mac).map_err(|_| RefError::BadRef)?;
        let key = self.find(kid).ok_or(RefError::UnknownKey)?;
        // Compares in constant time.
        sealed(key, purpose, &text, expires)
            .verify_slice(&mac)
            .map_err(|_| RefError::Forged)?;
        match now > expires {
            true => Err(RefError::Expired),
            false => Ok(text),
        }
    }
}

fn sealed(key: &Key, purpose: &str, text: &str, expires: i64) -> hmac::Hmac<sha2::Sha256> {
    let mut mac = new_mac(&key.secret);
    let expires = expires.to_string();
    for field in ["threadline-seal-1", &key.kid, purpose, text, &expires] {
        add(&mut mac, field);
    }
    mac
}
