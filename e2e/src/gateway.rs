//! A real OpenClaw gateway on loopback: its own folders, its own port, the scripted model behind it.

mod client;
mod config;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

pub use self::client::Client;
use crate::{
    peers::{self, Peer},
    procs,
};

/// How long it may take to be ready while builds use the machine.
const READY: Duration = Duration::from_secs(180);
/// How long it may take to end; with runs under way it waits for them much longer.
const END: Duration = Duration::from_secs(30);

/// What a gateway is started with.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Folders of plugins: loaded, allowed, and let at conversations.
    pub plugins: Vec<PathBuf>,
    /// The address of the model, with `/v1`.
    pub model: String,
    /// Laid over the configuration, object by object.
    pub config: Value,
}

impl Options {
    /// With our plugin as it is in this checkout, behind it this program; `config` is laid over the
    /// configuration.
    pub fn with_our_plugin(model: String, program: &Path, config: &Value) -> Self {
        let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../openclaw-plugin");
        let entry = json!({config::id(&plugin): {"config": {"binary": program}}});
        let mut settings = json!({"plugins": {"entries": entry}});
        config::lay_over(&mut settings, config);
        Self {
            plugins: vec![plugin],
            model,
            config: settings,
        }
    }
}

/// A gateway, ended with all its processes when this is dropped.
pub struct Gateway {
    port: u16,
    token: String,
    model: String,
    folder: tempfile::TempDir,
    process: Option<Child>,
    node: Peer,
    openclaw: Peer,
}

impl Gateway {
    /// Starts one and waits until it is ready. `None`: it is not installed, which was said.
    pub async fn start(options: &Options) -> Option<Self> {
        let (node, openclaw) = (Peer::find("node")?, Peer::find("openclaw")?);
        let folder = tempfile::Builder::new()
            .prefix("threadline-gateway-")
            .tempdir()
            .expect("a temporary folder");
        let work = folder.path();
        let port = free_port();
        let token = format!("tok-{}", work.display()).replace('/', "-");
        let config = config::text(work, port, &token, options);
        fs::write(work.join("openclaw.json"), config).expect("its configuration");
        let mut gateway = Self {
            port,
            token,
            model: options.model.clone(),
            folder,
            process: None,
            node,
            openclaw,
        };
        gateway.resume().await;
        Some(gateway)
    }

    /// Where it is, for whoever runs in another process.
    pub fn told(&self) -> Value {
        json!({
            "port": self.port, "token": self.token, "model": self.model, "folder": self.folder(),
            "url": self.url(),
        })
    }

    /// Where its WebSocket is.
    pub fn url(&self) -> String {
        format!("ws://127.0.0.1:{}", self.port)
    }

    /// Where it listens.
    pub fn address(&self) -> std::net::SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// Where it speaks HTTP.
    pub fn http(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Where its model is, with `/v1`.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The token that lets in.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The folder of everything it has: `openclaw.json`, `state`, `home`, `tmp`, `log`.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The workspace that its agents share.
    pub fn workspace(&self) -> PathBuf {
        self.folder().join("workspace")
    }

    /// What it wrote to its output and its log file.
    pub fn log(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.folder().join("log").join(name));
        let texts = ["gateway.out", "openclaw.log"].map(|name| read(name).unwrap_or_default());
        texts.concat()
    }

    /// Has it take another token from now on, by its settings, which it watches.
    pub fn take_token(&self, token: &str) {
        let file = self.folder().join("openclaw.json");
        let text = fs::read_to_string(&file).expect("its configuration");
        let mut settings: Value = serde_json::from_str(&text).expect("JSON");
        settings["gateway"]["auth"]["token"] = json!(token);
        fs::write(&file, settings.to_string()).expect("its configuration");
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("a gateway that runs").id()
    }

    /// `openclaw ARGUMENTS` for this gateway.
    pub fn command<S: AsRef<std::ffi::OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        // The gateway ends with whoever started it, even when that was killed.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        command.arg(self.node.commands().join("node"));
        command.arg(self.openclaw.package("openclaw/openclaw.mjs"));
        command.args(arguments).env_clear();
        command.env("PATH", peers::path(&[&self.node]));
        for (name, value) in config::variables(self.folder()) {
            command.env(name, value);
        }
        command.current_dir(self.folder()).stdin(Stdio::null());
        command
    }

    /// Starts it again where it was.
    pub async fn resume(&mut self) {
        for folder in ["home", "state", "tmp", "workspace", "log"] {
            fs::create_dir_all(self.folder().join(folder)).expect("its folders");
        }
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder().join("log/gateway.out"))
            .expect("its log");
        let port = self.port.to_string();
        let process = self
            .command(["gateway", "run", "--port", &port, "--bind", "loopback"])
            .stdout(log.try_clone().expect("its log"))
            .stderr(log)
            .spawn()
            .expect("the gateway starts");
        self.process = Some(process);
        self.ready().await;
    }

    async fn ready(&mut self) {
        drop(rustls::crypto::ring::default_provider().install_default());
        let http = reqwest::Client::builder().no_proxy().build();
        let http = http.expect("a client");
        let begun = Instant::now();
        while begun.elapsed() < READY {
            let asked = http.get(format!("{}/readyz", self.http())).send().await;
            if asked.is_ok_and(|answer| answer.status().is_success()) {
                return;
            }
            if let Some(Ok(Some(status))) = self.process.as_mut().map(Child::try_wait) {
                panic!("the gateway ended with {status}:\n{}", self.log());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the gateway was not ready after {READY:?}:\n{}", self.log());
    }

    /// Asks it to end and waits for that; `false`: it had to be killed.
    pub async fn stop(&mut self) -> bool {
        self.signal(Signal::TERM);
        self.gone().await
    }

    /// Waits until it has ended by itself; `false`: it had to be killed.
    pub async fn gone(&mut self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < END {
            if !matches!(self.process.as_mut().map(Child::try_wait), Some(Ok(None))) {
                self.kill();
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.kill();
        false
    }

    /// Sends a signal to its main process.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid() as i32).expect("a process");
        // It may have ended by itself.
        let _ = kill_process(pid, signal);
    }

    /// Ends it without a word, as a crash would, with the processes that it started.
    pub fn kill(&mut self) {
        let Some(mut process) = self.process.take() else {
            return;
        };
        let children = procs::descendants(process.id());
        let _ = process.kill();
        let _ = process.wait();
        for child in children {
            procs::kill(child);
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that nobody has, below those which the kernel gives out by itself.
fn free_port() -> u16 {
    use std::hash::{BuildHasher as _, RandomState};
    let from = RandomState::new().hash_one(std::process::id()) % 10_000;
    let ports = (0..10_000).map(|n| 20_000 + ((from + n) % 10_000) as u16);
    let free = |port: &u16| {
        std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok()
            && std::net::TcpListener::bind(("127.0.0.1", port + 1)).is_ok()
    };
    ports.into_iter().find(free).expect("a free port")
}
