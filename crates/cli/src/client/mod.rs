//! The command line's side of the local API: it finds the owner, starts one where there is none, and
//! goes on when the owner changes under it.

mod events;
mod start;

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use reqwest::{Client as Http, StatusCode, header, redirect::Policy};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use threadline_app::api;
use threadline_contract::{Code, Fault, rpc};
use threadline_files::complain;
use tokio::sync::mpsc;

pub(crate) use self::{
    events::Heard,
    start::{Passed, end},
};
use crate::{
    config::Config,
    owner::{Places, State, is_stopped, silent, stopped, token},
};

/// How long an owner may take to answer a short request.
const ANSWER: Duration = Duration::from_secs(60);
/// The same where every run's folder is looked at.
const LONG_ANSWER: Duration = Duration::from_secs(10 * 60);
/// How long an answer may take before it is looked whether the owner answers at all, and how long
/// that may take.
const PATIENT: Duration = Duration::from_secs(3);
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);
/// How long to try before an owner counts as unreachable.
const PATIENCE: Duration = Duration::from_secs(30);
/// Methods that must not be sent again when nobody knows whether they arrived.
const ONCE: [&str; 1] = [api::ANSWER];

/// A client of whichever process owns the data folder.
pub(crate) struct Client {
    http: Http,
    config: Arc<Config>,
    places: Places,
    passed: Passed,
    matters: Matters,
    at: RwLock<Option<Found>>,
}

/// Which settings a command cares about when the owner runs with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matters {
    /// None: it only looks at threads.
    Nothing,
    /// Those that decide how a run goes.
    Runs,
    /// All.
    Everything,
}

impl Matters {
    fn has(self, setting: &str) -> bool {
        let elsewhere = ["server.", "log.", "owner.", "artifacts."];
        match self {
            Self::Nothing => false,
            Self::Runs => !elsewhere.iter().any(|part| setting.starts_with(part)),
            Self::Everything => true,
        }
    }
}

/// An owner and how to get in.
#[derive(Clone)]
struct Found {
    state: State,
    token: String,
}

/// Why a request has no answer.
enum Trouble {
    /// It certainly did not arrive.
    Unsent(String),
    /// It may have arrived.
    Cut(String),
    /// It was answered: with this.
    Fault(Fault),
}

impl Client {
    /// Finds or starts the owner.
    pub(crate) async fn connect(
        config: Arc<Config>,
        passed: Passed,
        matters: Matters,
    ) -> Result<Self, Fault> {
        let client = Self::idle(config, passed, matters)?;
        client.reconnect(true).await?;
        Ok(client)
    }

    fn idle(config: Arc<Config>, passed: Passed, matters: Matters) -> Result<Self, Fault> {
        let http = local()?;
        let places = Places::new(&config.data);
        Ok(Self {
            http,
            config,
            places,
            passed,
            matters,
            at: RwLock::default(),
        })
    }

    fn found(&self) -> Option<Found> {
        self.at
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Looks for the owner again, and starts one where there is none.
    async fn reconnect(&self, first: bool) -> Result<Found, Fault> {
        let mut state = start::ensure(&self.config, &self.places, &self.passed).await?;
        let mut token = self.token()?;
        if first
            && start::replace_if_outdated(&self.config, &self.places, &state, &token, self).await?
        {
            state = start::ensure(&self.config, &self.places, &self.passed).await?;
            token = self.token()?;
        }
        let found = Found {
            state: *state,
            token,
        };
        *self.at.write().unwrap_or_else(PoisonError::into_inner) = Some(found.clone());
        Ok(found)
    }

    fn token(&self) -> Result<String, Fault> {
        let missing = || {
            let path = self.places.token();
            Fault::new(
                Code::OwnerUnreachable,
                format!(
                    "{} is gone, so nobody gets in. Stop the running Threadline and start again.",
                    path.display()
                ),
            )
        };
        token::read(&self.places)?.ok_or_else(missing)
    }

    /// One request and its answer.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Serialize,
    ) -> Result<T, Fault> {
        let strange = |e: serde_json::Error| {
            Fault::new(
                Code::BadBridgeAnswer,
                format!(
                    "The running Threadline answered {method} with something else ({e}). Is it another version? `threadline stop` ends it."
                ),
            )
        };
        let params = serde_json::to_value(params).map_err(strange)?;
        let value = self.call_value(method, &params).await?;
        serde_json::from_value(value).map_err(strange)
    }

    async fn call_value(&self, method: &str, params: &Value) -> Result<Value, Fault> {
        let begun = Instant::now();
        loop {
            let found = match self.found() {
                Some(found) => found,
                None => self.reconnect(false).await?,
            };
            let trouble = match self.send(&found, method, params).await {
                Ok(value) => return Ok(value),
                Err(trouble) => trouble,
            };
            let why = match trouble {
                Trouble::Fault(fault) if fault.code == Code::ShuttingDown => fault.message,
                Trouble::Fault(fault) => return Err(fault),
                Trouble::Cut(why) if ONCE.contains(&method) => return Err(perhaps(&why)),
                Trouble::Unsent(why) | Trouble::Cut(why) => why,
            };
            if begun.elapsed() > PATIENCE {
                return Err(Fault::new(
                    Code::OwnerUnreachable,
                    format!("The background process does not answer ({why})."),
                ));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.reconnect(false).await?;
        }
    }

    /// Sends a request, and looks after a while whether the owner is still there.
    async fn send(&self, found: &Found, method: &str, params: &Value) -> Result<Value, Trouble> {
        tokio::select! {
            answer = self.post(found, method, params) => answer,
            fault = self.stopped(found) => Err(Trouble::Fault(fault)),
        }
    }

    /// Ends when the owner certainly cannot answer. One that is only slow is waited for, and a
    /// person is told.
    async fn stopped(&self, found: &Found) -> Fault {
        let pid = found.state.pid;
        tokio::time::sleep(PATIENT).await;
        if !is_stopped(pid)
            && let Err(fault) = alive(&self.http, &found.state, &self.places).await
            && !is_stopped(pid)
        {
            complain!("note: {} Waiting for it.", fault.message);
        }
        loop {
            if is_stopped(pid) {
                return stopped(pid);
            }
            tokio::time::sleep(PATIENT).await;
        }
    }

    /// Tells once each time when the owner falls silent, until nobody listens.
    pub(crate) fn watch_over(self: &Arc<Self>) -> mpsc::Receiver<Fault> {
        let (sender, receiver) = mpsc::channel(1);
        let client = Arc::clone(self);
        tokio::spawn(async move {
            let mut silent = false;
            while !sender.is_closed() {
                tokio::time::sleep(PATIENT).await;
                let Some(found) = client.found() else {
                    continue;
                };
                let heard = match is_stopped(found.state.pid) {
                    true => Err(stopped(found.state.pid)),
                    false => alive(&client.http, &found.state, &client.places).await,
                };
                let was_silent = std::mem::replace(&mut silent, heard.is_err());
                if let (Err(fault), false) = (heard, was_silent)
                    && sender.send(fault).await.is_err()
                {
                    return;
                }
            }
        });
        receiver
    }

    async fn post(&self, found: &Found, method: &str, params: &Value) -> Result<Value, Trouble> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = self
            .http
            .post(format!("{}/app/rpc", found.state.url))
            .bearer_auth(&found.token)
            .header(header::CONTENT_TYPE, "application/json")
            .timeout(patience(method))
            .body(body.to_string());
        let response = request.send().await.map_err(|e| trouble(&e))?;
        let status = response.status();
        let bytes = response.bytes().await.map_err(|e| Trouble::Cut(said(&e)))?;
        let envelope =
            serde_json::from_slice(&bytes).map_err(|_| Trouble::Fault(not_ours(status)))?;
        rpc::outcome(envelope).map_err(Trouble::Fault)
    }

    /// A one-time link to the pages of the owner that was found.
    pub(crate) async fn entry(&self) -> Result<String, Fault> {
        let Some(found) = self.found() else {
            return Err(Fault::new(
                Code::OwnerUnreachable,
                "No Threadline runs on this data folder.",
            ));
        };
        let url = format!("{}/app/entry", found.state.url);
        let request = self
            .http
            .post(url)
            .bearer_auth(&found.token)
            .timeout(ANSWER);
        let lost = |e: reqwest::Error| {
            Fault::new(
                Code::OwnerUnreachable,
                format!("The running Threadline does not answer ({}).", said(&e)),
            )
        };
        let answer: Value = request
            .send()
            .await
            .map_err(lost)?
            .json()
            .await
            .map_err(lost)?;
        match answer.get("path").and_then(Value::as_str) {
            Some(path) => Ok(format!("{}{path}", found.state.url)),
            None => Err(rpc::outcome(answer)
                .err()
                .unwrap_or_else(|| not_ours(StatusCode::OK))),
        }
    }
}

/// How long a request may take.
fn patience(method: &str) -> Duration {
    match method {
        api::ARTIFACTS_GC => LONG_ANSWER,
        _ => ANSWER,
    }
}

/// Whether an owner answers within a moment.
pub(crate) async fn answers(state: &State, places: &Places) -> Result<(), Fault> {
    alive(&local()?, state, places).await
}

async fn alive(http: &Http, state: &State, places: &Places) -> Result<(), Fault> {
    let asked = http
        .get(format!("{}/health", state.url))
        .timeout(SIGN_OF_LIFE)
        .send();
    match asked.await {
        Err(e) if e.is_timeout() => Err(silent(state.pid, &places.log())),
        // One that is gone is found out, and replaced, by whoever needs it.
        _ => Ok(()),
    }
}

/// An HTTP client for the owner. It is on this machine: no proxy comes between, and a redirect is
/// not ours.
fn local() -> Result<Http, Fault> {
    let made = Http::builder()
        .no_proxy()
        .redirect(Policy::none())
        .connect_timeout(Duration::from_secs(5))
        .build();
    made.map_err(|e| {
        Fault::new(
            Code::Internal,
            format!("The HTTP client could not be made: {e}."),
        )
    })
}

fn perhaps(why: &str) -> Fault {
    Fault::new(
        Code::ConnectionClosed,
        format!(
            "The connection broke ({why}) while the answer was handed over. `threadline answer` shows whether the question still waits."
        ),
    )
}

fn not_ours(status: StatusCode) -> Fault {
    Fault::new(
        Code::BadBridgeAnswer,
        format!(
            "The running Threadline answered HTTP {} with something that is not the protocol.",
            status.as_u16()
        ),
    )
}

fn trouble(e: &reqwest::Error) -> Trouble {
    match e.is_connect() {
        true => Trouble::Unsent(said(e)),
        false => Trouble::Cut(said(e)),
    }
}

/// What an HTTP error says at its root: the layers above it only repeat the address.
pub(crate) fn said(e: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = e;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    match e.is_timeout() {
        true => "no answer in time".into(),
        false => cause.to_string(),
    }
}
