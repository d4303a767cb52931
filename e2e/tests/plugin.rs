//! The gateway's plugin: its types, and its own tests on a real gateway. They are in JavaScript, as it is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should say where"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::json;
use threadline_e2e::{
    gateway::{Gateway, Options},
    peers::Peer,
    scripted_model::Model,
    world,
};

fn plugin() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../openclaw-plugin");
    folder.canonicalize().unwrap()
}

/// Runs it in the plugin's folder and shows what it wrote, should it fail.
async fn passes(mut command: Command) {
    command.current_dir(plugin());
    let done = tokio::process::Command::from(command).output().await;
    let done = done.unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{text}\n{errors}");
}

#[tokio::test]
async fn openclaw_plugin_is_typed() {
    let (Some(node), Some(typescript)) = (Peer::find("node"), Peer::find("typescript")) else {
        return;
    };
    let mut command = Command::new(node.commands().join("node"));
    command.arg(typescript.package("typescript/bin/tsc"));
    command.args(["--noEmit", "--typeRoots"]);
    command.arg(typescript.package("@types"));
    passes(command).await;
}

/// A gateway with the plugin, and the plugin's own tests.
struct Bench {
    gateway: Gateway,
    node: Peer,
    /// The workspace of a second agent is in it.
    _elsewhere: tempfile::TempDir,
}

impl Bench {
    /// `None`: the gateway is not installed, which was said.
    async fn start() -> Option<Self> {
        let model = Model::start().await;
        let config = json!({"binary": world::binary()});
        let entry = json!({"openclaw-multi-session-plugins": {"config": config}});
        let elsewhere = tempfile::tempdir().unwrap();
        let other = elsewhere.path().join("other-workspace");
        let agents = json!([{"id": "main", "default": true}, {"id": "other", "workspace": other}]);
        let options = Options {
            plugins: vec![plugin()],
            model: model.v1(),
            config: json!({"plugins": {"entries": entry}, "agents": {"list": agents}}),
        };
        let node = Peer::find("node")?;
        let gateway = Gateway::start(&options).await?;
        let told = gateway.folder().join("gateway.json");
        fs::write(told, gateway.told().to_string()).unwrap();
        Some(Self {
            gateway,
            node,
            _elsewhere: elsewhere,
        })
    }

    /// One run of the tests; what there is to do depends on the phase of a planned crash.
    async fn phase(&self, phase: &str) {
        let mut command = Command::new(self.node.commands().join("node"));
        command.args(["--test", "--test-concurrency=1"]);
        let told = self.gateway.folder().join("gateway.json");
        command.env("THREADLINE_TEST_GATEWAY", told);
        if !phase.is_empty() {
            command.env("THREADLINE_TEST_PHASE", phase);
            // Both phases speak of the same threads.
            command.env("THREADLINE_TEST_TAG", "crash");
            command.arg(format!("test/crash/{phase}.test.js"));
        }
        passes(command).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn openclaw_plugin_passes_its_own_tests_on_a_gateway() {
    if let Some(bench) = Bench::start().await {
        bench.phase("").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn openclaw_plugin_tells_the_truth_after_a_crash() {
    let Some(mut bench) = Bench::start().await else {
        return;
    };
    bench.phase("before").await;
    bench.gateway.kill();
    bench.gateway.resume().await;
    bench.phase("after").await;
}
