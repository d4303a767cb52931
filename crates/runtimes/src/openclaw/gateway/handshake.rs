//! Getting in: the socket, the gateway's challenge, our proof, its hello.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde::Serialize;
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{
    Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config,
    tungstenite::{Message, protocol::WebSocketConfig},
};

use super::{
    GatewayConfig, closed_door,
    identity::{Device, Identity, Proof},
    refusal::{Refusal, judge},
    wire::{Challenge, Hello, Incoming, PROTOCOL, Request, WireError},
};

/// How long the socket may take to open.
const OPEN: Duration = Duration::from_secs(10);
/// How long each step of the handshake may take.
const STEP: Duration = Duration::from_secs(12);
/// The largest frame that is taken from a gateway: a little over what it takes itself.
const LARGEST: usize = 32 * 1024 * 1024;

/// When somebody who asks may have it tried again, after this machine waited to be approved.
pub(super) const APPROVED: Duration = Duration::from_secs(3);
/// The same, after a wrong token or the like: gateways shut out who shows too many.
const MENDED: Duration = Duration::from_secs(60);

const CLIENT_ID: &str = "gateway-client";
const CLIENT_MODE: &str = "backend";
const ROLE: &str = "operator";

/// An open socket.
pub(super) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Why a connection did not come about.
#[derive(Debug)]
pub(super) enum NotOpened {
    /// It may the next time.
    Failed {
        why: String,
        asked: Option<Duration>,
    },
    /// It will not until somebody does something.
    Refused {
        instruction: String,
        again: Duration,
    },
}

impl NotOpened {
    pub(super) fn failed(why: impl Into<String>) -> Self {
        Self::Failed {
            why: why.into(),
            asked: None,
        }
    }
}

/// Which token is shown. A gateway takes its own token, or the one that it gave to this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown<'a> {
    Shared(&'a str),
    Device(&'a str),
    None,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Connect<'a> {
    min_protocol: u32,
    max_protocol: u32,
    client: Client<'a>,
    role: &'static str,
    scopes: &'a [&'a str],
    caps: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    auth: Option<Auth<'a>>,
    device: Device,
    user_agent: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Client<'a> {
    id: &'static str,
    display_name: &'static str,
    version: &'a str,
    platform: &'static str,
    mode: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Auth<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_token: Option<&'a str>,
}

/// Opens a connection, and keeps the token that the gateway gives this machine.
pub(super) async fn open(
    config: &GatewayConfig,
    identity: &std::sync::Mutex<Identity>,
) -> Result<(Socket, Hello), NotOpened> {
    let kept = lock(identity).token(&config.url).map(str::to_owned);
    let shown = match (&config.token, &kept) {
        (Some(token), _) => Shown::Shared(token),
        (None, Some(token)) => Shown::Device(token),
        (None, None) => Shown::None,
    };
    let (socket, hello) = match (attempt(config, identity, shown).await?, shown, &kept) {
        (Ok(opened), ..) => opened,
        // The operator's token changed, but the gateway still knows this machine.
        (Err(error), Shown::Shared(_), Some(token)) if error.flag("canRetryWithDeviceToken") => {
            match attempt(config, identity, Shown::Device(token)).await? {
                Ok(opened) => opened,
                Err(_) => return Err(refused(&error)),
            }
        }
        (Err(error), Shown::Device(_), _) => {
            if error.detail("code").is_some_and(|c| c.starts_with("AUTH_")) {
                // It is worth nothing any more.
                keep(identity, &config.url, None);
            }
            return Err(refused(&error));
        }
        (Err(error), ..) => return Err(refused(&error)),
    };
    if let Some(token) = &hello.auth.device_token {
        keep(identity, &config.url, Some(token));
    }
    Ok((socket, hello))
}

fn refused(error: &WireError) -> NotOpened {
    match judge(error) {
        Refusal::Final(instruction) => NotOpened::Refused {
            instruction,
            again: match error.is_pairing() {
                true => APPROVED,
                false => MENDED,
            },
        },
        Refusal::Later(asked) => NotOpened::Failed {
            why: format!("The OpenClaw gateway does not take connections yet: {error}."),
            asked,
        },
    }
}

fn keep(identity: &std::sync::Mutex<Identity>, gateway: &str, token: Option<&str>) {
    if let Err(fault) = lock(identity).keep_token(gateway, token) {
        tracing::warn!(%fault, "the gateway's token for this machine could not be kept");
    }
}

fn lock(identity: &std::sync::Mutex<Identity>) -> std::sync::MutexGuard<'_, Identity> {
    identity
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

type Attempt = Result<(Socket, Hello), WireError>;

async fn attempt(
    config: &GatewayConfig,
    identity: &std::sync::Mutex<Identity>,
    shown: Shown<'_>,
) -> Result<Attempt, NotOpened> {
    // No Origin: the gateway takes that for a page of somebody's.
    let limits = WebSocketConfig::default()
        .max_message_size(Some(LARGEST))
        .max_frame_size(Some(LARGEST));
    let tls = config.tls.clone().map(Connector::Rustls);
    let opening = connect_async_tls_with_config(config.url.as_str(), Some(limits), true, tls);
    let (mut socket, _) = timeout(OPEN, opening)
        .await
        .map_err(|_| NotOpened::failed("The OpenClaw gateway does not take the connection."))?
        .map_err(|error| closed_door::of(&error))?;

    let challenge = loop {
        let frame = next(&mut socket).await?;
        if frame.event.as_deref() == Some("connect.challenge") {
            let payload = frame.payload.as_deref().map(|p| p.get()).unwrap_or("null");
            let parsed: Result<Challenge, _> = serde_json::from_str(payload);
            break parsed.map_err(|e| {
                NotOpened::failed(format!("The gateway's challenge is not understood: {e}."))
            })?;
        }
    };
    let params = connect(config, &lock(identity), shown, &challenge);
    let request = Request {
        kind: "req",
        id: "connect",
        method: "connect",
        params,
    };
    let text = serde_json::to_string(&request).map_err(|e| NotOpened::failed(e.to_string()))?;
    timeout(STEP, socket.send(Message::text(text)))
        .await
        .map_err(|_| NotOpened::failed("The gateway does not read."))?
        .map_err(|e| NotOpened::failed(format!("The connection broke: {e}.")))?;
    loop {
        let frame = next(&mut socket).await?;
        if frame.kind != "res" || frame.id.as_deref() != Some("connect") {
            continue;
        }
        if !frame.ok {
            return Ok(Err(frame.error.unwrap_or_default()));
        }
        let payload = frame.payload.as_deref().map(|p| p.get()).unwrap_or("null");
        let hello: Result<Hello, _> = serde_json::from_str(payload);
        let hello = hello.map_err(|e| {
            NotOpened::failed(format!("The gateway's greeting is not understood: {e}."))
        })?;
        return Ok(Ok((socket, hello)));
    }
}

fn connect<'a>(
    config: &'a GatewayConfig,
    identity: &Identity,
    shown: Shown<'a>,
    challenge: &Challenge,
) -> Connect<'a> {
    let platform = std::env::consts::OS;
    let (signed, auth) = match shown {
        Shown::Shared(token) => (
            token,
            Some(Auth {
                token: Some(token),
                device_token: None,
            }),
        ),
        Shown::Device(token) => (
            token,
            Some(Auth {
                token: None,
                device_token: Some(token),
            }),
        ),
        Shown::None => ("", None),
    };
    let device = identity.prove(&Proof {
        client_id: CLIENT_ID,
        client_mode: CLIENT_MODE,
        role: ROLE,
        scopes: config.scopes(),
        signed_at: challenge.ts,
        token: signed,
        nonce: &challenge.nonce,
        platform,
    });
    Connect {
        min_protocol: PROTOCOL,
        max_protocol: PROTOCOL,
        client: Client {
            id: CLIENT_ID,
            display_name: "Threadline",
            version: &config.version,
            platform,
            mode: CLIENT_MODE,
        },
        role: ROLE,
        scopes: config.scopes(),
        caps: config.caps(),
        auth,
        device,
        user_agent: format!("threadline/{}", config.version),
    }
}

/// The next frame of the handshake.
async fn next(socket: &mut Socket) -> Result<Incoming, NotOpened> {
    loop {
        let message = timeout(STEP, socket.next())
            .await
            .map_err(|_| NotOpened::failed("The OpenClaw gateway does not greet. Is it one?"))?;
        match message {
            Some(Ok(Message::Text(text))) => {
                return serde_json::from_str(&text).map_err(|_| {
                    NotOpened::failed("What answers there does not speak as an OpenClaw gateway.")
                });
            }
            Some(Ok(Message::Close(close))) => {
                let why = close.map_or(String::new(), |c| format!(": {} {}", c.code, c.reason));
                return Err(NotOpened::failed(format!(
                    "The gateway closed the connection{why}."
                )));
            }
            Some(Ok(_)) => {}
            Some(Err(e)) => {
                return Err(NotOpened::failed(format!("The connection broke: {e}.")));
            }
            None => return Err(NotOpened::failed("The gateway closed the connection.")),
        }
    }
}
