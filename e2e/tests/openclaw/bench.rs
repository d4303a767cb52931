//! A gateway, a model and a bridge, and what one does with them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use threadline_e2e::{
    gateway::{Gateway, Options},
    scripted_model::Model,
    world::{self, World},
};

/// How long a turn may take: a dead model alone takes a minute and a half.
pub(crate) const TURN: Duration = Duration::from_secs(200);

pub(crate) struct Bench {
    pub(crate) gateway: Gateway,
    pub(crate) model: Model,
    pub(crate) world: World,
}

/// What came of a run: status, code, text, files.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) status: String,
    pub(crate) code: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) files: Vec<String>,
}

impl Outcome {
    /// An end without anything.
    pub(crate) fn of(status: &str) -> Self {
        Self {
            status: status.into(),
            code: None,
            text: None,
            files: vec![],
        }
    }
}

impl Bench {
    /// A gateway of its own. `None`: it is not installed, which was said.
    pub(crate) async fn start(config: Value) -> Option<Self> {
        Self::start_with(config, &[]).await
    }

    /// The same, with variables for the bridge.
    pub(crate) async fn start_with(config: Value, variables: &[(&str, &str)]) -> Option<Self> {
        let model = Model::start().await;
        let options = Options::with_our_plugin(model.v1(), &world::binary(), &config);
        let gateway = Gateway::start(&options).await?;
        let world = bridge(&gateway, variables).await;
        Some(Self {
            gateway,
            model,
            world,
        })
    }

    pub(crate) async fn send(&self, thread: &str, prompt: &str) -> String {
        let sent = self.request(thread, prompt, None).await;
        let run = sent["result"]["runId"].as_str();
        run.unwrap_or_else(|| panic!("{sent:#}\n{}", self.world.log()))
            .to_owned()
    }

    pub(crate) async fn request(&self, thread: &str, prompt: &str, id: Option<&str>) -> Value {
        let mut turn = turn(thread, prompt);
        if let Some(id) = id {
            turn["requestId"] = json!(id);
        }
        self.world.rpc("session.start", turn).await
    }

    pub(crate) async fn ended(&self, thread: &str) -> Outcome {
        outcome(&self.world.ended_within(thread, TURN).await)
    }

    /// Sends a turn and waits for its end.
    pub(crate) async fn run(&self, thread: &str, prompt: &str) -> Outcome {
        self.send(thread, prompt).await;
        self.ended(thread).await
    }

    /// Waits until the model was asked something that contains this.
    pub(crate) async fn model_hears(&self, words: &str) {
        let begun = Instant::now();
        while self.heard(words) == 0 {
            assert!(begun.elapsed() < TURN, "the model never heard {words:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// How often the model was asked something whose last message contains this.
    pub(crate) fn heard(&self, words: &str) -> usize {
        let prompts = self.model.seen.prompts();
        prompts.iter().filter(|p| p.contains(words)).count()
    }

    /// Waits until the gateway has accepted the thread's run.
    pub(crate) async fn accepted(&self, thread: &str) {
        let begun = Instant::now();
        loop {
            let events = self.world.events(thread).await;
            if events
                .iter()
                .any(|e| e["update"]["event"] == json!("started"))
            {
                return;
            }
            assert!(begun.elapsed() < TURN, "{events:#?}\n{}", self.world.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// What the updates of a thread with one run add up to.
    pub(crate) async fn said(&self, thread: &str) -> String {
        let mut said = String::new();
        for event in self.world.events(thread).await {
            let update = &event["update"];
            match update["event"].as_str() {
                Some("delta") => said.push_str(update["text"].as_str().unwrap()),
                Some("delta.reset") => {
                    let keep = update["keep"].as_u64().unwrap() as usize;
                    said = said.chars().take(keep).collect();
                }
                _ => {}
            }
        }
        said
    }

    /// Waits until a thread has said so much.
    pub(crate) async fn has_said(&self, thread: &str, characters: usize) -> String {
        let begun = Instant::now();
        loop {
            let said = self.said(thread).await;
            if said.chars().count() >= characters {
                return said;
            }
            assert!(begun.elapsed() < TURN, "{thread} said only {said:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Asks a thread's run to stop.
    pub(crate) async fn stop(&self, thread: &str) {
        let params = json!({"appThreadKey": thread});
        let receipt = self.world.rpc("xworkmate.tasks.cancel", params).await;
        assert_eq!(receipt["result"]["accepted"], json!(true), "{receipt:#}");
    }

    pub(crate) async fn status(&self, thread: &str) -> Value {
        let params = json!({"appThreadKey": thread});
        self.world.rpc("xworkmate.tasks.get", params).await["result"].clone()
    }
}

/// A bridge that is told of this gateway.
pub(crate) async fn world(gateway: &Gateway, variables: &[(&str, &str)]) -> World {
    let mut world = World::new();
    world.set("THREADLINE_OPENCLAW_URL", &gateway.url());
    world.set("THREADLINE_OPENCLAW_TOKEN", gateway.token());
    for (name, value) in variables {
        world.set(name, value);
    }
    world.running().await
}

/// The same, once the gateway has let it in.
pub(crate) async fn bridge(gateway: &Gateway, variables: &[(&str, &str)]) -> World {
    let world = world(gateway, variables).await;
    // A gateway that has just started is slow to greet.
    let begun = Instant::now();
    loop {
        let told = world.rpc("acp.capabilities", json!({})).await;
        let probes = told["result"]["providerProbeSummary"].as_array();
        let up = |p: &Value| p["providerId"] == json!("openclaw") && p["available"] == json!(true);
        if probes.is_some_and(|probes| probes.iter().any(up)) {
            return world;
        }
        assert!(begun.elapsed() < TURN, "{told:#}\n{}", world.log());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

pub(crate) fn turn(thread: &str, prompt: &str) -> Value {
    json!({
        "sessionId": thread, "threadId": thread, "prompt": prompt,
        "routing": {"explicitExecutionTarget": "gateway", "preferredGatewayProviderId": "openclaw"},
        "metadata": {"xworkmateTaskArtifactContract": {
            "schemaVersion": 1, "appThreadKey": thread, "expectedArtifactDirs": ["reports/"],
        }},
    })
}

pub(crate) fn outcome(snapshot: &Value) -> Outcome {
    let text = |name: &str| snapshot[name].as_str().map(str::to_owned);
    let items = snapshot["artifacts"]["items"].as_array();
    let paths = items.map(|items| items.iter().map(|i| i["path"].as_str().unwrap().to_owned()));
    Outcome {
        status: text("status").unwrap_or_default(),
        code: text("code"),
        text: text("text").filter(|t| !t.is_empty()),
        files: paths.map(Iterator::collect).unwrap_or_default(),
    }
}

pub(crate) fn completed(text: &str, files: &[&str]) -> Outcome {
    Outcome {
        status: "completed".into(),
        code: None,
        text: Some(text.into()),
        files: files.iter().map(|f| (*f).to_owned()).collect(),
    }
}
