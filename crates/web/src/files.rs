//! `GET /app/files/<thread>/<path>`: a file that a thread's current run brought home.
//!
//! The app opens only what its record lists, without following a link. Here it is sealed, so that
//! whatever an agent wrote cannot run or act as our page.

use std::{fs::File, io::SeekFrom, time::UNIX_EPOCH};

use axum::{
    body::Body,
    extract::{Path, Query, State, rejection::PathRejection},
    http::{HeaderMap, HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use threadline_contract::{Code, Fault, thread::SyncedFile};
use threadline_server::{
    Refusal,
    range::{self, Wanted},
};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio_util::io::ReaderStream;

use crate::{Web, kind::Kind, urls};

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;
/// Whatever an agent wrote: no script, no form, no window, nothing from elsewhere. Our preview
/// may frame it.
const SEALED: &str = "sandbox; default-src 'none'; img-src 'self' data:; media-src 'self'; \
     style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'";
/// A browser's own PDF viewer does not work in a sandbox. A PDF is not a page: with this type, and
/// `nosniff`, nothing but the viewer ever reads it.
const PDF: &str = "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; \
     frame-ancestors 'self'";

/// Says that a file was edited since it was verified.
const CHANGED: HeaderName = HeaderName::from_static("threadline-changed");

#[derive(Deserialize)]
pub(crate) struct How {
    download: Option<String>,
}

pub(crate) async fn handle(
    State(web): State<Web>,
    wanted: Result<Path<(String, String)>, PathRejection>,
    Query(how): Query<How>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let Path((thread, path)) = wanted.map_err(not_a_path)?;
    let found = Found::open(&web, &thread, path).await?;
    respond(found, how.download.is_some(), &headers).await
}

/// A file of a thread's current run, open.
pub(crate) struct Found {
    pub(crate) path: String,
    pub(crate) file: File,
    /// How many bytes it has now.
    pub(crate) size: u64,
    /// When it was last written, in nanoseconds since 1970.
    changed_at: u128,
    /// What was verified when it came home.
    pub(crate) synced: SyncedFile,
}

impl Found {
    pub(crate) async fn open(web: &Web, thread: &str, path: String) -> Result<Self, Fault> {
        let (file, synced) = web.app.file(thread, &path).await?;
        let facts = file.metadata().map_err(broken)?;
        let written = facts.modified().map_err(broken)?;
        let changed_at = written.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self {
            path,
            file,
            size: facts.len(),
            changed_at: changed_at.as_nanos(),
            synced,
        })
    }

    /// Tells one version of the file from another.
    fn tag(&self) -> String {
        format!("\"{}-{:x}\"", self.size, self.changed_at)
    }

    pub(crate) fn kind(&self) -> Kind {
        Kind::of(&self.synced.content_type)
    }
}

async fn respond(found: Found, download: bool, headers: &HeaderMap) -> Result<Response, Refusal> {
    let kind = found.kind();
    let (shown, how) = match kind.shown_as().filter(|_| !download) {
        Some(shown) => (shown, "inline"),
        None => ("application/octet-stream", "attachment"),
    };
    let policy = if kind == Kind::Pdf { PDF } else { SEALED };
    let same_origin = HeaderName::from_static("cross-origin-resource-policy");
    let (status, first, len) = match part(&found, headers) {
        Wanted::Whole => (StatusCode::OK, 0, found.size),
        Wanted::Part(first, last) => (StatusCode::PARTIAL_CONTENT, first, last - first + 1),
        Wanted::Invalid => {
            let size = format!("bytes */{}", found.size);
            let refusal = Refusal(Fault::new(Code::RangeInvalid, Code::RangeInvalid.advice()));
            return Ok(([(header::CONTENT_RANGE, size)], refusal).into_response());
        }
    };
    let mut response = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, shown)
        .header(header::CONTENT_LENGTH, len)
        .header(header::ACCEPT_RANGES, "bytes")
        .header(header::ETAG, found.tag())
        .header(header::CONTENT_DISPOSITION, disposition(how, &found.path))
        .header(header::CONTENT_SECURITY_POLICY, policy)
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
        .header(header::CACHE_CONTROL, "private, no-cache")
        .header(header::REFERRER_POLICY, "no-referrer")
        .header(same_origin, "same-origin");
    if found.synced.changed {
        // These are not the bytes that were verified when they came home.
        response = response.header(CHANGED, "true");
    }
    if status == StatusCode::PARTIAL_CONTENT {
        let range = format!("bytes {first}-{}/{}", first + len - 1, found.size);
        response = response.header(header::CONTENT_RANGE, range);
    }
    let mut file = tokio::fs::File::from_std(found.file);
    file.seek(SeekFrom::Start(first)).await.map_err(broken)?;
    // A file that grows meanwhile ends where its length said.
    let bytes = ReaderStream::with_capacity(file.take(len), CHUNK);
    response
        .body(Body::from_stream(bytes))
        .map(IntoResponse::into_response)
        .map_err(|e| broken(e).into())
}

/// The part that is asked for: a film is looked at from the middle, a download goes on where it
/// was cut.
fn part(found: &Found, headers: &HeaderMap) -> Wanted {
    let said = |name: HeaderName| headers.get(name).and_then(|v| v.to_str().ok());
    // A part of another version would be glued to the wrong bytes.
    match said(header::IF_RANGE) {
        Some(tag) if tag != found.tag() => Wanted::Whole,
        _ => range::wanted(said(header::RANGE), found.size),
    }
}

fn disposition(how: &str, path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let safe = |c: &char| (c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '%')) || *c == ' ';
    let plain: String = name
        .chars()
        .map(|c| if safe(&c) { c } else { '_' })
        .collect();
    let encoded = urls::segment(name);
    format!("{how}; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
}

/// An address that is not text cannot be a file's.
pub(crate) fn not_a_path(_: PathRejection) -> Fault {
    Fault::new(Code::ArtifactNotFound, Code::ArtifactNotFound.advice())
}

fn broken(cause: impl std::fmt::Display) -> Fault {
    tracing::error!(error = %cause, "A file could not be served: {cause}");
    Fault::internal()
}
