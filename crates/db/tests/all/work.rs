//! A piece of work is done as a whole or not at all, whatever its neighbours do.

use pretty_assertions::assert_eq;
use threadline_db::{DbError, on, read};

use crate::world::{World, add, on_both, put};

on_both![
    work_that_fails_leaves_nothing,
    work_of_a_caller_that_went_away_is_whole,
    what_is_in_the_way_has_its_kind,
];

/// Good and bad pieces of work share commits; the bad ones take nothing of the good ones with them.
async fn work_that_fails_leaves_nothing(world: World) {
    world.put("sum", 0).await.unwrap();
    let tries = (0..64).map(|n| {
        let db = world.db.clone();
        tokio::spawn(async move {
            db.write(move |tx| {
                Box::pin(async move {
                    add(tx, "sum", 1).await?;
                    if n % 3 == 0 {
                        // Exists: the work fails after it has written.
                        put(tx, "sum", 1).await?;
                    }
                    Ok::<_, DbError>(())
                })
            })
            .await
        })
    });
    let mut good = 0;
    for (n, done) in futures_util::future::join_all(tries)
        .await
        .into_iter()
        .enumerate()
    {
        match done.unwrap() {
            Ok(()) if n % 3 != 0 => good += 1,
            Err(DbError::Duplicate) if n % 3 == 0 => {}
            other => panic!("{n}: {other:?}"),
        }
    }
    assert_eq!((good, world.value("sum").await.unwrap()), (42, 42));
}

async fn work_of_a_caller_that_went_away_is_whole(world: World) {
    for name in ["a", "b"] {
        world.put(name, 0).await.unwrap();
    }
    for n in 0..50 {
        let db = world.db.clone();
        let caller = tokio::spawn(async move {
            db.write(move |tx| {
                Box::pin(async move {
                    add(tx, "a", 1).await?;
                    add(tx, "b", 1).await
                })
            })
            .await
        });
        if n % 2 == 0 {
            tokio::task::yield_now().await;
        }
        caller.abort();
    }
    // Behind whatever is under way.
    world.put("last", 1).await.unwrap();
    let sums = || async {
        let rows: Vec<i64> = read!(world.db, |c| sqlx::query_scalar(
            "select value from counters where name in ('a', 'b') order by name"
        )
        .fetch_all(c)
        .await)
        .unwrap();
        rows
    };
    let rows = sums().await;
    assert_eq!(rows[0], rows[1]);
}

async fn what_is_in_the_way_has_its_kind(world: World) {
    world.put("a", 1).await.unwrap();
    let twice = world.put("a", 2).await;
    assert!(matches!(twice, Err(DbError::Duplicate)), "{twice:?}");
    let none = world.value("none").await;
    assert!(matches!(none, Err(DbError::NotFound)), "{none:?}");
    let wrong = world
        .db
        .write(|tx| {
            Box::pin(async move {
                on!(tx, |c| sqlx::query("select 1 from no_such_table")
                    .execute(c)
                    .await
                    .map(drop))
            })
        })
        .await;
    assert!(matches!(wrong, Err(DbError::Other(_))), "{wrong:?}");
}
