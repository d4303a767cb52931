//! The keys that sign links. Several at a time, so that a new one does not kill old links.

use std::{fmt, path::Path};

use rand::Rng as _;
use serde::{Deserialize, Serialize};
use threadline_files::{Access, Reason, atomic};

use crate::Error;

/// How long a link lives: 24 hours.
pub const LINK_SECONDS: i64 = 24 * 60 * 60;

/// How far the clocks of two who share a key may be apart, when one of them retires it.
pub(crate) const SKEW_SECONDS: i64 = 60;

/// A key file has a handful of keys.
const FILE_BYTES: u64 = 1024 * 1024;

/// A secret that signs links.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Key {
    /// Names the key in a link, without revealing it.
    pub kid: String,
    #[serde(with = "secret_text")]
    pub(crate) secret: [u8; 32],
    /// When it was made, in seconds since 1970.
    pub created_at: i64,
    /// When it stopped signing, if it did. Links that it signed before live on until they expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retired_at: Option<i64>,
}

/// Secrets are kept as hex.
mod secret_text {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(secret: &[u8; 32], s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&hex::encode(secret))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<[u8; 32], D::Error> {
        let mut secret = [0; 32];
        let text = String::deserialize(d)?;
        // The cause would quote the secret.
        hex::decode_to_slice(text, &mut secret)
            .map_err(|_| D::Error::custom("a secret has 64 hex digits"))?;
        Ok(secret)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("kid", &self.kid)
            .field("created_at", &self.created_at)
            .field("retired_at", &self.retired_at)
            .finish_non_exhaustive()
    }
}

impl Key {
    /// A key from a secret that is kept elsewhere.
    pub fn new(kid: impl Into<String>, secret: [u8; 32], created_at: i64) -> Self {
        Self {
            kid: kid.into(),
            secret,
            created_at,
            retired_at: None,
        }
    }

    /// The same key, no longer signing since `at`.
    #[must_use]
    pub fn retired(mut self, at: i64) -> Self {
        self.retired_at = Some(at);
        self
    }

    fn fresh(now: i64) -> Self {
        let mut rng = rand::rng();
        let mut secret = [0; 32];
        rng.fill_bytes(&mut secret);
        Self::new(format!("{:08x}", rng.next_u32()), secret, now)
    }

    /// Whether it can have signed a link with this expiry: a retired key that leaked must not be
    /// good for new ones.
    pub(crate) fn may_sign_until(&self, expires: i64) -> bool {
        let latest = self
            .retired_at
            .map(|at| at.saturating_add(LINK_SECONDS + SKEW_SECONDS));
        latest.is_none_or(|latest| expires <= latest)
    }
}

/// The keys that sign and verify links: one that signs, and those before it as long as links of
/// theirs can live. There is always one that signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRing {
    current: Key,
    retired: Vec<Key>,
}

impl KeyRing {
    /// A ring with one new key.
    pub fn generate(now: i64) -> Self {
        Self {
            current: Key::fresh(now),
            retired: Vec::new(),
        }
    }

    /// A ring from keys that are kept elsewhere. `None` unless exactly one of them still signs and
    /// all have names that can stand in a link, each its own.
    pub fn from_keys(keys: Vec<Key>) -> Option<Self> {
        let plain = |kid: &str| {
            !kid.is_empty()
                && kid
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        };
        let mut kids: Vec<&str> = keys.iter().map(|k| k.kid.as_str()).collect();
        kids.sort_unstable();
        kids.dedup();
        if kids.len() != keys.len() || !kids.iter().all(|kid| plain(kid)) {
            return None;
        }
        let (mut signing, retired): (Vec<Key>, Vec<Key>) =
            keys.into_iter().partition(|k| k.retired_at.is_none());
        let current = signing.pop()?;
        signing.is_empty().then_some(Self { current, retired })
    }

    /// All keys, the signing one first: for whoever keeps them.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        std::iter::once(&self.current).chain(&self.retired)
    }

    /// Takes a new key into use. The old one verifies until the last link that it can have signed
    /// has expired, and is forgotten then.
    #[must_use]
    pub fn rotated(&self, now: i64) -> Self {
        let fresh = loop {
            let fresh = Key::fresh(now);
            if self.find(&fresh.kid).is_none() {
                break fresh;
            }
        };
        let old = self.current.clone().retired(now);
        let alive = |k: &&Key| k.may_sign_until(now.saturating_sub(SKEW_SECONDS));
        let retired = std::iter::once(&old)
            .chain(&self.retired)
            .filter(alive)
            .cloned()
            .collect();
        Self {
            current: fresh,
            retired,
        }
    }

    /// Reads the ring from a file of ours, or makes both (0600). Of two processes that start at
    /// once, both end up with the same ring.
    pub fn load_or_create(path: impl AsRef<Path>, now: i64) -> Result<Self, Error> {
        let path = path.as_ref();
        match Self::load(path)? {
            Some(ring) => return Ok(ring),
            None => {
                let ring = Self::generate(now);
                match atomic::create(path, &ring.text(), Access::Private) {
                    Ok(_) => return Ok(ring),
                    Err(e) if e.reason() == Reason::AlreadyExists => {}
                    Err(e) => return Err(e.into()),
                }
            }
        }
        Self::load(path)?.ok_or_else(|| Error::BadKeys {
            path: path.to_owned(),
        })
    }

    /// Keeps the ring in a file (0600), as a whole.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        atomic::write(path, &self.text(), Access::Private)?;
        Ok(())
    }

    fn load(path: &Path) -> Result<Option<Self>, Error> {
        let bytes = match atomic::read_limited(path, FILE_BYTES) {
            Ok(bytes) => bytes,
            Err(e) if e.reason() == Reason::NotFound => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        // A damaged file is not replaced: that would kill every link without a word.
        let ring = serde_json::from_slice(&bytes)
            .ok()
            .and_then(Self::from_keys);
        ring.map(Some).ok_or_else(|| Error::BadKeys {
            path: path.to_owned(),
        })
    }

    fn text(&self) -> Vec<u8> {
        let keys: Vec<&Key> = self.keys().collect();
        // Strings and numbers only: this cannot fail.
        serde_json::to_vec_pretty(&keys).unwrap_or_default()
    }

    pub(crate) fn current(&self) -> &Key {
        &self.current
    }

    pub(crate) fn find(&self, kid: &str) -> Option<&Key> {
        self.keys().find(|k| k.kid == kid)
    }
}
