//! Every runtime of this server, made from its settings: a new one is one more line in [`all`].

use std::sync::Arc;

use threadline_contract::Fault;
use threadline_runtimes::{
    LaneSize, LocalWorkspace, Runtime,
    builtin::{Builtin, BuiltinConfig, ModelConfig},
    openclaw::{OpenClaw, OpenClawConfig},
};

use super::{Places, VERSION, agents::agents};
use crate::config::Config;

/// The runtimes that are set up here.
pub(super) async fn all(config: &Config, places: &Places) -> Result<Vec<Arc<dyn Runtime>>, Fault> {
    let mut all: Vec<Arc<dyn Runtime>> = vec![];
    all.push(Arc::new(Builtin::new(builtin(config, places)?)?));
    all.extend(openclaw(config, places)?.map(|o| Arc::new(o) as _));
    all.extend(agents(config, places).await?.into_iter().map(|a| a as _));
    Ok(all)
}

/// Where runtimes on this machine work, with what their turns must not reach.
pub(super) fn workspace(config: &Config, places: &Places) -> Result<LocalWorkspace, Fault> {
    Ok(LocalWorkspace::at(places.data())?.protecting(config.protected.iter().cloned()))
}

fn builtin(config: &Config, places: &Places) -> Result<BuiltinConfig, Fault> {
    let mut builtin = BuiltinConfig::new(places.builtin(), workspace(config, places)?);
    builtin.lane = LaneSize {
        max_active: config.builtin.max_active,
        max_queued: config.builtin.max_queued,
    };
    builtin.limits.max_steps = config.builtin.max_steps;
    builtin.pause = config.builtin.demo_pause;
    builtin.model = config.model.as_ref().map(|model| ModelConfig {
        url: model.url.clone(),
        key: model.key.as_ref().map(|key| key.expose().to_owned()),
        model: model.model.clone(),
    });
    Ok(builtin)
}

/// The OpenClaw gateway, where one is set. It is connected to from now on.
fn openclaw(config: &Config, places: &Places) -> Result<Option<OpenClaw>, Fault> {
    let Some(set) = &config.openclaw else {
        return Ok(None);
    };
    let openclaw = OpenClaw::new(OpenClawConfig {
        url: set.url.clone(),
        token: set.token.as_ref().map(|token| token.expose().to_owned()),
        ca: set.ca.clone(),
        admin: set.admin,
        agent: set.agent.clone(),
        folder: places.openclaw(),
        lane: LaneSize {
            max_active: config.openclaw_lane.max_active,
            max_queued: config.openclaw_lane.max_queued,
        },
        version: VERSION.to_owned(),
    })?;
    Ok(Some(openclaw))
}
