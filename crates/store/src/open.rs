//! Opening and closing the store, and its two ways to the database: a read, and a transaction.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use sqlx::migrate::Migrator;
use threadline_db::{Db, Migrations, Reader};
use tokio::sync::oneshot;

use crate::{
    Appended, Dialect, Lease, NewEvent, Result, StoreConfig, StoreError, StreamId, Tx,
    bus::Bus,
    listen,
    live::{Append, Live},
};

static SQLITE: Migrator = sqlx::migrate!("migrations/sqlite");
static POSTGRES: Migrator = sqlx::migrate!("migrations/postgres");

/// The records, the event logs and the live bus. Cloning it is cheap; all clones are one store.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    db: Db<Live>,
    pub(crate) bus: Arc<Bus>,
}

/// Runs one reading statement, on whichever database there is.
macro_rules! read {
    ($store:expr, |$db:ident| $body:expr) => {
        threadline_db::read!($store.db(), |$db| $body).map_err($crate::StoreError::from)
    };
}
pub(crate) use read;

impl From<Arc<Inner>> for Store {
    fn from(inner: Arc<Inner>) -> Self {
        Self { inner }
    }
}

impl Store {
    /// Opens the database, makes it when it is a SQLite file that does not exist, and brings it up
    /// to this version. A database of a newer version is refused and left as it is.
    pub async fn open(config: StoreConfig) -> Result<Self> {
        let bus = Arc::new(Bus::default());
        let migrations = Migrations {
            sqlite: &SQLITE,
            postgres: Some(&POSTGRES),
        };
        let shown = Arc::clone(&bus);
        let db = Db::open(config, migrations, move || Live::new(Arc::clone(&shown))).await?;
        let inner = Arc::new(Inner { db, bus });
        if let Reader::Postgres(pool) = inner.db.reader() {
            tokio::spawn(listen::listen(pool.clone(), Arc::downgrade(&inner)));
        }
        Ok(Self { inner })
    }

    /// Writes what is under way, ends every subscription and closes every connection. Whatever is
    /// asked afterwards is `Closed`.
    pub async fn close(&self) -> Result<()> {
        let closed = self.inner.db.close().await;
        self.inner.bus.close();
        Ok(closed?)
    }

    /// Which database is underneath.
    pub fn dialect(&self) -> Dialect {
        self.inner.db.dialect()
    }

    /// How many streams somebody follows right now.
    pub fn followed_streams(&self) -> usize {
        self.inner.bus.followed()
    }

    /// What is damaged, as far as the database itself can tell; nothing, when it is sound.
    pub async fn damage(&self) -> Result<Vec<String>> {
        Ok(self.inner.db.damage().await?)
    }

    pub(crate) fn db(&self) -> &Db<Live> {
        &self.inner.db
    }

    pub(crate) fn bus(&self) -> &Bus {
        &self.inner.bus
    }

    /// Makes a decision: `work` reads, decides and applies in one transaction. Everything that it does commits
    /// together or not at all, also when the caller goes away, and subscribers see its events after the commit.
    ///
    /// It may be run several times, when it meets another transaction, so it must do nothing outside of `Tx`. After
    /// a bounded number of tries it is [`crate::DbError::Contended`].
    pub async fn transact<T, F>(&self, work: F) -> Result<T>
    where
        F: for<'t> FnOnce(Tx<'t>) -> BoxFuture<'t, Result<T>> + Clone + Send + 'static,
        T: Send + 'static,
    {
        self.db().write(move |tx| work(Tx::new(tx))).await
    }

    /// As [`Store::transact`], for work that cannot be run again.
    pub(crate) async fn transact_once<T, F>(&self, work: F) -> Result<T>
    where
        F: for<'t> FnOnce(Tx<'t>) -> BoxFuture<'t, Result<T>> + Send + 'static,
        T: Send + 'static,
    {
        self.db().write_once(move |tx| work(Tx::new(tx))).await
    }

    pub(crate) async fn append_events(
        &self,
        stream: StreamId,
        fence: Option<Lease>,
        events: Vec<NewEvent>,
    ) -> Result<Appended> {
        if self.dialect() == Dialect::Postgres {
            let appended = self.transact(move |mut tx| {
                Box::pin(async move {
                    if let Some(fence) = &fence {
                        tx.fence(fence).await?;
                    }
                    tx.append(&stream, events).await
                })
            });
            return appended.await;
        }
        let (reply, answer) = oneshot::channel();
        let append = Append {
            stream,
            fence,
            events,
            reply,
            out: None,
        };
        self.db().submit(append).await?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }
}
