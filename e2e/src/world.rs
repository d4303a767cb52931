//! A world of its own for one test: a home folder, a data folder, and the real binary.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// How long the server may take to be ready on a busy machine.
const READY: Duration = Duration::from_secs(30);

/// The program under test: beside the test's own binary, or where `THREADLINE_TEST_BIN` says.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("THREADLINE_TEST_BIN") {
        return path.into();
    }
    let own = std::env::current_exe().expect("the test knows its own path");
    let target = own
        .ancestors()
        .nth(2)
        .expect("tests lie in <target>/<profile>/deps");
    let path = target.join("threadline");
    assert!(
        path.exists(),
        "{} is not built: run `cargo build -p threadline` first",
        path.display()
    );
    path
}

/// The same command, which ends when the test is killed. Where `setpriv` is missing, it is left as it is.
fn leashed(command: &Command) -> Command {
    let found = Command::new("setpriv").arg("--version").output();
    let mut leashed = if found.is_ok() {
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--pdeathsig", "KILL"]);
        setpriv.arg(command.get_program());
        setpriv
    } else {
        Command::new(command.get_program())
    };
    leashed.args(command.get_args()).env_clear();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            leashed.env(name, value);
        }
    }
    if let Some(folder) = command.get_current_dir() {
        leashed.current_dir(folder);
    }
    leashed.stdin(Stdio::null());
    leashed
}

/// Folders, environment and at most one server.
pub struct World {
    binary: PathBuf,
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
    server: Option<Child>,
    /// Where the server listens, once it does.
    pub url: String,
    /// The token that the first start made.
    pub token: String,
    /// Speaks HTTP to it.
    pub http: reqwest::Client,
}

impl World {
    /// A world without a server.
    pub fn new() -> Self {
        Self::of(binary())
    }

    /// A world for another build of the binary.
    pub fn of(binary: PathBuf) -> Self {
        // Only the first test of a process installs it; the others find it there.
        drop(rustls::crypto::ring::default_provider().install_default());
        Self {
            binary,
            folder: tempfile::Builder::new()
                .prefix("threadline-e2e-")
                .tempdir()
                .expect("a temporary folder"),
            variables: vec![],
            server: None,
            url: String::new(),
            token: String::new(),
            http: reqwest::Client::builder()
                .no_proxy()
                .build()
                .expect("a client"),
        }
    }

    /// A world with a server.
    pub async fn started() -> Self {
        Self::new().running().await
    }

    /// This world, with its server started.
    pub async fn running(mut self) -> Self {
        self.start().await;
        self
    }

    /// Sets a variable for everything that is started from now on.
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// The folder that holds everything of this world.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// The binary with arguments, in this world and no other.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let home = self.path().join("home");
        std::fs::create_dir_all(&home).expect("a home folder");
        let mut command = Command::new(&self.binary);
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &home)
            .env("THREADLINE_DATA", self.data())
            .env("THREADLINE_LISTEN", "127.0.0.1:0")
            .env("NO_COLOR", "1")
            .envs(self.variables.iter().map(|(k, v)| (k, v)))
            .current_dir(&home)
            .stdin(Stdio::null());
        command
    }

    /// Starts the server and waits until it answers.
    pub async fn start(&mut self) {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.path().join("server.log"))
            .expect("a log file");
        let child = leashed(&self.command(["serve"]))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the server starts");
        let pid = child.id();
        self.server = Some(child);
        let begun = Instant::now();
        while begun.elapsed() < READY {
            if let Some(url) = self.address_of(pid)
                && self
                    .http
                    .get(format!("{url}/health"))
                    .send()
                    .await
                    .is_ok_and(|r| r.status().is_success())
            {
                self.url = url;
                self.token = std::fs::read_to_string(self.data().join("token"))
                    .expect("the token file")
                    .trim()
                    .to_owned();
                return;
            }
            if let Ok(Some(status)) = self
                .server
                .as_mut()
                .expect("it was just put there")
                .try_wait()
            {
                panic!("the server ended with {status}:\n{}", self.log());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the server was not ready after {READY:?}:\n{}", self.log());
    }

    /// Ends the server without a word, as a power cut would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.server.take() {
            child.kill().expect("the server can be killed");
            child.wait().expect("the server is gone");
        }
    }

    /// What the server wrote into its log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path().join("server.log")).unwrap_or_default()
    }

    /// The server's process id.
    pub fn pid(&self) -> u32 {
        self.server.as_ref().expect("the server runs").id()
    }

    fn address_of(&self, pid: u32) -> Option<String> {
        let text = std::fs::read_to_string(self.data().join("owner.json")).ok()?;
        let owner: Value = serde_json::from_str(&text).ok()?;
        (owner["pid"] == json!(pid)).then(|| owner["url"].as_str().unwrap_or_default().to_owned())
    }

    /// Sends a request to the bridge and gives the whole answer.
    pub async fn rpc(&self, method: &str, params: Value) -> Value {
        self.post("/acp/rpc", method, params).await
    }

    /// Sends a request to the app's local API and gives the whole answer.
    pub async fn app(&self, method: &str, params: Value) -> Value {
        self.post("/app/rpc", method, params).await
    }

    async fn post(&self, path: &str, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = self
            .http
            .post(format!("{}{path}", self.url))
            .bearer_auth(&self.token)
            .json(&body)
            .send()
            .await
            .expect("an answer");
        answer.json().await.expect("JSON")
    }

    /// A turn for the builtin runtime.
    pub fn turn(thread: &str, prompt: &str) -> Value {
        Self::turn_on("builtin", thread, prompt)
    }

    /// A turn for an agent, by its name.
    pub fn turn_on(agent: &str, thread: &str, prompt: &str) -> Value {
        json!({
            "sessionId": thread, "threadId": thread, "prompt": prompt,
            "routing": {"explicitExecutionTarget": "agent", "explicitProviderId": agent},
            "metadata": {"xworkmateTaskArtifactContract": {"schemaVersion": 1, "appThreadKey": thread, "expectedArtifactDirs": ["artifacts/"]}},
        })
    }

    /// Asks for a thread's latest run until it has ended and its files are listed.
    pub async fn ended(&self, thread: &str) -> Value {
        self.ended_within(thread, READY).await
    }

    /// The same, for runs that take longer.
    pub async fn ended_within(&self, thread: &str, limit: Duration) -> Value {
        let begun = Instant::now();
        loop {
            let snapshot = self
                .rpc("xworkmate.tasks.get", json!({"appThreadKey": thread}))
                .await;
            let result = &snapshot["result"];
            if result["status"].as_str().is_some_and(|s| s != "running")
                && result["artifactsPending"] != json!(true)
            {
                return result.clone();
            }
            assert!(
                begun.elapsed() < limit,
                "the run did not end: {snapshot:#}\n{}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The whole log of a thread: `{id, update}` each.
    pub async fn events(&self, thread: &str) -> Vec<Value> {
        let mut all: Vec<Value> = Vec::new();
        loop {
            let after = all.last().map_or(json!(0), |event| event["id"].clone());
            let url = format!("{}/acp/events?threadId={thread}&after={after}", self.url);
            let asked = self.http.get(url).bearer_auth(&self.token).send().await;
            let page: Value = asked.expect("an answer").json().await.expect("JSON");
            let events = page["events"].as_array().expect("events");
            if events.is_empty() {
                return all;
            }
            all.extend(events.iter().cloned());
        }
    }

    /// Waits until a thread asks something that waits for an answer.
    pub async fn question(&self, thread: &str) -> Value {
        let begun = Instant::now();
        loop {
            let asked = self
                .rpc("xworkmate.questions.list", json!({"threadId": thread}))
                .await;
            let open = asked["result"]["questions"].as_array();
            if let Some(question) = open.and_then(|all| all.first()) {
                return question.clone();
            }
            let snapshot = self
                .rpc("xworkmate.tasks.get", json!({"appThreadKey": thread}))
                .await;
            assert!(
                begun.elapsed() < 3 * READY && snapshot["result"]["status"] == json!("running"),
                "nothing was asked: {asked:#}\n{snapshot:#}\n{}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Answers a permission with the first option of this kind.
    pub async fn permit(&self, question: &Value, kind: &str) {
        let options = question["options"].as_array().expect("options");
        let option = options.iter().find(|o| o["kind"] == json!(kind));
        let option = option.unwrap_or_else(|| panic!("no {kind}: {question:#}"));
        let params = json!({"questionId": question["questionId"], "optionId": option["optionId"]});
        let answer = self.rpc("xworkmate.questions.answer", params).await;
        assert!(answer["result"].is_object(), "{answer:#}");
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.kill();
    }
}
