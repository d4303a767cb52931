//! What an operator watches, in the text form of Prometheus, on a socket of its own: who may reach
//! that socket may read it, so it says nothing about anybody's work.
//!
//! Nine families in a fixed order need no crate: `metrics` with its Prometheus exporter would bring 14 more,
//! print them in another order at each look, and count for the process where each door counts for itself.

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use threadline_engine::Engine;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::Activity;

/// Counters of a door. Cheap to clone.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Counters>);

#[derive(Default)]
struct Counters {
    /// Answers by the first digit of their status: 1xx to 5xx.
    answers: [AtomicU64; 5],
    limited: AtomicU64,
    sockets: AtomicU64,
    sockets_open: AtomicU64,
    messages: AtomicU64,
}

/// A WebSocket that is open.
pub(crate) struct OpenSocket(Metrics);

impl Drop for OpenSocket {
    fn drop(&mut self) {
        self.0.0.sockets_open.fetch_sub(1, Relaxed);
    }
}

impl Metrics {
    pub(crate) fn answered(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        if let Some(counter) = self.0.answers.get(class) {
            counter.fetch_add(1, Relaxed);
        }
        if status == StatusCode::TOO_MANY_REQUESTS {
            self.0.limited.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn socket(&self) -> OpenSocket {
        self.0.sockets.fetch_add(1, Relaxed);
        self.0.sockets_open.fetch_add(1, Relaxed);
        OpenSocket(self.clone())
    }

    pub(crate) fn message(&self) {
        self.0.messages.fetch_add(1, Relaxed);
    }

    fn text(&self, open: usize, loads: &[(String, u32, u32)]) -> String {
        let Counters {
            answers,
            limited,
            sockets,
            sockets_open,
            messages,
        } = &*self.0;
        let mut out = String::new();
        let mut family = |name: &str, kind: &str, help: &str, samples: &[(String, u64)]| {
            let _ = writeln!(
                out,
                "# HELP threadline_{name} {help}\n# TYPE threadline_{name} {kind}"
            );
            for (labels, value) in samples {
                let _ = writeln!(out, "threadline_{name}{labels} {value}");
            }
        };
        let one = |value: u64| [(String::new(), value)];
        let version = format!("{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
        family("build_info", "gauge", "The version.", &[(version, 1)]);
        let classes: Vec<(String, u64)> = (1..)
            .zip(answers)
            .map(|(n, count)| (format!("{{status=\"{n}xx\"}}"), count.load(Relaxed)))
            .collect();
        family(
            "http_answers_total",
            "counter",
            "HTTP answers by status.",
            &classes,
        );
        family(
            "rate_limited_total",
            "counter",
            "HTTP requests refused because their token asked too often.",
            &one(limited.load(Relaxed)),
        );
        family(
            "open_requests",
            "gauge",
            "Requests, streams and WebSockets that are open.",
            &one(open as u64),
        );
        family(
            "websockets_total",
            "counter",
            "WebSockets that were opened.",
            &one(sockets.load(Relaxed)),
        );
        family(
            "websockets_open",
            "gauge",
            "WebSockets that are open.",
            &one(sockets_open.load(Relaxed)),
        );
        family(
            "websocket_messages_total",
            "counter",
            "Messages that came over WebSockets.",
            &one(messages.load(Relaxed)),
        );
        let by = |pick: fn(&(String, u32, u32)) -> u32| -> Vec<(String, u64)> {
            let label = |name: &str| name.replace('\\', "\\\\").replace('"', "\\\"");
            loads
                .iter()
                .map(|load| {
                    (
                        format!("{{runtime=\"{}\"}}", label(&load.0)),
                        pick(load).into(),
                    )
                })
                .collect()
        };
        family(
            "runs_active",
            "gauge",
            "Runs that go on.",
            &by(|load| load.1),
        );
        family(
            "runs_queued",
            "gauge",
            "Runs that wait for a place.",
            &by(|load| load.2),
        );
        out
    }
}

#[derive(Clone)]
struct Watched {
    metrics: Metrics,
    activity: Activity,
    engine: Engine,
}

/// Serves `GET /metrics` until `stop`, and nothing else.
pub async fn serve_metrics(
    listener: TcpListener,
    metrics: Metrics,
    activity: Activity,
    engine: Engine,
    stop: CancellationToken,
) {
    let watched = Watched {
        metrics,
        activity,
        engine,
    };
    let routes = Router::new()
        .route("/metrics", get(scrape))
        .with_state(watched);
    let served = axum::serve(listener, routes).with_graceful_shutdown(stop.cancelled_owned());
    if let Err(e) = served.await {
        error!(error = %e, "Metrics are served no more: {e}");
    }
}

async fn scrape(State(watched): State<Watched>) -> Response {
    match watched.engine.loads().await {
        Ok(loads) => {
            let text = watched.metrics.text(watched.activity.now(), &loads);
            let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
            (kind, text).into_response()
        }
        Err(fault) => {
            error!(code = %fault.code, "The lanes cannot be counted: {}", fault.message);
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
    }
}
