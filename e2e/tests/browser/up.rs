//! `threadline up` in a world of its own.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Stdio},
    sync::Mutex,
};

use serde_json::{Value, json};
use threadline_e2e::{scripted_model, world::World};
use tokio::net::TcpListener;

const UP: [&str; 3] = ["up", "--json", "--no-open"];

/// A running `threadline up`, or `serve` with pages.
pub(crate) struct Up {
    pub(crate) world: World,
    /// The link that lets one browser in.
    pub(crate) link: String,
    process: Mutex<Child>,
}

impl Up {
    /// With nothing configured: tasks are the demonstration.
    pub(crate) async fn demonstrating() -> Self {
        Self::of(World::new())
    }

    /// With the scripted model.
    pub(crate) async fn with_model() -> Self {
        Self::with_model_and(|_| {}).await
    }

    /// With the scripted model and what else is set up before it starts.
    pub(crate) async fn with_model_and(set_up: impl FnOnce(&World)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        tokio::spawn(scripted_model::serve(listener));
        let mut world = World::new();
        world.set("THREADLINE_MODEL_URL", &url);
        world.set("THREADLINE_MODEL", "scripted");
        set_up(&world);
        Self::of(world)
    }

    /// `threadline serve --pages`, with the scripted model.
    pub(crate) async fn serving() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        tokio::spawn(scripted_model::serve(listener));
        let mut world = World::new();
        world.set("THREADLINE_MODEL_URL", &url);
        world.set("THREADLINE_MODEL", "scripted");
        Self::started(world, &["serve", "--pages", "--json"])
    }

    fn of(world: World) -> Self {
        Self::started(world, &UP)
    }

    fn started(mut world: World, command: &[&'static str]) -> Self {
        let (process, told) = start(&world, command, "127.0.0.1:0");
        world.url = told["url"].as_str().unwrap().to_owned();
        let token = std::fs::read_to_string(world.data().join("token")).unwrap();
        world.token = token.trim().to_owned();
        let link = told["link"].as_str().unwrap_or_default().to_owned();
        Self {
            world,
            link,
            process: Mutex::new(process),
        }
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(&self) {
        let mut process = self.process.lock().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Starts it again where it was.
    pub(crate) fn restart(&self) {
        let address = self.world.url.trim_start_matches("http://");
        *self.process.lock().unwrap() = start(&self.world, &UP, address).0;
    }

    /// Asks the app for something, as the command line would.
    pub(crate) async fn app(&self, method: &str, params: Value) -> Value {
        let answer = self.world.app(method, params).await;
        assert!(answer.get("result").is_some(), "{method}: {answer:#}");
        answer["result"].clone()
    }

    /// Starts a task; gives the thread's name.
    pub(crate) async fn send(&self, prompt: &str) -> String {
        let view = self.app("app.send", json!({"prompt": prompt})).await;
        view["thread"]["name"].as_str().unwrap().to_owned()
    }

    /// Starts a task and waits until it is over and its files are here.
    pub(crate) async fn finished(&self, prompt: &str) -> String {
        let name = self.send(prompt).await;
        loop {
            let view = self.app("app.show", json!({"thread": name})).await;
            let context = &view["thread"]["contextState"];
            let over = view["thread"]["lifecycleState"]["status"] == "ready";
            if over && context["lastArtifactSyncStatus"] != "syncing" {
                return name;
            }
            tokio::time::sleep(std::time::Duration::from_millis(30)).await;
        }
    }
}

fn start(world: &World, arguments: &[&'static str], address: &str) -> (Child, Value) {
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(world.path().join("server.log"))
        .unwrap();
    let mut command = world.command(arguments);
    let mut process = command
        .env("THREADLINE_LISTEN", address)
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let told = serde_json::from_str(&line);
    let told = told.unwrap_or_else(|e| panic!("{e}: {line:?}\n{}", world.log()));
    (process, told)
}

impl Drop for Up {
    fn drop(&mut self) {
        // It may be gone already; whatever became of the test, nothing shall be left behind.
        if let Ok(process) = self.process.get_mut() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
