//! Opening a SQLite file: private, of a safe version, up to date, with one connection that writes.

use std::{path::Path, str::FromStr as _};

use sqlx::{
    ConnectOptions as _, SqliteConnection, SqlitePool,
    migrate::Migrator,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use crate::{DbConfig, DbError, Result};

/// Older SQLite can corrupt a database in WAL mode when the log is reset.
const OLDEST_SQLITE: [u32; 3] = [3, 51, 3];

/// The connection that writes, and the pool that reads.
pub(crate) async fn open(
    config: &DbConfig,
    migrations: &Migrator,
) -> Result<(SqliteConnection, SqlitePool)> {
    let options = SqliteConnectOptions::from_str(&config.url)
        .map_err(|_| DbError::BadUrl)?
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
    migrations.run_direct(None, &mut conn, false).await?;
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
    Ok((conn, read))
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
        return Err(DbError::Invalid(format!(
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
