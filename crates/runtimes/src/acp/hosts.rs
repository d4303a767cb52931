//! The hosts of all agents, as an operator sees them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use threadline_contract::{Fault, Millis, SessionKey, operator::HostState};
use threadline_host::{Hosts, Standing, State};
use tokio::sync::Mutex;

use super::{bind::host_fault, config::AgentHosts};
use crate::{AgentHost, HostCleanup};

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
                    let (how, no_room_since) = how(&self.hosts, &state).await;
                    of(&state, how, no_room_since)
                }
                Standing::Lost(state) => of(&state, HostState::Lost, None),
                Standing::Absent | Standing::Ended(_) => None,
            };
            found.extend(host);
        }
        *seen = Some((Instant::now(), found.clone()));
        Ok(found)
    }
}

async fn how(hosts: &Hosts, state: &State) -> (HostState, Option<Millis>) {
    let Ok(hello) = hosts.inspect(&state.session).await else {
        return (HostState::Silent, None);
    };
    let how = match (hello.open_turns, hello.waiting) {
        // What is asked without a turn waits for nobody.
        (0, _) => HostState::Idle,
        (_, 0) => HostState::Working,
        _ => HostState::Waiting,
    };
    (how, hello.no_room_since.map(Millis))
}

/// Nothing, when its session is none of ours: no key of ours is like that.
fn of(state: &State, how: HostState, no_room_since: Option<Millis>) -> Option<AgentHost> {
    Some(AgentHost {
        session: SessionKey::new(&state.session).ok()?,
        state: how,
        pid: state.host.pid,
        agent_pid: state.agent.pid,
        began: Millis(state.began),
        seen_at: Millis::now(),
        no_room_since,
        cleanup: state.cleaned_up.map(|done| HostCleanup {
            at: Millis(done.at),
            ended: done.killed,
        }),
    })
}
