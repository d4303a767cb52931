//! Any interleaving of claims, renewals, expiries, releases and writes: a write lands only under the current epoch, and
//! epochs only rise.

use pretty_assertions::assert_eq;
use proptest::{prelude::*, strategy::ValueTree as _};
use threadline_contract::{Millis, RunId};
use threadline_store::{Lease, RunChange, Store, StoreError, Takeover};

use crate::world::{World, event, on_both, stream};

on_both![
    leases_are_as_a_model_says,
    writes_of_racing_holders_land_for_one_epoch_each,
];

const TTL: i64 = 100;

#[derive(Clone, Copy, Debug)]
enum Step {
    Claim(usize),
    TakeOver(usize),
    Renew(usize),
    Release(usize),
    Write(usize),
    Pass(i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let holder = 0..3_usize;
    let step = prop_oneof![
        3 => holder.clone().prop_map(Step::Claim),
        1 => holder.clone().prop_map(Step::TakeOver),
        2 => holder.clone().prop_map(Step::Renew),
        1 => holder.clone().prop_map(Step::Release),
        4 => holder.prop_map(Step::Write),
        3 => (1..TTL * 2).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..25)
}

async fn claim(
    store: &Store,
    run: &RunId,
    holder: usize,
    now: i64,
    takeover: Takeover,
) -> Option<Lease> {
    let owner = format!("node-{holder}");
    let run = std::slice::from_ref(run);
    let claimed = store.claim_runs(run, &owner, Millis(now), TTL, takeover);
    claimed.await.unwrap().pop()
}

async fn leases_are_as_a_model_says(world: World) {
    let store = &world.store;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    // All runs share one log.
    let mut written = 0;
    for _ in 0..40 {
        let steps = steps().new_tree(&mut runner).unwrap().current();
        let run = world.run().await;
        // The model: who has it in which epoch and until when; and what each believes to hold.
        let (mut owner, mut epoch, mut until, mut now) = (None, 0, 0, 1000);
        let mut held: [Option<Lease>; 3] = [None, None, None];
        for step in &steps {
            match *step {
                Step::Pass(time) => now += time,
                Step::Claim(holder) | Step::TakeOver(holder) => {
                    let (takeover, free) = match step {
                        Step::Claim(_) => (Takeover::IfExpired, until <= now),
                        _ => (Takeover::Always, true),
                    };
                    let got = claim(store, &run.id, holder, now, takeover).await;
                    let wanted = free.then(|| Lease {
                        run: run.id.clone(),
                        epoch: epoch + 1,
                    });
                    assert_eq!(got, wanted, "{steps:?}");
                    if free {
                        (owner, epoch, until) = (Some(holder), epoch + 1, now + TTL);
                        held[holder] = got;
                    }
                }
                Step::Renew(holder) => {
                    let Some(lease) = &held[holder] else { continue };
                    let has = owner == Some(holder) && lease.epoch == epoch && until > 0;
                    let owner = format!("node-{holder}");
                    let lost = store
                        .renew_leases(&owner, std::slice::from_ref(lease), Millis(now + TTL))
                        .await
                        .unwrap();
                    assert_eq!(lost.is_empty(), has, "{steps:?}");
                    if has {
                        until = now + TTL;
                    }
                }
                Step::Release(holder) => {
                    let Some(lease) = &held[holder] else { continue };
                    store.release_lease(lease).await.unwrap();
                    if lease.epoch == epoch {
                        until = 0;
                    }
                }
                Step::Write(holder) => {
                    let Some(lease) = &held[holder] else { continue };
                    let write = store.change_run(lease, RunChange::default(), vec![event("w")]);
                    match write.await {
                        Ok(_) if lease.epoch == epoch => written += 1,
                        Err(StoreError::Stale) if lease.epoch != epoch => {}
                        other => panic!("{other:?} in {steps:?}"),
                    }
                }
            }
            let record = store.run_any(&run.id).await.unwrap();
            assert_eq!(
                (record.lease_epoch, record.lease_until.0),
                (epoch, until),
                "{steps:?}"
            );
        }
        let log = world.log(&stream()).await;
        assert_eq!(log.len(), written);
    }
}

/// Several holders claim, write and lose the lease at the same time. What landed is written down with its epoch in
/// the same transaction: each epoch has one owner, and in the log epochs never fall.
async fn writes_of_racing_holders_land_for_one_epoch_each(world: World) {
    let run = world.run().await;
    let holders = (0..6).map(|holder| {
        let (store, run) = (world.store.clone(), run.id.clone());
        tokio::spawn(async move {
            for round in 0..15 {
                let takeover = match round % 3 {
                    0 => Takeover::Always,
                    _ => Takeover::IfExpired,
                };
                let Some(lease) = claim(&store, &run, holder, round * TTL, takeover).await else {
                    continue;
                };
                for _ in 0..3 {
                    let told = vec![event(&format!("{} {holder}", lease.epoch))];
                    match store.append(&stream(), Some(&lease), told).await {
                        Ok(_) => {}
                        Err(StoreError::Stale) => break,
                        Err(e) => panic!("{e:?}"),
                    }
                }
                if round % 4 == 0 {
                    store.release_lease(&lease).await.unwrap();
                }
            }
        })
    });
    for holder in futures_util::future::join_all(holders).await {
        holder.unwrap();
    }
    let log = world.log(&stream()).await;
    assert!(!log.is_empty());
    let mut last = (0, 0);
    for (_, body) in log {
        let body = body.trim_matches('"').to_owned();
        let (epoch, holder) = body.split_once(' ').unwrap();
        let now: (i64, i64) = (epoch.parse().unwrap(), holder.parse().unwrap());
        assert!(now.0 > last.0 || now == last, "{now:?} after {last:?}");
        last = now;
    }
}
