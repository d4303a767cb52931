//! The bytes of a file: given, or made as they are read.

use std::{
    collections::BTreeMap,
    sync::{Mutex, OnceLock},
};

use bytes::Bytes;
use sha2::{Digest as _, Sha256 as Hasher};
use threadline_contract::Sha256;

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Bytes(Bytes),
    /// So many bytes of a pattern, never in memory at once.
    Pattern(u64),
}

const CHUNK: u64 = 64 << 10;

impl Content {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Pattern(len) => *len,
        }
    }

    /// The bytes from `at` on, at most one chunk.
    pub(crate) fn chunk(&self, at: u64, end: u64) -> Bytes {
        let end = end.min(self.len());
        let upto = end.min(at + CHUNK);
        match self {
            Self::Bytes(bytes) => bytes.slice(at as usize..upto as usize),
            Self::Pattern(_) => block()
                .slice((at % CHUNK) as usize..)
                .slice(..(upto - at) as usize),
        }
    }

    pub(crate) fn sha256(&self) -> Sha256 {
        static KNOWN: Mutex<BTreeMap<u64, Sha256>> = Mutex::new(BTreeMap::new());
        if let Self::Pattern(len) = self {
            return *KNOWN
                .lock()
                .unwrap()
                .entry(*len)
                .or_insert_with(|| self.computed());
        }
        self.computed()
    }

    fn computed(&self) -> Sha256 {
        let mut hasher = Hasher::new();
        let mut at = 0;
        while at < self.len() {
            let chunk = self.chunk(at, self.len());
            at += chunk.len() as u64;
            hasher.update(&chunk);
        }
        Sha256(hasher.finalize().into())
    }
}

/// Two chunks of the pattern, so that one of any offset can be cut out.
fn block() -> Bytes {
    static BLOCK: OnceLock<Bytes> = OnceLock::new();
    let make = || {
        (0..CHUNK * 2)
            .map(|n| ((n % CHUNK) * 31 + ((n % CHUNK) >> 7)) as u8)
            .collect::<Vec<u8>>()
            .into()
    };
    BLOCK.get_or_init(make).clone()
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Bytes(Bytes::copy_from_slice(text.as_bytes()))
    }
}
impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes.into())
    }
}

pub(crate) fn sha(bytes: &[u8]) -> Sha256 {
    Sha256(Hasher::digest(bytes).into())
}
