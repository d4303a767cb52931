//! Transactions that meet: tried again, in bounds, and never for good.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use pretty_assertions::assert_eq;
use proptest::{prelude::*, strategy::ValueTree as _};
use threadline_db::{DbConfig, DbError};

use crate::world::{World, add, on_both, open};

on_both![
    contended_work_is_run_again_and_then_given_up,
    work_in_any_order_ends,
];

async fn contended_work_is_run_again_and_then_given_up(world: World) {
    world.put("sum", 0).await.unwrap();
    for failures in [3, u32::MAX] {
        let tries = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&tries);
        let done = world
            .db
            .write(move |tx| {
                Box::pin(async move {
                    let sum = add(tx, "sum", 1).await?;
                    match counted.fetch_add(1, Ordering::Relaxed) < failures {
                        true => Err(DbError::Contended(None)),
                        false => Ok(sum),
                    }
                })
            })
            .await;
        match failures {
            // Each try began anew: one addition is left of four.
            3 => assert_eq!((done.unwrap(), tries.load(Ordering::Relaxed)), (1, 4)),
            _ => {
                assert!(matches!(done, Err(DbError::Contended(_))), "{done:?}");
                assert_eq!(tries.load(Ordering::Relaxed), 11);
            }
        }
    }
    assert_eq!(world.value("sum").await.unwrap(), 1);
}

/// Several writers lock two rows in orders of their own: on PostgreSQL some of them deadlock. All of them end, and
/// each is there once.
async fn work_in_any_order_ends(world: World) {
    for name in ["a", "b"] {
        world.put(name, 0).await.unwrap();
    }
    let plan = prop::collection::vec((prop::collection::vec(any::<bool>(), 1..4), 0_u64..3), 2..8);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut a, mut b) = (0, 0);
    for _ in 0..20 {
        let plan = plan.new_tree(&mut runner).unwrap().current();
        for (steps, _) in &plan {
            a += steps.iter().filter(|first| **first).count();
            b += steps.iter().filter(|first| !**first).count();
        }
        let writers = plan.into_iter().map(|(steps, pause)| {
            let db = world.db.clone();
            tokio::spawn(async move {
                db.write(move |tx| {
                    Box::pin(async move {
                        for first in steps {
                            add(tx, if first { "a" } else { "b" }, 1).await?;
                            tokio::time::sleep(Duration::from_millis(pause)).await;
                        }
                        Ok::<_, DbError>(())
                    })
                })
                .await
            })
        });
        for done in futures_util::future::join_all(writers).await {
            done.unwrap().unwrap();
        }
    }
    let sums = (
        world.value("a").await.unwrap(),
        world.value("b").await.unwrap(),
    );
    assert_eq!(sums, (a as i64, b as i64));
}

/// Another program has the file: waited for as long as the settings say, then said.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_another_program_writes_is_waited_for() {
    use sqlx::Connection as _;
    let world = World::sqlite().await;
    let mut other = sqlx::SqliteConnection::connect(&world.config.url)
        .await
        .unwrap();
    let hold = || sqlx::query("begin immediate");
    let give = || sqlx::query("rollback");
    hold().execute(&mut other).await.unwrap();
    let waiting = {
        let world = world.clone();
        tokio::spawn(async move { world.put("a", 1).await })
    };
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished());
    give().execute(&mut other).await.unwrap();
    waiting.await.unwrap().unwrap();

    let config = DbConfig {
        patience: Duration::from_millis(100),
        ..world.config.clone()
    };
    let hasty = World {
        db: open(config).await.unwrap(),
        ..world.clone()
    };
    hold().execute(&mut other).await.unwrap();
    let busy = hasty.put("b", 1).await;
    assert!(matches!(busy, Err(DbError::Contended(_))), "{busy:?}");
    give().execute(&mut other).await.unwrap();
    hasty.put("b", 1).await.unwrap();
    other.close().await.unwrap();
    hasty.db.close().await.unwrap();
    world.end().await;
}
