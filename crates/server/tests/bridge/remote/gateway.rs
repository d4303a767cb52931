//! A gateway as a test wants it: away, slow, or with other bytes than it promised.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
};

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use threadline_contract::{
    Artifact, ArtifactPath, ArtifactScope, Code, Fault, NewKey, QuestionId, Removed, RunId,
    RuntimeId, SessionKey, Sha256 as Digest, Usage,
};
use threadline_runtimes::{
    ArtifactIdentity, Ask, Availability, Body, End, EndStatus, Files, Follow, Frame, LaneSize,
    Logged, Manifest, Pending, Places, ReadAt, Readiness, Registry, Room, RoomRules, RunRef,
    RuntimeInfo, Sessions, Signal, TurnPlan, Turns, Update,
};
use tokio::sync::{mpsc, watch};

/// A gateway as a test wants it.
pub(crate) struct Gateway {
    pub(super) id: RuntimeId,
    pub(super) lane: LaneSize,
    /// Only the server that sent a run to it can go on with the run.
    pub(crate) is_noted_here: bool,
    /// It can be reached.
    pub(super) up: watch::Sender<bool>,
    /// How many more calls about files fail before one works.
    pub(super) failures: AtomicU32,
    /// Instead of that, so many zeros with this digest.
    pub(super) zeros: Mutex<Option<(u64, Digest)>>,
    /// How many bytes it hands over at once.
    pub(super) piece: AtomicUsize,
    /// How often bytes were asked for.
    pub(super) reads: AtomicU64,
    /// How a run ends, once it shall.
    pub(super) end: watch::Sender<Option<End>>,
    /// What it hands over for `a.txt`, which claims to be `CONTENT`.
    pub(super) content: Mutex<Vec<u8>>,
    /// What it asks for at the beginning of a run.
    pub(super) asks: Mutex<Option<Ask>>,
    /// What a run uses while it works.
    pub(super) uses: Mutex<Option<Usage>>,
    /// It has no record of any run.
    pub(super) forgets: AtomicBool,
    /// It is there, but cannot say how a run stands.
    pub(super) refuses: AtomicBool,
    /// It takes no answers.
    pub(super) deaf: AtomicBool,
    /// It takes for ever to prepare a run.
    pub(super) stuck: AtomicBool,
    /// It has no plugin that could tell of files.
    pub(super) plain: AtomicBool,
    /// How often following a run panics before it works.
    pub(super) panics: AtomicU32,
    pub(super) answers: Mutex<Vec<Option<String>>>,
    /// Sessions for which nothing is kept running any more.
    pub(super) closed: Mutex<Vec<String>>,
}

pub(super) const CONTENT: &[u8] = b"0123456789";

pub(super) fn ended(status: EndStatus) -> End {
    End {
        status,
        code: (status == EndStatus::Failed).then_some(Code::ExecutionFailed),
        message: None,
        text: Some("done".into()),
        usage: None,
        wrote: vec![],
    }
}

impl Gateway {
    pub(crate) fn new() -> Self {
        Self {
            id: RuntimeId::OpenClaw,
            lane: LaneSize {
                max_active: 1,
                max_queued: 3,
            },
            is_noted_here: false,
            up: watch::Sender::new(true),
            failures: AtomicU32::new(0),
            zeros: Mutex::default(),
            piece: AtomicUsize::new(4),
            reads: AtomicU64::new(0),
            end: watch::Sender::new(None),
            content: Mutex::new(CONTENT.to_vec()),
            asks: Mutex::default(),
            uses: Mutex::default(),
            forgets: AtomicBool::new(false),
            refuses: AtomicBool::new(false),
            deaf: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
            plain: AtomicBool::new(false),
            panics: AtomicU32::new(0),
            answers: Mutex::default(),
            closed: Mutex::default(),
        }
    }

    fn reached(&self) -> Result<(), Fault> {
        match *self.up.borrow() {
            true => Ok(()),
            false => Err(Fault::new(
                Code::ProviderUnavailable,
                "The gateway is away.",
            )),
        }
    }

    fn file(&self) -> Result<(), Fault> {
        self.reached()?;
        let failed = self
            .failures
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        match failed {
            Ok(_) => Err(Fault::new(Code::RuntimeReadFailed, "Not this time.")),
            Err(_) => Ok(()),
        }
    }
}

struct File(Arc<Gateway>);

impl ReadAt for File {
    fn read_at(&self, offset: u64, len: usize) -> Pending<'_, Result<Bytes, Fault>> {
        Box::pin(async move {
            self.0.file()?;
            self.0.reads.fetch_add(1, Ordering::SeqCst);
            let content = self.0.content.lock().unwrap();
            let from = content.len().min(offset as usize);
            let piece = self.0.piece.load(Ordering::SeqCst);
            let zeros = self.0.zeros.lock().unwrap().map(|(size, _)| size);
            if let Some(size) = zeros {
                let left = size.saturating_sub(offset).min(len.min(piece) as u64);
                return Ok(Bytes::from(vec![0; left as usize]));
            }
            let to = content.len().min(from + len.min(piece));
            Ok(Bytes::copy_from_slice(&content[from..to]))
        })
    }
}

/// The runtime that the engine holds.
pub(crate) struct Remote(pub(crate) Arc<Gateway>);

impl RuntimeInfo for Remote {
    fn id(&self) -> &RuntimeId {
        &self.0.id
    }
    fn label(&self) -> &str {
        "A gateway"
    }
    fn lane(&self) -> LaneSize {
        self.0.lane
    }
    fn busy_code(&self) -> Code {
        match self.0.id.is_gateway() {
            true => Code::GatewayBusy,
            false => Code::RuntimeBusy,
        }
    }
    fn is_local(&self) -> bool {
        self.0.is_noted_here
    }
    fn keeps_sessions(&self) -> bool {
        false
    }
    fn probe(&self) -> Pending<'_, Availability> {
        Box::pin(async {
            let reached = self.0.reached();
            let place = Some("ws://gateway.private:18789".to_owned());
            match reached {
                Ok(()) => Availability::new(Readiness::Ready, "version 1", place),
                Err(fault) => Availability::new(Readiness::Unreachable, fault.message, place),
            }
        })
    }
    fn waits_for(&self) -> Option<String> {
        let waits = self.0.stuck.load(Ordering::SeqCst);
        waits.then(|| "It starts. The turn waits.".into())
    }
    fn takes_folder(&self) -> bool {
        false
    }
    fn collects_later(&self) -> bool {
        true
    }
}

impl Sessions for Remote {
    fn new_session_key(&self, new: &NewKey<'_>) -> SessionKey {
        SessionKey::for_owner("agent:main", new)
    }
    fn reserve<'a>(&'a self, _: &'a SessionKey) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async { Ok(()) })
    }
    fn close<'a>(&'a self, session: &'a SessionKey) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async {
            self.0.closed.lock().unwrap().push(session.to_string());
            Ok(())
        })
    }
    fn forget<'a>(&'a self, _: &'a SessionKey, _: &'a [RunId]) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async { Ok(()) })
    }
}

impl Turns for Remote {
    fn prepare<'a>(&'a self, plan: &'a TurnPlan) -> Pending<'a, Result<Places, Fault>> {
        Box::pin(async {
            if self.0.stuck.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            self.0.reached()?;
            Ok(Places {
                scope: ArtifactScope::of(&plan.session, &plan.run).unwrap(),
                artifact_directory: "/there".into(),
                work_folder: "/there".into(),
                attachments: vec![],
            })
        })
    }
    fn start<'a>(&'a self, _: &'a TurnPlan, _: &'a Places) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async { self.0.reached() })
    }
    fn follow<'a>(&'a self, _: &'a RunRef, logged: Logged) -> Pending<'a, Result<Follow, Fault>> {
        let after = logged.frame;
        Box::pin(async move {
            self.0.reached()?;
            let panics = &self.0.panics;
            let panic = |n: u32| n.checked_sub(1);
            let left = panics.fetch_update(Ordering::SeqCst, Ordering::SeqCst, panic);
            assert!(left.is_err(), "the test wants it to panic");
            if self.0.forgets.load(Ordering::SeqCst) {
                return Err(Fault::new(Code::RunLost, "There is no such run."));
            }
            let (send, receive) = mpsc::channel(4);
            let gateway = self.0.clone();
            tokio::spawn(async move {
                let asked = gateway.asks.lock().unwrap().clone().map(Update::Asked);
                let used = gateway.uses.lock().unwrap().map(Update::Usage);
                for (no, update) in (1..).zip(asked.into_iter().chain(used)) {
                    if no > after {
                        let _ = send.send(Signal::Frame(Frame { no, update })).await;
                    }
                }
                let (mut end, mut up) = (gateway.end.subscribe(), gateway.up.subscribe());
                let ended = async { end.wait_for(Option::is_some).await.map(|e| e.clone()) };
                let broken = async { up.wait_for(|up| !up).await.map(|_| ()) };
                let end = tokio::select! {
                    end = ended => end.ok().flatten(),
                    // Nothing more is heard.
                    _ = broken => None,
                    () = send.closed() => None,
                };
                if let Some(end) = end {
                    let _ = send.send(Signal::End(end)).await;
                }
            });
            Ok(receive)
        })
    }
    fn ask_registry<'a>(&'a self, _: &'a RunRef) -> Pending<'a, Result<Registry, Fault>> {
        Box::pin(async {
            self.0.reached()?;
            if self.0.refuses.load(Ordering::SeqCst) {
                return Err(Fault::new(Code::ExecutionFailed, "It cannot say."));
            }
            if self.0.forgets.load(Ordering::SeqCst) {
                return Ok(Registry::NoRecord);
            }
            Ok(self
                .0
                .end
                .borrow()
                .clone()
                .map_or(Registry::Running, Registry::Ended))
        })
    }
    fn lost_run(&self) -> End {
        End::failed(
            Code::TerminalWithoutEvidence,
            "It has no record of this run.",
        )
    }
    fn cancel<'a>(&'a self, _: &'a RunRef) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async { Ok(()) })
    }
    fn answer<'a>(
        &'a self,
        _: &'a RunRef,
        _: &'a QuestionId,
        answer: Option<&'a str>,
    ) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async move {
            if self.0.deaf.load(Ordering::SeqCst) {
                return Err(Fault::new(Code::ProviderUnavailable, "It does not hear."));
            }
            let mut answers = self.0.answers.lock().unwrap();
            let answer = answer.map(str::to_owned);
            if answers.last() != Some(&answer) {
                answers.push(answer);
            }
            Ok(())
        })
    }
}

impl Files for Remote {
    fn collect<'a>(&'a self, _: &'a TurnPlan, _: &'a End) -> Pending<'a, Result<Manifest, Fault>> {
        Box::pin(async {
            self.0.reached()?;
            if self.0.plain.load(Ordering::SeqCst) {
                return Err(Fault::new(Code::ProviderUnavailable, "It has no plugin."));
            }
            let own = (CONTENT.len() as u64, Digest(Sha256::digest(CONTENT).into()));
            let (size, sha256) = self.0.zeros.lock().unwrap().unwrap_or(own);
            let artifact = |path: &str| Artifact {
                path: ArtifactPath::new(path).unwrap(),
                size,
                sha256,
                content_type: "text/plain".into(),
            };
            Ok(Manifest {
                artifacts: vec![artifact("a.txt")].into(),
                ..Manifest::default()
            })
        })
    }
    fn hold<'a>(&'a self, _: &'a RunRef, _: i64) -> Pending<'a, Result<Option<Removed>, Fault>> {
        Box::pin(async { Ok(None) })
    }
    fn make_room(&self, _: RoomRules) -> Pending<'_, Result<Room, Fault>> {
        Box::pin(async { Ok(Room::default()) })
    }
    fn open<'a>(&'a self, artifact: &'a ArtifactIdentity) -> Pending<'a, Result<Body, Fault>> {
        Box::pin(async {
            self.0.file()?;
            Ok(Body {
                artifact: Artifact {
                    path: artifact.path.clone(),
                    size: artifact.size,
                    sha256: artifact.sha256,
                    content_type: "text/plain".into(),
                },
                reader: Box::new(File(self.0.clone())),
            })
        })
    }
}
