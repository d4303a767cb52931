//! A run's final manifest as bytes that anybody can check, now or in ten years, without a server.
//!
//! `{"digest":"…","receipt":{…}}` and a newline, in canonical JSON: sorted keys, no white space,
//! files in the byte order of their paths. The same run gives the same bytes wherever they are
//! written, so two receipts are compared like two numbers. The digest is of the inner text; it
//! guards against damage, not against somebody who writes a whole new receipt.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256 as Hasher};

use crate::{Artifact, ArtifactPath, ArtifactScope, Code, Fault, RunId, SessionKey, Sha256, scope};

/// More than any real run has: about three million files.
pub const MAX_RECEIPT_BYTES: u64 = 512 * 1024 * 1024;

const VERSION: u32 = 1;

/// What a run delivered, all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The session of the run.
    pub session_key: SessionKey,
    /// The run.
    pub run_id: RunId,
    /// Where its files lay. Told, never used for access.
    pub scope: ArtifactScope,
    files: Vec<Artifact>,
}

/// Why bytes are not a receipt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadReceipt {
    /// Not the JSON of a receipt, or with a path that no artifact can have.
    #[error("it is not a receipt: {0}")]
    Unreadable(String),
    /// Made by a later version.
    #[error("it has version {0}, which this program does not know")]
    Version(u32),
    /// It says the same as a receipt, but not in its one form.
    #[error("it is not in canonical form")]
    NotCanonical,
    /// Its digest is another: it was damaged or changed.
    #[error("its digest does not fit: it was damaged or changed")]
    Digest,
    /// A file stands in it twice.
    #[error("it names `{0}` twice")]
    Twice(ArtifactPath),
    /// A file would lie among our own notes, where no run's file can be.
    #[error("it names `{0}`, where no artifact can lie")]
    Reserved(ArtifactPath),
    /// Its files are not in order.
    #[error("its files are not in order at `{0}`")]
    Order(ArtifactPath),
    /// It is larger than any real receipt.
    #[error("it has more than {MAX_RECEIPT_BYTES} bytes")]
    TooLarge,
}

impl From<BadReceipt> for Fault {
    fn from(e: BadReceipt) -> Self {
        Self::new(
            Code::ReceiptInvalid,
            format!("The receipt cannot be used: {e}."),
        )
    }
}

/// Fields in the order of their names: that is the canonical order.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Line {
    content_type: String,
    path: ArtifactPath,
    sha256: Sha256,
    size: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Body<F> {
    files: F,
    run_id: RunId,
    scope: ArtifactScope,
    session_key: SessionKey,
    v: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope {
    digest: Sha256,
    receipt: Body<Vec<Line>>,
}

/// Only the version, whatever else has changed.
#[derive(Deserialize)]
struct Peek {
    receipt: PeekBody,
}
#[derive(Deserialize)]
struct PeekBody {
    v: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LineRef<'a> {
    content_type: &'a str,
    path: &'a ArtifactPath,
    sha256: Sha256,
    size: u64,
}

impl Receipt {
    /// The receipt of a run that delivered these files, in whatever order they come.
    pub fn new(
        session_key: SessionKey,
        run_id: RunId,
        scope: ArtifactScope,
        mut files: Vec<Artifact>,
    ) -> Result<Self, BadReceipt> {
        files.sort_unstable_by(|a, b| a.path.as_str().as_bytes().cmp(b.path.as_str().as_bytes()));
        check(&files)?;
        Ok(Self {
            session_key,
            run_id,
            scope,
            files,
        })
    }

    /// Its files, in the byte order of their paths.
    pub fn files(&self) -> &[Artifact] {
        &self.files
    }

    /// How many bytes they have together.
    pub fn bytes(&self) -> u64 {
        let sizes = self.files.iter().map(|f| f.size);
        sizes.fold(0, u64::saturating_add)
    }

    /// What tells this receipt from every other.
    pub fn digest(&self) -> Sha256 {
        digest(&self.body())
    }

    /// Its one form.
    pub fn to_bytes(&self) -> Result<Vec<u8>, BadReceipt> {
        let body = self.body();
        let mut text = ReceiptText::before(digest(&body));
        text.extend(body);
        text.extend(ReceiptText::AFTER);
        if text.len() as u64 > MAX_RECEIPT_BYTES {
            return Err(BadReceipt::TooLarge);
        }
        Ok(text)
    }

    /// Reads a receipt from anywhere. Takes nothing that [`to_bytes`](Self::to_bytes) would not have
    /// written.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BadReceipt> {
        if bytes.len() as u64 > MAX_RECEIPT_BYTES {
            return Err(BadReceipt::TooLarge);
        }
        let unreadable = |e: serde_json::Error| BadReceipt::Unreadable(e.to_string());
        let peek: Peek = serde_json::from_slice(bytes).map_err(unreadable)?;
        if peek.receipt.v != VERSION {
            return Err(BadReceipt::Version(peek.receipt.v));
        }
        let envelope: Envelope = serde_json::from_slice(bytes).map_err(unreadable)?;
        let body = envelope.receipt;
        let files: Vec<Artifact> = body
            .files
            .into_iter()
            .map(|line| Artifact {
                path: line.path,
                size: line.size,
                sha256: line.sha256,
                content_type: line.content_type.into(),
            })
            .collect();
        check(&files)?;
        let receipt = Self {
            session_key: body.session_key,
            run_id: body.run_id,
            scope: body.scope,
            files,
        };
        if receipt.digest() != envelope.digest {
            return Err(BadReceipt::Digest);
        }
        if receipt.to_bytes()? != bytes {
            return Err(BadReceipt::NotCanonical);
        }
        Ok(receipt)
    }

    fn body(&self) -> Vec<u8> {
        let mut text = ReceiptText::new(&self.session_key, &self.run_id, &self.scope);
        let mut body = text.opening().to_vec();
        for file in &self.files {
            text.file(file, &mut body);
        }
        body.extend(text.closing());
        body
    }
}

/// The text of a receipt, made piece by piece: for a run with more files than should be held at once.
///
/// The inner text is [`opening`](Self::opening), every [`file`](Self::file) in the byte order of paths,
/// and [`closing`](Self::closing). Around it stand [`before`](Self::before), which has its digest, and
/// [`AFTER`](Self::AFTER).
#[derive(Clone, Debug)]
pub struct ReceiptText {
    closing: Vec<u8>,
    first: bool,
}

impl ReceiptText {
    /// What stands behind the inner text.
    pub const AFTER: &[u8] = b"}\n";
    const OPENING: &[u8] = b"{\"files\":[";

    /// The text of this run's receipt.
    pub fn new(session_key: &SessionKey, run_id: &RunId, scope: &ArtifactScope) -> Self {
        let none: Body<[Line; 0]> = Body {
            files: [],
            run_id: run_id.clone(),
            scope: scope.clone(),
            session_key: session_key.clone(),
            v: VERSION,
        };
        // Strings and numbers only: this cannot fail.
        let text = serde_json::to_vec(&none).unwrap_or_default();
        let closing = text.get(Self::OPENING.len()..).unwrap_or_default();
        Self {
            closing: closing.to_vec(),
            first: true,
        }
    }

    /// What stands before the inner text with this digest.
    pub fn before(digest: Sha256) -> Vec<u8> {
        format!("{{\"digest\":\"{digest}\",\"receipt\":").into_bytes()
    }

    /// How the inner text begins.
    pub fn opening(&self) -> &'static [u8] {
        Self::OPENING
    }

    /// Adds the next file.
    pub fn file(&mut self, file: &Artifact, to: &mut Vec<u8>) {
        if !std::mem::take(&mut self.first) {
            to.push(b',');
        }
        let line = LineRef {
            content_type: &file.content_type,
            path: &file.path,
            sha256: file.sha256,
            size: file.size,
        };
        // As above.
        let _ = serde_json::to_writer(to, &line);
    }

    /// How the inner text ends.
    pub fn closing(&self) -> &[u8] {
        &self.closing
    }
}

fn digest(body: &[u8]) -> Sha256 {
    Sha256(Hasher::digest(body).into())
}

fn check(files: &[Artifact]) -> Result<(), BadReceipt> {
    let first_part = |path: &ArtifactPath| path.as_str().split('/').next() == Some(scope::NOTES);
    if let Some(file) = files.iter().find(|f| first_part(&f.path)) {
        return Err(BadReceipt::Reserved(file.path.clone()));
    }
    for (before, file) in files.iter().zip(files.iter().skip(1)) {
        match before
            .path
            .as_str()
            .as_bytes()
            .cmp(file.path.as_str().as_bytes())
        {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => return Err(BadReceipt::Twice(file.path.clone())),
            std::cmp::Ordering::Greater => return Err(BadReceipt::Order(file.path.clone())),
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "receipt_tests.rs"]
mod tests;
