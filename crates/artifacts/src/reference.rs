//! Signed references: an artifact's identity as text that nobody else can make.
//!
//! `<session>::<run>::<path>::<kid>.<size>.<sha256>.<mac>`, with `:` and `%` percent-encoded in the
//! first three parts, so that the text can be taken apart in one way only. The signature covers all
//! of it and the expiry, which travels beside it.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256 as Hasher;
use threadline_contract::{Artifact, ArtifactPath, Code, Fault, RunId, SessionKey, Sha256};

use crate::{KeyRing, keys::Key};

/// What stands between a reference and its expiry, where both are one text.
const EXPIRES: &str = ";t=";

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
    /// It names a key that is not in the ring. To others that is the same as a signature that does not hold.
    #[error("the key of the link is not known")]
    UnknownKey,
    /// The signature holds, the time is over.
    #[error("the link has expired")]
    Expired,
}

impl RefError {
    /// The code from the one list.
    pub fn code(self) -> Code {
        match self {
            Self::BadRef => Code::InvalidRequest,
            Self::Forged | Self::UnknownKey => Code::LinkForged,
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
    /// the key is rotated, later ones are refused. For many of one run, use a
    /// [`signer`](Self::signer).
    pub fn sign(&self, identity: &ArtifactIdentity, expires: i64) -> String {
        let signer = self.signer(&identity.session, &identity.run, expires);
        signer.sign_parts(&identity.path, identity.size, &identity.sha256)
    }

    /// As [`sign`](Self::sign), with the expiry in the text: for callers that keep one text only.
    pub fn sign_whole(&self, identity: &ArtifactIdentity, expires: i64) -> String {
        whole(&self.sign(identity, expires), expires)
    }

    /// Reads back what [`sign_whole`](Self::sign_whole) or [`sign`](Self::sign) gave. `beside` is the
    /// expiry that travelled beside the text, where it is not in it.
    pub fn verify_whole(
        &self,
        text: &str,
        beside: Option<i64>,
        now: i64,
    ) -> Result<ArtifactIdentity, RefError> {
        // The last part of a reference has no `;`, so this is the end and not part of a path.
        let (text, expires) = match text.rsplit_once(EXPIRES) {
            Some((text, expires)) if !expires.contains("::") => {
                let number: i64 = expires.parse().map_err(|_| RefError::BadRef)?;
                if number.to_string() != expires {
                    return Err(RefError::BadRef);
                }
                (text, number)
            }
            _ => (text, beside.ok_or(RefError::BadRef)?),
        };
        self.verify(text, expires, now)
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

        let key = self.find(kid).ok_or(RefError::UnknownKey)?;
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
        if now > expires {
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

/// A reference and its expiry as one text.
pub(crate) fn whole(reference: &str, expires: i64) -> String {
    format!("{reference}{EXPIRES}{expires}")
}

/// Each field with its length in front: no two different identities give the same bytes.
fn signature(key: &Key, signed: &Signed<'_>, expires: i64) -> Hmac<Hasher> {
    let mut mac = begun(key, signed.session, signed.run);
    let expires = expires.to_string();
    rest(&mut mac, signed.path, signed.size, signed.sha256, &expires);
    mac
}

/// The part of a signature that all artifacts of a run share.
pub(crate) fn begun(key: &Key, session: &str, run: &str) -> Hmac<Hasher> {
    let mut mac = new_mac(&key.secret);
    for field in ["threadline-artifact-1", &key.kid, session, run] {
        add(&mut mac, field);
    }
    mac
}

/// The part that is each artifact's own.
pub(crate) fn rest(mac: &mut Hmac<Hasher>, path: &str, size: &str, sha256: &str, expires: &str) {
    for field in [path, size, sha256, expires] {
        add(mac, field);
    }
}

pub(crate) fn add(mac: &mut Hmac<Hasher>, field: &str) {
    mac.update(&(field.len() as u64).to_le_bytes());
    mac.update(field.as_bytes());
}

pub(crate) fn new_mac(secret: &[u8; 32]) -> Hmac<Hasher> {
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

/// Writes a part so that `:` and `%` are not in it.
pub(crate) fn encode(text: &str, out: &mut String) {
    let mut left = text;
    while let Some(at) = left.find([':', '%']) {
        let (plain, from) = left.split_at(at);
        out.push_str(plain);
        out.push_str(if from.starts_with(':') { "%3A" } else { "%25" });
        left = from.get(1..).unwrap_or_default();
    }
    out.push_str(left);
}

/// Undoes `encode`, and takes nothing that it would not have written.
fn decode(text: &str) -> Option<String> {
    let plain = text.replace("%3A", ":").replace("%25", "%");
    let mut again = String::with_capacity(text.len());
    encode(&plain, &mut again);
    (again == text).then_some(plain)
}

#[cfg(test)]
#[path = "reference_tests.rs"]
mod tests;
