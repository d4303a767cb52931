//! References that the earlier plugin signed: `base64url(JSON).base64url(HMAC-SHA256)`.
//!
//! They never expire and their key has no name, so none are made any more. Those that are out there
//! are honoured only where the operator still configures the secret they were signed with.

use std::path::Path;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256 as Hasher};
use threadline_contract::{ArtifactPath, ArtifactScope, RunId, SessionKey, Sha256};

use crate::ArtifactIdentity;

/// The only version whose fields say which bytes are meant.
const VERSION: u32 = 2;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload {
    v: u32,
    workspace_root_hash: String,
    scope_kind: String,
    session_scope: String,
    run_scope: String,
    artifact_scope: String,
    relative_path: String,
    size_bytes: u64,
    sha256: Sha256,
}

/// Why an earlier plugin's reference is not honoured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerRefError {
    /// Whatever is wrong with it.
    Invalid,
    /// It is of another workspace, session or run.
    Foreign,
}

/// Whether a text looks like one of them rather than like one of ours.
pub(crate) fn looks_like(text: &str) -> bool {
    !text.contains("::") && text.split('.').count() == 2
}

/// Reads a reference, for the run that asks.
pub(crate) fn verify(
    text: &str,
    secret: &[u8],
    root: &Path,
    session: &SessionKey,
    run: &RunId,
) -> Result<ArtifactIdentity, PeerRefError> {
    let (body, mac) = text.split_once('.').ok_or(PeerRefError::Invalid)?;
    let code = URL_SAFE_NO_PAD
        .decode(mac)
        .map_err(|_| PeerRefError::Invalid)?;
    // Compares in constant time.
    signature(secret, body)
        .and_then(|mac| mac.verify_slice(&code).ok())
        .ok_or(PeerRefError::Invalid)?;
    let json = URL_SAFE_NO_PAD
        .decode(body)
        .map_err(|_| PeerRefError::Invalid)?;
    let signed: Payload = serde_json::from_slice(&json).map_err(|_| PeerRefError::Invalid)?;
    let beneath = |inner: &str, outer: &str| {
        let rest = inner.strip_prefix(outer);
        rest.is_some_and(|rest| rest.starts_with('/'))
    };
    if signed.v != VERSION
        || signed.scope_kind != "task"
        || !beneath(&signed.run_scope, &signed.session_scope)
    {
        return Err(PeerRefError::Invalid);
    }
    let path = ArtifactPath::new(signed.relative_path).map_err(|_| PeerRefError::Invalid)?;
    let scope = ArtifactScope::peer(session, run);
    if signed.workspace_root_hash != root_hash(root)
        || signed.artifact_scope != scope.as_str()
        || signed.run_scope != scope.as_str()
    {
        return Err(PeerRefError::Foreign);
    }
    Ok(ArtifactIdentity {
        session: session.clone(),
        run: run.clone(),
        path,
        size: signed.size_bytes,
        sha256: signed.sha256,
    })
}

fn root_hash(root: &Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    hex::encode(Hasher::digest(root.as_os_str().as_bytes()))
}

fn signature(secret: &[u8], body: &str) -> Option<Hmac<Hasher>> {
    let mut mac = Hmac::<Hasher>::new_from_slice(secret).ok()?;
    mac.update(body.as_bytes());
    Some(mac)
}

#[cfg(test)]
#[path = "peer_tests.rs"]
mod tests;
