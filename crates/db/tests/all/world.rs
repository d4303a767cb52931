//! A database of its own for each test, with one table of counters.

use std::sync::Arc;

use sqlx::{Connection as _, PgConnection, migrate::Migrator};
use threadline_db::{Db, DbConfig, DbError, Dialect, Migrations, Result, Tx, on, read};

static SQLITE: Migrator = sqlx::migrate!("tests/migrations/sqlite");
static POSTGRES: Migrator = sqlx::migrate!("tests/migrations/postgres");

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
    pub(crate) db: Db,
    pub(crate) config: DbConfig,
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

pub(crate) async fn open(config: DbConfig) -> Result<Db> {
    let migrations = Migrations {
        sqlite: &SQLITE,
        postgres: Some(&POSTGRES),
    };
    Db::open(config, migrations, || ()).await
}

impl World {
    pub(crate) async fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.db");
        let config = DbConfig::new(format!("sqlite:{}", path.display()));
        Self::of(config, Place::Folder(folder)).await
    }

    pub(crate) async fn postgres() -> Self {
        let server = std::env::var("THREADLINE_TEST_POSTGRES").expect(
            "set THREADLINE_TEST_POSTGRES to the URL of a PostgreSQL server whose databases may be created and dropped, \
             or leave out the tests with `postgres` in their names",
        );
        let name = format!("db_{}", uuid::Uuid::now_v7().simple());
        execute(&server, format!("create database {name}")).await;
        let (base, options) = server.split_once('?').unwrap_or((&server, ""));
        let (base, _) = base.rsplit_once('/').unwrap();
        let config = DbConfig::new(format!("{base}/{name}?{options}"));
        Self::of(config, Place::Database(server, name)).await
    }

    async fn of(config: DbConfig, place: Place) -> Self {
        Self {
            db: open(config.clone()).await.unwrap(),
            config,
            place: Arc::new(place),
        }
    }

    pub(crate) async fn end(self) {
        self.db.close().await.unwrap();
        if let Place::Database(server, name) = &*self.place {
            execute(server, format!("drop database {name} with (force)")).await;
        }
    }

    /// Runs a statement on the database behind the back of this crate.
    pub(crate) async fn run(&self, statement: String) {
        match self.db.dialect() {
            Dialect::Sqlite => {
                let conn = sqlx::SqliteConnection::connect(&self.config.url);
                let mut conn = conn.await.unwrap();
                let statement = sqlx::AssertSqlSafe(statement);
                sqlx::query(statement).execute(&mut conn).await.unwrap();
                conn.close().await.unwrap();
            }
            Dialect::Postgres => execute(&self.config.url, statement).await,
        }
    }

    pub(crate) async fn value(&self, name: &str) -> Result<i64> {
        read!(self.db, |c| sqlx::query_scalar(
            "select value from counters where name = $1"
        )
        .bind(name)
        .fetch_one(c)
        .await)
    }

    pub(crate) async fn put(&self, name: &'static str, value: i64) -> Result<()> {
        let put = self
            .db
            .write(move |tx| Box::pin(async move { put(tx, name, value).await }));
        put.await
    }
}

pub(crate) async fn execute(server: &str, statement: String) {
    let mut conn = PgConnection::connect(server).await.unwrap();
    sqlx::query(sqlx::AssertSqlSafe(statement))
        .execute(&mut conn)
        .await
        .unwrap();
    conn.close().await.unwrap();
}

pub(crate) async fn put(tx: &mut Tx<()>, name: &str, value: i64) -> Result<(), DbError> {
    on!(tx, |c| sqlx::query(
        "insert into counters (name, value) values ($1, $2)"
    )
    .bind(name)
    .bind(value)
    .execute(c)
    .await
    .map(drop))
}

/// Adds to a counter and gives its new value.
pub(crate) async fn add(tx: &mut Tx<()>, name: &str, n: i64) -> Result<i64, DbError> {
    on!(tx, |c| sqlx::query_scalar(
        "update counters set value = value + $2 where name = $1 returning value"
    )
    .bind(name)
    .bind(n)
    .fetch_one(c)
    .await)
}
