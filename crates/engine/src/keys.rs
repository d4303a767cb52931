//! The ring of keys that all servers on a database share. Another server may take a new key into use at any
//! time, so a key that is not known is looked for once more.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use rand::Rng as _;
use threadline_artifacts::{Key, KeyRing, RefError};
use threadline_contract::{Code, Fault, Millis};
use threadline_store::{SigningKey, Store};

use crate::Engine;

/// A key signs this long; the first start after that takes a new one into use. Links of the old one
/// stay good until they expire.
const KEY_MILLIS: i64 = 90 * 24 * 60 * 60 * 1000;
/// How often the ring is read again at most: anybody can name a key that is not there.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The ring as it was last read.
pub(crate) struct Keys {
    ring: RwLock<Arc<KeyRing>>,
    /// When it was. Held while it is read again, so that many who wait for it read it once.
    read_at: tokio::sync::Mutex<Option<Instant>>,
}

impl Keys {
    /// Reads the ring. The first start makes the first key.
    pub(crate) async fn read(store: &Store) -> Result<Self, Fault> {
        Ok(Self {
            ring: RwLock::new(Arc::new(key_ring(store).await?)),
            read_at: tokio::sync::Mutex::new(None),
        })
    }

    /// The ring as it is known.
    pub(crate) fn ring(&self) -> Arc<KeyRing> {
        let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&ring)
    }

    async fn read_again(&self, store: &Store) -> Result<(), Fault> {
        let mut read_at = self.read_at.lock().await;
        if read_at.is_some_and(|at| at.elapsed() < AGAIN_AFTER) {
            return Ok(());
        }
        let ring = Arc::new(ring_of(store.signing_keys().await?)?);
        *read_at = Some(Instant::now());
        *self.ring.write().unwrap_or_else(PoisonError::into_inner) = ring;
        Ok(())
    }
}

impl Engine {
    /// Checks something against the ring, and once more after the ring was read again if it names a key
    /// that is not known. The inner error is about what was checked.
    pub(crate) async fn checked<T>(
        &self,
        check: impl Fn(&KeyRing) -> Result<T, RefError>,
    ) -> Result<Result<T, RefError>, Fault> {
        match check(&self.0.keys.ring()) {
            Err(RefError::UnknownKey) => {
                self.0.keys.read_again(&self.0.store).await?;
                Ok(check(&self.0.keys.ring()))
            }
            known => Ok(known),
        }
    }
}

async fn key_ring(store: &Store) -> Result<KeyRing, Fault> {
    let mut secret = vec![0; 32];
    rand::rng().fill_bytes(&mut secret);
    let now = Millis::now();
    let fresh = SigningKey {
        kid: fresh_kid(),
        secret,
        created_at: now,
        retired_at: None,
    };
    let keys = store.signing_keys_with(fresh, now.plus(-KEY_MILLIS));
    ring_of(keys.await?)
}

fn ring_of(keys: Vec<SigningKey>) -> Result<KeyRing, Fault> {
    let unusable = || {
        Fault::new(
            Code::Internal,
            "The stored signing keys cannot be used: one of them is damaged.",
        )
    };
    let mut ring = Vec::with_capacity(keys.len());
    let mut signs = false;
    for stored in keys {
        let secret = stored.secret.try_into().map_err(|_| unusable())?;
        let mut key = Key::new(stored.kid, secret, stored.created_at.0 / 1000);
        // Earlier versions could make two keys when two servers started at once: of those, one signs.
        let second = signs.then(Millis::now);
        key.retired_at = stored.retired_at.or(second).map(|at| at.0 / 1000);
        signs |= key.retired_at.is_none();
        ring.push(key);
    }
    KeyRing::from_keys(ring).ok_or_else(unusable)
}

/// A name that no other server gives its key, though it starts at the same moment.
fn fresh_kid() -> String {
    format!("k{}", &uuid::Uuid::new_v4().simple().to_string()[..16])
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
