//! The hosts of all agents, as an operator sees them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use threadline_contract::{Fault, Millis, SessionKey, operator::HostState};
use threadline_host::{Hosts, Standing, State};
use tokio::sync::Mutex;

use super::{bind::host_fault, config::AgentHosts};
use crate::AgentHost;

/// How long a look at the hosts is good: every agent's runtime is asked, and all share them.
const GOOD: Duration = Duration::from_secs(1);

/// What was last seen, and when.
pub(super) type Seen = Arc<Mutex<Option<(Instant, Vec<AgentHost>)>>>;

impl AgentHosts {
    /// Every host that is alive or was killed.
    pub(super) async fn look(&self) -> Result<Vec<AgentHost>, Fault> {
        let mut seen = self.seen.lock().await;
        if let Some((_, hosts)) = seen.as_ref().filter(|(at, _)| at.elapsed() < GOOD) {
            return Ok(hosts.clone());
        }
        let mut found = vec![];
        for standing in self.hosts.present().await.map_err(host_fault)? {
            let host = match standing {
                Standing::Alive(state) => {
                    let how = how(&self.hosts, &state).await;
                    of(&state, how)
                }
                Standing::Lost(state) => of(&state, HostState::Lost),
                Standing::Absent | Standing::Ended(_) => None,
            };
            found.extend(host);
        }
        *seen = Some((Instant::now(), found.clone()));
        Ok(found)
    }
}

async fn how(hosts: &Hosts, state: &State) -> HostState {
    match hosts.inspect(&state.session).await {
        // What is asked without a turn waits for nobody.
        Ok(hello) if hello.open_turns == 0 => HostState::Idle,
        Ok(hello) if hello.waiting > 0 => HostState::Waiting,
        Ok(_) => HostState::Working,
        Err(_) => HostState::Silent,
    }
}

/// Nothing, when its session is none of ours: no key of ours is like that.
fn of(state: &State, how: HostState) -> Option<AgentHost> {
    Some(AgentHost {
        session: SessionKey::new(&state.session).ok()?,
        state: how,
        pid: state.host.pid,
        agent_pid: state.agent.pid,
        began: Millis(state.began),
        seen_at: Millis::now(),
    })
}
