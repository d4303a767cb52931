//! Signing many references of one run: what they share is worked out once.

use hmac::{Hmac, Mac as _};
use sha2::Sha256 as Hasher;
use threadline_contract::{Artifact, ArtifactPath, RunId, SessionKey, Sha256};

use crate::{KeyRing, reference};

/// Makes the references of one run's artifacts, all with one expiry. Can be shared by threads.
#[derive(Clone)]
pub struct Signer {
    /// The signature as far as it is the same for all.
    mac: Hmac<Hasher>,
    /// The text before the path, and between path and size.
    head: String,
    kid: String,
    expires: String,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The state of a signature is as good as its key.
        f.debug_struct("Signer")
            .field("kid", &self.kid)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

impl KeyRing {
    /// A signer for the artifacts of one run. The expiry (seconds since 1970) must travel beside each
    /// reference; it should be no later than [`LINK_SECONDS`](crate::LINK_SECONDS) from now: after
    /// the key is rotated, later ones are refused.
    pub fn signer(&self, session: &SessionKey, run: &RunId, expires: i64) -> Signer {
        let key = self.current();
        let mut head = String::new();
        reference::encode(session.as_str(), &mut head);
        head.push_str("::");
        reference::encode(run.as_str(), &mut head);
        head.push_str("::");
        Signer {
            mac: reference::begun(key, session.as_str(), run.as_str()),
            head,
            kid: key.kid.clone(),
            expires: expires.to_string(),
        }
    }
}

impl Signer {
    /// The reference of one of the run's artifacts.
    pub fn sign(&self, artifact: &Artifact) -> String {
        self.sign_parts(&artifact.path, artifact.size, &artifact.sha256)
    }

    pub(crate) fn sign_parts(&self, path: &ArtifactPath, size: u64, sha256: &Sha256) -> String {
        let mut digest = [0; 64];
        let digest = hex_of(&sha256.0, &mut digest);
        let mut digits = [0; 20];
        let size = decimal(size, &mut digits);
        let mut mac = self.mac.clone();
        reference::rest(&mut mac, path.as_str(), size, digest, &self.expires);
        let mut code = [0; 64];
        let code = hex_of(&mac.finalize().into_bytes().into(), &mut code);

        let fixed = self.head.len() + self.kid.len() + size.len() + 64 + 64 + 5;
        let mut text = String::with_capacity(fixed + path.as_str().len() + 16);
        text.push_str(&self.head);
        reference::encode(path.as_str(), &mut text);
        text.push_str("::");
        for part in [&self.kid, ".", size, ".", digest, ".", code] {
            text.push_str(part);
        }
        text
    }
}

/// The two digits of every byte.
const PAIRS: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut n = 0;
    while n < 256 {
        pairs[n] = [DIGITS[n / 16], DIGITS[n % 16]];
        n += 1;
    }
    pairs
};

fn hex_of<'a>(bytes: &[u8; 32], out: &'a mut [u8; 64]) -> &'a str {
    let (pairs, _) = out.as_chunks_mut::<2>();
    for (pair, byte) in pairs.iter_mut().zip(bytes) {
        *pair = PAIRS[usize::from(*byte)];
    }
    std::str::from_utf8(out).unwrap_or_default()
}

fn decimal(mut number: u64, out: &mut [u8; 20]) -> &str {
    let mut at = out.len();
    loop {
        at -= 1;
        // A remainder by ten is a digit.
        out[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    std::str::from_utf8(&out[at..]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn numbers_and_digests_are_written_as_everybody_writes_them() {
        for number in [0, 7, 10, 4_096, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string());
        }
        let bytes = std::array::from_fn(|n| (n * 37 + 5) as u8);
        assert_eq!(hex_of(&bytes, &mut [0; 64]), hex::encode(bytes));
    }
}
