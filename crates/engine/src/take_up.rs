//! Taking up open runs that nobody drives: those that this server left open, and those whose server went away.

use std::collections::HashMap;

use threadline_contract::{Fault, Millis, RunId};
use threadline_runtimes::{Registry, RunRef};
use threadline_store::{Run, Takeover};
use tracing::{error, info, warn};

use crate::{
    Engine,
    claim::{Claim, GONE_AFTER, Look, claim},
};

/// Open runs that are looked at together, and whose leases are taken with one write.
const PAGE: u32 = 200;

impl Engine {
    /// Takes up every run that was left open.
    pub(crate) async fn take_up_open_runs(&self) -> Result<(), Fault> {
        let mut after = None;
        loop {
            let page = self.0.store.open_runs(after.as_ref(), PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(last.id.clone());
            for run in &page {
                if self.lane(&run.runtime).is_none() {
                    warn!(run.id = %run.id, session = %run.session_key, runtime = %run.runtime, "Run {} waits: its runtime {} is not configured", run.id, run.runtime);
                }
            }
            let mut wanted = Wanted::default();
            for run in page {
                if let Some(claim) = self.wants(&run).await? {
                    wanted.add(run, claim);
                }
            }
            self.take_up(wanted).await?;
        }
    }

    /// Takes up runs whose server went away.
    pub(crate) async fn take_up_orphans(&self) -> Result<(), Fault> {
        let mut wanted = Wanted::default();
        for run in self.0.store.claimable_runs(Millis::now(), PAGE).await? {
            match self.wants(&run).await {
                Ok(Some(claim)) => wanted.add(run, claim),
                Ok(None) => {}
                // One that cannot be taken up must not stand in the way of the others.
                Err(fault) => {
                    error!(run.id = %run.id, session = %run.session_key, code = %fault.code, "Run {} cannot be taken up yet: {}", run.id, fault.message);
                }
            }
        }
        self.take_up(wanted).await
    }

    /// How this node may take up a run, and why it is lost where it is; none when somebody else drives it or must.
    async fn wants(&self, run: &Run) -> Result<Option<(Takeover, Option<String>)>, Fault> {
        if self.leases().contains_key(&run.id) {
            return Ok(None);
        }
        let Some(lane) = self.lane(&run.runtime) else {
            return Ok(None);
        };
        let look = Look {
            owner: run.lease_owner.as_deref(),
            until: run.lease_until,
            node: &self.0.config.node,
            // Its writer numbers events in memory: there is no second owner of it.
            sole: self.is_sole(),
            local: lane.runtime.is_local(),
            now: Millis::now(),
        };
        Ok(match claim(look) {
            Claim::Take(takeover) => Some((takeover, None)),
            Claim::Leave => None,
            may @ (Claim::IfKnown | Claim::IfKnownElseLost) => {
                let run = RunRef {
                    session: run.session_key.clone(),
                    run: run.id.clone(),
                };
                match lane.runtime.ask_registry(&run).await? {
                    Registry::Running | Registry::Ended(_) => Some((Takeover::IfExpired, None)),
                    Registry::NoRecord if may == Claim::IfKnown => None,
                    Registry::NoRecord => Some((Takeover::IfExpired, Some(node_is_gone()))),
                }
            }
        })
    }

    /// Takes the leases of runs, those of one kind with one write, and drives those that it got.
    async fn take_up(&self, wanted: Wanted) -> Result<(), Fault> {
        let (node, ttl) = (&self.0.config.node, self.0.config.lease_ttl.as_millis());
        for (takeover, mut runs) in [
            (Takeover::Always, wanted.always),
            (Takeover::IfExpired, wanted.if_expired),
        ] {
            let ids: Vec<RunId> = runs.keys().cloned().collect();
            let (store, now) = (&self.0.store, Millis::now());
            let taken = store.claim_runs(&ids, node, now, ttl as i64, takeover);
            for lease in taken.await? {
                let Some((run, lost)) = runs.remove(&lease.run) else {
                    continue;
                };
                info!(run.id = %run.id, session = %run.session_key, phase = run.phase.as_str(), "Taking up run {} in phase {}", run.id, run.phase.as_str());
                let local = self
                    .lane(&run.runtime)
                    .is_some_and(|l| l.runtime.is_local());
                self.drive_as(&run, lease, local, lost);
            }
        }
        Ok(())
    }
}

/// Runs that this node may take up, each with the reason why it is lost where it is.
#[derive(Default)]
struct Wanted {
    always: HashMap<RunId, (Run, Option<String>)>,
    if_expired: HashMap<RunId, (Run, Option<String>)>,
}

impl Wanted {
    fn add(&mut self, run: Run, (takeover, lost): (Takeover, Option<String>)) {
        let runs = match takeover {
            Takeover::Always => &mut self.always,
            Takeover::IfExpired => &mut self.if_expired,
        };
        runs.insert(run.id.clone(), (run, lost));
    }
}

fn node_is_gone() -> String {
    format!(
        "The machine that ran this turn has been away for {} minutes, and the run's record is there. \
         What it did until then is in its work folder on that machine.",
        GONE_AFTER.as_secs() / 60
    )
}
