//! Who we are to a gateway: an Ed25519 key pair of this machine, and the tokens that gateways gave it.

use std::{collections::BTreeMap, path::PathBuf};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use ring::{
    rand::{SecureRandom as _, SystemRandom},
    signature::{Ed25519KeyPair, KeyPair as _},
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use threadline_contract::{Code, Fault, Millis};
use threadline_files::{Access, Reason, atomic};

use crate::local::storage_fault;

/// An identity file is small; what is larger is not one.
const MOST: u64 = 64 * 1024;

/// This machine's identity. Its file is for the owner alone.
pub(super) struct Identity {
    path: PathBuf,
    pair: Ed25519KeyPair,
    kept: Kept,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    version: u32,
    device_id: String,
    public_key: String,
    private_key: String,
    created_at: Millis,
    /// By gateway: a token of one is nothing to another.
    #[serde(default)]
    device_tokens: BTreeMap<String, String>,
    /// By gateway: the agent that works there when none is named, as it last said.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    default_agents: BTreeMap<String, String>,
}

/// What is signed: the connection, so that nobody can replay it elsewhere.
pub(super) struct Proof<'a> {
    pub(super) client_id: &'a str,
    pub(super) client_mode: &'a str,
    pub(super) role: &'a str,
    pub(super) scopes: &'a [&'a str],
    pub(super) signed_at: i64,
    pub(super) token: &'a str,
    pub(super) nonce: &'a str,
    pub(super) platform: &'a str,
}

/// The `device` of a `connect`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Device {
    id: String,
    public_key: String,
    signature: String,
    signed_at: i64,
    nonce: String,
}

impl Identity {
    /// Reads the identity, or makes one. One that is damaged is replaced: the gateway asks for
    /// approval again, which is right, because its owner cannot be proven any more. Blocks.
    pub(super) fn open(path: PathBuf) -> Result<Self, Fault> {
        if let Some(folder) = path.parent() {
            atomic::create_dir_all(folder, Access::Private).map_err(storage_fault)?;
        }
        match atomic::read_limited(&path, MOST) {
            Ok(bytes) => match Self::understand(&path, &bytes) {
                Some(identity) => return Ok(identity),
                None => {
                    tracing::warn!(path = %path.display(), "the device identity is damaged; a new one is made");
                }
            },
            Err(e) if e.reason() == Reason::NotFound => {}
            Err(e) => return Err(storage_fault(e)),
        }
        let mut seed = [0_u8; 32];
        SystemRandom::new()
            .fill(&mut seed)
            .map_err(|_| Fault::new(Code::Internal, "This machine gives no random numbers."))?;
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| Fault::internal())?;
        let public = pair.public_key().as_ref();
        let identity = Self {
            path,
            kept: Kept {
                version: 1,
                device_id: hex::encode(Sha256::digest(public)),
                public_key: BASE64.encode(public),
                private_key: BASE64.encode(seed),
                created_at: Millis::now(),
                device_tokens: BTreeMap::new(),
                default_agents: BTreeMap::new(),
            },
            pair,
        };
        identity.save()?;
        Ok(identity)
    }

    fn understand(path: &std::path::Path, bytes: &[u8]) -> Option<Self> {
        let kept: Kept = serde_json::from_slice(bytes).ok()?;
        let seed = BASE64.decode(&kept.private_key).ok()?;
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).ok()?;
        let public = pair.public_key().as_ref();
        let same = kept.public_key == BASE64.encode(public)
            && kept.device_id == hex::encode(Sha256::digest(public));
        (same && kept.version == 1).then(|| Self {
            path: path.to_owned(),
            pair,
            kept,
        })
    }

    fn save(&self) -> Result<(), Fault> {
        let text = serde_json::to_vec_pretty(&self.kept).map_err(|_| Fault::internal())?;
        atomic::write(&self.path, &text, Access::Private).map_err(storage_fault)?;
        Ok(())
    }

    /// The token that this gateway gave us.
    pub(super) fn token(&self, gateway: &str) -> Option<&str> {
        self.kept.device_tokens.get(gateway).map(String::as_str)
    }

    /// Keeps, renews or drops the token of a gateway. Blocks.
    pub(super) fn keep_token(&mut self, gateway: &str, token: Option<&str>) -> Result<(), Fault> {
        if self.token(gateway) == token {
            return Ok(());
        }
        match token {
            Some(token) => self
                .kept
                .device_tokens
                .insert(gateway.to_owned(), token.to_owned()),
            None => self.kept.device_tokens.remove(gateway),
        };
        self.save()
    }

    /// The agent that works at this gateway when none is named.
    pub(super) fn default_agent(&self, gateway: &str) -> Option<&str> {
        self.kept.default_agents.get(gateway).map(String::as_str)
    }

    /// Keeps it for when the gateway cannot be asked. Blocks.
    pub(super) fn keep_default_agent(&mut self, gateway: &str, agent: &str) -> Result<(), Fault> {
        if self.default_agent(gateway) == Some(agent) {
            return Ok(());
        }
        let agents = &mut self.kept.default_agents;
        agents.insert(gateway.to_owned(), agent.to_owned());
        self.save()
    }

    /// Proves who we are for this one connection.
    pub(super) fn prove(&self, proof: &Proof<'_>) -> Device {
        let signed = format!(
            "v3|{}|{}|{}|{}|{}|{}|{}|{}|{}|",
            self.kept.device_id,
            proof.client_id,
            proof.client_mode,
            proof.role,
            proof.scopes.join(","),
            proof.signed_at,
            proof.token,
            proof.nonce,
            proof.platform.to_ascii_lowercase(),
        );
        Device {
            id: self.kept.device_id.clone(),
            public_key: self.kept.public_key.clone(),
            signature: BASE64.encode(self.pair.sign(signed.as_bytes())),
            signed_at: proof.signed_at,
            nonce: proof.nonce.to_owned(),
        }
    }
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
