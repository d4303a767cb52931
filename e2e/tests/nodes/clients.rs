//! Clients of two servers that never give up, and never send the same thing as two.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use threadline_e2e::world::World;

/// How long a client tries to get one turn through.
const PATIENCE: Duration = Duration::from_secs(50);
/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(5);
/// The pause before something is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// What one client knows of the two servers.
#[derive(Clone)]
pub(crate) struct Clients {
    servers: [(String, String); 2],
    http: reqwest::Client,
}

/// A client's thread.
pub(crate) fn thread(n: usize) -> String {
    format!("draft:{n}")
}

/// How every turn ends: with the words of the first.
pub(crate) fn wanted(runs: &[Value]) -> Vec<Value> {
    let ended = |run: &Value| json!({"runId": run, "status": "completed", "text": "kept"});
    runs.iter().map(ended).collect()
}

/// What a server tells of a thread's runs.
pub(crate) async fn told(world: &World, thread: &str, runs: &[Value]) -> Vec<Value> {
    let mut told = vec![];
    for run in runs {
        let asked = json!({"appThreadKey": thread, "runId": run});
        let got = world.rpc("xworkmate.tasks.get", asked).await;
        told.push(essence(&got["result"]));
    }
    told
}

fn essence(result: &Value) -> Value {
    json!({"runId": result["runId"], "status": result["status"], "text": result["text"]})
}

impl Clients {
    pub(crate) fn new(worlds: &[&World; 2]) -> Self {
        let server = |world: &World| (world.url.clone(), world.token.clone());
        Self {
            servers: worlds.map(server),
            http: worlds[0].http.clone(),
        }
    }

    /// Sends one turn after the other, each to the next server, and gives their runs.
    pub(crate) async fn work(self, n: usize, turns: usize) -> Vec<Value> {
        let mut runs = vec![];
        for k in 0..turns {
            let (method, prompt) = match k {
                0 => ("session.start", "[[write notes.md = kept]] [[say kept]]"),
                _ => ("session.message", "[[read notes.md]] [[say {last}]]"),
            };
            let mut turn = World::turn(&thread(n), prompt);
            turn["requestId"] = json!(format!("request-{n}-{k}"));
            let run = self.until(n + k, method, &turn, |result| {
                let run = result["runId"].clone();
                run.is_string().then_some(run)
            });
            let run = run.await;
            let asked = json!({"appThreadKey": thread(n), "runId": run});
            let ended = self.until(n + k + 1, "xworkmate.tasks.get", &asked, |result| {
                let ended = result["status"].as_str().is_some_and(|s| s != "running");
                ended.then(|| essence(result))
            });
            assert_eq!(
                vec![ended.await],
                wanted(std::slice::from_ref(&run)),
                "turn {k} of {n}"
            );
            runs.push(run);
        }
        runs
    }

    /// Asks one server after the other until the answer is one.
    async fn until<T>(
        &self,
        first: usize,
        method: &str,
        params: &Value,
        answer: impl Fn(&Value) -> Option<T>,
    ) -> T {
        let begun = Instant::now();
        let mut last = Value::Null;
        for at in first.. {
            let (url, token) = &self.servers[at % 2];
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            let sent = self.http.post(format!("{url}/acp/rpc")).timeout(REQUEST);
            if let Ok(got) = sent.bearer_auth(token).json(&body).send().await
                && let Ok(got) = got.json::<Value>().await
            {
                if let Some(answer) = answer(&got["result"]) {
                    return answer;
                }
                last = got;
            }
            assert!(begun.elapsed() < PATIENCE, "{method}: {last:#}");
            tokio::time::sleep(PAUSE).await;
        }
        unreachable!("it counts for ever")
    }
}
