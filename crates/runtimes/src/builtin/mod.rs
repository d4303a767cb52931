//! The agent inside this binary.
//!
//! It needs nothing installed. With a model configured it is a small agent that works with files;
//! without one it plays a demonstration. Either way each run has one append-only journal, and that
//! journal is its registry: what it does not say did not happen, and a run that it says began and
//! not ended goes on when it is followed again.

mod agent;
mod chat;
mod config;
mod demo;
mod history;
mod look;
mod model;
mod past;
mod prompt;
mod tools;
mod work;

use std::sync::Arc;

use threadline_contract::{Fault, Millis, RuntimeId, method::DEMONSTRATION};

use self::model::Model;
pub use self::{
    config::{BuiltinConfig, Limits, ModelConfig},
    look::{Found, Looking, Server},
};
use crate::{
    Availability, LaneSize, LocalWorkspace, Pending, Readiness, RunRef, RuntimeInfo,
    journaled::{JournaledRuntime, Runs},
};

/// What all runs share.
pub(crate) struct Shared {
    config: BuiltinConfig,
    model: Option<Model>,
}

/// The builtin runtime.
pub struct Builtin {
    shared: Arc<Shared>,
    runs: Runs<Shared>,
}

impl Builtin {
    /// Sets the runtime up. Nothing is opened or started before it is asked for. With a model, the
    /// process must have installed a crypto provider for TLS.
    pub fn new(config: BuiltinConfig) -> Result<Self, Fault> {
        let model = config.model.as_ref();
        let model = model.map(|m| Model::new(m, config.limits)).transpose()?;
        let shared = Arc::new(Shared { config, model });
        let runs = Runs::new(Arc::clone(&shared), shared.config.records.clone());
        Ok(Self { shared, runs })
    }
}

impl RuntimeInfo for Builtin {
    fn id(&self) -> &RuntimeId {
        &RuntimeId::Builtin
    }

    fn label(&self) -> &str {
        "Builtin agent"
    }

    fn lane(&self) -> LaneSize {
        self.shared.config.lane
    }

    fn is_local(&self) -> bool {
        true
    }

    fn takes_instructions(&self) -> bool {
        true
    }

    fn takes_tools(&self) -> bool {
        // The demonstration calls none.
        self.shared.model.is_some()
    }

    fn probe(&self) -> Pending<'_, Availability> {
        let found = match &self.shared.model {
            Some(model) => {
                let about = format!("model {}", model.name());
                Availability::new(Readiness::Ready, about, Some(model.host().to_owned()))
            }
            None => Availability::new(Readiness::Demonstration, DEMONSTRATION, None),
        };
        Box::pin(async { found })
    }
}

impl JournaledRuntime for Builtin {
    type Work = Shared;

    fn runs(&self) -> &Runs<Shared> {
        &self.runs
    }

    fn workspace(&self) -> &LocalWorkspace {
        &self.shared.config.workspace
    }

    fn key_head(&self) -> String {
        "builtin:main".to_owned()
    }

    fn no_room_since(&self, run: &RunRef) -> Option<Millis> {
        self.runs.here(run)?.record.no_room_since()
    }
}
