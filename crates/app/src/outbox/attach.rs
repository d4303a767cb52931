//! Reading the files that go with a turn. Blocks.

use std::path::Path;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest as _, Sha256 as Hasher};
use threadline_contract::{
    Code, Fault, Sha256,
    turn::{ATTACHMENT_BYTES, InlineAttachment},
};
use threadline_files::{Reason, atomic};

/// A file, read and checked.
pub(super) struct NewFile {
    pub(super) name: String,
    pub(super) mime_type: Option<String>,
    pub(super) bytes: Vec<u8>,
}

/// A file that the user named: links in its path are theirs to use.
pub(super) fn read_file(path: &str) -> Result<NewFile, Fault> {
    let bad = |why: &str| {
        Fault::new(
            Code::AttachmentInvalid,
            format!("The attachment `{path}` {why}."),
        )
    };
    let given = Path::new(path);
    if !given.is_absolute() {
        return Err(bad("must be named by its absolute path"));
    }
    let real = given
        .canonicalize()
        .map_err(|e| bad(&format!("cannot be opened ({e})")))?;
    let bytes = match atomic::read_limited(&real, ATTACHMENT_BYTES as u64) {
        Ok(bytes) => bytes,
        Err(e) if e.reason() == Reason::TooLarge => {
            return Err(too_large(&format!("The attachment `{path}` is too large")));
        }
        Err(e) => return Err(bad(&format!("cannot be read ({e})"))),
    };
    let name = given.file_name().unwrap_or(given.as_os_str());
    Ok(NewFile {
        name: name.to_string_lossy().into_owned(),
        mime_type: None,
        bytes,
    })
}

/// A file that came inside a request.
pub(super) fn decode(attachment: &InlineAttachment) -> Result<NewFile, Fault> {
    let bad = |why: &str| {
        Fault::new(
            Code::AttachmentInvalid,
            format!("The attachment `{}` {why}.", attachment.name),
        )
    };
    if attachment.name.trim().is_empty() {
        return Err(Fault::new(
            Code::AttachmentInvalid,
            "An attachment has no name. Give it one.",
        ));
    }
    let content = attachment.content.trim();
    let content = match content.strip_prefix("data:") {
        Some(rest) => rest.split_once(',').map_or(rest, |(_, data)| data),
        None => content,
    };
    if content.len() / 4 * 3 > ATTACHMENT_BYTES + 2 {
        return Err(too_large(&format!(
            "The attachment `{}` is too large",
            attachment.name
        )));
    }
    let bytes = STANDARD
        .decode(content)
        .map_err(|e| bad(&format!("is not base64 ({e})")))?;
    if bytes.len() > ATTACHMENT_BYTES {
        return Err(too_large(&format!(
            "The attachment `{}` is too large",
            attachment.name
        )));
    }
    if attachment
        .size_bytes
        .is_some_and(|size| size != bytes.len() as u64)
    {
        return Err(bad("has another size than it says"));
    }
    let digest = Sha256(Hasher::digest(&bytes).into());
    if attachment.sha256.is_some_and(|sha| sha != digest) {
        return Err(bad("has another digest than it says"));
    }
    Ok(NewFile {
        name: attachment.name.clone(),
        mime_type: attachment.mime_type.clone(),
        bytes,
    })
}

/// The one sentence about sizes.
pub(super) fn too_large(what: &str) -> Fault {
    Fault::new(
        Code::AttachmentTooLarge,
        format!(
            "{what}: 10 MiB each and 25 MiB together are allowed. Put larger ones where the runtime can read them."
        ),
    )
}
