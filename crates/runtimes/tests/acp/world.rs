//! A data folder of its own for each test, with an agent that can be ended and begun again.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use threadline_contract::{AppThreadKey, QuestionId, RunId, SessionKey, Step};
use threadline_host::{Hosts, Launch, Standing, State};
use threadline_runtimes::{
    ArtifactIdentity, Ask, End, EndStatus, Files as _, Follow, Frame, LocalWorkspace, Logged,
    Manifest, Signal as Sign, TurnPlan, Turns as _, Update,
    acp::{Acp, AcpConfig, AgentConfig, AgentHosts},
};
use tokio::time::timeout;

/// Nothing in these tests takes longer.
pub(crate) const LONG: Duration = Duration::from_secs(40);

pub(crate) struct World {
    folder: TempDir,
    pub(crate) config: AcpConfig,
}

fn fixture() -> PathBuf {
    env!("CARGO_BIN_EXE_threadline-scripted-agent").into()
}

impl World {
    pub(crate) fn new() -> Self {
        Self::like(&[])
    }

    /// With an agent that gets these arguments.
    pub(crate) fn like(args: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let data = folder.path().join("data");
        let home = folder.path().join("home");
        std::fs::create_dir_all(&home).unwrap();
        let launch = Launch {
            program: fixture(),
            args: vec!["agent-host".into()],
        };
        let program = fixture();
        let words = [program.to_str().unwrap(), "agent"];
        let command = words.iter().chain(args).map(|w| (*w).to_owned()).collect();
        let mut agent = AgentConfig::new("scripted", command);
        agent
            .env
            .insert("HOME".into(), home.to_str().unwrap().into());
        let config = AcpConfig {
            agent,
            records: data.join("acp"),
            workspace: LocalWorkspace::at(&data).unwrap(),
            hosts: AgentHosts::new(Hosts::new(data.join("hosts"), launch)),
        };
        Self { folder, config }
    }

    /// A runtime on this world's folders, as after a start of the process.
    pub(crate) fn acp(&self) -> Acp {
        Acp::new(self.config.clone())
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A folder of the user's own.
    pub(crate) fn own_folder(&self) -> PathBuf {
        let own = self.folder.path().join("mine");
        std::fs::create_dir_all(&own).unwrap();
        own
    }

    /// Every host that was ever started here.
    pub(crate) fn hosts(&self) -> Vec<State> {
        let folders = std::fs::read_dir(self.folder.path().join("data/hosts"));
        let folders = folders.into_iter().flatten().flatten();
        let states = folders.filter_map(|folder| {
            let text = std::fs::read(folder.path().join("state.json")).ok()?;
            serde_json::from_slice(&text).ok()
        });
        states.collect()
    }

    /// The host of the session, which is alive.
    pub(crate) fn host(&self) -> State {
        let mut alive = self.hosts();
        alive.retain(|state| state.host.is_alive());
        assert_eq!(alive.len(), 1, "one host: {alive:?}");
        alive.remove(0)
    }

    /// What hosts have written down here, without the signs that keep texts within texts.
    pub(crate) fn journaled(&self) -> String {
        let inside = |folder: PathBuf| {
            let found = std::fs::read_dir(folder).into_iter().flatten();
            found.flatten().map(|entry| entry.path())
        };
        let hosts = inside(self.folder.path().join("data/hosts"));
        let pieces = hosts.flat_map(|host| inside(host.join("frames")));
        let bytes = pieces.flat_map(|piece| std::fs::read(piece).unwrap_or_default());
        let text = String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned();
        text.replace(['\\', ' '], "")
    }

    pub(crate) async fn standing(&self, plan: &TurnPlan) -> &'static str {
        let hosts = self.bare_hosts();
        match hosts.look(plan.session.as_str()).await.unwrap() {
            Standing::Absent => "absent",
            Standing::Alive(_) => "alive",
            Standing::Ended(_) => "ended",
            Standing::Lost(_) => "lost",
        }
    }

    pub(crate) fn bare_hosts(&self) -> Hosts {
        let launch = Launch {
            program: fixture(),
            args: vec!["agent-host".into()],
        };
        Hosts::new(self.folder.path().join("data/hosts"), launch)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for state in self.hosts() {
            if state.host.is_alive() {
                kill(state.host.pid, Signal::TERM);
            }
        }
    }
}

pub(crate) fn kill(pid: u32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal);
}

/// Whether a process is there and has not ended.
pub(crate) fn is_there(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    state.is_some_and(|state| !state.starts_with(['Z', 'X']))
}

/// A turn of thread `t`.
pub(crate) fn plan(run: &str, prompt: &str) -> TurnPlan {
    plan_of("t", run, prompt)
}

pub(crate) fn plan_of(thread: &str, run: &str, prompt: &str) -> TurnPlan {
    let thread = AppThreadKey::new(thread).unwrap();
    TurnPlan {
        session: SessionKey::for_runtime("acp", "scripted", &thread),
        owner: thread.into(),
        run: RunId::new(run).unwrap(),
        prompt: prompt.into(),
        instructions: None,
        tools: vec![],
        continues: true,
        working_directory: None,
        expected_dirs: vec![],
        deliverables: vec![],
        attachments: vec![],
    }
}

/// Begins a turn and follows it from the start.
pub(crate) async fn begin(acp: &Acp, plan: &TurnPlan) -> Follow {
    let places = acp.prepare(plan).await.unwrap();
    acp.start(plan, &places).await.unwrap();
    acp.follow(&plan.run_ref(), Logged::up_to(0)).await.unwrap()
}

/// Runs a turn to its end.
pub(crate) async fn finish(acp: &Acp, plan: &TurnPlan) -> (Vec<Update>, End) {
    let follow = begin(acp, plan).await;
    let (frames, end) = rest(follow).await;
    in_order(&frames, 1);
    (updates(&frames), end.expect("an end"))
}

pub(crate) fn in_order(frames: &[Frame], first: i64) {
    let numbers: Vec<i64> = frames.iter().map(|f| f.no).collect();
    let want: Vec<i64> = (first..first + frames.len() as i64).collect();
    assert_eq!(numbers, want);
}

/// The next signal.
pub(crate) async fn signal(follow: &mut Follow) -> Option<Sign> {
    timeout(LONG, follow.recv())
        .await
        .expect("a signal in time")
}

/// Everything that is still to come, and the end if there is one.
pub(crate) async fn rest(mut follow: Follow) -> (Vec<Frame>, Option<End>) {
    let mut frames = Vec::new();
    while let Some(next) = signal(&mut follow).await {
        match next {
            Sign::Frame(frame) => frames.push(frame),
            Sign::End(end) => {
                assert_eq!(signal(&mut follow).await, None, "nothing follows the end");
                return (frames, Some(end));
            }
        }
    }
    (frames, None)
}

/// Waits for the first question, and gives it with the frames before it.
pub(crate) async fn question(follow: &mut Follow) -> (Vec<Frame>, Ask) {
    let mut frames = Vec::new();
    loop {
        match signal(follow).await {
            Some(Sign::Frame(frame)) => {
                let asked = match &frame.update {
                    Update::Asked(ask) => Some(ask.clone()),
                    _ => None,
                };
                frames.push(frame);
                if let Some(ask) = asked {
                    return (frames, ask);
                }
            }
            other => panic!("nothing was asked: {other:?}"),
        }
    }
}

/// Waits for the first text.
pub(crate) async fn said(follow: &mut Follow) -> String {
    loop {
        match signal(follow).await {
            Some(Sign::Frame(frame)) => {
                if let Update::Text(text) = frame.update {
                    return text;
                }
            }
            other => panic!("nothing was said: {other:?}"),
        }
    }
}

/// Updates without what differs from one time to the next.
pub(crate) fn updates(frames: &[Frame]) -> Vec<Update> {
    let update = |frame: &Frame| match frame.update.clone() {
        Update::Step(step) => Update::Step(Step {
            duration_ms: step.duration_ms.map(|_| 0),
            ..step
        }),
        Update::Asked(ask) => Update::Asked(Ask {
            id: QuestionId::new("q").unwrap(),
            ..ask
        }),
        Update::Unasked(_) => Update::Unasked(QuestionId::new("q").unwrap()),
        update => update,
    };
    frames.iter().map(update).collect()
}

/// All texts together.
pub(crate) fn texts(updates: &[Update]) -> String {
    let text = |update: &Update| match update {
        Update::Text(text) => text.clone(),
        _ => String::new(),
    };
    updates.iter().map(text).collect()
}

/// An end as a completed turn has it.
pub(crate) fn completed(text: &str, wrote: &[&str]) -> End {
    End {
        status: EndStatus::Completed,
        code: None,
        message: None,
        text: (!text.is_empty()).then(|| text.into()),
        usage: Some(threadline_contract::Usage {
            input_tokens: Some(11),
            output_tokens: Some(7),
            cost_usd: None,
        }),
        wrote: wrote.iter().map(|w| (*w).to_owned()).collect(),
    }
}

/// The files of a run, as they are delivered: path and content; and everything that was not.
pub(crate) async fn files(
    acp: &Acp,
    plan: &TurnPlan,
    end: &End,
) -> (BTreeMap<String, String>, Manifest) {
    let manifest = acp.collect(plan, end).await.unwrap();
    let mut files = BTreeMap::new();
    for artifact in manifest.artifacts.iter().map(Result::unwrap) {
        let identity = ArtifactIdentity {
            session: plan.session.clone(),
            run: plan.run.clone(),
            path: artifact.path.clone(),
            size: artifact.size,
            sha256: artifact.sha256,
        };
        let body = acp.open(&identity).await.unwrap();
        let bytes = body.reader.read_at(0, 100_000).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        files.insert(artifact.path.to_string(), text);
    }
    (files, manifest)
}

pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < LONG, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
