//! No statement reads a whole table that grows.

use pretty_assertions::assert_eq;
use sqlx::{AssertSqlSafe, Connection as _, Row as _};
use threadline_store::{Dialect, sql::statements};

use crate::world::World;

const GROWING: [&str; 8] = [
    "runs",
    "turns",
    "events",
    "artifacts",
    "questions",
    "requests",
    "tokens",
    "sessions",
];

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_uses_an_index_for_every_statement() {
    let world = World::sqlite().await;
    let mut conn = sqlx::SqliteConnection::connect(&world.config.url)
        .await
        .unwrap();
    let mut scans = vec![];
    for (name, statement) in statements(Dialect::Sqlite) {
        let explain = AssertSqlSafe(format!("explain query plan {statement}"));
        let rows = sqlx::query(explain)
            .fetch_all(&mut conn)
            .await
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        for row in rows {
            let step: String = row.get("detail");
            // `SCAN runs`, also by an index, visits every row; `SEARCH` goes to those it wants.
            let scanned = step
                .strip_prefix("SCAN ")
                .and_then(|rest| rest.split(' ').next());
            if scanned
                .is_some_and(|table| GROWING.contains(&table) || table.len() == 1 && table != "l")
            {
                scans.push((name, step));
            }
        }
    }
    assert_eq!(scans, []);
    conn.close().await.unwrap();
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_uses_an_index_for_every_statement() {
    let world = World::postgres().await;
    let mut conn = sqlx::PgConnection::connect(&world.config.url)
        .await
        .unwrap();
    // Generic plans, as a prepared statement gets them; the tables are empty, so that only a
    // statement without a fitting index would still read all of one.
    sqlx::raw_sql("set enable_seqscan = off; set plan_cache_mode = force_generic_plan")
        .execute(&mut conn)
        .await
        .unwrap();
    let mut scans = vec![];
    for (name, statement) in statements(Dialect::Postgres) {
        let placeholders = (1..=20)
            .take_while(|n| statement.contains(&format!("${n}")))
            .count();
        let nulls = vec!["null"; placeholders].join(", ");
        let arguments = if nulls.is_empty() {
            String::new()
        } else {
            format!("({nulls})")
        };
        let script = format!("prepare s as {statement}");
        sqlx::raw_sql(AssertSqlSafe(script))
            .execute(&mut conn)
            .await
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let explain = AssertSqlSafe(format!("explain execute s{arguments}"));
        let rows = sqlx::raw_sql(explain)
            .fetch_all(&mut conn)
            .await
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        for row in rows {
            let step: String = row.get(0);
            let scanned = step
                .split_once("Seq Scan on ")
                .and_then(|(_, rest)| rest.split(' ').next());
            if scanned.is_some_and(|table| GROWING.contains(&table)) {
                scans.push((name, step));
            }
        }
        sqlx::raw_sql("deallocate s")
            .execute(&mut conn)
            .await
            .unwrap();
    }
    assert_eq!(scans, []);
    conn.close().await.unwrap();
    world.end().await;
}
