//! `GET /app/files/<thread>/<path>`: a file that a thread's current run brought home.
//!
//! Only what the record lists is served, opened beneath the thread's workspace without following a
//! link, and sealed so that whatever an agent wrote cannot run or act as our page.

use std::{fs::File, path::PathBuf};

use axum::{
    body::Body,
    extract::{Path, Query, State, rejection::PathRejection},
    http::{HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use threadline_app::api::{self, ThreadParams, ThreadView};
use threadline_contract::{Code, Fault, thread::SyncedFile};
use threadline_files::Root;
use threadline_server::Refusal;
use tokio::io::AsyncReadExt as _;
use tokio_util::io::ReaderStream;

use crate::{Web, kind::Kind, local::call};

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;
/// Whatever an agent wrote: no script, no form, no window, nothing from elsewhere. Our preview
/// may frame it.
const SEALED: &str = "sandbox; default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; media-src 'self'; \
     form-action 'none'; base-uri 'none'; frame-ancestors 'self'";
/// A browser's own PDF viewer does not work in a sandbox. A PDF is not a page: with this type, and
/// `nosniff`, nothing but the viewer ever reads it.
const PDF: &str =
    "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'self'";

#[derive(Deserialize)]
pub(crate) struct How {
    download: Option<String>,
}

pub(crate) async fn handle(
    State(web): State<Web>,
    wanted: Result<Path<(String, String)>, PathRejection>,
    Query(how): Query<How>,
) -> Result<Response, Refusal> {
    let Path((thread, path)) = wanted.map_err(|_| not_there())?;
    let view: ThreadView = call(&*web.app, api::SHOW, ThreadParams { thread }).await?;
    let found = find(&view, &path).await?;
    respond(found, how.download.is_some())
}

/// A file of the thread's current run, open.
pub(crate) struct Found {
    pub(crate) path: String,
    pub(crate) file: File,
    pub(crate) size: u64,
    /// What was verified when it came home; absent in records of older apps.
    pub(crate) synced: Option<SyncedFile>,
}

impl Found {
    pub(crate) fn kind(&self) -> Kind {
        self.synced
            .as_ref()
            .map_or(Kind::Other, |synced| Kind::of(&synced.content_type))
    }
}

/// Opens a file, if the thread's record lists it.
pub(crate) async fn find(view: &ThreadView, path: &str) -> Result<Found, Fault> {
    let state = &view.thread.context_state;
    let listed = state
        .last_task_artifact_relative_paths
        .iter()
        .any(|p| p.as_str() == path);
    if !listed {
        return Err(not_there());
    }
    let synced = state
        .last_artifacts
        .iter()
        .find(|f| f.path.as_str() == path)
        .cloned();
    let folder = PathBuf::from(&view.thread.workspace_binding.workspace_path);
    let wanted = path.to_owned();
    let opened = tokio::task::spawn_blocking(move || {
        let file = Root::open(folder)?.open_file(&wanted)?;
        Ok::<_, threadline_files::Error>(file)
    });
    let file = match opened.await {
        Ok(Ok(file)) => file,
        Ok(Err(e)) => {
            tracing::warn!(thread.name = %view.thread.name, error = %e, "A listed file cannot be opened: {e}");
            return Err(Fault::new(
                Code::ArtifactNotFound,
                "The file is no longer where it was put, or is not a plain file now. “Fetch again” brings it back.",
            ));
        }
        Err(e) => return Err(broken(e)),
    };
    let size = file.metadata().map_err(broken)?.len();
    Ok(Found {
        path: path.to_owned(),
        file,
        size,
        synced,
    })
}

fn respond(found: Found, download: bool) -> Result<Response, Refusal> {
    let kind = found.kind();
    let (shown, how) = match kind.shown_as().filter(|_| !download) {
        Some(shown) => (shown, "inline"),
        None => ("application/octet-stream", "attachment"),
    };
    let policy = if kind == Kind::Pdf { PDF } else { SEALED };
    let name = found.path.rsplit('/').next().unwrap_or(&found.path);
    // A file that grows meanwhile ends where its length said.
    let bytes = tokio::fs::File::from_std(found.file).take(found.size);
    Response::builder()
        .status(StatusCode::OK)
        .header(header::CONTENT_TYPE, shown)
        .header(header::CONTENT_LENGTH, found.size)
        .header(header::CONTENT_DISPOSITION, disposition(how, name))
        .header(header::CONTENT_SECURITY_POLICY, policy)
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
        .header(header::CACHE_CONTROL, "private, no-cache")
        .header(header::REFERRER_POLICY, "no-referrer")
        .header(
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        )
        .body(Body::from_stream(ReaderStream::with_capacity(bytes, CHUNK)))
        .map(IntoResponse::into_response)
        .map_err(|e| broken(e).into())
}

fn disposition(how: &str, name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| {
            if (c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '%')) || c == ' ' {
                c
            } else {
                '_'
            }
        })
        .collect();
    format!(
        "{how}; filename=\"{plain}\"; filename*=UTF-8''{}",
        crate::urls::segment(name).replace('~', "%7E")
    )
}

fn not_there() -> Fault {
    Fault::new(
        Code::ArtifactNotFound,
        "The thread's current run brought no such file.",
    )
}

fn broken(cause: impl std::fmt::Display) -> Fault {
    tracing::error!(error = %cause, "A file could not be served: {cause}");
    Fault::internal()
}
