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
use threadline_runtimes::Runtime;
use threadline_store::{Dialect, Lease, Run, Store};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{Instrument as _, error, error_span, warn};

use crate::{
    Keep,
    capabilities::Remembered,
    counters::Counters,
    downloads::Downloads,
    incarnation,
    keys::Keys,
    room::Making,
    run::{Budgets, Driver, stall::Stalls, unstored_cancel::UnstoredCancels},
    silence::Silences,
    tools::ToolExecutors,
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
    /// Where a turn for any agent goes when `auto` goes to a gateway.
    pub agent_runtime: RuntimeId,
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
    /// Who executes the tool calls of runs.
    pub(crate) tools: ToolExecutors,
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
        tools: ToolExecutors,
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
            tools,
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
    pub(crate) fn drive_as(&self, run: &Run, lease: Lease, local: bool, lost: Option<String>) {
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

    pub(crate) fn leases(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, Lease>> {
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
