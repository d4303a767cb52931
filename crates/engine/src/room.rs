//! `xworkmate.artifacts.gc` and the same on a timer: the files of old runs make room for new ones.
//!
//! What goes is decided where the files lie ([`Files::make_room`]); here it is said whose they are
//! and whether their runs go on. What cannot be told stays.
//!
//! [`Files::make_room`]: threadline_runtimes::Files::make_room

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use threadline_artifacts::{Kept, KeptFor, Removal};
use threadline_contract::{
    AccountId, Fault, Millis, Owner, Principal, Removed, RunId, RuntimeId,
    method::{self, Gc, GcKept, GcParams, GcRemoved},
};
use threadline_runtimes::{Room, RoomRules, RunRef, Stands};
use threadline_store::{Phase, Run, StoreError};
use tokio::runtime::Handle;
use tracing::{error, info, warn};

use crate::{Engine, wire};

/// How many runs an answer names.
const NAMED: usize = 1000;
/// How often room is made.
const EVERY: Duration = Duration::from_secs(60 * 60);

/// How long the files of runs are kept. What a run delivered is in its receipt for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Files that did not change for so long go.
    pub max_age: Option<Duration>,
    /// While all together have more bytes, the oldest go.
    pub max_bytes: Option<u64>,
}

impl Keep {
    /// All of them, always.
    pub const FOR_EVER: Self = Self {
        max_age: None,
        max_bytes: None,
    };
}

/// What belongs to making room.
#[derive(Default)]
pub(crate) struct Making {
    /// One at a time.
    turn: tokio::sync::Mutex<()>,
    /// Until when links lead to the files of runs whose disk did not take a note of it.
    unwritten: Mutex<HashMap<RunId, i64>>,
}

impl Making {
    fn unwritten(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, i64>> {
        // A panic while the map was held cannot have left it half-changed.
        self.unwritten
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Removes the files of the caller's old runs, or says which would go. Who only asks need not say
    /// by which rule: the operator's counts then, if there is one.
    pub async fn make_room(&self, caller: &Principal, params: &GcParams) -> Result<Gc, Fault> {
        let said = params.max_age_seconds.is_some() || params.max_bytes.is_some();
        let keep = match (said, params.dry_run) {
            (true, _) => Keep {
                max_age: params.max_age_seconds.map(Duration::from_secs),
                max_bytes: params.max_bytes,
            },
            (false, true) => self.0.config.keep,
            (false, false) => {
                return Err(Fault::invalid(
                    "Say what may go: `maxAgeSeconds`, `maxBytes`, or both. `dryRun` alone says what the operator's rule would remove.",
                ));
            }
        };
        let mut gc = Gc {
            dry_run: params.dry_run,
            ..Gc::default()
        };
        let owners: Owners = Arc::default();
        let rooms = self.rooms(keep, params.dry_run, Some(&caller.account), &owners);
        for room in rooms.await? {
            add(&mut gc, room, &owners);
        }
        Ok(gc)
    }

    /// Makes room now and then, as the operator wishes.
    pub(crate) async fn keep_room(&self) {
        let keep = self.0.config.keep;
        loop {
            let owners = Owners::default();
            let made = self.rooms(keep, false, None, &owners);
            match self.stopping().run_until_cancelled(made).await {
                None => return,
                Some(Ok(rooms)) => {
                    let gone: usize = rooms.iter().map(|room| room.removed.len()).sum();
                    if gone > 0 {
                        info!(runs = gone, "Removed the files of {gone} old runs");
                    }
                    if rooms.iter().any(|room| room.more) {
                        continue;
                    }
                }
                Some(Err(fault)) => {
                    error!(code = %fault.code, "No room could be made; trying again later: {}", fault.message);
                }
            }
            let pause = tokio::time::sleep(EVERY);
            if self.stopping().run_until_cancelled(pause).await.is_none() {
                return;
            }
        }
    }

    /// Keeps a run's files while links that are given out now are good; tells when they are gone.
    pub(crate) async fn hold(&self, run: &Run, until: i64) -> Option<Removed> {
        let lane = self.lane(&run.runtime)?;
        let name = RunRef {
            session: run.session_key.clone(),
            run: run.id.clone(),
        };
        match lane.runtime.hold(&name, until).await {
            Ok(removed) => removed,
            Err(fault) => {
                // A full disk must not keep a result from its caller: this process remembers.
                warn!(run.id = %run.id, session = %run.session_key, code = %fault.code, "Links to the files of run {} could not be noted: {}", run.id, fault.message);
                self.0.making_room.unwritten().insert(run.id.clone(), until);
                None
            }
        }
    }

    async fn rooms(
        &self,
        keep: Keep,
        dry_run: bool,
        account: Option<&AccountId>,
        owners: &Owners,
    ) -> Result<Vec<Room>, Fault> {
        let _turn = self.0.making_room.turn.lock().await;
        let now = Millis::now().0 / 1000;
        self.0.making_room.unwritten().retain(|_, at| *at >= now);
        let mut rooms = Vec::new();
        for lane in self.lanes() {
            let looker = Looker {
                engine: self.clone(),
                handle: Handle::current(),
                account: account.cloned(),
                runtime: lane.runtime.id().clone(),
                owners: owners.clone(),
            };
            let rules = RoomRules {
                max_age: keep.max_age,
                max_bytes: keep.max_bytes,
                dry_run,
                stands: Arc::new(move |run| looker.stands(run)),
            };
            rooms.push(lane.runtime.make_room(rules).await?);
        }
        Ok(rooms)
    }
}

/// The owners of the runs that were looked at.
type Owners = Arc<Mutex<HashMap<RunId, Owner>>>;

/// Says how runs stand.
struct Looker {
    engine: Engine,
    handle: Handle,
    /// Whose runs are looked at; everybody's, when nobody is named.
    account: Option<AccountId>,
    runtime: RuntimeId,
    owners: Owners,
}

impl Looker {
    /// Blocks.
    fn stands(&self, run: &RunRef) -> Stands {
        let store = self.engine.store();
        let found = self.handle.block_on(async {
            match &self.account {
                Some(account) => store.run(account, &run.run).await,
                None => store.run_any(&run.run).await,
            }
        });
        match found {
            Ok(record) if record.session_key != run.session || record.runtime != self.runtime => {
                Stands::NotOurs
            }
            Ok(record) => {
                let held = self.engine.0.making_room.unwritten().contains_key(&run.run);
                let goes_on = record.phase != Phase::Closed || held;
                let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
                owners.insert(record.id, record.owner);
                if goes_on {
                    Stands::GoesOn
                } else {
                    Stands::Ended
                }
            }
            Err(StoreError::NotFound) => Stands::NotOurs,
            Err(e) => {
                warn!(run.id = %run.run, session = %run.session, error = %e, "Whether run {} goes on cannot be told; its files stay", run.run);
                Stands::GoesOn
            }
        }
    }
}

fn add(gc: &mut Gc, room: Room, owners: &Mutex<HashMap<RunId, Owner>>) {
    let owners = owners.lock().unwrap_or_else(PoisonError::into_inner);
    gc.removed_runs += room.removed.len() as u64;
    gc.freed_bytes += room.removed.iter().map(|r| r.scope.bytes).sum::<u64>();
    gc.bytes_after += room.bytes_after;
    gc.kept_runs += room.kept.len() as u64;
    gc.unknown += room.unknown;
    gc.more |= room.more;
    let named = room.removed.into_iter().filter_map(|removal| {
        let owner = owners.get(&removal.scope.run_id)?.clone();
        Some(removed(removal, &owner))
    });
    let free = NAMED.saturating_sub(gc.removed.len());
    gc.removed.extend(named.take(free));
    let free = NAMED.saturating_sub(gc.kept.len());
    gc.kept.extend(room.kept.into_iter().map(kept).take(free));
}

fn removed(removal: Removal, owner: &Owner) -> GcRemoved {
    let Removal { scope, why } = removal;
    GcRemoved {
        thread_id: wire::name(owner),
        run_id: scope.run_id,
        scope: scope.scope,
        files: scope.files,
        bytes: scope.bytes,
        changed_at: Millis(scope.changed_at.saturating_mul(1000)),
        why,
    }
}

fn kept(kept: Kept) -> GcKept {
    let (why, until) = match kept.why {
        KeptFor::Live => (method::KeptFor::Live, None),
        KeptFor::Held { until } => {
            let until = Millis(until.saturating_mul(1000));
            (method::KeptFor::Held, Some(until))
        }
        KeptFor::Grace => (method::KeptFor::Grace, None),
    };
    GcKept {
        scope: kept.scope,
        why,
        until,
    }
}
