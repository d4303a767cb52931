//! Signed references: an artifact's identity as text that nobody else can make.
//!
//! `<session>::<run>::<path>::<kid>.<size>.<sha256>.<mac>`, with `:` and `%` percent-encoded in the
//! first three parts, so that the text can be taken apart in one way only. The signature covers all
//! of it and the expiry, which travels beside it.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256 as Hasher;
use threadline_contract::{Artifact, ArtifactPath, Code, Fault, RunId, SessionKey, Sha256};

use crate::{
    KeyRing,
    keys::{Key, SKEW_SECONDS},
};

/// Which bytes: this file of this run, with this content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactIdentity {
    /// The session of the run.
    pub session: SessionKey,
    /// The run.
    pub run: RunId,
    /// Where it lies in the run's scope.
    pub path: ArtifactPath,
    /// How many bytes it has.
    pub size: u64,
    /// The digest of them.
    pub sha256: Sha256,
}

impl ArtifactIdentity {
    /// The identity of a run's artifact.
    pub fn of(session: &SessionKey, run: &RunId, artifact: &Artifact) -> Self {
        Self {
            session: session.clone(),
            run: run.clone(),
            path: artifact.path.clone(),
            size: artifact.size,
            sha256: artifact.sha256,
        }
    }
}

/// Why a reference is not honoured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefError {
    /// It is not built like one, or names a path that no artifact can have.
    #[error("this is not a reference to an artifact")]
    BadRef,
    /// The signature does not hold.
    #[error("the signature of the link does not hold")]
    Forged,
    /// The signature holds, the time is over.
    #[error("the link has expired")]
    Expired,
}

impl RefError {
    /// The code from the one list.
    pub fn code(self) -> Code {
        match self {
            Self::BadRef => Code::InvalidRequest,
            Self::Forged => Code::LinkForged,
            Self::Expired => Code::LinkExpired,
        }
    }
}

impl From<RefError> for Fault {
    fn from(e: RefError) -> Self {
        match e {
            RefError::BadRef => Self::invalid("The link does not name an artifact."),
            other => Self::new(other.code(), other.code().advice()),
        }
    }
}

/// What is signed, as plain text: also text that is no identity.
struct Signed<'a> {
    session: &'a str,
    run: &'a str,
    path: &'a str,
    size: &'a str,
    sha256: &'a str,
}

impl KeyRing {
    /// The reference of an artifact, good until `expires` (seconds since 1970), which must travel
    /// beside it. Should be no later than [`LINK_SECONDS`](crate::LINK_SECONDS) from now: after
    /// the key is rotated, later ones are refused.
    pub fn sign(&self, identity: &ArtifactIdentity, expires: i64) -> String {
        let (size, sha256) = (identity.size.to_string(), identity.sha256.to_hex());
        let signed = Signed {
            session: identity.session.as_str(),
            run: identity.run.as_str(),
            path: identity.path.as_str(),
            size: &size,
            sha256: &sha256,
        };
        write(self.current(), &signed, expires)
    }

    /// Reads a reference back. The signature is judged before the expiry, so that a forged link
    /// learns nothing; `now` and `expires` are seconds since 1970.
    pub fn verify(&self, text: &str, expires: i64, now: i64) -> Result<ArtifactIdentity, RefError> {
        let (head, tail) = text.rsplit_once("::").ok_or(RefError::BadRef)?;
        let [session, run, path] = parts(head, "::").ok_or(RefError::BadRef)?;
        let [kid, size, sha256, mac] = parts(tail, ".").ok_or(RefError::BadRef)?;
        let decoded = [session, run, path].map(decode);
        let [Some(session), Some(run), Some(path)] = decoded else {
            return Err(RefError::BadRef);
        };
        let length: u64 = size.parse().map_err(|_| RefError::BadRef)?;
        let digest = Sha256::from_hex(sha256).ok_or(RefError::BadRef)?;
        let mut code = [0; 32];
        hex::decode_to_slice(mac, &mut code).map_err(|_| RefError::BadRef)?;
        // One artifact and one expiry have one link: other spellings of it are not ours.
        if hex::encode(code) != mac {
            return Err(RefError::BadRef);
        }

        let key = self.find(kid).ok_or(RefError::Forged)?;
        let signed = Signed {
            session: &session,
            run: &run,
            path: &path,
            size,
            sha256,
        };
        // Compares in constant time.
        signature(key, &signed, expires)
            .verify_slice(&code)
            .map_err(|_| RefError::Forged)?;
        if !key.may_sign_until(expires) {
            return Err(RefError::Forged);
        }
        if now > expires.saturating_add(SKEW_SECONDS) {
            return Err(RefError::Expired);
        }
        // Signed by us, and still not to be trusted with a path: nothing that climbs is an artifact.
        let bad = |_| RefError::BadRef;
        Ok(ArtifactIdentity {
            session: SessionKey::new(&session).map_err(|_| RefError::BadRef)?,
            run: RunId::new(&run).map_err(|_| RefError::BadRef)?,
            path: ArtifactPath::new(path).map_err(bad)?,
            size: length,
            sha256: digest,
        })
    }
}

fn write(key: &Key, signed: &Signed<'_>, expires: i64) -> String {
    let mac = hex::encode(signature(key, signed, expires).finalize().into_bytes());
    let [session, run, path] = [signed.session, signed.run, signed.path].map(encode);
    format!(
        "{session}::{run}::{path}::{}.{}.{}.{mac}",
        key.kid, signed.size, signed.sha256
    )
}

/// Each field with its length in front: no two different identities give the same bytes.
fn signature(key: &Key, signed: &Signed<'_>, expires: i64) -> Hmac<Hasher> {
    let mut mac = new_mac(&key.secret);
    let Signed {
        session,
        run,
        path,
        size,
        sha256,
    } = signed;
    let expires = expires.to_string();
    for field in [
        "threadline-artifact-1",
        &key.kid,
        session,
        run,
        path,
        size,
        sha256,
        &expires,
    ] {
        mac.update(&(field.len() as u64).to_le_bytes());
        mac.update(field.as_bytes());
    }
    mac
}

fn new_mac(secret: &[u8; 32]) -> Hmac<Hasher> {
    // A key that is shorter than a block is padded with zeros: this is the same key, and unlike
    // `new_from_slice` it cannot fail.
    let mut block = [0; 64];
    for (to, from) in block.iter_mut().zip(secret) {
        *to = *from;
    }
    Hmac::new(&block.into())
}

/// Splits into exactly so many parts.
fn parts<'a, const N: usize>(text: &'a str, by: &str) -> Option<[&'a str; N]> {
    text.split(by).collect::<Vec<_>>().try_into().ok()
}

fn encode(text: &str) -> String {
    text.replace('%', "%25").replace(':', "%3A")
}

/// Undoes `encode`, and takes nothing that it would not have written.
fn decode(text: &str) -> Option<String> {
    let plain = text.replace("%3A", ":").replace("%25", "%");
    (encode(&plain) == text).then_some(plain)
}

#[cfg(test)]
#[path = "reference_tests.rs"]
mod tests;
