//! The app: it ties records, lanes, transport and sync together.
//!
//! A change of a thread is a function in [`change`](crate::change), applied by
//! [`Records::update`](crate::records::Records::update); what it asks for is done here. Work in the
//! background ends with the last [`App`]; what it was at is in the records and the outbox, and the
//! next [`App::open`] goes on with it.

mod beside;
mod cancel;
mod delete;
mod events;
mod live;
mod look;
mod offers;
mod queue;
mod resume;
mod run;
mod send;
mod show_turn;
mod syncing;
mod threads;
mod waiting_turns;
mod which;

use std::{
    collections::{HashMap, HashSet},
    future::Future,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use threadline_contract::{AppThreadKey, Fault, RequestId};
use threadline_files::{Access, atomic};
use tokio::sync::broadcast;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use self::live::Live;
use crate::{
    api::FileProgress,
    config::Config,
    deletions::Deletions,
    endpoints::Endpoints,
    fault::{internal, storage},
    lane::Lanes,
    outbox::Outbox,
    records::{Records, lock},
    sync::Verified,
};

/// Progress that a slow listener may miss.
const PROGRESS: usize = 512;
/// How late the index may be written.
const SAVE_AFTER: Duration = Duration::from_secs(2);
/// A record that cannot be written now is tried again so often.
const WRITE_AGAIN: Duration = Duration::from_secs(2);

/// The user's side of Threadline. Cheap to clone; the last clone takes the background work with it.
#[derive(Clone)]
pub struct App {
    pub(crate) core: Arc<Core>,
    _alive: Arc<DropGuard>,
}

pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) records: Records,
    pub(crate) outbox: Outbox,
    pub(crate) endpoints: Endpoints,
    pub(crate) deletions: Deletions,
    /// Which files are still what was verified.
    pub(crate) verified: Arc<Verified>,
    pub(crate) lanes: Mutex<Lanes>,
    /// What is known of running threads beside their records.
    pub(crate) live: Mutex<HashMap<AppThreadKey, Live>>,
    /// Stops the runs that are followed.
    pub(crate) running: Mutex<HashMap<AppThreadKey, CancellationToken>>,
    /// One sync per thread at a time, in order.
    pub(crate) syncs: Mutex<HashMap<AppThreadKey, Arc<tokio::sync::Mutex<()>>>>,
    /// Stops the syncs that are under way.
    pub(crate) syncing: Mutex<HashMap<AppThreadKey, CancellationToken>>,
    /// Requests that are being taken just now.
    pub(crate) asking: Mutex<HashSet<RequestId>>,
    /// Requests to try a turn again that made no new one, and the thread of each.
    pub(crate) retried: Mutex<HashMap<RequestId, AppThreadKey>>,
    /// Requests whose files are still to come.
    pub(crate) to_sync: Mutex<HashSet<RequestId>>,
    /// When each bridge last said how large its lane is.
    pub(crate) sized: Mutex<HashMap<String, Instant>>,
    pub(crate) progress: broadcast::Sender<FileProgress>,
    /// Tells threads of one millisecond apart.
    pub(crate) serial: std::sync::atomic::AtomicU32,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl App {
    /// Opens the app's folder and goes on with everything that was not done.
    ///
    /// Only one process may have a folder open; that is the caller's to see to.
    pub async fn open(config: Config) -> Result<Self, Fault> {
        let tasks = TaskTracker::new();
        let opened = {
            let (config, tasks) = (config.clone(), tasks.clone());
            tokio::task::spawn_blocking(move || parts(&config, tasks)).await
        };
        let (records, outbox, endpoints, deletions) = opened.map_err(internal)??;
        let stop = CancellationToken::new();
        let core = Arc::new(Core {
            lanes: Mutex::new(Lanes::new(config.lane)),
            config,
            records,
            outbox,
            endpoints,
            deletions,
            verified: Arc::default(),
            live: Mutex::default(),
            running: Mutex::default(),
            syncs: Mutex::default(),
            syncing: Mutex::default(),
            asking: Mutex::default(),
            retried: Mutex::default(),
            to_sync: Mutex::default(),
            sized: Mutex::default(),
            progress: broadcast::Sender::new(PROGRESS),
            serial: Default::default(),
            stop: stop.clone(),
            tasks,
        });
        core.keep_index();
        core.resume_deletions().await?;
        core.resume().await?;
        Ok(Self {
            core,
            _alive: Arc::new(stop.drop_guard()),
        })
    }

    /// Ends the background work and waits for it. Runs go on at their bridges.
    pub async fn close(&self) -> Result<(), Fault> {
        self.core.stop.cancel();
        self.core.tasks.close();
        self.core.tasks.wait().await;
        self.core.records.save_index().await
    }

    /// How much goes on: turns that run or wait, and runs whose files are still to come. An owner process
    /// that would like to end looks here.
    pub fn busy(&self) -> usize {
        lock(&self.core.lanes).load() + lock(&self.core.to_sync).len()
    }
}

type Opened = (Records, Outbox, Endpoints, Deletions);

fn parts(config: &Config, tasks: TaskTracker) -> Result<Opened, Fault> {
    let folder: &Path = &config.data;
    atomic::create_dir_all(folder, Access::Private).map_err(storage)?;
    Ok((
        Records::open(&folder.join("threads"), tasks).map_err(storage)?,
        Outbox::open(&folder.join("outbox"))?,
        Endpoints::open(&folder.join("bridges.json"), &config.bridge, config.timings)?,
        Deletions::open(&folder.join("deleting"))?,
    ))
}

impl Core {
    /// Works in the background until it is done or the app ends.
    pub(crate) fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = work => {}
            }
        });
    }

    /// Does something that blocks.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Fault> {
        self.tasks.spawn_blocking(work).await.map_err(internal)
    }

    /// As above, with the outbox.
    pub(crate) async fn outbox<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Outbox) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let outbox = self.outbox.clone();
        self.blocking(move || work(&outbox)).await?
    }

    /// Repeats something that must happen until the disk lets it. The log says so, once.
    pub(crate) async fn surely<T, F: Future<Output = Result<T, Fault>>>(
        &self,
        what: &str,
        mut work: impl FnMut() -> F,
    ) -> Result<T, Fault> {
        use threadline_contract::Code;
        let mut told = false;
        loop {
            match work().await {
                Err(fault) if matches!(fault.code, Code::StorageFull | Code::StorageReadOnly) => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::error!("{what} cannot be stored yet: {fault}");
                    }
                    tokio::time::sleep(WRITE_AGAIN).await;
                }
                done => return done,
            }
        }
    }

    fn keep_index(self: &Arc<Self>) {
        let core = self.clone();
        let mut bell = self.records.subscribe();
        self.spawn(async move {
            while bell.changed().await.is_ok() {
                tokio::time::sleep(SAVE_AFTER).await;
                if let Err(fault) = core.records.save_index().await {
                    // It can be made again from the records; the next change tries once more.
                    tracing::warn!("The index of threads was not written: {fault}");
                }
            }
        });
    }
}
