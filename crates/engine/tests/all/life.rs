//! Engines on one data folder and one database, one after the other or side by side.

use std::{future::Future, path::Path, sync::Arc, time::Duration};

use serde_json::{Value, json};
use threadline_contract::{
    AccountId, AppThreadKey, Fault, Millis, Principal, Question, QuestionId, RunId, RuntimeId,
    Scopes, TokenId, Who,
    method::{AnswerParams, Decision, QuestionsParams, Receipt, RespondParams, TaskParams},
};
use threadline_e2e::postgres;
use threadline_engine::{Engine, EngineConfig, Keep, Rules, ToolExecutors, TurnAnswer};
use threadline_runtimes::Runtime;
use threadline_store::{Phase, Run, Store, StoreConfig, StoredEvent};

use crate::{
    told::{self, Record},
    world::World,
};

/// Writes each test once and runs it on both databases.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[test]
            fn $name() {
                super::$name(&mut $crate::life::Bench::sqlite());
            })*
        }
        mod postgres {
            $(#[test]
            fn $name() {
                super::$name(&mut $crate::life::Bench::postgres());
            })*
        }
    };
}
pub(crate) use on_both;

/// How long anything may take before a test gives up.
const TOO_LONG: Duration = Duration::from_secs(60);

/// What engines share: the database, the folders, the runtime's world.
pub(crate) struct Bench {
    pub(crate) world: World,
    pub(crate) rules: Rules,
    pub(crate) lease_ttl: Duration,
    pub(crate) result_wait: Duration,
    pub(crate) verify_wait: Duration,
    folder: tempfile::TempDir,
    database: String,
}

impl Bench {
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = format!("sqlite:{}", folder.path().join("t.db").display());
        Self::on(folder, database)
    }

    pub(crate) fn postgres() -> Self {
        let server = std::env::var("THREADLINE_TEST_POSTGRES")
            .expect("THREADLINE_TEST_POSTGRES names a PostgreSQL server");
        let database = postgres::fresh_database(&server);
        Self::on(tempfile::tempdir().unwrap(), database)
    }

    fn on(folder: tempfile::TempDir, database: String) -> Self {
        Self {
            world: World::new(),
            rules: Rules::default(),
            lease_ttl: Duration::from_secs(30),
            result_wait: Duration::from_secs(10),
            verify_wait: Duration::from_secs(60),
            folder,
            database,
        }
    }

    /// An engine as the first start or a later one opens it.
    pub(crate) fn life(&self) -> Life {
        self.node("a")
    }

    /// An engine of this name.
    pub(crate) fn node(&self, name: &str) -> Life {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let config = self.config(name, &self.folder.path().join(name));
        let world = Arc::new(self.world.clone()) as Arc<dyn Runtime>;
        let engine = runtime.block_on(async {
            let store = Store::open(StoreConfig::new(self.database.clone()))
                .await
                .unwrap();
            let account = AccountId::local();
            store.ensure_account(&account, Millis::now()).await.unwrap();
            Engine::open(config, store, vec![world], ToolExecutors::default())
                .await
                .unwrap()
        });
        Life {
            world: self.world.clone(),
            runtime,
            engine,
        }
    }

    fn config(&self, node: &str, folder: &Path) -> EngineConfig {
        EngineConfig {
            node: node.into(),
            renamed: false,
            advertise: None,
            data: folder.join("data"),
            protected: vec![],
            attachments: folder.join("attachments"),
            work_roots: vec![],
            thread_folders: folder.join("threads"),
            auto_runtime: RuntimeId::Builtin,
            agent_runtime: RuntimeId::Builtin,
            link_ttl: Duration::from_secs(3600),
            lease_ttl: self.lease_ttl,
            result_wait: self.result_wait,
            verify_wait: self.verify_wait,
            keep: Keep::FOR_EVER,
            cache_bytes: 0,
            rules: self.rules.clone(),
        }
    }
}

/// One engine, from its opening until it is killed. It does something only while a test waits in it.
pub(crate) struct Life {
    pub(crate) world: World,
    pub(crate) engine: Engine,
    runtime: tokio::runtime::Runtime,
}

pub(crate) fn thread(name: &str) -> AppThreadKey {
    AppThreadKey::new(name).unwrap()
}

pub(crate) fn caller(label: &str) -> Principal {
    Principal {
        account: AccountId::local(),
        who: Who::Token(TokenId::new("token").unwrap()),
        label: label.into(),
        scopes: Scopes::FULL,
    }
}

/// What asks for a turn of a thread.
pub(crate) fn turn(thread: &str) -> Value {
    json!({
        "sessionId": thread, "threadId": thread, "prompt": "Do it",
        "routing": {"explicitExecutionTarget": "agent", "explicitProviderId": "builtin"},
        "metadata": {"xworkmateTaskArtifactContract": {"schemaVersion": 1, "appThreadKey": thread}},
    })
}

/// The same that must deliver these files.
pub(crate) fn turn_with(thread: &str, deliverables: &[&str]) -> Value {
    let mut params = turn(thread);
    let globs: Vec<Value> = deliverables.iter().map(|g| json!({"glob": g})).collect();
    params["metadata"]["xworkmateTaskArtifactContract"]["deliverables"] = json!(globs);
    params
}

impl Life {
    /// Ends the engine as a kill would: nothing of it goes on.
    pub(crate) fn kill(self) {
        {
            let _inside = self.runtime.enter();
            drop(self.engine);
        }
        drop(self.runtime);
        // The database's own threads finish the statement that they are at.
        std::thread::sleep(Duration::from_millis(5));
    }

    pub(crate) fn wait<T>(&self, what: impl Future<Output = T>) -> T {
        self.runtime.block_on(async {
            tokio::time::timeout(TOO_LONG, what)
                .await
                .expect("it takes too long")
        })
    }

    /// Lets the engine work until something is so.
    pub(crate) fn until(&self, what: &str, mut is_so: impl AsyncFnMut(&Engine) -> bool) {
        self.runtime.block_on(async {
            let begun = std::time::Instant::now();
            while !is_so(&self.engine).await {
                assert!(begun.elapsed() < TOO_LONG, "never: {what}");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    }

    /// Lets the engine work for a moment, in which it could do what it should not.
    pub(crate) fn goes_on_for(&self, time: Duration) {
        self.runtime
            .block_on(async { tokio::time::sleep(time).await });
    }

    pub(crate) fn send(&self, method: &str, params: Value) -> Result<RunId, Fault> {
        let caller = caller("somebody");
        match self.wait(self.engine.turn(&caller, method, params))? {
            TurnAnswer::Accepted(accepted) => Ok(accepted.run),
            TurnAnswer::Unavailable(_) => panic!("the runtime is not there"),
            TurnAnswer::Elsewhere(_) => panic!("another server has the session"),
        }
    }

    pub(crate) fn start(&self, thread: &str) -> RunId {
        self.send("session.start", turn(thread)).unwrap()
    }

    pub(crate) fn stop_run(&self, run: &RunId) -> Receipt {
        let params = TaskParams {
            run_id: Some(run.clone()),
            app_thread_key: Some(self.run(run).owner.app_thread_key()),
            ..TaskParams::default()
        };
        self.wait(self.engine.cancel_task(&caller("somebody"), &params))
            .unwrap()
    }

    /// Answers a question with one of its options.
    pub(crate) fn answer(&self, question: &str, option: &str) -> Result<Question, Fault> {
        self.wait(
            self.engine
                .answer(&caller("somebody"), answer(question, option)),
        )
    }

    pub(crate) fn decline(&self, question: &str) -> Result<(), Fault> {
        let params = RespondParams {
            request_id: QuestionId::new(question).unwrap(),
            session_id: None,
            option_id: None,
            decision: Some(Decision::Cancel),
        };
        self.wait(self.engine.respond(&caller("somebody"), params))
            .map(drop)
    }

    /// Whether nothing is left of a thread.
    pub(crate) fn delete(&self, name: &str) -> bool {
        let (caller, thread) = (caller("somebody"), thread(name));
        let deleted = self.engine.delete_session(&caller, &thread);
        self.wait(deleted).unwrap().deleted
    }

    pub(crate) fn run(&self, run: &RunId) -> Run {
        self.wait(self.engine.store().run_any(run)).unwrap()
    }

    pub(crate) fn record(&self, run: &RunId) -> Record {
        Record::of(&self.run(run))
    }

    pub(crate) fn events(&self, run: &RunId) -> Vec<StoredEvent> {
        let stream = self.run(run).stream();
        let mut events = self
            .wait(self.engine.store().events_after(&stream, 0, 100_000))
            .unwrap();
        events.retain(|event| event.run.as_ref() == Some(run));
        events
    }

    /// What the owner's log says of a run.
    pub(crate) fn log(&self, run: &RunId) -> Vec<String> {
        told::lines(&self.events(run))
    }

    /// The questions of a run, by their ids.
    pub(crate) fn all_questions(&self, run: &RunId) -> Vec<Question> {
        let (caller, all) = (
            caller("somebody"),
            QuestionsParams {
                thread_id: None,
                include_closed: true,
            },
        );
        let found = self.wait(self.engine.questions(&caller, &all)).unwrap();
        let mut questions = found.questions;
        questions.retain(|question| question.run_id == *run);
        questions.sort_by(|a, b| a.question_id.cmp(&b.question_id));
        questions
    }

    pub(crate) fn questions(&self, run: &RunId) -> Vec<String> {
        self.all_questions(run).iter().map(told::question).collect()
    }

    pub(crate) fn until_phase(&self, run: &RunId, phase: Phase) {
        let what = format!("{run} in phase {phase:?}");
        self.until(&what, async |engine| {
            engine.store().run_any(run).await.unwrap().phase == phase
        });
    }

    pub(crate) fn until_closed(&self, run: &RunId) {
        self.until_phase(run, Phase::Closed);
    }

    /// Until so many frames of a run are logged.
    pub(crate) fn until_logged(&self, run: &RunId, frame: i64) {
        self.until(&format!("frame {frame} in the log"), async |engine| {
            let record = engine.store().run_any(run).await.unwrap();
            let last = engine.store().last_frame(&record).await.unwrap();
            last.is_some_and(|(last, _)| last >= frame)
        });
    }

    /// Until the log says this of a run.
    pub(crate) fn until_told(&self, run: &RunId, line: &str) {
        self.until(&format!("{line} in the log"), async |engine| {
            let stream = engine.store().run_any(run).await.unwrap().stream();
            let events = engine
                .store()
                .events_after(&stream, 0, 1_000)
                .await
                .unwrap();
            told::lines(&events).iter().any(|told| told == line)
        });
    }

    pub(crate) fn until_asked(&self, run: &RunId, question: &str) {
        self.until(&format!("{question} is asked"), async |engine| {
            let open = engine.store().questions_of_run(run).await.unwrap();
            open.iter().any(|q| q.id.as_str() == question)
        });
    }
}

pub(crate) fn answer(question: &str, option: &str) -> AnswerParams {
    AnswerParams {
        question_id: QuestionId::new(question).unwrap(),
        option_id: Some(option.into()),
        text: None,
    }
}
