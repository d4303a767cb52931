//! The lanes of runtimes as the records show them: who runs, who waits, and where a waiting run stands.

use std::collections::HashMap;

use threadline_contract::{Fault, QueuePlace, RunStatus, RuntimeId};
use threadline_store::{Phase, Run};

use crate::{
    Engine,
    run::lane::{self, Entry, Place, Pool},
};

impl Engine {
    /// The open runs of a runtime, each with the places that it takes one of.
    pub(crate) async fn lane_entries(&self, runtime: &RuntimeId) -> Result<Vec<Entry>, Fault> {
        let local = self.has_own_places(runtime);
        let mut pools: HashMap<String, Pool> = HashMap::new();
        let mut entries = vec![];
        for open in self.0.store.lane(runtime).await? {
            // Whatever is in a database of our own is ours, whatever name we had then.
            let driver = open.lease_owner.filter(|_| !self.is_sole());
            let driver = driver.unwrap_or_else(|| self.node_name().to_owned());
            let places = match pools.get(&driver) {
                Some(known) => known.clone(),
                None => {
                    let away = !local && self.is_away(&driver).await?;
                    let places = lane::pool(&driver, local, away);
                    pools.insert(driver, places.clone());
                    places
                }
            };
            entries.push(Entry {
                phase: open.phase,
                run: open.run,
                session: open.session_key,
                places,
            });
        }
        Ok(entries)
    }

    /// The places that a turn takes one of when this server takes it.
    pub(crate) fn own_places(&self, runtime: &RuntimeId) -> Pool {
        lane::pool(self.node_name(), self.has_own_places(runtime), false)
    }

    /// Whether a runtime's agents run on the host of each server. A gateway is shared.
    fn has_own_places(&self, runtime: &RuntimeId) -> bool {
        self.lane(runtime)
            .is_some_and(|lane| lane.runtime.keeps_sessions())
    }

    /// Where a waiting run stands now.
    pub(crate) async fn queue_place(&self, run: &Run) -> Result<Option<QueuePlace>, Fault> {
        if run.phase != Phase::Queued || run.status != RunStatus::Running {
            return Ok(None);
        }
        let Some(lane) = self.lane(&run.runtime) else {
            return Ok(None);
        };
        let entries = self.lane_entries(&run.runtime).await?;
        Ok(match lane::place(&entries, &run.id, lane.runtime.lane()) {
            Place::Wait(place) => Some(place),
            Place::Go => None,
        })
    }
}
