//! Leases: one holder, an epoch that only grows, and nothing left to a holder that was replaced.

use std::collections::HashSet;

use futures_util::future::join_all;
use pretty_assertions::assert_eq;
use threadline_contract::{Millis, RunId};
use threadline_store::{ArtifactState, Lease, Phase, RunChange, Store, StoreError, Takeover};

use crate::world::{World, event, on_both, stream};

on_both![
    a_lease_is_held_until_it_expires,
    a_lease_can_be_taken_over,
    racing_for_a_lease_has_one_winner,
    renewing_says_what_is_lost,
    a_released_lease_is_free_at_once,
    claims_never_overlap,
    closed_and_unknown_runs_have_no_lease,
    an_append_is_fenced,
    only_a_closed_run_without_its_files_is_opened_again,
];

async fn acquire(store: &Store, run: &RunId, owner: &str, now: i64) -> Option<Lease> {
    let run = std::slice::from_ref(run);
    let claimed = store.claim_runs(run, owner, Millis(now), 100, Takeover::IfExpired);
    let mut claimed = claimed.await.unwrap();
    assert!(claimed.len() < 2);
    claimed.pop()
}

async fn a_lease_is_held_until_it_expires(world: World) {
    let (store, run) = (&world.store, world.run().await);
    let lease = |epoch| {
        Some(Lease {
            run: run.id.clone(),
            epoch,
        })
    };
    assert_eq!(acquire(store, &run.id, "a", 1000).await, lease(1));
    let held = store.run_any(&run.id).await.unwrap();
    assert_eq!(
        (held.lease_owner.as_deref(), held.lease_until, held.lease()),
        (Some("a"), Millis(1100), lease(1).unwrap())
    );
    // Not even its holder gets it twice.
    assert_eq!(acquire(store, &run.id, "a", 1050).await, None);
    assert_eq!(acquire(store, &run.id, "b", 1099).await, None);
    assert_eq!(acquire(store, &run.id, "b", 1100).await, lease(2));
    assert_eq!(
        store.claimable_runs(Millis(1199), 9).await.unwrap(),
        Vec::new()
    );
    let claimable = store.claimable_runs(Millis(1200), 9).await.unwrap();
    assert_eq!(claimable.len(), 1);
}

async fn a_lease_can_be_taken_over(world: World) {
    let (store, run) = (&world.store, world.run().await);
    let old = acquire(store, &run.id, "a", 1000).await.unwrap();
    let of = std::slice::from_ref(&run.id);
    let taken = store.claim_runs(of, "b", Millis(1001), 100, Takeover::Always);
    let taken = taken.await.unwrap().pop().unwrap();
    assert_eq!(taken.epoch, old.epoch + 1);
    let change = |phase| RunChange {
        phase: Some(phase),
        ..RunChange::default()
    };
    let answer = store.change_run(&old, change(Phase::Closed), vec![]).await;
    assert!(matches!(answer, Err(StoreError::Stale)), "{answer:?}");
    store
        .change_run(&taken, change(Phase::Running), vec![])
        .await
        .unwrap();
    // Giving back what one has no more takes nothing from the new holder.
    store.release_lease(&old).await.unwrap();
    let held = store.run_any(&run.id).await.unwrap();
    assert_eq!(held.lease_owner.as_deref(), Some("b"));
}

async fn racing_for_a_lease_has_one_winner(world: World) {
    let run = world.run().await;
    for round in 0..4 {
        let tries = (0..32).map(|n| {
            let (store, run) = (world.store.clone(), run.id.clone());
            tokio::spawn(
                async move { acquire(&store, &run, &format!("node-{n}"), round * 100).await },
            )
        });
        let won: Vec<Lease> = join_all(tries)
            .await
            .into_iter()
            .filter_map(Result::unwrap)
            .collect();
        assert_eq!(
            won,
            [Lease {
                run: run.id.clone(),
                epoch: round + 1
            }]
        );
    }
}

async fn renewing_says_what_is_lost(world: World) {
    let store = &world.store;
    let mut leases = vec![];
    for _ in 0..5 {
        let run = world.run().await;
        leases.push(acquire(store, &run.id, "a", 1000).await.unwrap());
    }
    // One taken over, one released, one that never was.
    world.take(&leases[1].run).await;
    store.release_lease(&leases[3]).await.unwrap();
    leases.push(Lease {
        run: RunId::fresh(),
        epoch: 1,
    });
    let lost = store
        .renew_leases("a", &leases, Millis(5000))
        .await
        .unwrap();
    let lost_of = [1, 3, 5].map(|n: usize| leases[n].run.clone());
    assert_eq!(lost, lost_of);
    for (n, until) in [(0, 5000), (2, 5000), (3, 0), (4, 5000)] {
        let run = store.run_any(&leases[n].run).await.unwrap();
        assert_eq!(run.lease_until, Millis(until), "{n}");
    }
    let foreign = store.renew_leases("b", &leases[..1], Millis(9000)).await;
    assert_eq!(foreign.unwrap(), [leases[0].run.clone()]);
    assert_eq!(
        store.renew_leases("a", &[], Millis(9000)).await.unwrap(),
        []
    );
}

async fn a_released_lease_is_free_at_once(world: World) {
    let (store, run) = (&world.store, world.run().await);
    let lease = acquire(store, &run.id, "a", 1000).await.unwrap();
    store.release_lease(&lease).await.unwrap();
    let free = store.run_any(&run.id).await.unwrap();
    assert_eq!(
        (free.lease_owner.as_deref(), free.lease_until),
        (Some("a"), Millis(0))
    );
    assert_eq!(acquire(store, &run.id, "b", 1000).await.unwrap().epoch, 2);
}

async fn claims_never_overlap(world: World) {
    let mut all = vec![];
    for _ in 0..40 {
        all.push(world.run().await.id);
    }
    let second = match world.store.dialect() {
        threadline_store::Dialect::Postgres => world.second().await,
        threadline_store::Dialect::Sqlite => world.store.clone(),
    };
    // Every claim wants half of them, and each half overlaps with others.
    let claims = (0..16).map(|n| {
        let store = if n % 2 == 0 { &world.store } else { &second }.clone();
        let wanted: Vec<RunId> = (0..20).map(|m| all[(n * 5 + m) % 40].clone()).collect();
        tokio::spawn(async move {
            let owner = format!("node-{n}");
            let claimed = store.claim_runs(&wanted, &owner, Millis(1000), 100, Takeover::IfExpired);
            let claimed = claimed.await.unwrap();
            assert!(claimed.iter().all(|lease| wanted.contains(&lease.run)));
            claimed
        })
    });
    let mut claimed = vec![];
    for batch in join_all(claims).await {
        claimed.extend(batch.unwrap());
    }
    // A row that another claim has locked is skipped, so some may be left for the next round.
    let late = world
        .store
        .claim_runs(&all, "late", Millis(1000), 100, Takeover::IfExpired);
    claimed.extend(late.await.unwrap());
    assert_eq!(claimed.len(), 40);
    assert!(claimed.iter().all(|lease| lease.epoch == 1));
    let ids: HashSet<RunId> = claimed.into_iter().map(|lease| lease.run).collect();
    assert_eq!(ids, all.into_iter().collect());
    second.close().await.unwrap();
}

async fn closed_and_unknown_runs_have_no_lease(world: World) {
    let (run, lease) = world.leased().await;
    let store = &world.store;
    let close = RunChange {
        phase: Some(Phase::Closed),
        ..RunChange::default()
    };
    store.change_run(&lease, close, vec![]).await.unwrap();
    let none = [run.id, RunId::fresh()];
    for takeover in [Takeover::Always, Takeover::IfExpired] {
        let claimed = store.claim_runs(&none, "a", Millis(i64::MAX), 0, takeover);
        assert_eq!(claimed.await.unwrap(), []);
    }
    let claimed = store.claim_runs(&[], "a", Millis(0), 1, Takeover::Always);
    assert_eq!(claimed.await.unwrap(), []);
}

async fn an_append_is_fenced(world: World) {
    let (_, stale) = world.stale().await;
    let (_, good) = world.leased().await;
    let unknown = Lease {
        run: RunId::fresh(),
        epoch: 0,
    };
    // Many at once, so that stale and good ones share a group.
    let tries = (0..64).map(|n| {
        let fence = [&stale, &good, &unknown][n % 3].clone();
        let store = world.store.clone();
        tokio::spawn(async move {
            store
                .append(&stream(), Some(&fence), vec![event(&n.to_string())])
                .await
        })
    });
    let mut good_ones = 0;
    for (n, answer) in join_all(tries).await.into_iter().enumerate() {
        match answer.unwrap() {
            Ok(_) if n % 3 == 1 => good_ones += 1,
            Err(StoreError::Stale) if n % 3 != 1 => {}
            other => panic!("{n}: {other:?}"),
        }
    }
    let log = world.log(&stream()).await;
    assert_eq!(log.len(), good_ones);
    for (n, (seq, _)) in log.iter().enumerate() {
        assert_eq!(*seq, n as i64 + 1);
    }
}

async fn only_a_closed_run_without_its_files_is_opened_again(world: World) {
    let (store, run) = (&world.store, world.run().await);
    let reopen = || store.reopen_files(&run.id, "b", Millis(2000), 100);
    assert_eq!(reopen().await.unwrap(), None);
    let lease = acquire(store, &run.id, "a", 1000).await.unwrap();
    let closed = |artifact_state| RunChange {
        phase: Some(Phase::Closed),
        closed_at: Some(Millis(1050)),
        artifact_state: Some(artifact_state),
        ..RunChange::default()
    };
    let failed = closed(ArtifactState::Failed);
    store.change_run(&lease, failed, vec![]).await.unwrap();
    let again = reopen().await.unwrap().unwrap();
    assert_eq!(again.epoch, lease.epoch + 1);
    // Another is too late, and who closed it has nothing to say any more.
    assert_eq!(reopen().await.unwrap(), None);
    let late = store.change_run(&lease, RunChange::default(), vec![]).await;
    assert!(matches!(late, Err(StoreError::Stale)), "{late:?}");
    let open = store.run_any(&run.id).await.unwrap();
    assert_eq!(
        (
            open.phase,
            open.artifact_state,
            open.closed_at,
            open.lease_until
        ),
        (
            Phase::Collecting,
            ArtifactState::Pending,
            None,
            Millis(2100)
        )
    );
    let done = closed(ArtifactState::Done);
    store.change_run(&again, done, vec![]).await.unwrap();
    assert_eq!(reopen().await.unwrap(), None);
}
