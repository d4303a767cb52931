//! The routes with an app behind them, the gate left out, and a browser in front of them.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use axum::{
    Extension, Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Request, StatusCode},
    middleware::from_fn_with_state,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use threadline_app::{App, Config, Endpoint};
use threadline_contract::{AccountId, Principal, Scopes, TokenId, Who};
use threadline_web::{EngineDoor, Local, Mint, Serving, Web, friendly, router};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::scripted::Scripted;

/// Routes, and what ends their streams.
pub(crate) struct World {
    pub(crate) web: Web,
    pub(crate) stop: CancellationToken,
}

impl World {
    /// On any app, beside an engine that has nothing.
    pub(crate) fn on(app: Arc<dyn Local>) -> Self {
        let engine = Scripted::default();
        engine.says("xworkmate.questions.list", json!({"questions": []}));
        Self::on_both(app, Arc::new(engine))
    }

    fn on_both(app: Arc<dyn Local>, engine: Arc<dyn EngineDoor>) -> Self {
        let stop = CancellationToken::new();
        let web = Web::new(app, engine, 8787, mint(), stop.clone());
        Self { web, stop }
    }

    /// On an app that says what it is told; nothing, to begin with.
    pub(crate) fn scripted() -> (Self, Scripted) {
        let app = Scripted::default();
        let home =
            json!({"questions": [], "failed": [], "working": [], "doneToday": [], "filesToday": 0});
        app.says("app.home", home);
        app.says("app.list", json!({"threads": []}));
        app.says("app.runtimes", json!({"version": "0", "runtimes": []}));
        app.says("xworkmate.questions.list", json!({"questions": []}));
        let both = Arc::new(app.clone());
        (Self::on_both(both.clone(), both), app)
    }

    /// The routes as a caller of this account sees them.
    pub(crate) fn routes(&self, account: Option<&str>) -> Router {
        self.routes_of(Serving::Pages, account)
    }

    /// The same, of what is served so.
    pub(crate) fn routes_of(&self, serving: Serving, account: Option<&str>) -> Router {
        let routes = router(self.web.clone(), serving);
        let routes = match account {
            Some(account) => routes.layer(Extension(caller(account))),
            None => routes,
        };
        routes.layer(from_fn_with_state(serving, friendly))
    }

    pub(crate) async fn ask(&self, request: Request<Body>) -> Answer {
        Answer::of(self.routes(Some("local")), request).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(browsing(path)).await
    }

    pub(crate) async fn form(&self, body: &'static str) -> Answer {
        let form = Request::post("/do").header("content-type", "application/x-www-form-urlencoded");
        self.ask(form.body(body.into()).unwrap()).await
    }
}

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) async fn of(routes: Router, request: Request<Body>) -> Self {
        let (parts, body) = routes.oneshot(request).await.unwrap().into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        Self {
            status: parts.status,
            headers: parts.headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map(|v| v.to_str().unwrap()).unwrap_or_default()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Somebody of this account.
pub(crate) fn caller(account: &str) -> Principal {
    Principal {
        account: AccountId::new(account).unwrap(),
        who: Who::Token(TokenId::fresh()),
        label: "test".into(),
        scopes: Scopes::FULL,
    }
}

/// A request as a browser makes it when a person goes somewhere.
pub(crate) fn browsing(path: &str) -> Request<Body> {
    let request = Request::get(path).header("accept", "text/html,*/*");
    request.body(Body::empty()).unwrap()
}

/// A mint whose tokens are numbered.
pub(crate) fn mint() -> Mint {
    let made = Arc::new(Mutex::new(0));
    Arc::new(move || {
        let made = made.clone();
        Box::pin(async move {
            let mut made = made.lock().unwrap();
            *made += 1;
            Ok(format!("token-{made}"))
        })
    })
}

/// A thread's record with nothing in it but what is given.
pub(crate) fn thread(name: &str, workspace: &Path, context: Value, lifecycle: Value) -> Value {
    json!({"thread": {
        "schemaVersion": 20_260_411, "threadId": format!("draft:{name}"), "name": name, "title": title(name),
        "workspaceBinding": {"workspaceKind": "localFs", "workspacePath": workspace},
        "executionBinding": {"executionMode": "agent", "runtime": "builtin", "endpointId": "local"},
        "contextState": context, "lifecycleState": lifecycle, "createdAtMs": 1_780_000_000_000_i64, "updatedAtMs": 1_780_000_000_000_i64,
    }})
}

/// `river-report` → `River report`.
pub(crate) fn title(name: &str) -> String {
    let text = name.replace('-', " ");
    let mut chars = text.chars();
    chars
        .next()
        .map(|c| c.to_uppercase().to_string() + chars.as_str())
        .unwrap_or_default()
}

/// A real app in this folder, whose bridge does not answer.
pub(crate) async fn app(folder: &Path) -> App {
    // Only the first test of a process installs it.
    drop(rustls::crypto::ring::default_provider().install_default());
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let bridge = Endpoint {
        url: format!("http://{free}"),
        token: Some("t".into()),
    };
    let workspaces = folder.join(".xworkmate/threads");
    App::open(Config::new(folder.join("data"), workspaces, bridge))
        .await
        .unwrap()
}

/// A real app with a thread `rivers` that brought these files home: path, content type, content.
pub(crate) async fn shelf(folder: &Path, files: &[(&str, &str, &str)]) -> App {
    let workspace = folder.join(".xworkmate/threads/rivers");
    for (path, _, content) in files {
        let place = workspace.join(path);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, content).unwrap();
    }
    let synced = files.iter().map(|(path, kind, content)| {
        json!({"path": path, "size": content.len(), "sha256": hex::encode(Sha256::digest(content)), "contentType": kind})
    });
    let context = json!({
        "messages": [], "lastArtifactSyncStatus": "synced",
        "lastTaskArtifactRelativePaths": files.iter().map(|f| f.0).collect::<Vec<_>>(),
        "lastArtifacts": synced.collect::<Vec<_>>(),
    });
    let record = thread(
        "rivers",
        &workspace,
        context,
        json!({"status": "ready", "lastResultCode": "success"}),
    );
    let record = record["thread"].to_string();
    let threads = folder.join("data/threads");
    std::fs::create_dir_all(&threads).unwrap();
    let name = URL_SAFE_NO_PAD.encode("draft:rivers");
    std::fs::write(threads.join(format!("{name}.json")), record).unwrap();
    app(folder).await
}
