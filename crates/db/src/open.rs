//! Opening and closing: pools, migrations, and how one statement is read.

use std::{fmt, str::FromStr as _, sync::Arc, time::Duration};

use sqlx::{
    ConnectOptions as _, PgPool, SqlitePool,
    migrate::Migrator,
    postgres::{PgConnectOptions, PgPoolOptions},
};

use crate::{
    DbConfig, DbError, Dialect, Migrations, Result, Tx, TxState, sqlite, tx::Conn, writer::Writer,
};

/// An open database. Cloning it is cheap; all clones are one.
pub struct Db<S: TxState = ()> {
    pub(crate) inner: Arc<Inner<S>>,
}

pub(crate) struct Inner<S: TxState> {
    pub(crate) pools: Pools<S>,
    /// The file, where the database is one.
    pub(crate) file: Option<Arc<str>>,
    pub(crate) patience: Duration,
    /// Makes the state of one transaction; used with PostgreSQL.
    pub(crate) state: Box<dyn Fn() -> S + Send + Sync>,
}

pub(crate) enum Pools<S: TxState> {
    Sqlite { read: SqlitePool, writer: Writer<S> },
    Postgres(PgPool),
}

/// A pool to read from (see [`read!`](crate::read)).
#[derive(Clone, Copy, Debug)]
pub enum Reader<'d> {
    /// Of a SQLite file.
    Sqlite(&'d SqlitePool),
    /// Of a PostgreSQL server.
    Postgres(&'d PgPool),
}

/// Runs one reading statement, on whichever pool there is.
#[macro_export]
macro_rules! read {
    ($db:expr, |$c:ident| $body:expr) => {
        match $db.reader() {
            $crate::Reader::Sqlite($c) => $body,
            $crate::Reader::Postgres($c) => $body,
        }
        .map_err(|e| $db.explain(e))
    };
}

impl<S: TxState> Clone for Db<S> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<S: TxState> fmt::Debug for Db<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db")
            .field("dialect", &self.dialect())
            .field("file", &self.inner.file)
            .finish_non_exhaustive()
    }
}

impl<S: TxState> Drop for Inner<S> {
    fn drop(&mut self) {
        if let Pools::Postgres(pool) = &self.pools {
            // Calling it marks the pool as closed, which is what a listener on it waits for.
            drop(pool.close());
        }
    }
}

impl<S: TxState> Db<S> {
    /// Opens the database, makes it when it is a SQLite file that does not exist, and brings it up to date.
    /// A database with migrations that are not known is refused and left as it is. `state` makes what is kept
    /// in memory beside transactions.
    pub async fn open(
        config: DbConfig,
        migrations: Migrations,
        state: impl Fn() -> S + Send + Sync + 'static,
    ) -> Result<Self> {
        let dialect = Dialect::of_url(&config.url).ok_or(DbError::BadUrl)?;
        let file: Option<Arc<str>> = config.url.strip_prefix("sqlite:").map(|rest| {
            let path = rest.split('?').next().unwrap_or(rest);
            path.strip_prefix("//").unwrap_or(path).into()
        });
        let pools = match dialect {
            Dialect::Sqlite => {
                let opened = sqlite::open(&config, migrations.sqlite).await;
                let (conn, read) = opened.map_err(|e| e.in_file(file.as_ref()))?;
                let tx = Tx::new(Conn::Sqlite(Box::new(conn)), file.clone(), state());
                let writer = Writer::start(tx);
                Pools::Sqlite { read, writer }
            }
            Dialect::Postgres => {
                let migrations = migrations.postgres.ok_or(DbError::BadUrl)?;
                Pools::Postgres(open_postgres(&config, migrations).await?)
            }
        };
        let inner = Arc::new(Inner {
            pools,
            file,
            patience: config.patience,
            state: Box::new(state),
        });
        Ok(Self { inner })
    }

    /// Writes what is under way and closes every connection. Whatever is asked afterwards is `Closed`.
    pub async fn close(&self) -> Result<()> {
        match &self.inner.pools {
            Pools::Sqlite { read, writer } => {
                read.close().await;
                // Last, so that SQLite folds its log into the file.
                writer.close().await
            }
            Pools::Postgres(pool) => {
                pool.close().await;
                Ok(())
            }
        }
    }

    /// Which database is underneath.
    pub fn dialect(&self) -> Dialect {
        match self.inner.pools {
            Pools::Sqlite { .. } => Dialect::Sqlite,
            Pools::Postgres(_) => Dialect::Postgres,
        }
    }

    /// What is damaged, as far as the database itself can tell; nothing, when it is sound.
    pub async fn damage(&self) -> Result<Vec<String>> {
        match self.reader() {
            Reader::Sqlite(read) => {
                let told = sqlx::query_scalar("pragma quick_check(20)").fetch_all(read);
                let told: Vec<String> = told.await.map_err(|e| self.explain(e))?;
                Ok(told.into_iter().filter(|line| line != "ok").collect())
            }
            // Its server checks its own pages as it reads them.
            Reader::Postgres(_) => Ok(Vec::new()),
        }
    }

    /// The pool to read from.
    pub fn reader(&self) -> Reader<'_> {
        match &self.inner.pools {
            Pools::Sqlite { read, .. } => Reader::Sqlite(read),
            Pools::Postgres(pool) => Reader::Postgres(pool),
        }
    }

    /// A failed statement's error, with what is known about it here.
    pub fn explain(&self, e: sqlx::Error) -> DbError {
        DbError::from(e).in_file(self.inner.file.as_ref())
    }
}

async fn open_postgres(config: &DbConfig, migrations: &Migrator) -> Result<PgPool> {
    let options = PgConnectOptions::from_str(&config.url)
        .map_err(|_| DbError::BadUrl)?
        .application_name("threadline")
        .disable_statement_logging();
    let pool = PgPoolOptions::new()
        // One more than asked for: whoever listens keeps one for itself.
        .max_connections(config.connections.saturating_add(1))
        .acquire_timeout(config.patience)
        .connect_with(options)
        .await?;
    migrations.run(&pool).await?;
    Ok(pool)
}
