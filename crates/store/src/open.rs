//! Opening and closing: pools, migrations, and the two ways to write. No other crate opens a pool.

use std::{path::Path, str::FromStr as _, sync::Arc};

use futures_util::future::BoxFuture;
use sqlx::{
    ConnectOptions as _, PgPool, SqliteConnection, SqlitePool,
    postgres::{PgConnectOptions, PgPoolOptions},
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use crate::{
    Appended, Dialect, Lease, NewEvent, Result, StoreConfig, StoreError, StreamId,
    bus::Bus,
    listen,
    tx::{Conn, Tx},
    writer::Writer,
};

/// Older SQLite can corrupt a database in WAL mode when the log is reset.
const OLDEST_SQLITE: [u32; 3] = [3, 51, 3];

/// The records, the event logs and the live bus. Cloning it is cheap; all clones are one store.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) pools: Pools,
    /// The file, where the database is one.
    file: Option<Arc<str>>,
    pub(crate) bus: Arc<Bus>,
}

#[derive(Debug)]
pub(crate) enum Pools {
    Sqlite { read: SqlitePool, writer: Writer },
    Postgres(PgPool),
}

/// Runs one reading statement, on whichever pool there is.
macro_rules! read {
    ($store:expr, |$db:ident| $body:expr) => {
        match $store.pools() {
            $crate::open::Pools::Sqlite { read: $db, .. } => $body,
            $crate::open::Pools::Postgres($db) => $body,
        }
        .map_err(|e| $store.failed(e.into()))
    };
}
pub(crate) use read;

impl Drop for Inner {
    fn drop(&mut self) {
        if let Pools::Postgres(pool) = &self.pools {
            // Calling it marks the pool as closed, which is what the listener waits for.
            drop(pool.close());
        }
    }
}

impl From<Arc<Inner>> for Store {
    fn from(inner: Arc<Inner>) -> Self {
        Self { inner }
    }
}

impl Store {
    /// Opens the database, makes it when it is a SQLite file that does not exist, and brings it up
    /// to this version. A database of a newer version is refused and left as it is.
    pub async fn open(config: StoreConfig) -> Result<Self> {
        let dialect = Dialect::of_url(&config.url).ok_or(StoreError::BadUrl)?;
        let bus = Arc::new(Bus::default());
        let file: Option<Arc<str>> = config.url.strip_prefix("sqlite:").map(|rest| {
            let path = rest.split('?').next().unwrap_or(rest);
            path.strip_prefix("//").unwrap_or(path).into()
        });
        let pools = match dialect {
            Dialect::Sqlite => open_sqlite(&config, &bus).await,
            Dialect::Postgres => open_postgres(&config).await.map(Pools::Postgres),
        };
        let pools = pools.map_err(|e| e.in_file(file.as_ref()))?;
        let inner = Arc::new(Inner { pools, file, bus });
        if let Pools::Postgres(pool) = &inner.pools {
            tokio::spawn(listen::listen(pool.clone(), Arc::downgrade(&inner)));
        }
        Ok(Self { inner })
    }

    /// Writes what is under way, ends every subscription and closes every connection. Whatever is
    /// asked afterwards is `Closed`.
    pub async fn close(&self) -> Result<()> {
        let closed = match &self.inner.pools {
            Pools::Sqlite { read, writer } => {
                read.close().await;
                // Last, so that SQLite folds its log into the file.
                writer.close().await
            }
            Pools::Postgres(pool) => {
                pool.close().await;
                Ok(())
            }
        };
        self.inner.bus.close();
        closed
    }

    /// Which database is underneath.
    pub fn dialect(&self) -> Dialect {
        match self.inner.pools {
            Pools::Sqlite { .. } => Dialect::Sqlite,
            Pools::Postgres(_) => Dialect::Postgres,
        }
    }

    /// How many streams somebody follows right now.
    pub fn followed_streams(&self) -> usize {
        self.inner.bus.followed()
    }

    /// What is damaged, as far as the database itself can tell; nothing, when it is sound.
    pub async fn damage(&self) -> Result<Vec<String>> {
        match self.pools() {
            Pools::Sqlite { read, .. } => {
                let told = sqlx::query_scalar("pragma quick_check(20)").fetch_all(read);
                let told: Vec<String> = told.await.map_err(|e| self.failed(e.into()))?;
                Ok(told.into_iter().filter(|line| line != "ok").collect())
            }
            // Its server checks its own pages as it reads them.
            Pools::Postgres(_) => Ok(Vec::new()),
        }
    }

    /// An error with what the store knows about it.
    pub(crate) fn failed(&self, e: StoreError) -> StoreError {
        e.in_file(self.inner.file.as_ref())
    }

    pub(crate) fn pools(&self) -> &Pools {
        &self.inner.pools
    }

    pub(crate) fn bus(&self) -> &Bus {
        &self.inner.bus
    }

    /// Runs a piece of work in a writing transaction. It is done as a whole or not at all, even
    /// when the caller goes away, and subscribers hear of its events.
    pub(crate) async fn write<T, F>(&self, work: F) -> Result<T>
    where
        F: for<'t> FnOnce(&'t mut Tx) -> BoxFuture<'t, Result<T>> + Send + 'static,
        T: Send + 'static,
    {
        match self.pools() {
            Pools::Sqlite { writer, .. } => writer.run(work).await.map_err(|e| self.failed(e)),
            Pools::Postgres(pool) => {
                let (pool, bus) = (pool.clone(), Arc::clone(&self.inner.bus));
                // A task of its own: a caller that goes away between commit and bell must not
                // leave the bell unrung.
                let done = tokio::spawn(async move {
                    let mut tx = Tx::new(Conn::Postgres(Box::new(pool.begin().await?)));
                    let out = work(&mut tx).await?;
                    if let Conn::Postgres(conn) = tx.conn {
                        conn.commit().await?;
                    }
                    bus.publish(tx.fresh);
                    Ok(out)
                });
                match done.await {
                    Ok(out) => out,
                    Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
                    Err(_) => Err(StoreError::Closed),
                }
            }
        }
    }

    pub(crate) async fn write_events(
        &self,
        stream: StreamId,
        fence: Option<Lease>,
        events: Vec<NewEvent>,
    ) -> Result<Appended> {
        if let Pools::Sqlite { writer, .. } = self.pools() {
            let appended = writer.append(stream, fence, events).await;
            return appended.map_err(|e| self.failed(e));
        }
        self.write(move |tx| {
            Box::pin(async move {
                if let Some(fence) = &fence {
                    tx.fence(fence).await?;
                }
                tx.append(&stream, events).await
            })
        })
        .await
    }
}

async fn open_sqlite(config: &StoreConfig, bus: &Arc<Bus>) -> Result<Pools> {
    let options = SqliteConnectOptions::from_str(&config.url)
        .map_err(|_| StoreError::BadUrl)?
        .create_if_missing(true)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(config.patience)
        // Pages, about 16 MB: folding the log into the file costs two more syncs each time.
        .pragma("wal_autocheckpoint", "4000")
        .pragma("journal_size_limit", "67108864")
        // What is deleted is overwritten, not only unlinked.
        .pragma("secure_delete", "on")
        .disable_statement_logging();
    make_private(options.get_filename())?;
    let mut conn = options.clone().connect().await?;
    check_version(&mut conn).await?;
    sqlx::migrate!("migrations/sqlite")
        .run_direct(None, &mut conn, false)
        .await?;
    if let Some(most) = config.max_bytes {
        limit_size(&mut conn, most).await?;
    }
    let read = SqlitePoolOptions::new()
        .max_connections(config.connections)
        .acquire_timeout(config.patience)
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_with(options.read_only(true))
        .await?;
    let writer = Writer::start(conn, Arc::clone(bus));
    Ok(Pools::Sqlite { read, writer })
}

async fn open_postgres(config: &StoreConfig) -> Result<PgPool> {
    let options = PgConnectOptions::from_str(&config.url)
        .map_err(|_| StoreError::BadUrl)?
        .application_name("threadline")
        .disable_statement_logging();
    let pool = PgPoolOptions::new()
        // One more than asked for: the listener keeps one for itself.
        .max_connections(config.connections.saturating_add(1))
        .acquire_timeout(config.patience)
        .connect_with(options)
        .await?;
    sqlx::migrate!("migrations/postgres").run(&pool).await?;
    Ok(pool)
}

/// Makes the file readable by its owner only before SQLite puts anything into it; its log files
/// take the same mode.
fn make_private(path: &Path) -> Result<()> {
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
    let file = std::fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)?;
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o077 != 0 {
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}

async fn check_version(conn: &mut SqliteConnection) -> Result<()> {
    let text: String = sqlx::query_scalar("select sqlite_version()")
        .fetch_one(conn)
        .await?;
    let numbers: Vec<u32> = text.split('.').filter_map(|n| n.parse().ok()).collect();
    if numbers.as_slice() < OLDEST_SQLITE.as_slice() {
        return Err(StoreError::Invalid(format!(
            "SQLite {text} is built in, and older than 3.51.3 is not safe"
        )));
    }
    Ok(())
}

async fn limit_size(conn: &mut SqliteConnection, most: u64) -> Result<()> {
    let page: i64 = sqlx::query_scalar("pragma page_size")
        .fetch_one(&mut *conn)
        .await?;
    let pages = most / page.unsigned_abs().max(1);
    // A number, not a text from outside: pragmas take no parameters.
    sqlx::query(sqlx::AssertSqlSafe(format!(
        "pragma max_page_count = {pages}"
    )))
    .execute(conn)
    .await?;
    Ok(())
}
