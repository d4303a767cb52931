//! Each real agent through the bridge: what it does, what it is not allowed, how it fails and is stopped.

use std::{fs, path::Path, process::Command, time::Duration};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_e2e::{agents::Agent, procs, scripted_model::Model, world::World};

/// How long a turn may take while two agents start at once on a small machine.
pub(crate) const TURN: Duration = Duration::from_secs(90);

/// One agent and the bridge.
struct Bench {
    world: World,
    model: Model,
    agent: Agent,
}

impl Bench {
    /// `None`: the agent is not installed, which was said.
    async fn with(agent: Agent) -> Option<Self> {
        let model = Model::start().await;
        let mut world = World::new();
        if !agent.enter(&mut world, &model.url) {
            return None;
        }
        world.start().await;
        Some(Self {
            world,
            model,
            agent,
        })
    }

    /// Starts a turn; gives its run.
    async fn send(&self, thread: &str, prompt: &str) -> String {
        self.send_with(thread, prompt, |_| ()).await
    }

    async fn send_with(
        &self,
        thread: &str,
        prompt: &str,
        change: impl FnOnce(&mut Value),
    ) -> String {
        let mut turn = World::turn_on(self.agent.name(), thread, prompt);
        change(&mut turn);
        let sent = self.world.rpc("session.start", turn).await;
        let run = sent["result"]["runId"].as_str();
        run.unwrap_or_else(|| panic!("{sent:#}")).to_owned()
    }

    async fn ended(&self, thread: &str) -> Value {
        self.world.ended_within(thread, TURN).await
    }

    /// A turn that writes, allowed once.
    async fn writes(&self, thread: &str, path: &str, text: &str) -> Value {
        let prompt = format!("[[write {path} = {text}]] [[say written {path}]]");
        self.send(thread, &prompt).await;
        let question = self.world.question(thread).await;
        self.world.permit(&question, "allow_once").await;
        self.ended(thread).await
    }

    /// The first turn of all. Agents set up their homes with it, and some fail if two do that at once.
    async fn says_hello(&self) -> Value {
        self.send("draft:three", "[[say hello there]]").await;
        let said = self.ended("draft:three").await;
        assert_eq!(
            outcome(&said),
            (json!("completed"), Value::Null, vec![]),
            "{said:#}\n{}",
            self.world.log()
        );
        assert!(text(&said).contains("hello there"), "{said:#}");
        said
    }

    /// Two more turns on that session: each delivers its own files and no other's.
    async fn three_turns(&self, said: &Value) {
        let first = self.writes("draft:three", "reports/a.md", "one").await;
        let second = self.writes("draft:three", "b.txt", "two").await;
        for (snapshot, path) in [(&first, "reports/a.md"), (&second, "b.txt")] {
            let delivered = (json!("completed"), Value::Null, vec![path.to_owned()]);
            assert_eq!(outcome(snapshot), delivered, "{snapshot:#}");
            assert!(text(snapshot).contains(&format!("written {path}")));
        }
        let scopes = [said, &first, &second].map(|s| s["artifactScope"].as_str().unwrap());
        let sessions = [said, &first, &second].map(|s| s["sessionKey"].clone());
        assert!(
            scopes[0] != scopes[1] && scopes[1] != scopes[2] && scopes[0] != scopes[2],
            "{scopes:?}"
        );
        assert_eq!(sessions[0], sessions[1]);
        assert_eq!(sessions[1], sessions[2]);
        let bytes = download(&self.world, &second).await;
        assert_eq!(bytes, b"two");
        // One process: the later turns go on with what the earlier ones said.
        let events = self.world.events("draft:three").await;
        in_order(&events);
    }

    /// A permission that is declined, a model that fails, a turn that is cancelled.
    async fn goes_wrong(&self) {
        self.send("draft:wrong", "[[write no.md = x]] [[say I wrote no.md]]")
            .await;
        let question = self.world.question("draft:wrong").await;
        assert_eq!(question["kind"], json!("permission"));
        self.world.permit(&question, "reject_once").await;
        let declined = self.ended("draft:wrong").await;
        let verdict = match self.agent {
            Agent::Codex => (json!("failed"), json!("TURN_DECLINED"), vec![]),
            _ => (json!("completed"), Value::Null, vec![]),
        };
        assert_eq!(outcome(&declined), verdict, "{declined:#}");

        self.send("draft:wrong", "[[fail 400]] [[say never]]").await;
        let failed = self.ended("draft:wrong").await;
        assert_eq!(
            outcome(&failed),
            (json!("failed"), json!("MODEL_FAILED"), vec![]),
            "{failed:#}"
        );
        assert!(
            failed["message"].as_str().unwrap().contains("asked for"),
            "{failed:#}"
        );

        self.send("draft:wrong", "[[slow 200]] [[count 600]]").await;
        self.says("draft:wrong", "3 4 5").await;
        let params = json!({"appThreadKey": "draft:wrong"});
        let receipt = self
            .world
            .rpc("xworkmate.tasks.cancel", params.clone())
            .await;
        assert!(receipt["result"].is_object(), "{receipt:#}");
        let cancelled = self.ended("draft:wrong").await;
        assert_eq!(
            (&cancelled["status"], &cancelled["cancelRequested"]),
            (&json!("cancelled"), &json!(true)),
            "{cancelled:#}"
        );
        let again = self
            .world
            .rpc("xworkmate.tasks.cancel", params.clone())
            .await;
        assert!(again["result"].is_object(), "{again:#}");

        // Stopped while it waits for leave, which Hermes answers with an error.
        self.send("draft:wrong", "[[write late.md = x]] [[say written]]")
            .await;
        self.world.question("draft:wrong").await;
        self.world.rpc("xworkmate.tasks.cancel", params).await;
        let stopped = self.ended("draft:wrong").await;
        let verdict = (json!("cancelled"), Value::Null, vec![]);
        assert_eq!(outcome(&stopped), verdict, "{stopped:#}");
        in_order(&self.world.events("draft:wrong").await);
    }

    /// Works in a repository of the user's: what the turn's tool calls name comes home, nothing else.
    async fn in_own_repository(&self) {
        let repository = self.world.path().join("home/code");
        fs::create_dir_all(repository.join("src")).unwrap();
        fs::write(repository.join("src/old.txt"), "old").unwrap();
        let mut git = Command::new("git");
        let made = git.args(["init", "-q"]).arg(&repository).status();
        assert!(made.unwrap().success());
        let folder = repository.to_str().unwrap().to_owned();
        let path = repository.join("src/new.txt");
        let prompt = format!("[[write {} = new]] [[say written]]", path.display());
        self.send_with("draft:own", &prompt, |turn| {
            turn["workingDirectory"] = json!(folder);
        })
        .await;
        let question = self.world.question("draft:own").await;
        self.world.permit(&question, "allow_once").await;
        let ended = self.ended("draft:own").await;
        assert_eq!(ended["status"], json!("completed"), "{ended:#}");
        assert_eq!(fs::read_to_string(path).unwrap(), "new");
        // Codex writes with a shell, whose command names no file to the protocol.
        let expected: &[&str] = match self.agent {
            Agent::Codex => &[],
            _ => &["src/new.txt"],
        };
        assert_eq!(files(&ended), expected, "{ended:#}");
    }

    /// The agent's process is killed in the middle of a turn.
    async fn is_killed(&self) {
        self.send("draft:killed", "[[slow 200]] [[count 600]]")
            .await;
        self.says("draft:killed", "2 3").await;
        let run = self.world.rpc(
            "xworkmate.tasks.get",
            json!({"appThreadKey": "draft:killed"}),
        );
        let work = run.await["result"]["artifactDirectory"].clone();
        let work = Path::new(work.as_str().unwrap()).with_file_name("work");
        let killed = kill_agents_in(&work);
        assert!(killed > 0, "no agent works in {}", work.display());
        let ended = self.ended("draft:killed").await;
        assert_eq!(
            (&ended["status"], &ended["code"]),
            (&json!("failed"), &json!("AGENT_LOST")),
            "{ended:#}"
        );
    }

    /// Waits until a thread's run has said this.
    async fn says(&self, thread: &str, words: &str) {
        let begun = std::time::Instant::now();
        loop {
            let events = self.world.events(thread).await;
            let last = events.last().map(|e| e["update"]["runId"].clone());
            let of_last = events
                .iter()
                .filter(|e| Some(&e["update"]["runId"]) == last.as_ref());
            let said: String = of_last
                .filter_map(|e| e["update"]["text"].as_str())
                .collect();
            if said.contains(words) {
                return;
            }
            assert!(
                begun.elapsed() < TURN,
                "{words:?} was not said: {events:#?}\n{}",
                self.world.log()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Everything that a person does with an agent, at once, on threads of their own.
async fn the_bridge_tells_the_truth(agent: Agent) {
    let Some(bench) = Bench::with(agent).await else {
        return;
    };
    let said = bench.says_hello().await;
    tokio::join!(bench.three_turns(&said), bench.goes_wrong());
    tokio::join!(bench.in_own_repository(), bench.is_killed());
    // Whatever the agents' own questions were, each prompt reached the model in one turn only.
    let prompts = bench.model.seen.prompts();
    let hello = prompts.iter().filter(|p| p.contains("[[say hello there]]"));
    assert_eq!(hello.count(), 1, "{prompts:#?}");
}

#[tokio::test]
async fn gemini_through_the_bridge() {
    the_bridge_tells_the_truth(Agent::Gemini).await;
}

#[tokio::test]
async fn codex_through_the_bridge() {
    the_bridge_tells_the_truth(Agent::Codex).await;
}

#[tokio::test]
async fn opencode_through_the_bridge() {
    the_bridge_tells_the_truth(Agent::OpenCode).await;
}

#[tokio::test]
async fn hermes_through_the_bridge() {
    the_bridge_tells_the_truth(Agent::Hermes).await;
}

/// Status, code and files of a run.
pub(crate) fn outcome(snapshot: &Value) -> (Value, Value, Vec<String>) {
    (
        snapshot["status"].clone(),
        snapshot["code"].clone(),
        files(snapshot),
    )
}

/// The paths of a run's files.
pub(crate) fn files(snapshot: &Value) -> Vec<String> {
    let items = snapshot["artifacts"]["items"].as_array();
    let paths = items.into_iter().flatten().map(|i| i["path"].as_str());
    paths.map(|path| path.unwrap().to_owned()).collect()
}

fn text(snapshot: &Value) -> &str {
    snapshot["text"].as_str().unwrap_or_default()
}

/// The numbers of a log have no gap and no twin.
pub(crate) fn in_order(events: &[Value]) {
    let ids: Vec<i64> = events.iter().map(|e| e["id"].as_i64().unwrap()).collect();
    assert_eq!(ids, (1..=ids.len() as i64).collect::<Vec<_>>());
}

async fn download(world: &World, snapshot: &Value) -> Vec<u8> {
    let url = snapshot["artifacts"]["items"][0]["url"].as_str();
    let url = url.unwrap_or_else(|| panic!("{snapshot:#}"));
    let url = match url.starts_with("http") {
        true => url.to_owned(),
        false => format!("{}{url}", world.url),
    };
    let answer = world.http.get(url).bearer_auth(&world.token).send().await;
    answer.unwrap().bytes().await.unwrap().to_vec()
}

/// Kills the agents that work in this folder, but not their hosts; gives how many.
pub(crate) fn kill_agents_in(folder: &Path) -> usize {
    let all = procs::working_in(folder);
    let agents = all
        .iter()
        .filter(|(_, command)| !command.contains("agent-host"));
    agents.map(|(pid, _)| procs::kill(*pid)).count()
}
