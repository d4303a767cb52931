//! A file's bytes: over the plugin's HTTP route where there is one, else in parts over the gateway's
//! WebSocket. Whoever keeps the file holds it against its digest; here it is seen that the right file is
//! read, in its right state.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;
use serde::Deserialize;
use threadline_contract::{
    Artifact, ArtifactScope, Code, Fault, Sha256,
    plugin::{READ, ReadParams},
};
use tokio::sync::Mutex;

use super::{
    files::{Files, LARGE, plain, refused, whose},
    gateway::CallError,
    route::{Route, Streamed},
    turn::NEVER,
};
use crate::{ArtifactIdentity, Body, Pending, ReadAt};

/// Bytes that come with the first question, so that a small file needs no second one.
const FIRST: u64 = 256 * 1024;
/// Bytes that one reading fetches: large enough that asking costs little, small enough for a frame.
const CHUNK: u64 = 4 * 1024 * 1024;
/// What an earlier plugin hands over at once, at most.
const WHOLE: i64 = 16 * 1024 * 1024;
/// How often a route may fail where the WebSocket does not, before it is left alone.
const MISSES: u32 = 2;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    #[serde(default)]
    artifacts: Vec<Read>,
    /// Absent from an earlier plugin, which knows no parts.
    #[serde(default)]
    offset: Option<u64>,
    /// Where the plugin hands files over by HTTP.
    #[serde(default)]
    download_path: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read {
    relative_path: String,
    #[serde(default)]
    content_type: Option<Cow<'static, str>>,
    size_bytes: u64,
    sha256: Sha256,
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    artifact_ref: Option<String>,
}

/// Opens an artifact. Its bytes are fetched as they are read.
pub(super) async fn open(files: &Files, artifact: &ArtifactIdentity) -> Result<Body, Fault> {
    let first = fetch(files, artifact, 0, artifact.size.min(FIRST)).await?;
    let content_type = first
        .content_type
        .unwrap_or_else(|| "application/octet-stream".into());
    let reader = GatewayReader {
        files: files.clone(),
        identity: artifact.clone(),
        state: Mutex::new(State {
            held: first.held,
            route: first.route,
            stream: None,
            misses: 0,
        }),
    };
    Ok(Body {
        artifact: Artifact {
            path: artifact.path.clone(),
            size: artifact.size,
            sha256: artifact.sha256,
            content_type,
        },
        reader: Box::new(reader),
    })
}

/// A file on a gateway.
struct GatewayReader {
    files: Files,
    identity: ArtifactIdentity,
    state: Mutex<State>,
}

struct State {
    held: Held,
    route: Option<Route>,
    stream: Option<Streamed>,
    misses: u32,
}

/// The bytes that were fetched last.
#[derive(Default)]
struct Held {
    offset: u64,
    bytes: Bytes,
}

/// What one question over the WebSocket gave.
struct Fetched {
    held: Held,
    content_type: Option<Cow<'static, str>>,
    route: Option<Route>,
}

impl ReadAt for GatewayReader {
    fn read_at(&self, offset: u64, len: usize) -> Pending<'_, Result<Bytes, Fault>> {
        Box::pin(async move {
            if len == 0 || offset >= self.identity.size {
                return Ok(Bytes::new());
            }
            let mut state = self.state.lock().await;
            if state.held.part(offset, len).is_none() {
                self.go_on(&mut state, offset).await?;
            }
            state.held.part(offset, len).ok_or_else(|| {
                Fault::new(
                    Code::RuntimeReadFailed,
                    "The gateway handed over another part of the file than was asked for.",
                )
            })
        })
    }
}

impl GatewayReader {
    /// Gets bytes from here on. A route that fails is tried again, and left alone where only the
    /// WebSocket gets through: a proxy may pass nothing else.
    async fn go_on(&self, state: &mut State, offset: u64) -> Result<(), Fault> {
        let why = match state.by_route(&self.identity, offset).await {
            None => None,
            Some(Ok(bytes)) => {
                state.held = Held { offset, bytes };
                state.misses = 0;
                return Ok(());
            }
            Some(Err(why)) => Some(why),
        };
        let length = (self.identity.size - offset).min(CHUNK);
        let fetched = fetch(&self.files, &self.identity, offset, length).await?;
        state.held = fetched.held;
        if let Some(why) = why {
            state.misses += 1;
            tracing::warn!(run.id = %self.identity.run, "A file comes over the WebSocket, because its download failed: {why}");
        }
        // It carries a fresh reference: the one that was used may have expired.
        state.route = fetched.route.filter(|_| state.misses < MISSES);
        Ok(())
    }
}

impl State {
    async fn by_route(
        &mut self,
        identity: &ArtifactIdentity,
        offset: u64,
    ) -> Option<Result<Bytes, String>> {
        let route = self.route.as_ref()?;
        let going = self.stream.take().filter(|s| s.offset() == offset);
        let read = async {
            let mut stream = match going {
                Some(stream) => stream,
                None => route.open(identity, offset).await?,
            };
            let bytes = stream.next().await?;
            Ok((stream, bytes))
        };
        Some(read.await.map(|(stream, bytes)| {
            self.stream = Some(stream);
            bytes
        }))
    }
}

impl Held {
    fn part(&self, offset: u64, len: usize) -> Option<Bytes> {
        let from = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        if from >= self.bytes.len() {
            return None;
        }
        let to = from.saturating_add(len).min(self.bytes.len());
        Some(self.bytes.slice(from..to))
    }
}

async fn fetch(
    files: &Files,
    identity: &ArtifactIdentity,
    offset: u64,
    length: u64,
) -> Result<Fetched, Fault> {
    let conn = files.conn(NEVER).await?;
    let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let (session, run) = (&identity.session, &identity.run);
    let own = ArtifactScope::of(session, run)
        .map_err(|e| Fault::new(Code::InvalidRequest, e.to_string()))?;
    let mut params = ReadParams {
        whose: whose(session, run),
        relative_path: Some(identity.path.to_string()),
        // An empty file has no parts.
        offset: (identity.size > 0).then(|| whole(offset)),
        length: (identity.size > 0).then(|| whole(length)),
        max_inline_bytes: Some(WHOLE),
        ..ReadParams::default()
    };
    params.whose.artifact_scope = Some(own.to_string());
    let mut read = conn.call::<Part>(READ, plain(&params)?, LARGE).await;
    // An earlier plugin spells scopes in another way.
    if let Err(CallError::Refused(refusal)) = &read
        && refusal.code == "INVALID_REQUEST"
    {
        params.whose.artifact_scope = Some(ArtifactScope::peer(session, run).to_string());
        read = conn.call(READ, plain(&params)?, LARGE).await;
    }
    let part = read.map_err(|e| refused(e, Code::RuntimeReadFailed))?;
    let file =
        part.artifacts.into_iter().next().ok_or_else(|| {
            Fault::new(Code::ArtifactNotFound, "The gateway has this file no more.")
        })?;
    if file.relative_path != identity.path.as_str() {
        let code = Code::ArtifactPathMismatch;
        return Err(Fault::new(code, code.advice()));
    }
    if file.sha256 != identity.sha256 || file.size_bytes != identity.size {
        return Err(Fault::new(
            Code::ArtifactChanged,
            Code::ArtifactChanged.advice(),
        ));
    }
    let bytes = match file.content {
        Some(content) => BASE64.decode(content).map_err(|_| {
            let code = Code::ArtifactEncodingInvalid;
            Fault::new(code, code.advice())
        })?,
        None if identity.size == 0 => vec![],
        None => {
            let text = "The plugin in the gateway does not hand over files of this size. `threadline openclaw install` puts one there that does.";
            return Err(Fault::new(Code::RuntimeReadFailed, text));
        }
    };
    let route = part.download_path.zip(file.artifact_ref);
    Ok(Fetched {
        held: Held {
            offset: part.offset.unwrap_or(0),
            bytes: bytes.into(),
        },
        content_type: file.content_type,
        route: route.and_then(|(path, reference)| {
            Route::new(&files.http, files.gateway.url(), &path, reference)
        }),
    })
}
