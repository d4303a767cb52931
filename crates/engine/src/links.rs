//! Signed download links: made from the record of an artifact, honoured until they expire.

use rand::Rng as _;
use threadline_artifacts::{ArtifactIdentity, Key, KeyRing, RefError};
use threadline_contract::{Artifact, ArtifactItem, Code, Fault, Millis, RunId, SessionKey, url};
use threadline_runtimes::{Body, Identity};
use threadline_store::{SigningKey, Store};

use crate::{Caller, Engine};

/// Where downloads are served.
pub(crate) const DOWNLOAD_PATH: &str = "/artifacts/openclaw/download";

/// A download that may go ahead.
pub type Download = Body;

/// A key signs this long; the first start after that takes a new one into use. Links of the old one
/// stay good until they expire.
const KEY_MILLIS: i64 = 90 * 24 * 60 * 60 * 1000;

/// The ring of signing keys. The first start makes the first key.
pub(crate) async fn key_ring(store: &Store) -> Result<KeyRing, Fault> {
    let mut keys = store.signing_keys().await?;
    let now = Millis::now();
    for key in &mut keys {
        if key.retired_at.is_none() && now.0 - key.created_at.0 > KEY_MILLIS {
            store.retire_signing_key(&key.kid, now).await?;
            key.retired_at = Some(now);
        }
    }
    if keys.iter().all(|k| k.retired_at.is_some()) {
        let mut secret = vec![0; 32];
        rand::rng().fill_bytes(&mut secret);
        let key = SigningKey {
            kid: fresh_kid(),
            secret,
            created_at: now,
            retired_at: None,
        };
        store
            .add_signing_key(&key.kid, &key.secret, key.created_at)
            .await?;
        keys.push(key);
    }
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
        // Two nodes that started at once each made a key: of those, one signs.
        let second = signs.then(Millis::now);
        key.retired_at = stored.retired_at.or(second).map(|at| at.0 / 1000);
        signs |= key.retired_at.is_none();
        ring.push(key);
    }
    KeyRing::from_keys(ring).ok_or_else(unusable)
}

fn fresh_kid() -> String {
    format!("k{}", &uuid::Uuid::now_v7().simple().to_string()[..12])
}

impl Engine {
    /// When links that are made now expire, in seconds since 1970.
    pub(crate) fn expiry(&self) -> i64 {
        Millis::now().0 / 1000 + self.0.config.link_ttl.as_secs() as i64
    }

    /// An artifact with a fresh link.
    pub(crate) fn item(
        &self,
        session: &SessionKey,
        run: &RunId,
        artifact: Artifact,
        expires: i64,
    ) -> Result<ArtifactItem, Fault> {
        let identity = ArtifactIdentity {
            session: session.clone(),
            run: run.clone(),
            path: artifact.path.clone(),
            size: artifact.size,
            sha256: artifact.sha256,
        };
        let signed = self.0.keys.sign(&identity, expires);
        let url = format!("{DOWNLOAD_PATH}?ref={}&t={expires}", url::encoded(&signed));
        Ok(ArtifactItem {
            display_path: Some(artifact.path.to_string()),
            artifact,
            url,
        })
    }

    /// Opens what a link names. The signature is judged before its age; a run of another account
    /// answers like a file that is not there.
    pub async fn open_link(
        &self,
        caller: &Caller,
        reference: &str,
        expires: i64,
    ) -> Result<Download, Fault> {
        let identity = self
            .0
            .keys
            .verify(reference, expires, Millis::now().0 / 1000)
            .map_err(|e| match e {
                RefError::Forged => Fault::new(Code::LinkForged, Code::LinkForged.advice()),
                RefError::Expired => Fault::new(Code::LinkExpired, Code::LinkExpired.advice()),
                RefError::BadRef => Fault::invalid("`ref` is not a link that this server made."),
            })?;
        let gone = || Fault::new(Code::ArtifactNotFound, Code::ArtifactNotFound.advice());
        let run = self
            .0
            .store
            .run(&caller.account, &identity.run)
            .await
            .map_err(|_| gone())?;
        if run.session_key != identity.session {
            return Err(gone());
        }
        let lane = self.runtime(&run.runtime)?;
        let wanted = Identity {
            session: identity.session,
            run: identity.run,
            path: identity.path,
            size: identity.size,
            sha256: identity.sha256,
        };
        if lane.runtime.is_local() {
            return lane.runtime.open(&wanted).await;
        }
        self.0.downloads.body(&*lane.runtime, &wanted).await
    }
}

#[cfg(test)]
#[path = "links_tests.rs"]
mod tests;
