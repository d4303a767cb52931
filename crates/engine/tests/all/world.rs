//! A runtime in memory. It outlives engines, does what a test says, and remembers every call.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
};

use threadline_contract::{
    Artifact, ArtifactPath, ArtifactScope, Code, EmptyReason, Fault, NewKey, QuestionId,
    QuestionKind, QuestionOption, Removed, RunId, RuntimeId, SessionKey, Sha256, ToolKind,
};
use threadline_runtimes::{
    ArtifactIdentity, Ask, Availability, Body, End, EndStatus, Files, Follow, Frame, LaneSize,
    Logged, Manifest, Pending, Places, Readiness, Registry, Room, RoomRules, RunRef, RuntimeInfo,
    Sessions, Signal, TurnPlan, Turns, Update,
};
use tokio::sync::{mpsc, watch};

/// What the engine asked of the runtime for one run. That the registry was asked how the run stands is left out: it
/// may be asked at any time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    Prepare,
    Start,
    /// After this frame.
    Follow(i64),
    Cancel,
    Answer(String, Option<String>),
    Collect(EndStatus),
}

/// Where a run can be held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Prepare,
    Start,
    Collect,
}

#[derive(Default)]
struct OneRun {
    calls: Vec<Call>,
    reached: BTreeSet<Stage>,
    /// How often the turn was executed.
    executions: u32,
    frames: Vec<Update>,
    end: Option<End>,
    files: Vec<String>,
}

struct State {
    runs: BTreeMap<RunId, OneRun>,
    /// Runs in the order in which they were begun.
    begun: Vec<RunId>,
    held: BTreeSet<Stage>,
    /// A stop ends a run.
    stops: bool,
    /// It hears no answers.
    is_deaf: bool,
    /// What collecting fails with, one after the other.
    collecting_fails: VecDeque<Code>,
    /// The next start takes effect, and its answer is lost.
    loses_start: bool,
    sessions_forgotten: Vec<String>,
}

/// The runtime's side of all runs.
#[derive(Clone)]
pub(crate) struct World {
    state: Arc<Mutex<State>>,
    bell: Arc<watch::Sender<()>>,
    id: RuntimeId,
    lane: LaneSize,
    is_local: bool,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            state: Arc::new(Mutex::new(State {
                runs: BTreeMap::new(),
                begun: vec![],
                held: BTreeSet::new(),
                stops: true,
                is_deaf: false,
                collecting_fails: VecDeque::new(),
                loses_start: false,
                sessions_forgotten: vec![],
            })),
            bell: Arc::new(watch::Sender::new(())),
            id: RuntimeId::Builtin,
            lane: LaneSize {
                max_active: 5,
                max_queued: 20,
            },
            is_local: true,
        }
    }

    pub(crate) fn with_lane(mut self, max_active: u32, max_queued: u32) -> Self {
        self.lane = LaneSize {
            max_active,
            max_queued,
        };
        self
    }

    /// Any server can go on with its runs.
    pub(crate) fn remote(mut self) -> Self {
        self.is_local = false;
        self
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.lock());
        self.bell.send_replace(());
        changed
    }

    fn of<T>(&self, run: &RunId, change: impl FnOnce(&mut OneRun) -> T) -> T {
        self.change(|state| change(state.runs.entry(run.clone()).or_default()))
    }

    pub(crate) fn hold(&self, stage: Stage) {
        self.change(|state| state.held.insert(stage));
    }
    pub(crate) fn release(&self, stage: Stage) {
        self.change(|state| state.held.remove(&stage));
    }
    pub(crate) fn never_stops(&self) {
        self.change(|state| state.stops = false);
    }
    pub(crate) fn hears(&self, hears: bool) {
        self.change(|state| state.is_deaf = !hears);
    }
    pub(crate) fn loses_start(&self) {
        self.change(|state| state.loses_start = true);
    }
    pub(crate) fn collecting_fails(&self, codes: &[Code]) {
        self.change(|state| state.collecting_fails.extend(codes));
    }

    /// The run does something.
    pub(crate) fn does(&self, run: &RunId, update: Update) {
        self.of(run, |run| run.frames.push(update));
    }
    pub(crate) fn says(&self, run: &RunId, text: &str) {
        self.does(run, Update::Text(text.into()));
    }
    pub(crate) fn asks(&self, run: &RunId, question: &str) {
        self.does(run, Update::Asked(permission(question)));
    }
    pub(crate) fn leaves(&self, run: &RunId, file: &str) {
        self.of(run, |run| run.files.push(file.into()));
    }
    pub(crate) fn ends(&self, run: &RunId, end: End) {
        self.of(run, |run| run.end = Some(end));
    }
    pub(crate) fn completes(&self, run: &RunId) {
        self.ends(run, ended(EndStatus::Completed));
    }
    pub(crate) fn forgets(&self, run: &RunId) {
        self.change(|state| state.runs.remove(run));
    }

    pub(crate) fn calls(&self, run: &RunId) -> Vec<Call> {
        self.of(run, |run| run.calls.clone())
    }
    /// The decisions that the run has heard of, each as often as it was handed over.
    pub(crate) fn answers(&self, run: &RunId) -> Vec<(String, Option<String>)> {
        let answer = |call| match call {
            Call::Answer(question, answer) => Some((question, answer)),
            _ => None,
        };
        self.calls(run).into_iter().filter_map(answer).collect()
    }
    pub(crate) fn executions(&self, run: &RunId) -> u32 {
        self.of(run, |run| run.executions)
    }
    pub(crate) fn has_reached(&self, run: &RunId, stage: Stage) -> bool {
        self.of(run, |run| run.reached.contains(&stage))
    }
    pub(crate) fn begun(&self) -> Vec<RunId> {
        self.lock().begun.clone()
    }
    pub(crate) fn sessions_forgotten(&self) -> Vec<String> {
        self.lock().sessions_forgotten.clone()
    }

    async fn wait_for(&self, is_so: impl Fn(&State) -> bool) {
        let mut bell = self.bell.subscribe();
        while !is_so(&self.lock()) {
            if bell.changed().await.is_err() {
                return;
            }
        }
    }

    async fn pass(&self, run: &RunId, stage: Stage) {
        self.of(run, |run| run.reached.insert(stage));
        self.wait_for(|state| !state.held.contains(&stage)).await;
    }

    fn note(&self, run: &RunId, call: Call) {
        self.of(run, |run| run.calls.push(call));
    }
}

/// A permission with a yes and a no.
pub(crate) fn permission(id: &str) -> Ask {
    let option = |id: &str, label: &str, kind: &str| QuestionOption {
        option_id: id.into(),
        label: label.into(),
        kind: Some(kind.into()),
    };
    Ask {
        id: QuestionId::new(id).unwrap(),
        kind: QuestionKind::Permission,
        text: format!("{id}?"),
        options: vec![
            option("yes", "Allow", "allow_once"),
            option("no", "Reject", "reject_once"),
        ],
        free_text: false,
        tool: Some(ToolKind::Edit),
    }
}

pub(crate) fn ended(status: EndStatus) -> End {
    End {
        status,
        code: (status == EndStatus::Failed).then_some(Code::ModelFailed),
        message: None,
        text: Some("All of it.".into()),
        usage: None,
        wrote: vec![],
    }
}

fn artifact(path: &str) -> Artifact {
    Artifact {
        path: ArtifactPath::new(path).unwrap(),
        size: 4,
        sha256: Sha256([7; 32]),
        content_type: "text/plain".into(),
    }
}

impl RuntimeInfo for World {
    fn id(&self) -> &RuntimeId {
        &self.id
    }
    fn label(&self) -> &str {
        "A scripted runtime"
    }
    fn lane(&self) -> LaneSize {
        self.lane
    }
    fn is_local(&self) -> bool {
        self.is_local
    }
    fn probe(&self) -> Pending<'_, Availability> {
        Box::pin(async { Availability::new(Readiness::Ready, "ready", None) })
    }
}

impl Sessions for World {
    fn new_session_key(&self, new: &NewKey<'_>) -> SessionKey {
        SessionKey::new(format!("builtin:main:{}", new.owner.app_thread_key())).unwrap()
    }
    fn has_session<'a>(&'a self, _: &'a SessionKey) -> Pending<'a, Result<bool, Fault>> {
        Box::pin(async { Ok(true) })
    }
    fn reserve<'a>(&'a self, _: &'a SessionKey) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async { Ok(()) })
    }
    fn forget<'a>(
        &'a self,
        session: &'a SessionKey,
        runs: &'a [RunId],
    ) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async {
            self.change(|state| {
                state.sessions_forgotten.push(session.to_string());
                state.runs.retain(|run, _| !runs.contains(run));
            });
            Ok(())
        })
    }
}

impl Turns for World {
    fn prepare<'a>(&'a self, plan: &'a TurnPlan) -> Pending<'a, Result<Places, Fault>> {
        Box::pin(async {
            self.note(&plan.run, Call::Prepare);
            self.pass(&plan.run, Stage::Prepare).await;
            Ok(Places {
                scope: ArtifactScope::of(&plan.session, &plan.run).unwrap(),
                artifact_directory: "/scope".into(),
                work_folder: "/work".into(),
                attachments: vec![],
            })
        })
    }
    fn start<'a>(&'a self, plan: &'a TurnPlan, _: &'a Places) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async {
            self.note(&plan.run, Call::Start);
            self.pass(&plan.run, Stage::Start).await;
            let is_lost = self.change(|state| {
                let run = state.runs.entry(plan.run.clone()).or_default();
                if run.executions == 0 {
                    run.executions += 1;
                    state.begun.push(plan.run.clone());
                }
                std::mem::take(&mut state.loses_start)
            });
            match is_lost {
                true => Err(Fault::new(Code::ProviderUnavailable, "No answer came.")),
                false => Ok(()),
            }
        })
    }
    fn follow<'a>(&'a self, run: &'a RunRef, logged: Logged) -> Pending<'a, Result<Follow, Fault>> {
        Box::pin(async move {
            self.note(&run.run, Call::Follow(logged.frame));
            if self.executions(&run.run) == 0 {
                return Err(Fault::new(Code::RunLost, "There is no such run."));
            }
            let (to, signals) = mpsc::channel(64);
            tokio::spawn(tell(self.clone(), run.run.clone(), logged.frame, to));
            Ok(signals)
        })
    }
    fn ask_registry<'a>(&'a self, run: &'a RunRef) -> Pending<'a, Result<Registry, Fault>> {
        Box::pin(async {
            let state = self.lock();
            Ok(match state.runs.get(&run.run) {
                Some(run) if run.executions > 0 => {
                    run.end.clone().map_or(Registry::Running, Registry::Ended)
                }
                _ => Registry::NoRecord,
            })
        })
    }
    fn cancel<'a>(&'a self, run: &'a RunRef) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async {
            self.note(&run.run, Call::Cancel);
            self.change(|state| {
                let stops = state.stops;
                if let Some(run) = state.runs.get_mut(&run.run)
                    && stops
                    && run.executions > 0
                {
                    run.end.get_or_insert_with(|| ended(EndStatus::Cancelled));
                }
            });
            Ok(())
        })
    }
    fn answer<'a>(
        &'a self,
        run: &'a RunRef,
        question: &'a QuestionId,
        answer: Option<&'a str>,
    ) -> Pending<'a, Result<(), Fault>> {
        Box::pin(async move {
            if self.lock().is_deaf {
                return Err(Fault::new(Code::ProviderUnavailable, "It hears nothing."));
            }
            let answer = answer.map(str::to_owned);
            self.note(&run.run, Call::Answer(question.to_string(), answer));
            Ok(())
        })
    }
}

impl Files for World {
    fn collect<'a>(
        &'a self,
        plan: &'a TurnPlan,
        end: &'a End,
    ) -> Pending<'a, Result<Manifest, Fault>> {
        Box::pin(async {
            self.note(&plan.run, Call::Collect(end.status));
            self.pass(&plan.run, Stage::Collect).await;
            if let Some(code) = self.change(|state| state.collecting_fails.pop_front()) {
                return Err(Fault::new(code, "Not this time."));
            }
            let files = self.of(&plan.run, |run| run.files.clone());
            let artifacts: Vec<Artifact> = files.iter().map(|path| artifact(path)).collect();
            let empty_reason = artifacts.is_empty().then_some(EmptyReason::ScopeEmpty);
            Ok(Manifest {
                artifacts: artifacts.into(),
                empty_reason,
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
    fn open<'a>(&'a self, _: &'a ArtifactIdentity) -> Pending<'a, Result<Body, Fault>> {
        Box::pin(async { Err(Fault::new(Code::ArtifactNotFound, "Nobody downloads here.")) })
    }
}

/// Hands over the frames after one, as they come, then the end.
async fn tell(world: World, run: RunId, mut after: i64, to: mpsc::Sender<Signal>) {
    let mut bell = world.bell.subscribe();
    loop {
        let (frames, end) = world.of_quietly(&run);
        for (no, update) in (1..).zip(frames).skip(usize::try_from(after).unwrap()) {
            if to.send(Signal::Frame(Frame { no, update })).await.is_err() {
                return;
            }
            after = no;
        }
        if let Some(end) = end {
            let _ = to.send(Signal::End(end)).await;
            return;
        }
        tokio::select! {
            changed = bell.changed() => if changed.is_err() { return },
            () = to.closed() => return,
        }
    }
}

impl World {
    /// What a run did so far, and its end.
    fn of_quietly(&self, run: &RunId) -> (Vec<Update>, Option<End>) {
        let state = self.lock();
        let run = state.runs.get(run);
        run.map_or((vec![], None), |run| (run.frames.clone(), run.end.clone()))
    }
}
