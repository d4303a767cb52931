//! A bridge in this process.

use std::{path::Path, sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt as _, stream};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use threadline_contract::{
    AccountId, Actor, Fault, Millis, RuntimeId, Scopes, TokenId,
    sse::{Events, Frame},
};
use threadline_e2e::scripted_model;
use threadline_engine::{Engine, EngineConfig, Keep, Rules, ToolExecutors};
use threadline_runtimes::{
    LaneSize, LocalWorkspace, Runtime, Turns as _,
    builtin::{Builtin, BuiltinConfig, ModelConfig},
};
use threadline_server::{Activity, Bridge, Door, Gate, GateConfig, Limits, Metrics};
use threadline_store::{NewToken, Store, StoreConfig};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

pub(crate) const TOKEN: &str = "token-of-local";
pub(crate) const MODEL_KEY: &str = "sk-key-of-the-model";
pub(crate) const OTHER: &str = "token-of-another-account";

/// The events of an answer.
pub(crate) fn frames(answer: reqwest::Response) -> impl Stream<Item = Frame> + Unpin + use<> {
    let events = Events::new(answer.bytes_stream(), 1 << 20);
    Box::pin(stream::unfold(events, async |mut events| {
        let frame = events.next().await.ok().flatten()?;
        Some((frame, events))
    }))
}

/// A bridge and a client for it. The folder outlives it, so that another can take over.
pub(crate) struct World {
    pub(crate) url: String,
    pub(crate) http: reqwest::Client,
    pub(crate) engine: Engine,
    /// The folder that the runs' files lie in.
    pub(crate) workspace: LocalWorkspace,
    runtime: Arc<Builtin>,
    gate: Gate,
    metrics: Metrics,
    activity: Activity,
    stop: CancellationToken,
    served: JoinHandle<()>,
}

pub(crate) struct Options {
    pub(crate) lane: LaneSize,
    pub(crate) model: bool,
    pub(crate) pause: Duration,
    pub(crate) keep: Keep,
    pub(crate) limits: Limits,
    pub(crate) cache_bytes: u64,
    pub(crate) rate_per_second: u32,
    pub(crate) rules: Rules,
    /// Where `auto` goes.
    pub(crate) auto: RuntimeId,
    /// A runtime beside the builtin one.
    pub(crate) also: Option<Arc<dyn Runtime>>,
    /// What this server is called.
    pub(crate) node: String,
    /// A database that it shares with others, instead of its own.
    pub(crate) database: Option<String>,
    /// It tells the others where it can be reached.
    pub(crate) advertises: bool,
    /// It lost its name.
    pub(crate) renamed: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lane: LaneSize {
                max_active: 5,
                max_queued: 20,
            },
            model: true,
            pause: Duration::ZERO,
            keep: Keep::FOR_EVER,
            limits: Limits::default(),
            cache_bytes: 1 << 20,
            rate_per_second: 0,
            rules: Rules::default(),
            auto: RuntimeId::Builtin,
            also: None,
            node: "test".into(),
            database: None,
            advertises: false,
            renamed: false,
        }
    }
}

impl World {
    pub(crate) async fn open(folder: &Path) -> Self {
        Self::with(folder, Options::default()).await
    }

    pub(crate) async fn with(folder: &Path, options: Options) -> Self {
        Self::try_with(folder, options).await.unwrap()
    }

    /// The same, where the server may refuse to start.
    pub(crate) async fn try_with(folder: &Path, options: Options) -> Result<Self, Fault> {
        drop(rustls::crypto::ring::default_provider().install_default());
        let database = match &options.database {
            Some(shared) => shared.clone(),
            None => format!("sqlite:{}", folder.join("t.db").display()),
        };
        let store = Store::open(StoreConfig::new(database)).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        for (account, token) in [("local", TOKEN), ("other", OTHER)] {
            let account = AccountId::new(account).unwrap();
            store.ensure_account(&account, Millis::now()).await.unwrap();
            let hash = Sha256::digest(token.as_bytes()).into();
            store
                .admit_token(NewToken {
                    id: TokenId::fresh(),
                    account,
                    hash,
                    label: "test".into(),
                    scopes: Scopes::FULL,
                    made_by: Actor::server(),
                    parent: None,
                    at: Millis::now(),
                })
                .await
                .unwrap();
        }
        let workspace = LocalWorkspace::at(folder).unwrap();
        let mut config = BuiltinConfig::new(folder.join("builtin"), workspace.clone());
        config.lane = options.lane;
        config.pause = options.pause;
        if options.model {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/v1", listener.local_addr().unwrap());
            tokio::spawn(scripted_model::serve(listener));
            config.model = Some(ModelConfig {
                url,
                key: Some(MODEL_KEY.into()),
                model: "scripted".into(),
            });
        }
        let runtime = Arc::new(Builtin::new(config).unwrap());
        let engine = Engine::open(
            EngineConfig {
                node: options.node,
                renamed: options.renamed,
                advertise: options.advertises.then(|| format!("http://{address}")),
                data: folder.join("data"),
                protected: vec![],
                attachments: folder.join("attachments"),
                // Beside the data folder: nothing may work inside it.
                work_roots: vec![folder.to_owned(), folder.with_extension("own")],
                thread_folders: folder.join("threads"),
                auto_runtime: options.auto,
                agent_runtime: RuntimeId::Builtin,
                link_ttl: Duration::from_secs(3600),
                lease_ttl: Duration::from_secs(30),
                result_wait: Duration::from_secs(10),
                verify_wait: Duration::from_secs(60),
                keep: options.keep,
                cache_bytes: options.cache_bytes,
                rules: options.rules,
            },
            store,
            std::iter::once(runtime.clone() as Arc<dyn Runtime>)
                .chain(options.also)
                .collect(),
            ToolExecutors::default(),
        )
        .await?;
        let stop = CancellationToken::new();
        let gate = Gate::new(
            GateConfig {
                listen: address.to_string(),
                port: address.port(),
                public_url: None,
                advertise: None,
                allowed_origins: vec!["http://localhost:*".into()],
                open_paths: vec!["/health".into()],
                rate_per_second: options.rate_per_second,
            },
            engine.clone(),
        );
        let bridge = Bridge {
            engine: engine.clone(),
            stop: stop.clone(),
        };
        let routes =
            threadline_server::gated(threadline_server::router(bridge.clone()), gate.clone());
        let activity = Activity::new();
        let door = Door::with(
            gate.clone(),
            bridge,
            routes,
            activity.clone(),
            options.limits,
        );
        let metrics = door.metrics().clone();
        let served = tokio::spawn(threadline_server::serve(listener, door, stop.clone()));
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Ok(Self {
            url: format!("http://{address}"),
            http,
            engine,
            workspace,
            runtime,
            gate,
            metrics,
            activity,
            stop,
            served,
        })
    }

    /// Serves metrics, and says where.
    pub(crate) async fn serve_metrics(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(threadline_server::serve_metrics(
            listener,
            self.metrics.clone(),
            self.activity.clone(),
            self.engine.clone(),
            self.stop.clone(),
        ));
        url
    }

    /// What another way in is made of.
    pub(crate) fn doors(&self) -> (Bridge, Gate) {
        let bridge = Bridge {
            engine: self.engine.clone(),
            stop: self.stop.clone(),
        };
        (bridge, self.gate.clone())
    }

    /// Stops everything, as a stopped server would.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.served.await.unwrap();
        self.engine.stop().await;
        self.runtime.stop().await;
        self.engine.store().close().await.unwrap();
    }

    pub(crate) async fn rpc(&self, method: &str, params: Value) -> Value {
        self.rpc_as(TOKEN, method, params).await
    }

    pub(crate) async fn rpc_as(&self, token: &str, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let answer = self
            .http
            .post(format!("{}/acp/rpc", self.url))
            .bearer_auth(token)
            .json(&body)
            .send()
            .await
            .unwrap();
        answer.json().await.unwrap()
    }

    /// The code of the error that an answer carries.
    pub(crate) async fn code(&self, method: &str, params: Value) -> Value {
        self.rpc(method, params).await["error"]["data"]["code"].clone()
    }

    /// A turn as an event stream.
    pub(crate) async fn stream(
        &self,
        params: &Value,
        after: Option<i64>,
    ) -> impl Stream<Item = Frame> + Unpin + use<> {
        self.stream_of("session.start", params, after).await
    }

    async fn stream_of(
        &self,
        method: &str,
        params: &Value,
        after: Option<i64>,
    ) -> impl Stream<Item = Frame> + Unpin + use<> {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let mut request = self
            .http
            .post(format!("{}/acp/rpc", self.url))
            .bearer_auth(TOKEN)
            .header("accept", "text/event-stream, application/json")
            .json(&body);
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        let answer = request.send().await.unwrap();
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        frames(answer)
    }

    /// A turn to its result: every event, then the result.
    pub(crate) async fn run(&self, params: &Value) -> (Vec<Value>, Value) {
        self.run_method("session.start", params).await
    }

    /// The same for a follow-up.
    pub(crate) async fn run_method(&self, method: &str, params: &Value) -> (Vec<Value>, Value) {
        let events: Vec<Frame> = self.stream_of(method, params, None).await.collect().await;
        let mut frames: Vec<Value> = events
            .iter()
            .filter(|e| e.data != "[DONE]")
            .map(|e| serde_json::from_str(&e.data).unwrap())
            .collect();
        let last = frames.pop().unwrap();
        (frames, last["result"].clone())
    }

    /// Asks the run of a thread to stop.
    pub(crate) async fn cancel(&self, thread: &str) -> Value {
        let thread = json!({"sessionId": thread});
        self.rpc("session.cancel", thread).await
    }

    pub(crate) async fn ended(&self, thread: &str) -> Value {
        let mut told = Value::Null;
        for _ in 0..1500 {
            told = self
                .rpc("xworkmate.tasks.get", json!({"appThreadKey": thread}))
                .await;
            let snapshot = told["result"].clone();
            if snapshot["status"].as_str().is_some_and(|s| s != "running")
                && snapshot["artifactsPending"] != json!(true)
            {
                return snapshot;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the run of {thread} did not end: {told:#}");
    }

    /// Waits until a thread's run is at this stage.
    pub(crate) async fn at_stage(&self, thread: &str, stage: &str) {
        for _ in 0..1500 {
            let snapshot = self
                .rpc("xworkmate.tasks.get", json!({"appThreadKey": thread}))
                .await;
            if snapshot["result"]["progress"]["stage"] == json!(stage) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the run of {thread} never was {stage}");
    }
}

/// The parameters of a turn on the builtin runtime.
pub(crate) fn turn(thread: &str, prompt: &str) -> Value {
    json!({
        "sessionId": thread, "threadId": thread, "prompt": prompt,
        "routing": {"explicitExecutionTarget": "agent", "explicitProviderId": "builtin"},
        "metadata": {"xworkmateTaskArtifactContract": {"schemaVersion": 1, "appThreadKey": thread, "expectedArtifactDirs": ["reports/"]}},
    })
}

/// The same with something more in it.
pub(crate) fn with(mut params: Value, more: Value) -> Value {
    fn merge(into: &mut Value, more: Value) {
        match more {
            Value::Object(map) if into.is_object() => {
                for (key, value) in map {
                    merge(&mut into[key], value);
                }
            }
            other => *into = other,
        }
    }
    merge(&mut params, more);
    params
}

pub(crate) fn declares(params: Value, glob: &str) -> Value {
    with(
        params,
        json!({"metadata": {"xworkmateTaskArtifactContract": {"deliverables": [{"glob": glob}]}}}),
    )
}
