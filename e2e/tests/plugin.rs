//! The gateway's plugin: its types, and its own tests on a real gateway. They are in JavaScript, as it is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should say where"
)]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};
use threadline_e2e::{
    gateway::{Gateway, Options},
    peers::Peer,
    procs,
    scripted_model::Model,
    world::World,
};

/// How long a sidecar may take to notice that its gateway is gone.
const LEAVE: Duration = Duration::from_secs(5);

fn plugin() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../openclaw-plugin");
    folder.canonicalize().unwrap()
}

/// Runs it in the plugin's folder.
async fn passes(mut command: Command) {
    command.current_dir(plugin());
    said(command).await;
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

/// The plugin as it is packed for another machine, with its program, and unpacked there.
fn packed(folder: &Path) -> PathBuf {
    let file = folder.join("plugin.tgz");
    let world = World::new();
    let mut pack = world.command(["openclaw", "install", "--pack"]);
    assert!(pack.arg(&file).status().unwrap().success());
    let mut unpack = Command::new("tar");
    unpack.arg("-xzf").arg(&file).arg("-C").arg(folder);
    assert!(unpack.status().unwrap().success());
    folder.join("package")
}

/// A gateway with the plugin, and the plugin's own tests.
struct Bench {
    gateway: Gateway,
    node: Peer,
    /// The unpacked plugin, and the workspace of a second agent.
    _elsewhere: tempfile::TempDir,
}

impl Bench {
    /// `None`: the gateway is not installed, which was said.
    async fn start() -> Option<Self> {
        let model = Model::start().await;
        let elsewhere = tempfile::tempdir().unwrap();
        let other = elsewhere.path().join("other-workspace");
        let agents = json!([{"id": "main", "default": true}, {"id": "other", "workspace": other}]);
        let options = Options {
            plugins: vec![packed(elsewhere.path())],
            model: model.v1(),
            config: json!({"agents": {"list": agents}}),
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

    /// One run of the tests: all of them, or those of a phase of a planned restart.
    async fn phase(&self, phase: &str) {
        let mut command = Command::new(self.node.commands().join("node"));
        command.args(["--test", "--test-concurrency=1"]);
        let told = self.gateway.folder().join("gateway.json");
        command.env("THREADLINE_TEST_GATEWAY", told);
        if !phase.is_empty() {
            command.env("THREADLINE_TEST_PHASE", phase);
            // All phases speak of the same threads.
            command.env("THREADLINE_TEST_TAG", "restart");
            command.arg(format!("test/restart/{phase}.test.js"));
        }
        passes(command).await;
    }

    /// The sidecars of this gateway.
    fn sidecars(&self) -> Vec<u32> {
        let state = self.gateway.folder().join("state");
        procs::named(&["openclaw-sidecar", state.to_str().unwrap()])
    }

    /// Sees that no sidecar outlives its gateway.
    async fn no_sidecar_is_left(&self) {
        let begun = Instant::now();
        while !self.sidecars().is_empty() {
            assert!(begun.elapsed() < LEAVE, "a sidecar is left");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn openclaw_plugin_passes_its_own_tests_on_a_gateway() {
    if let Some(bench) = Bench::start().await {
        bench.phase("").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn openclaw_plugin_tells_the_truth_after_a_stop_and_after_a_crash() {
    let Some(mut bench) = Bench::start().await else {
        return;
    };
    bench.phase("stopping").await;
    assert_eq!(bench.sidecars().len(), 1);
    assert!(bench.gateway.stop().await, "it had to be killed");
    bench.no_sidecar_is_left().await;
    bench.gateway.resume().await;
    bench.phase("stopped").await;

    bench.phase("crashing").await;
    assert_eq!(bench.sidecars().len(), 1);
    bench.gateway.signal(Signal::KILL);
    bench.no_sidecar_is_left().await;
    bench.gateway.kill();
    bench.gateway.resume().await;
    bench.phase("crashed").await;
}

/// docs/openclaw.md, word by word: from a gateway that knows nothing of us, and had the plugin switched
/// off, to a first task.
#[tokio::test(flavor = "multi_thread")]
async fn openclaw_install_leads_to_a_first_task() {
    let model = Model::start().await;
    let off = json!({"openclaw-multi-session-plugins": {"enabled": false}});
    let options = Options {
        plugins: vec![],
        model: model.v1(),
        config: json!({"plugins": {"allow": ["memory-core"], "entries": off}}),
    };
    let Some(mut gateway) = Gateway::start(&options).await else {
        return;
    };
    let mut world = World::new();
    let settings = gateway.folder().join("openclaw.json");
    world.set("OPENCLAW_CONFIG_PATH", settings.to_str().unwrap());
    let openclaw = openclaw(&gateway);
    let install = ["openclaw", "install", "--openclaw", &openclaw];
    let installed = said(world.command(install)).await;
    let changed = format!("In {} it was added", settings.display());
    assert!(installed.contains(&changed), "{installed}");
    let plugins: Value = serde_json::from_slice(&fs::read(&settings).unwrap()).unwrap();
    assert_eq!(
        plugins["plugins"],
        json!({
            "load": {"paths": [world.data().join("openclaw/plugin")]},
            "allow": ["memory-core", "openclaw-multi-session-plugins"],
            "entries": {"openclaw-multi-session-plugins": {"enabled": true}},
        })
    );

    assert!(gateway.stop().await, "it had to be killed");
    gateway.resume().await;
    world.set("THREADLINE_OPENCLAW_URL", &gateway.url());
    world.set("THREADLINE_OPENCLAW_TOKEN", gateway.token());
    let doctor = said(world.command(["doctor"])).await;
    let lines: Vec<&str> = doctor.lines().filter(|l| l.contains("OpenClaw")).collect();
    assert!(lines.iter().all(|line| line.starts_with("ok")), "{doctor}");
    assert!(doctor.contains("OpenClaw plugin"), "{doctor}");
    let prompt = "[[write reports/rivers.md = # Rivers]] [[say A report about rivers.]]";
    let run = said(world.command(["run", "--runtime", "openclaw", prompt])).await;
    assert!(run.contains("A report about rivers."), "{run}");
    assert!(run.contains("✓ reports/rivers.md"), "{run}");
    assert!(world.command(["stop"]).status().unwrap().success());
}

/// The gateway's own command, as a program that somebody else can start.
fn openclaw(gateway: &Gateway) -> String {
    let command = gateway.command::<&str>([]);
    let word = |word: &std::ffi::OsStr| format!("'{}'", word.to_str().unwrap());
    let set = command.get_envs().filter_map(|(name, value)| {
        let value = value?.to_str().unwrap();
        Some(format!("'{}={value}'", name.to_str().unwrap()))
    });
    let words = [word(command.get_program())].into_iter();
    let words = words.chain(command.get_args().map(word));
    let line: Vec<String> = set.chain(words).collect();
    let file = gateway.folder().join("openclaw");
    fs::write(
        &file,
        format!("#!/bin/sh\nexec env -i {} \"$@\"\n", line.join(" ")),
    )
    .unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file.to_str().unwrap().to_owned()
}

/// What it printed, once it went well.
async fn said(command: Command) -> String {
    let done = tokio::process::Command::from(command).output().await;
    let done = done.unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{text}\n{errors}");
    text
}
