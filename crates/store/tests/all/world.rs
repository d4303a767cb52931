//! A database of its own for each test, and short ways to fill it.

use std::sync::Arc;

use sqlx::{Connection as _, PgConnection};
use threadline_contract::{
    AccountId, Actor, AppThreadKey, Deliverable, Millis, Missing, Owner, QuestionId, QuestionKind,
    QuestionState, RequestId, RunId, RunStatus, RuntimeId, SessionKey, Sha256, TokenId, Who,
};
use threadline_store::{
    Admitted, Lease, Method, NewEvent, NewRun, Run, RunEnd, Store, StoreConfig, StoredQuestion,
    StreamId,
};

/// Writes each test once and runs it on both databases.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                let world = $crate::world::World::sqlite().await;
                super::$name(world.clone()).await;
                world.end().await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                let world = $crate::world::World::postgres().await;
                super::$name(world.clone()).await;
                world.end().await;
            })*
        }
    };
}
pub(crate) use on_both;

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) config: StoreConfig,
    pub(crate) place: Arc<Place>,
}

pub(crate) enum Place {
    Folder(
        #[expect(
            dead_code,
            reason = "held so that the folder lives as long as the world"
        )]
        tempfile::TempDir,
    ),
    /// The server's own address, and the name of the test's database.
    Database(String, String),
}

impl World {
    pub(crate) async fn sqlite() -> Self {
        let (config, place) = Self::empty_sqlite();
        Self::open(config, place).await
    }

    pub(crate) fn empty_sqlite() -> (StoreConfig, Place) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("threadline.db");
        let config = StoreConfig::new(format!("sqlite:{}", path.display()));
        (config, Place::Folder(folder))
    }

    pub(crate) async fn postgres() -> Self {
        let (config, place) = Self::empty_postgres().await;
        Self::open(config, place).await
    }

    pub(crate) async fn empty_postgres() -> (StoreConfig, Place) {
        let server = std::env::var("THREADLINE_TEST_POSTGRES").expect(
            "set THREADLINE_TEST_POSTGRES to the URL of a PostgreSQL server whose databases may be created and dropped, \
             or leave out the tests with `postgres` in their names",
        );
        let name = format!("store_{}", uuid::Uuid::now_v7().simple());
        run_on(&server, format!("create database {name}")).await;
        let (base, options) = server.split_once('?').unwrap_or((&server, ""));
        let (base, _) = base.rsplit_once('/').unwrap();
        let config = StoreConfig::new(format!("{base}/{name}?{options}"));
        (config, Place::Database(server, name))
    }

    pub(crate) async fn open(config: StoreConfig, place: Place) -> Self {
        let store = Store::open(config.clone()).await.unwrap();
        store.ensure_account(&account(), Millis(1)).await.unwrap();
        store.ensure_account(&other(), Millis(1)).await.unwrap();
        let place = Arc::new(place);
        Self {
            store,
            config,
            place,
        }
    }

    /// Another process, as it were, on the same database.
    pub(crate) async fn second(&self) -> Store {
        Store::open(self.config.clone()).await.unwrap()
    }

    pub(crate) async fn end(self) {
        self.store.close().await.unwrap();
        if let Place::Database(server, name) = &*self.place {
            run_on(server, format!("drop database {name} with (force)")).await;
        }
    }

    /// A new run of the usual thread.
    pub(crate) async fn run(&self) -> Run {
        self.run_of(&thread()).await
    }

    pub(crate) async fn run_of(&self, owner: &Owner) -> Run {
        let new = new_run(&account(), owner, None);
        match self.store.admit(new, vec![]).await.unwrap() {
            Admitted::New(run) => run,
            Admitted::Same(run) => panic!("not new: {run:?}"),
        }
    }

    /// A new run of the usual thread, with its lease.
    pub(crate) async fn leased(&self) -> (Run, Lease) {
        let run = self.run().await;
        let lease = self.take(&run.id).await;
        (run, lease)
    }

    /// Takes a run's lease away from whoever has it.
    pub(crate) async fn take(&self, run: &RunId) -> Lease {
        let taken = self.store.claim_runs(
            std::slice::from_ref(run),
            "somebody",
            Millis(0),
            60_000,
            threadline_store::Takeover::Always,
        );
        taken.await.unwrap().pop().unwrap()
    }

    /// A lease that another has taken over.
    pub(crate) async fn stale(&self) -> (Run, Lease) {
        let (run, lease) = self.leased().await;
        self.take(&run.id).await;
        (run, lease)
    }

    pub(crate) async fn log(&self, stream: &StreamId) -> Vec<(i64, String)> {
        let events = self.store.events_after(stream, 0, 100_000).await.unwrap();
        let plain = |e: threadline_store::StoredEvent| (e.seq, e.body.to_string());
        events.into_iter().map(plain).collect()
    }
}

pub(crate) async fn run_on(server: &str, statement: String) {
    let mut conn = PgConnection::connect(server).await.unwrap();
    sqlx::query(sqlx::AssertSqlSafe(statement))
        .execute(&mut conn)
        .await
        .unwrap();
    conn.close().await.unwrap();
}

pub(crate) fn account() -> AccountId {
    AccountId::local()
}
pub(crate) fn other() -> AccountId {
    AccountId::new("other").unwrap()
}
pub(crate) fn thread() -> Owner {
    thread_named("draft:1")
}
pub(crate) fn thread_named(name: &str) -> Owner {
    AppThreadKey::new(name).unwrap().into()
}
pub(crate) fn stream() -> StreamId {
    StreamId::of(&account(), &thread())
}

pub(crate) fn new_run(account: &AccountId, owner: &Owner, request: Option<(&str, u8)>) -> NewRun {
    NewRun {
        id: RunId::fresh(),
        account: account.clone(),
        owner: owner.clone(),
        runtime: RuntimeId::Builtin,
        session_key: SessionKey::for_runtime("builtin", "main", &owner.app_thread_key()),
        method: Method::Start,
        turn: r#"{"prompt":"make a report"}"#.to_owned(),
        request: request.map(|(id, body)| (RequestId::new(id).unwrap(), Sha256([body; 32]))),
        begun_by: by("ann"),
        lease: None,
        at: Millis(1000),
    }
}

/// Somebody who does something.
pub(crate) fn by(label: &str) -> Actor {
    Actor {
        who: Who::Token(TokenId::new(format!("tok-{label}")).unwrap()),
        label: label.to_owned(),
    }
}

pub(crate) fn event(body: &str) -> NewEvent {
    NewEvent {
        run: None,
        frame: None,
        kind: "note".into(),
        body: format!("\"{body}\"").into(),
        at: Millis(5),
    }
}

pub(crate) fn end_with(status: RunStatus) -> RunEnd {
    RunEnd {
        status,
        code: None,
        message: None,
        text: Some("done".to_owned()),
        usage: None,
        missing: None,
        ended_at: Millis(2000),
        phase: None,
    }
}

pub(crate) fn question_of(run: &Run) -> StoredQuestion {
    StoredQuestion {
        id: QuestionId::fresh(),
        owner: run.owner.clone(),
        run: run.id.clone(),
        kind: QuestionKind::Question,
        text: "Which colour?".to_owned(),
        options: vec![],
        free_text: true,
        tool: None,
        state: QuestionState::Open,
        asked_at: Millis(1500),
        closed_at: None,
        answer: None,
        closed_by: None,
        closed_by_principal: None,
    }
}

pub(crate) fn missing() -> Missing {
    Missing {
        deliverable: Deliverable {
            glob: "reports/*.pdf".to_owned(),
            content_type: None,
            min_bytes: Some(1),
            min_count: None,
        },
        found: 0,
    }
}
