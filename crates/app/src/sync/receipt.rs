//! The receipt of a run, in the workspace: what `threadline verify` goes by.
//!
//! It is made here from the bridge's list, in the one form that a receipt has, and must come to the
//! digest that the bridge says. So the bytes need not be sent: whoever has the list has them.

use threadline_contract::{
    Artifact, ArtifactItem, ArtifactScope, Code, MAX_RECEIPT_BYTES, Receipt, RunId, Sha256,
};
use threadline_files::{Access, Root};

use super::{Missed, run_folder};
use crate::bridge::snapshot::Snapshot;

pub(super) const NAME: &str = "receipt.json";

/// The receipt of a run with these files. None when the list is known not to be whole: what was
/// refused of it is told file by file, and a receipt must name all.
pub(super) fn of(
    snapshot: &Snapshot,
    items: &[ArtifactItem],
    told: Option<Sha256>,
    refused: &[Missed],
) -> Result<Option<Receipt>, Missed> {
    if !refused.is_empty() {
        return Ok(None);
    }
    let run = &snapshot.run_id;
    let scope = snapshot.artifacts.as_ref().map(|set| &set.scope);
    let scope = scope.or(snapshot.artifact_scope.as_ref());
    // A receipt names both; a bridge that does not say them has made none.
    let (Some(session), Some(scope)) = (&snapshot.session_key, scope) else {
        return Ok(None);
    };
    // One form, whatever slashes it was sent with.
    let scope = ArtifactScope::check(scope.as_str(), session, run).unwrap_or(scope.clone());
    let files: Vec<Artifact> = items.iter().map(|item| item.artifact.clone()).collect();
    let receipt = Receipt::new(session.clone(), run.clone(), scope, files)
        .map_err(|bad| missed(format!("could not be made: {bad}.")))?;
    match told {
        Some(digest) if digest != receipt.digest() => Err(missed(format!(
            "was not kept: the bridge's list of files is not what its receipt ({}) says.",
            short(digest)
        ))),
        _ => Ok(Some(receipt)),
    }
}

/// The receipt of a run that lies in the workspace, if there is one that can be read. Blocks.
pub(crate) fn receipt_of(root: &Root, run: &RunId) -> Option<Receipt> {
    listed(root, run, MAX_RECEIPT_BYTES)
}

/// The same, if it has no more bytes than this.
pub(super) fn listed(root: &Root, run: &RunId, most_bytes: u64) -> Option<Receipt> {
    let path = format!("{}/{NAME}", run_folder(run));
    let bytes = root.read_limited(path, most_bytes).ok()?;
    Receipt::from_bytes(&bytes).ok()
}

/// Puts a receipt where `verify` looks for it. What is there already is not written again. Blocks.
pub(super) fn keep(root: &Root, run: &RunId, receipt: &Receipt) -> Result<Sha256, Missed> {
    let bytes = receipt
        .to_bytes()
        .map_err(|bad| missed(format!("could not be made: {bad}.")))?;
    let folder = run_folder(run);
    let path = format!("{folder}/{NAME}");
    let there = root.read_limited(&path, MAX_RECEIPT_BYTES);
    if there.is_ok_and(|there| there == bytes) {
        return Ok(receipt.digest());
    }
    root.create_dir_all(&folder, Access::Shared)
        .and_then(|_| root.write_atomic(&path, &bytes, Access::Shared))
        .map_err(|e| missed(format!("could not be written ({e}).")))?;
    Ok(receipt.digest())
}

fn missed(why: String) -> Missed {
    Missed {
        path: "The receipt".into(),
        code: Code::ReceiptInvalid,
        why,
    }
}

fn short(digest: Sha256) -> String {
    digest.to_hex().chars().take(12).collect()
}
