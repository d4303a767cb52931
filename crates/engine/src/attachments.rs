//! Files that come inside a request: verified, then kept on disk until their turn is prepared.

use std::path::Path;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest as _, Sha256 as Hasher};
use threadline_contract::{
    Code, Fault, RunId, Sha256,
    turn::{ATTACHMENT_BYTES, ATTACHMENTS_BYTES, AttachmentOutline, InlineAttachment},
};
use threadline_files::{Access, atomic};
use threadline_runtimes::Attachment;

/// A verified input file: its name, its bytes and their digest.
pub type InputFile = (String, Vec<u8>, Sha256);

/// Decodes and checks the attachments of a turn; nothing is written.
pub(crate) fn verify(given: &[InlineAttachment]) -> Result<Vec<InputFile>, Fault> {
    let mut total = 0;
    let mut out = Vec::with_capacity(given.len());
    for item in given {
        let name = item.name.trim();
        let damaged = |why: String| {
            Fault::new(
                Code::AttachmentInvalid,
                format!("Attachment `{name}` {why}."),
            )
        };
        if name.is_empty() {
            return Err(Fault::new(
                Code::AttachmentInvalid,
                "An attachment has no name.",
            ));
        }
        let encoded = match item.content.strip_prefix("data:") {
            Some(rest) => rest
                .split_once(',')
                .map(|(_, data)| data)
                .ok_or_else(|| damaged("has a broken data: prefix".into()))?,
            None => item.content.as_str(),
        };
        // Checked before decoding, so that a huge text is not decoded only to be refused.
        if encoded.len() / 4 * 3 > ATTACHMENT_BYTES + 3 {
            return Err(too_large(name));
        }
        let bytes = STANDARD
            .decode(encoded.trim())
            .map_err(|e| damaged(format!("is not base64: {e}")))?;
        total += bytes.len();
        if bytes.len() > ATTACHMENT_BYTES || total > ATTACHMENTS_BYTES {
            return Err(too_large(name));
        }
        if item
            .size_bytes
            .is_some_and(|said| said != bytes.len() as u64)
        {
            return Err(damaged(format!(
                "has {} bytes, not the {} that were announced",
                bytes.len(),
                item.size_bytes.unwrap_or(0)
            )));
        }
        let sha256 = Sha256(Hasher::digest(&bytes).into());
        if item.sha256.is_some_and(|said| said != sha256) {
            return Err(damaged("does not match its sha256".into()));
        }
        out.push((name.to_owned(), bytes, sha256));
    }
    Ok(out)
}

fn too_large(name: &str) -> Fault {
    Fault::new(
        Code::AttachmentTooLarge,
        format!("Attachment `{name}` is too large: 10 MiB each and 25 MiB together are taken."),
    )
}

/// What a runtime must know of verified attachments to say whether it takes them.
pub(crate) fn outlines(files: &[InputFile]) -> Vec<AttachmentOutline> {
    let outline = |(name, bytes, _): &InputFile| AttachmentOutline::of(name, bytes);
    files.iter().map(outline).collect()
}

/// Writes verified attachments where the run will find them.
pub(crate) fn keep(
    folder: &Path,
    run: &RunId,
    files: Vec<InputFile>,
) -> Result<Vec<Attachment>, Fault> {
    if files.is_empty() {
        return Ok(vec![]);
    }
    let folder = folder.join(run.as_str());
    atomic::create_dir_all(&folder, Access::Private).map_err(threadline_artifacts::Error::from)?;
    files
        .into_iter()
        .enumerate()
        .map(|(n, (name, bytes, sha256))| {
            let path = folder.join(n.to_string());
            atomic::write(&path, &bytes, Access::Private)
                .map_err(threadline_artifacts::Error::from)?;
            Ok(Attachment { name, path, sha256 })
        })
        .collect()
}

/// Forgets a run's attachments once they are in its work folder, or were never needed.
pub(crate) fn forget(folder: &Path, run: &RunId) {
    let folder = folder.join(run.as_str());
    match std::fs::remove_dir_all(&folder) {
        Ok(()) => {}
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(e) => {
            tracing::warn!(run.id = %run, error = %e, "Attachments of run {run} were not removed")
        }
    }
}

#[cfg(test)]
#[path = "attachments_tests.rs"]
mod tests;
