//! What a connection meets: a count of who is there, then the gate, then the one public entry or
//! the other routes.
//!
//! `/acp/rpc` and `/acp` do not go through the router. Every app calls it at every turn, and the router's
//! layers would cost more than the rest of a small request.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{Router, body::Body, response::IntoResponse as _};
use bytes::Bytes;
use hyper::{
    Request, Response,
    body::{Frame, Incoming, SizeHint},
    service::Service,
};
use hyper_util::service::TowerToHyperService;
use threadline_contract::{Code, Fault};
use tokio_util::task::TaskTracker;
use tracing::debug;

use crate::{
    Bridge, Gate, Limits, Metrics, Refusal,
    activity::{Activity, Open},
    gate::TokenHash,
    peer::Peer,
    rpc, ws,
};

/// The one public entry.
const ENTRY: &str = "/acp/rpc";

/// Everything behind the socket. Cheap to clone.
#[derive(Clone)]
pub struct Door(Arc<Inner>);

struct Inner {
    gate: Gate,
    bridge: Bridge,
    routes: TowerToHyperService<Router>,
    activity: Activity,
    limits: Limits,
    metrics: Metrics,
    connections: TaskTracker,
}

impl Door {
    /// `routes` answers every path but `/acp/rpc` and `/acp`, and has its own gate laid over it.
    pub fn new(gate: Gate, bridge: Bridge, routes: Router, activity: Activity) -> Self {
        Self::with(gate, bridge, routes, activity, Limits::default())
    }

    /// The same, with limits of its own.
    pub fn with(
        gate: Gate,
        bridge: Bridge,
        routes: Router,
        activity: Activity,
        limits: Limits,
    ) -> Self {
        Self(Arc::new(Inner {
            gate,
            bridge,
            routes: TowerToHyperService::new(routes),
            activity,
            limits,
            metrics: Metrics::default(),
            connections: TaskTracker::new(),
        }))
    }

    /// What is counted here.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Everything that is connected.
    pub(crate) fn connections(&self) -> &TaskTracker {
        &self.0.connections
    }

    /// What connections are held to.
    pub(crate) fn limits(&self) -> Limits {
        self.0.limits
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let Inner {
            gate,
            bridge,
            routes,
            ..
        } = &*self.0;
        let path = request.uri().path();
        let socket = path == ws::PATH;
        if path != ENTRY && !socket {
            let Ok(response) = routes.call(request.map(Body::new)).await;
            return response;
        }
        let pass = match gate
            .pass(request.method(), request.uri(), request.headers())
            .await
        {
            Ok(pass) => pass,
            Err(answer) => return answer,
        };
        let response = match (&pass.caller, pass.token) {
            (Some(_), Some(token)) if socket => self.open_socket(token, request),
            (Some(caller), _) => rpc::handle(bridge, caller, pass.way, request).await,
            (None, _) => {
                Refusal(Fault::new(Code::Unauthorized, Code::Unauthorized.advice())).into_response()
            }
        };
        pass.marked(response)
    }

    /// Makes a WebSocket of a connection. It counts as an open request for as long as it lives.
    fn open_socket(&self, token: TokenHash, request: Request<Incoming>) -> Response<Body> {
        let answer = match ws::handshake(&request) {
            Ok(answer) => answer,
            Err(refusal) => return *refusal,
        };
        let Inner {
            gate,
            bridge,
            activity,
            limits,
            metrics,
            connections,
            ..
        } = &*self.0;
        let (open, limits, stop) = (activity.open(), *limits, bridge.stop.clone());
        let (counted, metrics) = (metrics.socket(), metrics.clone());
        let (peer, queue) = Peer::new(bridge.clone(), gate.clone(), token, ws::PATH);
        connections.spawn(async move {
            match hyper::upgrade::on(request).await {
                Ok(upgraded) => {
                    ws::speak(upgraded, peer, queue, limits, metrics, stop).await;
                }
                Err(e) => debug!(error = %e, "A connection did not become a WebSocket"),
            }
            drop((open, counted));
        });
        answer
    }
}

impl Service<Request<Incoming>> for Door {
    type Response = Response<Counted>;
    type Error = Infallible;
    /// Boxed, because hyper keeps room for it as long as the connection lives.
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let door = self.clone();
        Box::pin(async move {
            let open = door.0.activity.open();
            let response = door.answer(request).await;
            door.0.metrics.answered(response.status());
            Ok(response.map(|body| Counted { body, _open: open }))
        })
    }
}

/// A body that holds the count up until it is gone.
pub struct Counted {
    body: Body,
    _open: Open,
}

impl hyper::body::Body for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
