//! The agents that speak the Agent Client Protocol, and their hosts.

use std::{path::Path, sync::Arc};

use threadline_contract::{Code, Fault};
use threadline_host::{Hosts, Launch};
use threadline_runtimes::acp::{Acp, AcpConfig, AgentHosts};
use tracing::warn;

use super::{Places, runtimes::workspace};
use crate::config::Config;

/// All hosts of the data folder, and how this program starts one.
pub(crate) fn hosts(root: &Path) -> Result<Hosts, Fault> {
    let program = std::env::current_exe().map_err(|e| {
        let message = format!("The program cannot find itself ({e}).");
        Fault::new(Code::Internal, message)
    })?;
    let launch = Launch {
        program,
        args: vec!["agent-host".into()],
    };
    Ok(Hosts::new(root, launch))
}

/// A runtime for each agent. What killed hosts have left running is ended first, and those that are there are
/// watched.
pub(super) async fn agents(config: &Config, places: &Places) -> Result<Vec<Arc<Acp>>, Fault> {
    let hosts = AgentHosts::new(hosts(&config.hosts)?);
    if let Err(fault) = hosts.watch_all().await {
        warn!(%fault, "What killed hosts may have left could not be looked for");
    }
    let workspace = workspace(config, places)?;
    let runtime = |agent: &threadline_runtimes::acp::AgentConfig| {
        Arc::new(Acp::new(AcpConfig {
            agent: agent.clone(),
            records: places.acp(),
            workspace: workspace.clone(),
            hosts: hosts.clone(),
        }))
    };
    Ok(config.agents.iter().map(runtime).collect())
}
