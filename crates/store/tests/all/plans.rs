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
    "idempotency",
    "tokens",
    "sessions",
];

/// Indexes that hold open runs only.
const OPEN_RUNS: [&str; 3] = ["runs_open", "runs_lane", "runs_claimable"];

/// Enough of everything that PostgreSQL has a reason to choose: most runs are closed, most questions
/// answered.
const FILL: &str = "
    insert into accounts select 'a' || n, 1 from generate_series(1, 100) n;
    insert into tokens select 't' || n, 'a' || n % 100 + 1, decode(md5(n::text), 'hex'), '', 1 from generate_series(1, 5000) n;
    insert into sessions (account, owner, runtime, version, session_key, expected_dirs, state, created_at, updated_at)
        select 'a' || n % 100, 'd' || n, 'builtin', 1, 'k' || n, '[]', 'open', 1, 1 from generate_series(1, 8000) n;
    insert into runs (id, account, owner, runtime, session_key, method, phase, created_at)
        select 'r' || n, 'a' || n % 100, 'd' || n % 2000, 'acp:' || n % 7, 'k', 'start', case when n % 100 = 0 then 'running' else 'closed' end, n
        from generate_series(1, 8000) n;
    insert into turns select id, '{}' from runs;
    insert into idempotency select account, owner, id, 'x', id, null, 1 from runs;
    insert into questions (id, account, owner, run, body, state, asked_at)
        select 'q' || id, account, owner, id, '{}', case when num % 10 = 0 then 'open' else 'answered' end, 1 from runs;
    insert into artifacts select id, o, 'p' || o, decode(md5(o::text), 'hex'), 1, 'x', 'text/plain' from runs, generate_series(1, 3) o;
    insert into events select 's' || n % 500, n / 500, 'r' || n % 5000, n, 'delta', '{}', 1 from generate_series(1, 40000) n;
    analyze;
";

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
    sqlx::raw_sql(FILL).execute(&mut conn).await.unwrap();
    // Generic plans, as a prepared statement gets them.
    sqlx::raw_sql("set enable_seqscan = off; set plan_cache_mode = force_generic_plan")
        .execute(&mut conn)
        .await
        .unwrap();
    let mut scans: Vec<(&str, String)> = vec![];
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
        let explain = AssertSqlSafe(format!("explain (format json) execute s{arguments}"));
        let row = sqlx::raw_sql(explain)
            .fetch_one(&mut conn)
            .await
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let plan: String = row.try_get_unchecked(0).unwrap();
        full_reads(name, &serde_json::from_str(&plan).unwrap(), &mut scans);
        sqlx::raw_sql("deallocate s")
            .execute(&mut conn)
            .await
            .unwrap();
    }
    assert_eq!(scans, []);
    conn.close().await.unwrap();
    world.end().await;
}

/// Steps that visit every row: a sequential scan, or one by an index without a condition on it.
fn full_reads(name: &'static str, plan: &serde_json::Value, out: &mut Vec<(&'static str, String)>) {
    match plan {
        serde_json::Value::Array(parts) => {
            for part in parts {
                full_reads(name, part, out);
            }
        }
        serde_json::Value::Object(step) => {
            let text = |key: &str| step.get(key).and_then(|v| v.as_str()).unwrap_or_default();
            let (kind, condition) = (text("Node Type"), text("Index Cond"));
            // Open runs are few, however many have ended: all of them may be read.
            let of_open = OPEN_RUNS.contains(&text("Index Name"));
            let by_index = kind.contains("Index") && (!condition.is_empty() || of_open);
            let of_bitmap = kind == "Bitmap Heap Scan";
            let reads = kind.ends_with("Scan") && GROWING.contains(&text("Relation Name"));
            if reads && !by_index && !of_bitmap || kind == "Bitmap Index Scan" && !by_index {
                out.push((name, format!("{kind} {}", text("Relation Name"))));
            }
            for part in step.values() {
                full_reads(name, part, out);
            }
        }
        _ => {}
    }
}
