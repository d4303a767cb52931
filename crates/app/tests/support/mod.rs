//! A bridge that does what a test tells it, an app with short patience, and ways to wait.

mod bridge;
mod content;
mod script;

use std::{
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Once,
    time::Duration,
};

pub(crate) use bridge::{Call, FakeBridge};
pub(crate) use content::{Content, sha};
use futures_util::Stream;
pub(crate) use script::{Download, Plan};
use threadline_app::{
    App, Config, Endpoint, LaneSize, Timings,
    api::{AppEvent, Begin, BridgeParams, DeleteParams, SendParams, ThreadView},
};
use threadline_contract::{
    ResultCode, RunId,
    thread::{Lifecycle, SyncStatus, TaskThread},
};
use threadline_retry::Backoff;

/// What a watcher sees.
pub(crate) type Events = Pin<Box<dyn Stream<Item = AppEvent> + Send>>;

/// A bridge, a home and an app on both.
pub(crate) struct World {
    pub(crate) bridge: FakeBridge,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) config: Config,
    pub(crate) app: App,
}

/// Short patience: what takes minutes in the product takes moments here.
pub(crate) fn timings() -> Timings {
    Timings {
        connect: Duration::from_secs(2),
        answer: Duration::from_secs(5),
        silence: Duration::from_secs(3),
        poll: Duration::from_millis(20),
        patience: Duration::from_secs(20),
        failures: 5,
        deadline: Duration::from_secs(60),
        backoff: Backoff::from_millis(10, 50).with_chance(50),
        download_tries: 5,
        collect: Duration::from_secs(10),
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Self {
        static TLS: Once = Once::new();
        TLS.call_once(|| {
            rustls::crypto::ring::default_provider()
                .install_default()
                .expect("one provider");
        });
        let bridge = FakeBridge::start().await;
        let dir = tempfile::tempdir().unwrap();
        let endpoint = Endpoint {
            url: bridge.url(),
            token: Some("secret".into()),
        };
        let mut config = Config::new(
            dir.path().join("data"),
            dir.path().join("home/.xworkmate/threads"),
            endpoint,
        );
        config.timings = timings();
        change(&mut config);
        let app = App::open(config.clone()).await.unwrap();
        Self {
            bridge,
            dir,
            config,
            app,
        }
    }

    /// With a lane of few places.
    pub(crate) async fn with_lane(active: usize, queued: usize) -> Self {
        Self::with(|config| config.lane = LaneSize { active, queued }).await
    }

    /// Ends the app at whatever it is doing and opens it anew.
    pub(crate) async fn restart(&mut self) {
        self.app.close().await.unwrap();
        self.app = App::open(self.config.clone()).await.unwrap();
    }

    pub(crate) async fn send(&self, prompt: &str) -> ThreadView {
        self.app.send(prompt_of(prompt)).await.unwrap()
    }

    /// A turn for the same bridge as one that is not this machine's own.
    pub(crate) async fn send_elsewhere(&self, params: SendParams) -> ThreadView {
        let bridge = BridgeParams {
            url: self.config.bridge.url.clone(),
            token: self.config.bridge.token.clone(),
        };
        let params = SendParams {
            bridge: Some(bridge),
            ..params
        };
        self.app.send(params).await.unwrap()
    }

    pub(crate) async fn send_to(&self, thread: &str, prompt: &str) -> ThreadView {
        let params = SendParams {
            thread: Some(thread.into()),
            ..prompt_of(prompt)
        };
        self.app.send(params).await.unwrap()
    }

    /// Sends to the gateway.
    pub(crate) async fn send_to_openclaw(&self, prompt: &str) -> ThreadView {
        self.app.send(on_openclaw(prompt)).await.unwrap()
    }

    /// What somebody sees who watches a thread.
    pub(crate) async fn watch(&self, thread: &TaskThread, begin: Begin) -> Events {
        Box::pin(self.app.events(&thread.name, begin).await.unwrap())
    }

    pub(crate) async fn thread(&self, thread: &str) -> TaskThread {
        self.app.show(thread).await.unwrap().thread
    }

    /// Waits until the thread is as wanted.
    pub(crate) async fn until(
        &self,
        thread: &str,
        wanted: impl Fn(&TaskThread) -> bool,
    ) -> TaskThread {
        let found = tokio::time::timeout(Duration::from_secs(20), async {
            loop {
                let now = self.thread(thread).await;
                if wanted(&now) {
                    return now;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        match found.await {
            Ok(found) => found,
            Err(_) => panic!("it stays {:#?}", self.thread(thread).await),
        }
    }

    /// Waits until the thread has ended its run and its files are here or will not come.
    pub(crate) async fn settled(&self, thread: &str) -> TaskThread {
        self.until(thread, settled).await
    }

    /// Sends and waits for the end.
    pub(crate) async fn done(&self, prompt: &str) -> TaskThread {
        let sent = self.send(prompt).await;
        self.settled(sent.thread.thread_id.as_str()).await
    }

    pub(crate) fn workspace(&self, thread: &TaskThread) -> PathBuf {
        PathBuf::from(&thread.workspace_binding.workspace_path)
    }

    pub(crate) fn read(&self, thread: &TaskThread, path: &str) -> String {
        std::fs::read_to_string(self.workspace(thread).join(path)).unwrap()
    }
}

pub(crate) fn settled(thread: &TaskThread) -> bool {
    thread.lifecycle_state.status == Lifecycle::Ready
        && thread.lifecycle_state.last_result_code.is_some()
        && thread.context_state.last_artifact_sync_status != Some(SyncStatus::Syncing)
}

pub(crate) fn prompt_of(prompt: &str) -> SendParams {
    SendParams {
        prompt: prompt.into(),
        ..SendParams::default()
    }
}

pub(crate) fn on_openclaw(prompt: &str) -> SendParams {
    SendParams {
        runtime: Some("openclaw".into()),
        ..prompt_of(prompt)
    }
}

/// The three fields that say how a thread stands.
pub(crate) type Standing = (Lifecycle, Option<ResultCode>, Option<SyncStatus>);

/// Of a thread whose run went well and whose files are here.
pub(crate) const DELIVERED: Standing = (
    Lifecycle::Ready,
    Some(ResultCode::Success),
    Some(SyncStatus::Synced),
);

pub(crate) fn standing(thread: &TaskThread) -> Standing {
    (
        thread.lifecycle_state.status,
        thread.lifecycle_state.last_result_code,
        thread.context_state.last_artifact_sync_status,
    )
}

/// The transcript as role, text and whether it is an error.
pub(crate) fn transcript(thread: &TaskThread) -> Vec<(&'static str, &str, bool)> {
    use threadline_contract::thread::Role;
    let role = |r| if r == Role::User { "user" } else { "assistant" };
    let messages = thread.context_state.messages.iter();
    messages
        .map(|m| (role(m.role), m.text.as_str(), m.error))
        .collect()
}

pub(crate) fn paths(thread: &TaskThread) -> Vec<&str> {
    let paths = thread
        .context_state
        .last_task_artifact_relative_paths
        .iter();
    paths.map(|p| p.as_str()).collect()
}

/// Waits for something that is not a thread.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut check: impl FnMut() -> F) {
    for _ in 0..2000 {
        if check().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} does not come");
}

/// The key of a thread.
pub(crate) fn id(thread: &TaskThread) -> &str {
    thread.thread_id.as_str()
}

/// The deletion of a thread that leaves the user's own files.
pub(crate) fn deletion(thread: &TaskThread) -> DeleteParams {
    DeleteParams {
        thread: thread.name.clone(),
        with_my_files: false,
        yours_digest: None,
    }
}

/// Waits until the thread has a run at the bridge.
pub(crate) async fn wait_for_run(world: &World, thread: &TaskThread) -> RunId {
    world
        .until(id(thread), |t| {
            let association = t.context_state.task_association.as_ref();
            association.is_some_and(|a| a.run_id.is_some())
        })
        .await;
    world.bridge.run_of(&thread.thread_id).unwrap()
}

pub(crate) fn sync_of(thread: &TaskThread) -> (SyncStatus, &str) {
    let context = &thread.context_state;
    let detail = context
        .last_artifact_sync_detail
        .as_deref()
        .unwrap_or_default();
    (context.last_artifact_sync_status.unwrap(), detail)
}

/// Everything in a workspace but our own notes.
pub(crate) fn tree(folder: &Path) -> Vec<String> {
    fn walk(folder: &Path, prefix: &str, out: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            if name == ".xworkmate" {
            } else if entry.file_type().unwrap().is_dir() {
                walk(&entry.path(), &format!("{name}/"), out);
            } else {
                out.push(name);
            }
        }
    }
    let mut out = Vec::new();
    walk(folder, "", &mut out);
    out.sort();
    out
}
