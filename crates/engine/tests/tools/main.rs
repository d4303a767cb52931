//! Tool calls of a run: executed once, recorded, and handed to the runtime over any restart.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where"
)]

mod scripted;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use pretty_assertions::assert_eq;
use serde_json::json;
use tempfile::TempDir;
use threadline_contract::{
    AccountId, AppThreadKey, Code, Fault, Millis, Owner, Principal, RunId, RunStatus, RuntimeId,
    Scopes, TokenId, ToolCall, ToolDefinition, ToolResult, Who, method,
};
use threadline_engine::{
    CalledTool, Engine, EngineConfig, Keep, Rules, ToolExecutor, ToolExecutors, TurnAnswer,
    TurnExtras,
};
use threadline_runtimes::Pending;
use threadline_store::{Store, StoreConfig};
use tokio::sync::watch;

use self::scripted::{Script, Scripted};

const DOOR: &str = "door";

/// Notes what it was asked to do, and does it unless it shall hang.
struct Door {
    executed: Mutex<Vec<(RunId, ToolCall)>>,
    hangs: AtomicBool,
    fails_once: AtomicBool,
}

impl ToolExecutor for Door {
    fn execute<'a>(&'a self, called: &'a CalledTool) -> Pending<'a, Result<ToolResult, Fault>> {
        Box::pin(async move {
            let asked = (called.run.clone(), called.call.clone());
            self.executed.lock().unwrap().push(asked);
            if self.hangs.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            if self.fails_once.swap(false, Ordering::SeqCst) {
                return Err(Fault::new(Code::StorageFull, "There is no room."));
            }
            Ok(ToolResult::done(format!("did {}", called.call.id)))
        })
    }
}

struct World {
    folder: TempDir,
    store: Store,
    script: Arc<Script>,
    door: Arc<Door>,
}

impl World {
    async fn new(calls: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = format!("sqlite:{}", folder.path().join("t.db").display());
        let store = Store::open(StoreConfig::new(database)).await.unwrap();
        let account = AccountId::local();
        store.ensure_account(&account, Millis::now()).await.unwrap();
        let calls = calls.iter().map(|id| call(id)).collect();
        Self {
            folder,
            store,
            script: Arc::new(Script {
                id: RuntimeId::Acp("scripted".into()),
                calls,
                takes_tools: true,
                is_deaf: AtomicBool::new(false),
                results: watch::Sender::new(BTreeMap::new()),
            }),
            door: Arc::new(Door {
                executed: Mutex::default(),
                hangs: AtomicBool::new(false),
                fails_once: AtomicBool::new(false),
            }),
        }
    }

    /// The engine, as after a start of the process.
    async fn engine(&self) -> Engine {
        let path = self.folder.path();
        let config = EngineConfig {
            node: "here".into(),
            renamed: false,
            advertise: None,
            data: path.join("data"),
            protected: vec![],
            attachments: path.join("attachments"),
            work_roots: vec![],
            thread_folders: path.join("threads"),
            auto_runtime: self.script.id.clone(),
            agent_runtime: self.script.id.clone(),
            link_ttl: Duration::from_secs(60),
            lease_ttl: Duration::from_secs(30),
            result_wait: Duration::from_secs(10),
            verify_wait: Duration::from_secs(60),
            keep: Keep::FOR_EVER,
            cache_bytes: 0,
            rules: Rules::default(),
        };
        let tools = ToolExecutors::default().with(DOOR, self.door.clone());
        let runtimes = vec![Arc::new(Scripted(self.script.clone())) as _];
        Engine::open(config, self.store.clone(), runtimes, tools)
            .await
            .unwrap()
    }

    fn executed(&self) -> Vec<(RunId, ToolCall)> {
        self.door.executed.lock().unwrap().clone()
    }

    fn given(&self) -> Vec<(String, ToolResult)> {
        self.script.results.borrow().clone().into_iter().collect()
    }
}

fn call(id: &str) -> ToolCall {
    ToolCall {
        id: id.into(),
        name: "note_add".into(),
        arguments: json!({"text": id}),
    }
}

fn caller() -> Principal {
    Principal {
        account: AccountId::local(),
        who: Who::Token(TokenId::fresh()),
        label: "test".into(),
        scopes: Scopes::FULL,
    }
}

fn extras(executor: &str) -> TurnExtras {
    TurnExtras {
        instructions: None,
        tools: vec![ToolDefinition {
            name: "note_add".into(),
            description: "Adds a note.".into(),
            input_schema: json!({"type": "object"}),
        }],
        executor: Some(executor.into()),
    }
}

async fn turn(engine: &Engine, extras: TurnExtras) -> Result<RunId, Fault> {
    let contract = json!({"schemaVersion": 1, "appThreadKey": "t-1", "expectedArtifactDirs": []});
    let params = json!({
        "sessionId": "t-1",
        "prompt": "go",
        "routing": {"routingMode": "auto"},
        "metadata": {"xworkmateTaskArtifactContract": contract},
    });
    let caller = caller();
    let answer = engine.turn_with(&caller, method::START, params, extras);
    match answer.await? {
        TurnAnswer::Accepted(accepted) => Ok(accepted.run),
        _ => panic!("it was not accepted"),
    }
}

/// Waits until something is so.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..500 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it never came to this: {what}");
}

async fn ended(engine: &Engine, run: &RunId) {
    until("the run ended", async || {
        let run = engine.store().run_any(run).await.unwrap();
        run.status == RunStatus::Completed
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_call_is_executed_once_and_its_result_reaches_the_run() {
    let world = World::new(&["call-1-1", "call-1-2"]).await;
    let engine = world.engine().await;
    let run = turn(&engine, extras(DOOR)).await.unwrap();
    ended(&engine, &run).await;
    engine.stop().await;
    let mut executed = world.executed();
    executed.sort_by_key(|(_, call)| call.id.clone());
    assert_eq!(
        executed,
        [
            (run.clone(), call("call-1-1")),
            (run.clone(), call("call-1-2"))
        ]
    );
    let done = |id: &str| (id.to_owned(), ToolResult::done(format!("did {id}")));
    assert_eq!(world.given(), [done("call-1-1"), done("call-1-2")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorded_result_is_handed_over_after_a_restart_and_not_executed_again() {
    let world = World::new(&["call-1-1"]).await;
    world.script.is_deaf.store(true, Ordering::SeqCst);
    let engine = world.engine().await;
    let run = turn(&engine, extras(DOOR)).await.unwrap();
    until("the result was recorded", async || {
        let calls = world.store.tool_calls(&run).await.unwrap();
        calls.iter().any(|call| call.result.is_some())
    })
    .await;
    engine.stop().await;
    assert_eq!(world.given(), []);
    world.script.is_deaf.store(false, Ordering::SeqCst);
    let engine = world.engine().await;
    ended(&engine, &run).await;
    engine.stop().await;
    assert_eq!(world.executed(), [(run, call("call-1-1"))]);
    let done = ToolResult::done("did call-1-1");
    assert_eq!(world.given(), [("call-1-1".to_owned(), done)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_a_restart_interrupted_comes_again_under_the_same_id() {
    let world = World::new(&["call-1-1"]).await;
    world.door.hangs.store(true, Ordering::SeqCst);
    let engine = world.engine().await;
    let run = turn(&engine, extras(DOOR)).await.unwrap();
    until("it is being executed", async || {
        !world.executed().is_empty()
    })
    .await;
    engine.stop().await;
    world.door.hangs.store(false, Ordering::SeqCst);
    let engine = world.engine().await;
    ended(&engine, &run).await;
    engine.stop().await;
    let once = (run, call("call-1-1"));
    assert_eq!(world.executed(), [once.clone(), once]);
    let done = ToolResult::done("did call-1-1");
    assert_eq!(world.given(), [("call-1-1".to_owned(), done)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_could_not_be_executed_is_tried_again() {
    let world = World::new(&["call-1-1"]).await;
    world.door.fails_once.store(true, Ordering::SeqCst);
    let engine = world.engine().await;
    let run = turn(&engine, extras(DOOR)).await.unwrap();
    ended(&engine, &run).await;
    engine.stop().await;
    assert_eq!(world.executed().len(), 2);
    let done = ToolResult::done("did call-1-1");
    assert_eq!(world.given(), [("call-1-1".to_owned(), done)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_nobody_executes_is_told_to_the_agent() {
    let world = World::new(&["call-1-1"]).await;
    let engine = world.engine().await;
    let run = turn(&engine, extras("somebody else")).await.unwrap();
    ended(&engine, &run).await;
    engine.stop().await;
    assert_eq!(world.executed(), []);
    let told = ToolResult::failed("Nobody at this server executes the tool `note_add`.");
    assert_eq!(world.given(), [("call-1-1".to_owned(), told)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_for_a_runtime_that_takes_none_are_refused_before_anything_begins() {
    let mut world = World::new(&[]).await;
    Arc::get_mut(&mut world.script)
        .expect("nobody else has it yet")
        .takes_tools = false;
    let engine = world.engine().await;
    let refused = turn(&engine, extras(DOOR)).await.unwrap_err();
    assert_eq!(
        refused,
        Fault::new(
            Code::UnsupportedByRuntime,
            "The scripted agent takes no tools with a turn. Choose another runtime."
        )
    );
    let owner = Owner::Thread(AppThreadKey::new("t-1").unwrap());
    let store = &world.store;
    let latest = store.latest_run(&AccountId::local(), &owner).await;
    assert_eq!(latest.unwrap(), None);
    let sessions = store.sessions_of_owner(&AccountId::local(), &owner).await;
    assert_eq!(sessions.unwrap(), []);
    engine.stop().await;
}
