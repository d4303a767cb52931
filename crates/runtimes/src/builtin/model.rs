//! One OpenAI-compatible endpoint: asking it, hearing it, and saying what went wrong with it.

use std::{error::Error as _, pin::Pin, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use reqwest::{
    Client, Response, StatusCode, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER},
    redirect::Policy,
};
use threadline_contract::{
    Code, Fault, amounts,
    sse::{self, Events, ReadError},
};
use tokio::time::timeout;

use super::{
    chat::{self, Piece, TooLong},
    config::{Limits, ModelConfig},
};

/// Bytes of an error's body that are read, and characters that are shown.
const BODY_READ: usize = 64 * 1024;
const BODY_SHOWN: usize = 400;
/// Bytes that one event may have: an answer of the greatest length, spelled as JSON.
const LONGEST: usize = 2 * chat::LONGEST;
/// The longest pause that an endpoint can ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A configured endpoint.
pub(super) struct Model {
    client: Client,
    endpoint: Url,
    name: String,
    host: String,
    key: Option<String>,
    limits: Limits,
}

impl Model {
    pub(super) fn new(config: &ModelConfig, limits: Limits) -> Result<Self, Fault> {
        let invalid = |what: &str| Fault::new(Code::ConfigInvalid, what);
        let base = Url::parse(config.url.trim())
            .ok()
            .filter(|u| matches!(u.scheme(), "http" | "https") && u.has_host())
            .ok_or_else(|| {
                invalid(
                    "The model's URL is not an http or https address. Check THREADLINE_MODEL_URL.",
                )
            })?;
        if config.model.trim().is_empty() {
            return Err(invalid("The model has no name. Set THREADLINE_MODEL."));
        }
        let host = match (base.host_str(), base.port()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (host, _) => host.unwrap_or_default().to_owned(),
        };
        let mut endpoint = base.clone();
        let path = base.path().trim_end_matches('/');
        let path = path.strip_suffix("/chat/completions").unwrap_or(path);
        endpoint.set_path(&format!("{path}/chat/completions"));

        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static(sse::CONTENT_TYPE));
        let key = config
            .key
            .as_deref()
            .map(str::trim)
            .filter(|k| !k.is_empty());
        if let Some(key) = key {
            let mut bearer = HeaderValue::try_from(format!("Bearer {key}"))
                .map_err(|_| invalid("The model's key holds characters that no header takes. Check THREADLINE_MODEL_KEY."))?;
            bearer.set_sensitive(true);
            headers.insert(AUTHORIZATION, bearer);
        }
        let mut client = Client::builder()
            .default_headers(headers)
            .connect_timeout(limits.connect)
            // A redirect would take the key and the prompt somewhere that nobody configured.
            .redirect(Policy::none())
            .user_agent(concat!("threadline/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&base) {
            client = client.no_proxy();
        }
        let client = client.build().map_err(|e| {
            tracing::error!(error = %e.without_url(), "the HTTP client for the model cannot be made");
            Fault::internal()
        })?;
        Ok(Self {
            client,
            endpoint,
            name: config.model.trim().to_owned(),
            host,
            key: key.map(str::to_owned),
            limits,
        })
    }

    /// The model's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Where it is, for people.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Sends a request and waits until the endpoint begins to answer.
    pub(super) async fn ask(&self, body: Bytes) -> Result<Pieces, Trouble> {
        let silence = self.limits.silence;
        let request = self.client.post(self.endpoint.clone()).body(body).send();
        let response = timeout(silence, request)
            .await
            .map_err(|_| Trouble::Silent(silence))?
            .map_err(|e| self.unreachable(e))?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        let kind = response.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|v| v.to_str().ok()).unwrap_or_default();
        let whole = kind.starts_with("application/json");
        let chunks: Chunks = Box::pin(response.bytes_stream().map(|chunk| chunk.map_err(broken)));
        Ok(match whole {
            true => Pieces::Whole(chunks, silence),
            false => Pieces::Stream(Events::new(chunks, LONGEST), silence),
        })
    }

    fn unreachable(&self, error: reqwest::Error) -> Trouble {
        let timed_out = error.is_timeout();
        let cause = root_cause(&error.without_url());
        let why = if timed_out {
            "it took too long to connect".into()
        } else {
            cause
        };
        Trouble::Unreachable(self.clean(&why))
    }

    async fn refusal(&self, response: Response) -> Trouble {
        let status = response.status();
        let pause = response.headers().get(RETRY_AFTER);
        let pause = pause.and_then(|v| v.to_str().ok()?.trim().parse().ok());
        let pause = pause.map(|s| Duration::from_secs(s).min(LONGEST_PAUSE));
        let body = timeout(self.limits.silence, head_of(response));
        let body = body.await.unwrap_or_default();
        Trouble::Refused {
            status,
            body: self.clean(&message_of(&body)),
            pause,
        }
    }

    /// A text from outside as it may be shown: short, one line, without the key.
    pub(super) fn clean(&self, text: &str) -> String {
        let text = match &self.key {
            Some(key) => text.replace(key.as_str(), "(key)"),
            None => text.to_owned(),
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let line = words.join(" ");
        let line: String = line.chars().filter(|c| !c.is_control()).collect();
        if line.chars().count() <= BODY_SHOWN {
            return line;
        }
        line.chars().take(BODY_SHOWN - 1).chain(['…']).collect()
    }
}

type Chunks = Pin<Box<dyn Stream<Item = Result<Bytes, Trouble>> + Send>>;

/// An answer as it comes. Dropping it ends the request.
pub(super) enum Pieces {
    /// Piece by piece.
    Stream(Events<Chunks>, Duration),
    /// From an endpoint that does not stream.
    Whole(Chunks, Duration),
    /// Nothing more.
    Over,
}

impl Pieces {
    /// The next piece; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Piece>, Trouble> {
        let data = match self {
            Self::Over => return Ok(None),
            Self::Stream(events, silence) => {
                let next = timeout(*silence, events.next()).await;
                match next.map_err(|_| Trouble::Silent(*silence))?? {
                    None => return Ok(None),
                    Some(frame) if frame.data.trim() == sse::DONE => {
                        *self = Self::Over;
                        return Ok(None);
                    }
                    Some(frame) => frame.data,
                }
            }
            Self::Whole(chunks, silence) => {
                let silence = *silence;
                let mut body = Vec::new();
                while let Some(chunk) = timeout(silence, chunks.next())
                    .await
                    .map_err(|_| Trouble::Silent(silence))?
                {
                    body.extend_from_slice(&chunk?);
                    if body.len() > LONGEST {
                        return Err(Trouble::TooLong);
                    }
                }
                *self = Self::Over;
                String::from_utf8_lossy(&body).into_owned()
            }
        };
        let piece: Piece =
            serde_json::from_str(&data).map_err(|e| Trouble::NotUnderstood(e.to_string()))?;
        match piece.error {
            Some(error) => Err(Trouble::Said(message_of(&error.to_string()))),
            None => Ok(Some(piece)),
        }
    }
}

/// What can go wrong with a model call.
#[derive(Debug)]
pub(super) enum Trouble {
    /// No connection.
    Unreachable(String),
    /// Nothing was heard for so long.
    Silent(Duration),
    /// The connection broke in the middle of the answer.
    Broken(String),
    /// An HTTP error.
    Refused {
        status: StatusCode,
        body: String,
        pause: Option<Duration>,
    },
    /// The endpoint reported an error inside the stream.
    Said(String),
    /// Something that is not the protocol.
    NotUnderstood(String),
    /// An endless answer.
    TooLong,
}

impl From<TooLong> for Trouble {
    fn from(_: TooLong) -> Self {
        Self::TooLong
    }
}

impl From<ReadError<Self>> for Trouble {
    fn from(error: ReadError<Self>) -> Self {
        match error {
            ReadError::TooLong(_) => Self::TooLong,
            ReadError::Bytes(trouble) => trouble,
        }
    }
}

impl Trouble {
    /// Whether it may pass by itself.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Broken(_) => true,
            Self::Refused { status, .. } => {
                matches!(status.as_u16(), 408 | 409 | 425 | 429) || status.is_server_error()
            }
            Self::Silent(_) | Self::Said(_) | Self::NotUnderstood(_) | Self::TooLong => false,
        }
    }

    /// How long the endpoint wants to be left alone.
    pub(super) fn pause(&self) -> Option<Duration> {
        match self {
            Self::Refused { pause, .. } => *pause,
            _ => None,
        }
    }

    /// The endpoint stumbles over our asking for usage in a stream.
    pub(super) fn refuses_usage(&self) -> bool {
        matches!(self, Self::Refused { status, body, .. }
            if matches!(status.as_u16(), 400 | 422) && body.contains("stream_options"))
    }

    fn refuses_tools(&self) -> bool {
        let Self::Refused { status, body, .. } = self else {
            return false;
        };
        let body = body.to_lowercase();
        let about_tools = body.contains("tool") || body.contains("function call");
        matches!(status.as_u16(), 400 | 404 | 422 | 501) && about_tools && body.contains("support")
    }

    /// In a few words.
    pub(super) fn short(&self) -> String {
        match self {
            Self::Unreachable(why) => format!("cannot be reached ({why})"),
            Self::Silent(time) => format!("was silent for {}", amounts::time_limit(*time)),
            Self::Broken(why) => format!("broke off in the middle of its answer ({why})"),
            Self::Refused { status, body, .. } if body.is_empty() => format!("answered {status}"),
            Self::Refused { status, body, .. } => format!("answered {status}: {body}"),
            Self::Said(what) => format!("reported an error: {what}"),
            Self::NotUnderstood(what) => {
                format!("answered something that is not the chat-completions protocol ({what})")
            }
            Self::TooLong => format!(
                "gave an answer of more than {}",
                amounts::limit(chat::LONGEST as u64)
            ),
        }
    }

    /// As the end of a run.
    pub(super) fn fault(&self, model: &Model) -> Fault {
        let code = match self {
            Self::Unreachable(_) | Self::Silent(_) => Code::ModelUnreachable,
            _ if self.refuses_tools() => Code::ModelRefusesTools,
            _ => Code::ModelFailed,
        };
        let what = model.clean(&self.short());
        let next = match self {
            _ if code == Code::ModelRefusesTools => " Choose a model that takes tools.",
            Self::Refused { status, .. } => match status.as_u16() {
                401 | 403 => " Check THREADLINE_MODEL_KEY.",
                404 => " Check THREADLINE_MODEL_URL and THREADLINE_MODEL.",
                _ => "",
            },
            Self::Unreachable(_) => " Check THREADLINE_MODEL_URL and that it runs.",
            _ => "",
        };
        let fault = Fault::new(
            code,
            format!("The model {} at {} {what}.{next}", model.name, model.host),
        );
        match self {
            Self::Refused { status, .. } => fault.with("status", status.as_u16()),
            _ => fault,
        }
    }
}

fn broken(error: reqwest::Error) -> Trouble {
    Trouble::Broken(root_cause(&error.without_url()))
}

/// The innermost cause says most: the outer ones only repeat that a request was sent.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    let mut text = error.to_string();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    text
}

/// The beginning of a body.
async fn head_of(response: Response) -> String {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(Ok(chunk)) = chunks.next().await {
        body.extend_from_slice(&chunk);
        if body.len() >= BODY_READ {
            break;
        }
    }
    String::from_utf8_lossy(&body).into_owned()
}

/// The sentence inside an error body, where there is one.
fn message_of(body: &str) -> String {
    let json: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let places = ["/error/message", "/message", "/error", "/detail"];
    let found = places
        .iter()
        .find_map(|place| json.pointer(place)?.as_str());
    found.unwrap_or(body).to_owned()
}

fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            host.parse::<std::net::IpAddr>()
                .is_ok_and(|ip| ip.is_loopback())
        }
        None => false,
    }
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
