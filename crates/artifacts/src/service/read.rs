//! One file of a run, or a part of it.

use threadline_contract::{
    Artifact, ArtifactPath, Base64, Fault,
    plugin::{NotInlined, ReadParams, ReadResult},
};

use super::{Request, Service, export::flat, inline::ANSWER_BYTES, now};
use crate::{
    ArtifactIdentity, Error, LINK_SECONDS, MAX_CHUNK, Reader,
    peer::{self, PeerRefError},
    reference::whole,
};

impl Service {
    /// Reads a file by its reference, or by its path in a scope that the request names. With a
    /// reference, the bytes are proven to be those that it was made for.
    pub fn read(&self, params: &ReadParams) -> Result<ReadResult, Fault> {
        let request = self.request(&params.whose)?;
        let (scope, style) = request.scope_to_read(&params.whose)?;
        let path = params
            .relative_path
            .as_deref()
            .map(plain_path)
            .transpose()?;
        let (path, reader) = match (&params.artifact_ref, path) {
            (Some(text), path) => {
                let identity = self.identity(&request, text, params.t)?;
                if path.is_some_and(|path| path != identity.path) {
                    return Err(Fault::invalid(
                        "`artifactRef` and `relativePath` name different files.",
                    ));
                }
                let reader = request.workspace.read(&identity)?;
                (identity.path, reader)
            }
            (None, Some(path)) if params.whose.artifact_scope.is_some() => {
                let (session, run) = (&request.session, &request.run);
                let reader = request.workspace.read_path(style, session, run, &path)?;
                (path, reader)
            }
            (None, _) => {
                return Err(Fault::invalid(
                    "Name the file: `artifactRef`, or `artifactScope` and `relativePath`.",
                ));
            }
        };
        let artifact = Artifact {
            path,
            size: reader.size(),
            sha256: reader.sha256(),
            content_type: reader.content_type().into(),
        };
        let part = part(params, &reader)?;
        let mut warnings = request.warnings.clone();
        if part.bytes.is_none() {
            warnings.push(format!(
                "`{}` has {} bytes, more than one answer gives; read it in parts, with `offset` and `length`.",
                artifact.path, artifact.size
            ));
        }
        let expires = now().saturating_add(LINK_SECONDS);
        request.hold(expires)?;
        let signer = self.keys().signer(&request.session, &request.run, expires);
        let reference = whole(&signer.sign(&artifact), expires);
        let mut item = flat(artifact, reference, expires, &scope, None);
        match &part.bytes {
            Some(bytes) => {
                item.encoding = Some("base64".to_owned());
                item.content = Some(Base64::encode(bytes));
            }
            None => item.not_inlined = Some(NotInlined::OverMaxInlineBytes),
        }
        Ok(ReadResult {
            place: request.place(scope),
            artifacts: vec![item],
            offset: part.offset,
            length: part.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64),
            eof: part.eof,
            warnings,
        })
    }

    /// What a reference names, if it is good and of this session and run.
    fn identity(
        &self,
        request: &Request,
        text: &str,
        beside: Option<i64>,
    ) -> Result<ArtifactIdentity, Fault> {
        let foreign = || Fault::invalid("`artifactRef` does not match this session and run.");
        let (session, run) = (&request.session, &request.run);
        if let Some(secret) = &self.settings.peer_secret
            && peer::looks_like(text)
        {
            let root = request.workspace.path();
            return peer::verify(text, secret.as_bytes(), root, session, run).map_err(
                |e| match e {
                    PeerRefError::Invalid => crate::RefError::BadRef.into(),
                    PeerRefError::Foreign => foreign(),
                },
            );
        }
        let identity = self.keys().verify_whole(text, beside, now())?;
        if identity.session == *session && identity.run == *run {
            Ok(identity)
        } else {
            Err(foreign())
        }
    }
}

/// What is given of a file.
struct Part {
    offset: u64,
    bytes: Option<Vec<u8>>,
    eof: bool,
}

fn part(params: &ReadParams, reader: &Reader) -> Result<Part, Error> {
    let size = reader.size();
    if params.offset.is_some() || params.length.is_some() {
        let range = |number: Option<i64>, otherwise: u64| match number {
            None => Ok(otherwise),
            Some(number) => u64::try_from(number).map_err(|_| Error::RangeBelowZero),
        };
        let (offset, length) = (range(params.offset, 0)?, range(params.length, MAX_CHUNK)?);
        let chunk = reader.read_range(offset, length)?;
        return Ok(Part {
            offset,
            bytes: Some(chunk.bytes),
            eof: chunk.eof,
        });
    }
    let most = params.max_inline_bytes.and_then(|n| u64::try_from(n).ok());
    if size > most.unwrap_or(MAX_CHUNK).min(ANSWER_BYTES) {
        return Ok(Part {
            offset: 0,
            bytes: None,
            eof: false,
        });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    while (bytes.len() as u64) < size {
        let chunk = reader.read_range(bytes.len() as u64, size)?;
        bytes.extend_from_slice(&chunk.bytes);
    }
    Ok(Part {
        offset: 0,
        bytes: Some(bytes),
        eof: true,
    })
}

/// A path as callers write it: a slash at the end is forgiven, nothing else is.
fn plain_path(text: &str) -> Result<ArtifactPath, Fault> {
    let plain = text.strip_suffix('/').unwrap_or(text);
    ArtifactPath::new(plain)
        .map_err(|e| Fault::invalid(format!("`relativePath` escapes the run's folder: {e}.")))
}
