//! The engine's parts and its life: open, reconcile what was left open, renew leases, stop.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use threadline_contract::{
    AccountId, Code, Fault, Millis, Owner, PermissionPolicy, RunId, RuntimeId,
};
use threadline_retry::table;
use threadline_runtimes::{Registry, RunRef, Runtime};
use threadline_store::{Dialect, Lease, Run, Store, Takeover};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{Instrument as _, error, error_span, info, warn};

use crate::{
    Keep,
    capabilities::Remembered,
    claim::{Claim, GONE_AFTER, Look, claim},
    counters::Counters,
    downloads::Downloads,
    incarnation,
    keys::Keys,
    room::Making,
    run::{Budgets, Driver, stall::Stalls, unstored_cancel::UnstoredCancels},
    silence::Silences,
};

/// What the engine is told by its operator.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// This node, for leases: the same after a restart, and no other's. The data folder's lock
    /// proves that an earlier process of it is gone, so its leases are taken over at once.
    pub node: String,
    /// This data folder had another name before, which is not known any more.
    pub renamed: bool,
    /// Where other servers on the same database reach this one.
    pub advertise: Option<String>,
    /// The data folder: never a working directory.
    pub data: PathBuf,
    /// What else no working directory may be or lie in: settings, and what the hosts of agents keep.
    pub protected: Vec<PathBuf>,
    /// Where attachments wait for their turn.
    pub attachments: PathBuf,
    /// Folders beneath which a user's working directory may lie.
    pub work_roots: Vec<PathBuf>,
    /// Local thread folders: never a working directory.
    pub thread_folders: PathBuf,
    /// Where `auto` goes.
    pub auto_runtime: RuntimeId,
    /// How long a download link holds.
    pub link_ttl: Duration,
    /// How long a lease holds without being renewed.
    pub lease_ttl: Duration,
    /// How long a result waits for files that nobody declared.
    pub result_wait: Duration,
    /// How long a verdict waits for declared deliverables.
    pub verify_wait: Duration,
    /// How long the files of runs are kept.
    pub keep: Keep,
    /// How many bytes of remote runtimes' files are kept in the data folder, so that they are fetched
    /// once; 0 keeps none.
    pub cache_bytes: u64,
    /// What holds for every run.
    pub rules: Rules,
}

/// What holds for every run, where its request does not say otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// What becomes of permissions, where the thread has no policy of its own.
    pub policy: PermissionPolicy,
    /// How long a question waits for an answer; for ever when absent.
    pub question_wait: Option<Duration>,
    /// How long a turn waits in its lane for a place; for ever when absent.
    pub queue_wait: Option<Duration>,
    /// How long a run may take.
    pub budgets: Budgets,
    /// How long a gateway that does not answer may be silent about a run before it counts as lost.
    pub silence: Duration,
    /// How long a runtime that is away is waited for when a run's files are collected.
    pub files_wait: Duration,
    /// How long files that could not be collected rest before somebody who asks has it tried again.
    pub files_rest: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            policy: PermissionPolicy::default(),
            question_wait: None,
            queue_wait: None,
            budgets: Budgets::default(),
            silence: Duration::from_secs(10 * 60),
            files_wait: Duration::from_secs(10 * 60),
            files_rest: Duration::from_secs(60),
        }
    }
}

/// The run engine. Cheap to clone.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) config: EngineConfig,
    /// This start, where others may come with its name.
    pub(crate) incarnation: Option<String>,
    /// Another server has the name by now.
    pub(crate) replaced: CancellationToken,
    pub(crate) store: Store,
    pub(crate) keys: Keys,
    runtimes: BTreeMap<RuntimeId, Lane>,
    leases: Mutex<HashMap<RunId, Lease>>,
    pub(crate) capabilities: Remembered,
    pub(crate) making_room: Making,
    pub(crate) downloads: Downloads,
    pub(crate) counters: Counters,
    pub(crate) stalls: Stalls,
    pub(crate) silences: Silences,
    pub(crate) unstored_cancels: UnstoredCancels,
    /// Owners that this node is about to remove.
    pub(crate) removing: Mutex<HashSet<(AccountId, Owner)>>,
    stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

/// A runtime with the door in front of it.
pub(crate) struct Lane {
    pub(crate) runtime: Arc<dyn Runtime>,
    /// Held while somebody decides who may go, so that two runs never take the last place.
    pub(crate) deciding: tokio::sync::Mutex<()>,
    /// Rings when a place may have become free.
    pub(crate) bell: watch::Sender<()>,
    /// Whether it could take work when it was last looked at, and since when that is so.
    pub(crate) stands: Mutex<Option<(bool, Millis)>>,
}

impl Engine {
    /// Opens the engine and takes up every run that was left open.
    pub async fn open(
        config: EngineConfig,
        store: Store,
        runtimes: Vec<Arc<dyn Runtime>>,
    ) -> Result<Self, Fault> {
        let keys = Keys::read(&store).await?;
        let incarnation = match store.dialect() {
            // Nobody shares a file: the data folder's lock is enough.
            Dialect::Sqlite => None,
            Dialect::Postgres => Some(incarnation::claim(&config, &store).await?),
        };
        let lanes = runtimes.into_iter().map(|runtime| {
            let lane = Lane {
                runtime,
                deciding: tokio::sync::Mutex::default(),
                bell: watch::Sender::new(()),
                stands: Mutex::default(),
            };
            (lane.runtime.id().clone(), lane)
        });
        let downloads = Downloads::open(&config.data.join("downloads"), config.cache_bytes);
        let engine = Self(Arc::new(Inner {
            config,
            incarnation,
            replaced: CancellationToken::new(),
            downloads,
            store,
            keys,
            runtimes: lanes.collect(),
            leases: Mutex::default(),
            capabilities: Mutex::default(),
            making_room: Making::default(),
            counters: Counters::default(),
            stalls: Stalls::default(),
            silences: Silences::default(),
            unstored_cancels: UnstoredCancels::default(),
            removing: Mutex::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }));
        engine.take_up_sessions().await?;
        engine.take_up_open_runs().await?;
        engine.take_up_deletions().await?;
        let keeper = engine.clone();
        engine
            .0
            .tasks
            .spawn(async move { keeper.keep_leases().await });
        // What costs a process or a connection to find out is known when somebody asks.
        let first = engine.clone();
        engine.0.tasks.spawn(async move {
            let stop = first.0.stop.clone();
            stop.run_until_cancelled(first.capabilities()).await
        });
        if engine.0.config.keep != Keep::FOR_EVER {
            let keeper = engine.clone();
            engine
                .0
                .tasks
                .spawn(async move { keeper.keep_room().await });
        }
        Ok(engine)
    }

    /// Stops following runs. None of them ends by it: the next start takes them up.
    pub async fn stop(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
        self.leave().await;
    }

    /// How many runs this node is driving.
    pub fn active(&self) -> usize {
        self.leases().len()
    }

    /// The records.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    pub(crate) fn lane(&self, runtime: &RuntimeId) -> Option<&Lane> {
        self.0.runtimes.get(runtime)
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.0.runtimes.values()
    }

    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.0.stop
    }

    /// Drives a run whose lease this node has.
    pub(crate) fn drive(&self, run: &Run, local: bool) {
        self.drive_as(run, run.lease(), local, None);
    }

    /// Drives a closed run once more, under a new lease.
    pub(crate) fn drive_again(&self, run: &Run, lease: Lease) {
        self.drive_as(run, lease, true, None);
    }

    /// Drives a run, or ends it as lost for this reason. Everything that is logged on the way says
    /// which run and session it is about.
    fn drive_as(&self, run: &Run, lease: Lease, local: bool, lost: Option<String>) {
        let span = error_span!("run", run.id = %run.id, session = %run.session_key, runtime = %run.runtime);
        let run = lease.run.clone();
        self.leases().insert(run.clone(), lease.clone());
        let engine = self.clone();
        let driving = async move {
            engine.drive_whatever_comes(&lease, lost).await;
            let held = engine.let_go(&lease);
            // A lease on a run that only this node can go on with is kept over a stop.
            if let Some(lease) = held.filter(|_| !(local && engine.stopping().is_cancelled()))
                && let Err(e) = engine.0.store.release_lease(&lease).await
            {
                warn!(run.id = %run, error = %e, "Lease of run {run} was not released; it will expire");
            }
        };
        self.0.tasks.spawn(driving.instrument(span));
    }

    /// A driver that breaks must not take its run with it: the lease would be renewed for ever and
    /// nobody would drive.
    async fn drive_whatever_comes(&self, lease: &Lease, lost: Option<String>) {
        let mut pauses = table::DRIVER_BROKE.pauses();
        loop {
            let (engine, lease, lost) = (self.clone(), lease.clone(), lost.clone());
            let run = lease.run.clone();
            let driver = async move { Driver::drive(&engine, lease, lost).await };
            let driver = tokio::spawn(driver.in_current_span());
            let Err(e) = driver.await else { return };
            error!(run.id = %run, error = %e, "The driver of run {run} broke and is started again");
            if self.pause(&mut pauses).await.is_err() {
                return;
            }
        }
    }

    /// Forgets a lease, unless the run has another one by now.
    fn let_go(&self, lease: &Lease) -> Option<Lease> {
        let mut leases = self.leases();
        let ours = leases.get(&lease.run).is_some_and(|held| held == lease);
        if ours {
            leases.remove(&lease.run)
        } else {
            None
        }
    }

    async fn take_up_open_runs(&self) -> Result<(), Fault> {
        let mut after = None;
        loop {
            let page = self.0.store.open_runs(after.as_ref(), 100).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(last.id.clone());
            for run in page {
                if self.lane(&run.runtime).is_none() {
                    warn!(run.id = %run.id, session = %run.session_key, runtime = %run.runtime, "Run {} waits: its runtime {} is not configured", run.id, run.runtime);
                }
                self.take_up(&run).await?;
            }
        }
    }

    /// Takes the run's lease and drives it, unless somebody else does or must.
    async fn take_up(&self, run: &Run) -> Result<(), Fault> {
        if self.leases().contains_key(&run.id) {
            return Ok(());
        }
        let Some(lane) = self.lane(&run.runtime) else {
            return Ok(());
        };
        let (node, local, now) = (&self.0.config.node, lane.runtime.is_local(), Millis::now());
        let look = Look {
            owner: run.lease_owner.as_deref(),
            until: run.lease_until,
            node,
            // Its writer numbers events in memory: there is no second owner of it.
            sole: self.is_sole(),
            local,
            now,
        };
        let (takeover, lost) = match claim(look) {
            Claim::Take(takeover) => (takeover, None),
            Claim::Leave => return Ok(()),
            may @ (Claim::IfKnown | Claim::IfKnownElseLost) => {
                let run = RunRef {
                    session: run.session_key.clone(),
                    run: run.id.clone(),
                };
                match lane.runtime.ask_registry(&run).await? {
                    Registry::Running | Registry::Ended(_) => (Takeover::IfExpired, None),
                    Registry::NoRecord if may == Claim::IfKnown => return Ok(()),
                    Registry::NoRecord => (Takeover::IfExpired, Some(node_is_gone())),
                }
            }
        };
        let ttl = self.0.config.lease_ttl.as_millis() as i64;
        let taken = self
            .0
            .store
            .acquire_lease(&run.id, node, now, ttl, takeover)
            .await?;
        if let Some(lease) = taken {
            info!(run.id = %run.id, session = %run.session_key, phase = run.phase.as_str(), "Taking up run {} in phase {}", run.id, run.phase.as_str());
            self.drive_as(run, lease, local, lost);
        }
        Ok(())
    }

    /// Renews this node's leases and takes up runs whose node went away.
    async fn keep_leases(&self) {
        let pause = self.0.config.lease_ttl / 3;
        while self
            .0
            .stop
            .run_until_cancelled(tokio::time::sleep(pause))
            .await
            .is_some()
        {
            // Apart, so that nothing that breaks in it ends the keeping of leases.
            let engine = self.clone();
            let round = tokio::spawn(async move { engine.look_after_leases().await });
            if let Err(e) = round.await {
                error!(error = %e, "Looking after leases broke; trying again");
            }
        }
    }

    async fn look_after_leases(&self) {
        let held: Vec<Lease> = self.leases().values().cloned().collect();
        let until = Millis::now().plus(self.0.config.lease_ttl.as_millis() as i64);
        let renewed = self.0.store.renew_leases(&self.0.config.node, &held, until);
        match renewed.await {
            Ok(lost) => {
                for lease in held.iter().filter(|held| lost.contains(&held.run)) {
                    warn!(run.id = %lease.run, "Lease of run {} went to another node", lease.run);
                    self.let_go(lease);
                }
            }
            Err(e) => error!(error = %e, "Leases could not be renewed; trying again"),
        }
        if let Err(e) = self.take_up_orphans().await {
            error!(error = %e, "Runs of other nodes could not be looked for; trying again");
        }
        if self.is_sole() {
            return;
        }
        if let Err(e) = self.note_node().await {
            error!(error = %e, "That this node is there could not be noted; trying again");
        }
        if let Err(e) = self.take_up_deletions().await {
            error!(error = %e, "Deletions could not be looked for; trying again");
        }
    }

    async fn take_up_orphans(&self) -> Result<(), Fault> {
        for run in self.0.store.claimable_runs(Millis::now(), 200).await? {
            // One that cannot be taken up must not stand in the way of the others.
            if let Err(fault) = self.take_up(&run).await {
                error!(run.id = %run.id, session = %run.session_key, code = %fault.code, "Run {} cannot be taken up yet: {}", run.id, fault.message);
            }
        }
        Ok(())
    }

    fn leases(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, Lease>> {
        // A panic while the map was held cannot have left it half-changed.
        self.0.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn runtime(&self, id: &RuntimeId) -> Result<&Lane, Fault> {
        self.lane(id).ok_or_else(|| {
            Fault::new(
                Code::ProviderNotFound,
                format!("No runtime is called {id}. `acp.capabilities` lists them."),
            )
        })
    }
}

fn node_is_gone() -> String {
    format!(
        "The machine that ran this turn has been away for {} minutes, and the run's record is there. \
         What it did until then is in its work folder on that machine.",
        GONE_AFTER.as_secs() / 60
    )
}
