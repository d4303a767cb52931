//! What a bridge offers: where turns can run, and how many at once.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use threadline_contract::{Code, Fault, Routing, RuntimeId, method, turn::AttachmentOutline};

use super::Core;
use crate::{api::SendParams, bridge::lenient, config::LaneSize, records::lock};

/// How long the bridge may take to say where an undecided turn would run.
const RESOLVE: Duration = Duration::from_secs(3);
/// How long a bridge's word about its lane holds.
const SIZE_HOLDS: Duration = Duration::from_secs(60);

/// The user's own folder, where one is named.
pub(super) fn folder(params: &SendParams) -> Option<String> {
    let named = params.working_directory.as_deref().map(str::trim);
    named.filter(|w| !w.is_empty()).map(str::to_owned)
}

impl Core {
    /// What the bridge says of a turn before it is made: where it would run, or why it never could.
    /// A bridge that does not answer in time says nothing: such a turn is not held back here, and
    /// what is wrong with it shows when it is sent.
    pub(super) async fn would_take(
        self: &Arc<Self>,
        endpoint: &str,
        runtime: Option<&RuntimeId>,
        params: &SendParams,
        files: &[AttachmentOutline],
    ) -> Result<Option<RuntimeId>, Fault> {
        let bridge = self.endpoints.bridge(endpoint)?;
        let asked = method::ResolveParams {
            routing: match runtime {
                Some(runtime) => Routing::to(runtime),
                None => Routing {
                    routing_mode: Some("auto".into()),
                    ..Routing::default()
                },
            },
            working_directory: folder(params),
            deliverables: params.expect.clone(),
            attachments: files.to_vec(),
        };
        let asked = bridge.call::<method::Resolved>(method::ROUTING_RESOLVE, &asked);
        match tokio::time::timeout(RESOLVE, asked).await {
            Err(_) => Ok(None),
            Ok(Ok(found)) if found.unavailable_code == Some(Code::ProviderNotFound) => {
                Err(self.no_such_runtime(endpoint, found.runtime.as_ref()).await)
            }
            Ok(Ok(found)) => Ok(found.runtime),
            Ok(Err(trouble)) if trouble.again => Ok(None),
            Ok(Err(trouble)) => {
                let fault = Fault::from(trouble);
                match fault.code {
                    Code::InvalidRequest
                    | Code::WorkdirNotAllowed
                    | Code::AttachmentInvalid
                    | Code::AttachmentTooLarge
                    | Code::RoutingFailed
                    | Code::RoutingRequired
                    | Code::ProviderNotFound => Err(fault),
                    Code::Unauthorized => Err(Fault::new(
                        Code::Unauthorized,
                        "The bridge does not take the token. It wants that of its own machine, which `threadline token show` prints there: give it in THREADLINE_BRIDGE_TOKEN (`bridge.token`).",
                    )),
                    // Not about this turn; the turn itself will tell more.
                    _ => Ok(None),
                }
            }
        }
    }

    async fn no_such_runtime(
        self: &Arc<Self>,
        endpoint: &str,
        wanted: Option<&RuntimeId>,
    ) -> Fault {
        let wanted = wanted.map(|r| format!(" `{r}`")).unwrap_or_default();
        let known = tokio::time::timeout(RESOLVE, self.capabilities(endpoint)).await;
        let known = match known {
            Ok(Ok(found)) => found,
            _ => {
                return Fault::new(
                    Code::ProviderNotFound,
                    format!("There is no runtime{wanted} at this bridge."),
                );
            }
        };
        let all = known
            .provider_catalog
            .iter()
            .chain(&known.gateway_providers);
        let names: Vec<String> = all
            .map(|p| RuntimeId::of_provider(&p.provider_id).to_string())
            .collect();
        Fault::new(
            Code::ProviderNotFound,
            format!(
                "There is no runtime{wanted} at this bridge. Choose one of: {}.",
                names.join(", ")
            ),
        )
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
        let found = bridge
            .call_value(method::CAPABILITIES, &serde_json::json!({}))
            .await?;
        let found = lenient::capabilities(&found);
        // Turns of a bridge's gateways share one lane here.
        if let Some(gateway) = found.gateway_providers.first() {
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
