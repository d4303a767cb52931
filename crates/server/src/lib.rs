//! HTTP, SSE and WebSocket in front of the engine: one public entry, `/acp/rpc`, and what belongs to
//! it. A parent process reaches the same methods over standard input and output.
//!
//! A handler parses, calls one engine function and renders. Who may call is decided before any of
//! them, in [`gate`].

mod accept;
mod access;
mod activity;
mod answer;
pub mod body;
mod dispatch;
mod door;
mod download;
mod events;
mod forward;
pub mod gate;
mod limits;
mod meter;
mod metrics;
mod notice;
mod peer;
pub mod range;
mod rate;
mod rpc;
mod sse;
mod stdio;
mod turn;
mod ws;

use axum::{
    Router,
    extract::State,
    routing::{any, get},
};
use serde_json::json;
use threadline_engine::Engine;
use tokio_util::sync::CancellationToken;

pub use accept::serve;
pub use activity::Activity;
pub use answer::Refusal;
pub use body::BODY_BYTES;
pub use dispatch::call;
pub use door::Door;
pub use events::last_event_id;
pub use gate::{Gate, GateConfig};
pub use limits::Limits;
pub use metrics::{Metrics, serve_metrics};
pub use sse::stream_of;
pub use stdio::stdio;

/// What the handlers share.
#[derive(Clone)]
pub struct Bridge {
    /// The engine.
    pub engine: Engine,
    /// Ends streams when the server stops.
    pub stop: CancellationToken,
}

/// The bridge's routes beside its entry, which the [`Door`] holds. The gate must be laid over them.
pub fn router(bridge: Bridge) -> Router {
    Router::new()
        .route("/acp/events", get(events::handle))
        .route("/acp/events/whole", get(events::whole))
        .route(
            "/artifacts/openclaw/download",
            get(download::handle).fallback(download::other_method),
        )
        .route(threadline_engine::HELLO_PATH, get(forward::here))
        .route("/health", get(health))
        .route("/api/ping", get(ping))
        .route("/gateway/openclaw", any(answer::disabled))
        .route("/acp-server/{*rest}", any(answer::disabled))
        .with_state(bridge)
}

/// Lays the gate over routes: nothing behind it is reached without passing.
pub fn gated(router: Router, gate: Gate) -> Router {
    router.layer(axum::middleware::from_fn_with_state(gate, Gate::check))
}

/// Whether it is there, for whoever may come in, and what went wrong with runs since it started.
async fn ping(State(bridge): State<Bridge>) -> axum::Json<serde_json::Value> {
    let counted = bridge.engine.counted();
    axum::Json(json!({
        "status": "ok",
        "version": env!("CARGO_PKG_VERSION"),
        "metrics": {
            "gatewaySocketClosed": counted.connections_lost,
            "taskGetUnconfirmedFallback": counted.unconfirmed,
            "runDeadlineInterrupt": counted.overdue,
        },
    }))
}

async fn health() -> axum::Json<serde_json::Value> {
    axum::Json(json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")}))
}
