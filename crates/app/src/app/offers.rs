//! What a bridge offers: where turns can run, and how many at once.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use threadline_contract::{Fault, Routing, RuntimeId, method};

use super::Core;
use crate::{config::LaneSize, records::lock};

/// How long the bridge may take to say where an undecided turn would run.
const RESOLVE: Duration = Duration::from_secs(3);
/// How long a bridge's word about its lane holds.
const SIZE_HOLDS: Duration = Duration::from_secs(60);

impl Core {
    /// Where an undecided turn would run, as far as the bridge says so in time.
    pub(super) async fn would_run_on(&self, endpoint: &str) -> Option<RuntimeId> {
        let bridge = self.endpoints.bridge(endpoint).ok()?;
        let params = method::ResolveParams {
            routing: Routing {
                routing_mode: Some("auto".into()),
                ..Routing::default()
            },
        };
        let asked = bridge.call::<method::Resolved>(method::ROUTING_RESOLVE, &params);
        // Not knowing is fine: such a turn is not held back here, and the bridge's queue holds it.
        tokio::time::timeout(RESOLVE, asked)
            .await
            .ok()?
            .ok()?
            .runtime
    }

    /// Asks the bridge, now and then, how large its lane is.
    pub(crate) fn ask_lane_size(self: &Arc<Self>, endpoint: &str) {
        {
            let mut sized = lock(&self.sized);
            let known = sized
                .get(endpoint)
                .is_some_and(|at| at.elapsed() < SIZE_HOLDS);
            if known {
                return;
            }
            sized.insert(endpoint.to_owned(), Instant::now());
        }
        let (core, endpoint) = (self.clone(), endpoint.to_owned());
        self.spawn(async move {
            if let Err(fault) = core.capabilities(&endpoint).await {
                lock(&core.sized).remove(&endpoint);
                tracing::debug!("The bridge did not say how large its lane is: {fault}");
            }
        });
    }

    /// What the bridge offers; its lane is sized by it.
    pub(crate) async fn capabilities(
        self: &Arc<Self>,
        endpoint: &str,
    ) -> Result<method::Capabilities, Fault> {
        let bridge = self.endpoints.bridge(endpoint)?;
        let found: method::Capabilities = bridge
            .call(method::CAPABILITIES, &serde_json::json!({}))
            .await?;
        let gateway = found
            .gateway_providers
            .iter()
            .find(|p| p.provider_id == "openclaw");
        if let Some(gateway) = gateway {
            let size = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
            let reported = LaneSize {
                active: size(gateway.max_active),
                queued: size(gateway.max_queued),
            };
            lock(&self.lanes).resize(endpoint, reported);
            self.pump();
        }
        Ok(found)
    }
}
