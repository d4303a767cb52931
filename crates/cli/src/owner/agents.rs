//! The agents that speak the Agent Client Protocol, and their hosts.

use std::{path::Path, sync::Arc};

use threadline_contract::{Code, Fault};
use threadline_host::{Hosts, Launch};
use threadline_runtimes::acp::{Acp, AcpConfig, AgentHosts};
use tracing::{error, info, warn};

use super::{Places, compose::workspace};
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

/// A runtime for each agent. What killed hosts have left running is ended first.
pub(super) async fn agents(config: &Config, places: &Places) -> Result<Vec<Arc<Acp>>, Fault> {
    let hosts = hosts(&config.hosts)?;
    match hosts.sweep().await {
        Ok(swept) => {
            for one in swept.iter().filter(|s| s.killed > 0 || !s.clean) {
                match one.clean {
                    true => info!(
                        "Ended {} processes that a killed host of {} had left",
                        one.killed, one.session
                    ),
                    false => error!(
                        "Processes that a killed host of {} has left cannot be ended",
                        one.session
                    ),
                }
            }
        }
        Err(e) => warn!(error = %e, "What killed hosts may have left could not be looked for"),
    }
    // A session whose folder is affected says so when it is used.
    for (folder, why) in hosts.unreadable().await.unwrap_or_default() {
        warn!(folder = %folder.display(), error = %why, "What a host left cannot be looked for: its folder cannot be read");
    }
    let hosts = AgentHosts::new(hosts);
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
