//! Contents of small files, in the answer itself.

use std::{fs::File, io::Read as _};

use rayon::prelude::*;
use sha2::{Digest as _, Sha256 as Hasher};
use threadline_contract::{Artifact, OmitReason, plugin::NotInlined};
use threadline_files::Root;

use crate::omissions::of_reason;

/// How much content one answer carries at most, whatever a caller asks for. A frame of the gateway
/// holds 25 MiB, and content takes a third more in it than it has bytes.
pub(super) const ANSWER_BYTES: u64 = 16 * 1024 * 1024;
/// What the rest of the answer takes for each file that it lists.
const LISTED_BYTES: u64 = 1024;

/// What an answer has of a file's content.
pub(super) enum Content {
    Bytes(Vec<u8>),
    Not(NotInlined),
}

/// The contents of listed files up to a size. A file that no longer holds what the list says is not
/// delivered: its reason stands in its place.
pub(super) fn contents(
    scope: &Root,
    artifacts: &[Artifact],
    max_inline_bytes: u64,
) -> Vec<Result<Content, OmitReason>> {
    let listed = LISTED_BYTES.saturating_mul(artifacts.len() as u64);
    let mut left = ANSWER_BYTES.saturating_sub(listed);
    let plan: Vec<(&Artifact, Option<NotInlined>)> = artifacts
        .iter()
        .map(|artifact| {
            let not = if artifact.size == 0 {
                None
            } else if artifact.size > max_inline_bytes {
                Some(NotInlined::OverMaxInlineBytes)
            } else if artifact.size > left {
                Some(NotInlined::AnswerFull)
            } else {
                left -= artifact.size;
                None
            };
            (artifact, not)
        })
        .collect();
    plan.into_par_iter()
        .map(|(artifact, not)| match not {
            Some(why) => Ok(Content::Not(why)),
            None => promised(scope, artifact).map(Content::Bytes),
        })
        .collect()
}

/// The bytes that the list promised, or none.
fn promised(scope: &Root, artifact: &Artifact) -> Result<Vec<u8>, OmitReason> {
    let file = scope
        .open_file(artifact.path.as_str())
        .map_err(|e| of_reason(e.reason()))?;
    let bytes = read(&file, artifact.size).map_err(|_| OmitReason::Unreadable)?;
    let same = bytes.len() as u64 == artifact.size
        && Hasher::digest(&bytes).as_slice() == artifact.sha256.0;
    same.then_some(bytes).ok_or(OmitReason::ChangedWhileReading)
}

/// One byte more than promised at most: enough to see that it grew.
fn read(file: &File, size: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.take(size.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}
