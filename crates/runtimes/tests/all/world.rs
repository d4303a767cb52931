//! A data folder of its own for each test, and a runtime on it that can be ended and begun again.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::TempDir;
use threadline_contract::{AppThreadKey, RunId, SessionKey, Step};
use threadline_e2e::scripted_model::{Seen, serve_seen};
use threadline_retry::Backoff;
use threadline_runtimes::{
    End, EndStatus, Files as _, Follow, Frame, LocalWorkspace, Logged, Signal, TurnPlan,
    Turns as _, Update,
    builtin::{Builtin, BuiltinConfig, Found, Limits, Looking, ModelConfig},
};
use tokio::{net::TcpListener, task::JoinHandle, time::timeout};

/// Nothing in these tests takes longer.
pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) struct World {
    folder: TempDir,
    pub(crate) config: BuiltinConfig,
    pub(crate) seen: Seen,
    model: Option<JoinHandle<()>>,
}

impl World {
    /// Without a model.
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let data = folder.path().join("data");
        let workspace = LocalWorkspace::at(&data).unwrap();
        let mut config = BuiltinConfig::new(data.join("runs"), workspace);
        config.looking = Looking::Told(Found::default());
        config.pause = Duration::ZERO;
        config.limits = Limits {
            backoff: Backoff::from_millis(1, 32),
            silence: Duration::from_secs(5),
            ..Limits::default()
        };
        Self {
            folder,
            config,
            seen: Seen::default(),
            model: None,
        }
    }

    /// With the scripted model of this name.
    pub(crate) async fn with_model(name: &str) -> Self {
        // Only the first test of a process installs it; the others find it there.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut world = Self::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1/", listener.local_addr().unwrap());
        let served = serve_seen(listener, world.seen.clone());
        world.model = Some(tokio::spawn(async { served.await.unwrap() }));
        world.config.model = Some(ModelConfig {
            url,
            key: Some("sk-very-secret".into()),
            model: name.into(),
        });
        world
    }

    /// A runtime on this world's folders, as after a start of the process.
    pub(crate) fn builtin(&self) -> Builtin {
        Builtin::new(self.config.clone()).unwrap()
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn journal(&self, plan: &TurnPlan) -> PathBuf {
        let session = threadline_contract::scope::segment(plan.session.as_str());
        let folder = self.config.records.join(session);
        folder.join(format!("{}.journal", plan.run))
    }

    /// Everything that lies in the records, for looking for what must not be there.
    pub(crate) fn records(&self) -> String {
        let mut text = String::new();
        for session in std::fs::read_dir(&self.config.records).unwrap() {
            for file in std::fs::read_dir(session.unwrap().path()).unwrap() {
                text.push_str(&std::fs::read_to_string(file.unwrap().path()).unwrap());
            }
        }
        text
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(model) = &self.model {
            model.abort();
        }
    }
}

/// A turn of thread `t`.
pub(crate) fn plan(run: &str, prompt: &str) -> TurnPlan {
    plan_of("t", run, prompt)
}

pub(crate) fn plan_of(thread: &str, run: &str, prompt: &str) -> TurnPlan {
    let thread = AppThreadKey::new(thread).unwrap();
    TurnPlan {
        session: SessionKey::for_runtime("builtin", "main", &thread),
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
pub(crate) async fn begin(builtin: &Builtin, plan: &TurnPlan) -> Follow {
    let places = builtin.prepare(plan).await.unwrap();
    builtin.start(plan, &places).await.unwrap();
    builtin
        .follow(&plan.run_ref(), Logged::up_to(0))
        .await
        .unwrap()
}

/// Runs a turn to its end.
pub(crate) async fn finish(builtin: &Builtin, plan: &TurnPlan) -> (Vec<Frame>, End) {
    let follow = begin(builtin, plan).await;
    let (frames, end) = rest(follow).await;
    let numbers: Vec<i64> = frames.iter().map(|f| f.no).collect();
    assert_eq!(numbers, (1..=frames.len() as i64).collect::<Vec<_>>());
    (frames, end.expect("an end"))
}

/// The next signal.
pub(crate) async fn signal(follow: &mut Follow) -> Option<Signal> {
    timeout(LONG, follow.recv())
        .await
        .expect("a signal in time")
}

/// Everything that is still to come, and the end if there is one.
pub(crate) async fn rest(mut follow: Follow) -> (Vec<Frame>, Option<End>) {
    let mut frames = Vec::new();
    while let Some(next) = signal(&mut follow).await {
        match next {
            Signal::Frame(frame) => frames.push(frame),
            Signal::End(end) => {
                assert_eq!(signal(&mut follow).await, None, "nothing follows the end");
                return (frames, Some(end));
            }
        }
    }
    (frames, None)
}

/// Waits for the first update that fits.
pub(crate) async fn until<T>(follow: &mut Follow, mut fits: impl FnMut(&Update) -> Option<T>) -> T {
    loop {
        match signal(follow).await {
            Some(Signal::Frame(frame)) => {
                if let Some(found) = fits(&frame.update) {
                    return found;
                }
            }
            other => panic!("it did not come: {other:?}"),
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
        update => update,
    };
    frames.iter().map(update).collect()
}

/// An end as a completed turn has it.
pub(crate) fn completed(text: &str, wrote: &[&str]) -> End {
    End {
        status: EndStatus::Completed,
        code: None,
        message: None,
        text: Some(text.into()),
        usage: None,
        wrote: wrote.iter().map(|w| (*w).to_owned()).collect(),
    }
}

/// The files of a run, as they are delivered: path and content.
pub(crate) async fn files(
    builtin: &Builtin,
    plan: &TurnPlan,
    end: &End,
) -> BTreeMap<String, String> {
    let manifest = builtin.collect(plan, end).await.unwrap();
    let mut files = BTreeMap::new();
    for artifact in manifest.artifacts.iter().map(Result::unwrap) {
        let identity = threadline_runtimes::ArtifactIdentity {
            session: plan.session.clone(),
            run: plan.run.clone(),
            path: artifact.path.clone(),
            size: artifact.size,
            sha256: artifact.sha256,
        };
        let body = builtin.open(&identity).await.unwrap();
        assert_eq!(body.artifact, artifact);
        let mut bytes = Vec::new();
        loop {
            let chunk = body
                .reader
                .read_at(bytes.len() as u64, 100_000)
                .await
                .unwrap();
            if chunk.is_empty() {
                break;
            }
            bytes.extend_from_slice(&chunk);
        }
        let text = String::from_utf8(bytes).unwrap();
        files.insert(artifact.path.to_string(), text);
    }
    files
}
