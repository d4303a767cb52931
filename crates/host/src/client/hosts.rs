//! All hosts of one data folder.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use threadline_files::{FileKind, Lock, LockError, Reason, Root};
use tokio::{
    sync::Mutex,
    task::spawn_blocking,
    time::{sleep, timeout},
};

use super::{
    Attached, Control, Frames, Launch, attach,
    connect::{Connection, unreachable},
};
use crate::{Hello, HostError, Spec, StartCode, State, place::Place, wire::ToHost};

/// How long a host may take to hear that it should end.
const TO_ANSWER: Duration = Duration::from_secs(1);
/// How long a host may take to end when it was asked to.
const TO_END: Duration = Duration::from_secs(3);
/// How long what is killed may take to be gone.
const TO_DIE: Duration = Duration::from_secs(2);

/// How often a host that cannot be connected to is looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// All hosts of one data folder.
#[derive(Clone, Debug)]
pub struct Hosts {
    pub(super) root: PathBuf,
    launch: Launch,
    /// One sweep at a time: whoever waits for another's finds its work done.
    pub(super) sweeping: Arc<Mutex<()>>,
}

/// How a session's host stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There is none.
    Absent,
    /// It is alive.
    Alive(State),
    /// It has ended, and said how.
    Ended(State),
    /// It was killed: the agent is lost.
    Lost(State),
}

impl Hosts {
    /// The hosts below this folder (an absolute path), and how new ones are started.
    pub fn new(root: impl Into<PathBuf>, launch: Launch) -> Self {
        Self {
            root: root.into(),
            launch,
            sweeping: Arc::default(),
        }
    }

    /// Where a session's host keeps its journal and its logs.
    pub fn folder(&self, session: &str) -> PathBuf {
        self.place(session).folder().to_owned()
    }

    /// How a session's host stands.
    pub async fn look(&self, session: &str) -> Result<Standing, HostError> {
        let place = self.place(session);
        let standing = blocking(move || standing(&place)).await?;
        if let Standing::Alive(state) | Standing::Ended(state) | Standing::Lost(state) = &standing
            && state.session != session
        {
            return Err(HostError::InUse {
                session: state.session.clone(),
            });
        }
        Ok(standing)
    }

    /// Folders of hosts that cannot be read, and why: all are looked at. What such a host left running cannot be
    /// found. Its folder stands in no other session's way.
    pub async fn unreadable(&self) -> Result<Vec<(PathBuf, HostError)>, HostError> {
        let root = self.root.clone();
        blocking(move || {
            let why = |place: Place| {
                let error = place.read_state().err()?;
                Some((place.folder().to_owned(), error))
            };
            Ok(places(&root)?.into_iter().filter_map(why).collect())
        })
        .await
    }

    /// Hosts that are alive, and those that were killed since the system started. Of the sessions whose hosts
    /// have ended, nothing is read, however many there are.
    pub async fn present(&self) -> Result<Vec<Standing>, HostError> {
        let root = self.root.clone();
        blocking(move || {
            let is_present =
                |found: &Standing| matches!(found, Standing::Alive(_) | Standing::Lost(_));
            let found = places(&root)?
                .iter()
                .filter(|place| place.has_socket())
                .filter_map(|place| standing(place).ok())
                .filter(is_present)
                .collect();
            Ok(found)
        })
        .await
    }

    /// Asks a host that is alive how it stands, without disturbing whoever is attached.
    pub async fn inspect(&self, session: &str) -> Result<Hello, HostError> {
        Ok(Connection::open(&self.place(session)).await?.1)
    }

    /// Starts a host and its agent. What an earlier host of the session left on the disk goes: read it
    /// before, with [`rest`](Self::rest). What it left running is ended first.
    pub async fn start(&self, spec: &Spec) -> Result<State, HostError> {
        let bad = |why| HostError::not_started(StartCode::BadSpec, why);
        spec.check().map_err(bad)?;
        if !self.root.is_absolute() {
            return Err(bad(
                "The folder of the hosts must be an absolute path.".into()
            ));
        }
        let place = self.place(&spec.session);
        if let Standing::Alive(state) = self.look(&spec.session).await?
            && Connection::open(&place).await.is_ok()
        {
            return Err(HostError::InUse {
                session: state.session,
            });
        }
        let started = match self.launch.start(&place, spec).await {
            // Perhaps by what a killed host of another session left in this folder.
            Err(HostError::NotStarted {
                code: StartCode::FolderBusy,
                ..
            }) if self.sweep().await?.swept.iter().any(|one| one.killed > 0) => {
                self.launch.start(&place, spec).await
            }
            started => started,
        };
        started?;
        let state = blocking(move || place.read_state()).await?;
        state.ok_or(HostError::Lost)
    }

    /// Attaches to a host after an entry that is in the bridge's own keeping (0: none). Whoever was
    /// attached before is no longer heard. [`HostError::Gone`] when that host has ended or was killed:
    /// then [`rest`](Self::rest) tells how it went on.
    pub async fn attach(
        &self,
        session: &str,
        boot: &str,
        after: u64,
    ) -> Result<Attached, HostError> {
        let not_there = || HostError::NotThere {
            session: session.to_owned(),
        };
        match self.look(session).await? {
            Standing::Ended(state) | Standing::Lost(state) if state.boot == boot => {
                Err(HostError::Gone)
            }
            Standing::Alive(state) if state.boot == boot => {
                let place = self.place(session);
                match attach::attach(&place, state.clone(), after).await {
                    // It may just be ending.
                    Err(HostError::Unreachable { .. }) if gone(&state, TO_END).await => {
                        Err(HostError::Gone)
                    }
                    attached => attached,
                }
            }
            _ => Err(not_there()),
        }
    }

    /// Attaches to the session's host, or starts one and attaches to that. `known` is the host that the
    /// caller has met, and the last entry of it that is in the caller's own keeping.
    pub async fn start_or_attach(
        &self,
        spec: &Spec,
        known: Option<(&str, u64)>,
    ) -> Result<(State, Attached), HostError> {
        let (state, after) = match (self.look(&spec.session).await?, known) {
            (Standing::Alive(state), Some((boot, after))) if state.boot == boot => (state, after),
            (Standing::Alive(state), _) => (state, 0),
            _ => (self.start(spec).await?, 0),
        };
        let attached = self.attach(&spec.session, &state.boot, after).await?;
        Ok((state, attached))
    }

    /// What a host that is gone wrote down after an entry. It ends with [`What::Ended`](crate::What::Ended), or
    /// with [`HostError::Lost`].
    pub async fn rest(&self, session: &str, boot: &str, after: u64) -> Result<Frames, HostError> {
        match self.look(session).await? {
            Standing::Ended(state) | Standing::Lost(state) if state.boot == boot => {
                Ok(Frames::on_disk(self.place(session), state, after))
            }
            _ => Err(HostError::NotThere {
                session: session.to_owned(),
            }),
        }
    }

    /// Ends a session's host and its agent, for certain. Can be repeated.
    pub async fn stop(&self, session: &str) -> Result<(), HostError> {
        let Standing::Alive(state) = self.look(session).await? else {
            return Ok(());
        };
        let place = self.place(session);
        let asking = async { Control::open(&place, &state, None).await?.stop().await };
        let asked = timeout(TO_ANSWER, asking).await;
        if !matches!(asked, Ok(Ok(()))) {
            state.host.signal(Signal::TERM);
        }
        if !gone(&state, TO_END).await {
            state.host.signal(Signal::KILL);
            if !gone(&state, TO_DIE).await {
                return Err(HostError::NotEnded {
                    pid: state.host.pid,
                    why: "it was killed and is still there".into(),
                });
            }
        }
        match self.sweep_session(session).await? {
            Some(swept) if !swept.clean => Err(HostError::NotEnded {
                pid: state.agent.pid,
                why: "its agent was killed and is still there".into(),
            }),
            _ => Ok(()),
        }
    }

    /// Waits until a host is gone, in whatever way. Costs a connection, which its end breaks.
    pub async fn until_gone(&self, state: &State) {
        let place = self.place(&state.session);
        while state.host.is_alive() {
            if let Ok((mut connection, hello)) = Connection::open(&place).await
                && hello.boot == state.boot
                && connection
                    .say(&ToHost::Control { lease: None })
                    .await
                    .is_ok()
            {
                while let Ok(Some(_)) = connection.hear().await {}
                if gone(state, TO_END).await {
                    return;
                }
            }
            // It is busy, or its socket is gone while it is not.
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Removes what a session's host left on the disk. One that is alive is not touched.
    pub async fn forget(&self, session: &str) -> Result<(), HostError> {
        if let Standing::Alive(state) = self.look(session).await? {
            return Err(HostError::InUse {
                session: state.session,
            });
        }
        let place = self.place(session);
        let (root, session) = (self.root.clone(), session.to_owned());
        blocking(move || {
            let Some(name) = place.folder().file_name() else {
                return Ok(());
            };
            if !place.folder().exists() {
                return Ok(());
            }
            let Some(_lock) = held(&place)? else {
                return Err(HostError::InUse { session });
            };
            Ok(Root::open(root)?.remove_dir_all(name)?)
        })
        .await
    }

    pub(super) fn place(&self, session: &str) -> Place {
        Place::of(&self.root, session)
    }
}

pub(super) async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, HostError> + Send + 'static,
) -> Result<T, HostError> {
    spawn_blocking(act)
        .await
        .map_err(|e| unreachable(e.to_string()))?
}

async fn gone(state: &State, patience: Duration) -> bool {
    let begun = Instant::now();
    while state.host.is_alive() {
        if begun.elapsed() > patience {
            return false;
        }
        sleep(Duration::from_millis(5)).await;
    }
    true
}

fn standing(place: &Place) -> Result<Standing, HostError> {
    Ok(match place.read_state()? {
        None => Standing::Absent,
        Some(state) if state.ended.is_some() => Standing::Ended(state),
        Some(state) if state.host.is_alive() => Standing::Alive(state),
        // It may have ended between the two looks.
        Some(state) => match place.read_state()? {
            Some(now) if now.boot == state.boot && now.ended.is_some() => Standing::Ended(now),
            _ => Standing::Lost(state),
        },
    })
}

pub(super) fn places(root: &Path) -> Result<Vec<Place>, HostError> {
    let held = match Root::open(root) {
        Ok(held) => held,
        Err(e) if e.reason() == Reason::NotFound => return Ok(vec![]),
        Err(e) => return Err(e.into()),
    };
    let is_one = |name: &str| name.len() == 16 && name.bytes().all(|b| b.is_ascii_hexdigit());
    Ok(held
        .entries("")?
        .iter()
        .filter(|entry| entry.kind == FileKind::Dir && entry.name.to_str().is_some_and(is_one))
        .map(|entry| Place::at(root.join(&entry.name)))
        .collect())
}

/// The lock of a session without a host, or nothing when it has one.
pub(super) fn held(place: &Place) -> Result<Option<Lock>, HostError> {
    match Lock::try_acquire(place.lock()) {
        Ok(lock) => Ok(Some(lock)),
        Err(LockError::Held { .. }) => Ok(None),
        Err(LockError::Files(e)) if e.reason() == Reason::NotFound => Ok(None),
        Err(LockError::Files(e)) => Err(e.into()),
    }
}
