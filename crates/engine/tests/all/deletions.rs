//! Deleting a thread, whatever its run is doing: the run is stopped first, then nothing is left.

use std::time::Duration;

use threadline_contract::{AccountId, RunId};
use threadline_store::{Phase, StoreError};

use crate::{
    life::{Bench, Life, on_both},
    world::{Call, Stage},
};

on_both![
    a_thread_is_deleted_in_every_phase_of_its_run,
    a_deletion_goes_on_after_a_kill,
];

/// Nothing is left of a run, and its session is forgotten by the runtime.
fn is_gone(life: &Life, run: &RunId, session: &str) {
    let found = life.wait(life.engine.store().run(&AccountId::local(), run));
    assert!(matches!(found, Err(StoreError::NotFound)), "{found:?}");
    let forgotten = life.world.sessions_forgotten();
    assert!(forgotten.contains(&session.to_owned()), "{forgotten:?}");
    let deletions = life.wait(life.engine.store().deletions()).unwrap();
    assert!(deletions.is_empty());
}

fn a_thread_is_deleted_in_every_phase_of_its_run(bench: &mut Bench) {
    let life = bench.life();
    for (name, hold) in [
        ("preparing", Some(Stage::Prepare)),
        ("starting", Some(Stage::Start)),
        ("running", None),
        ("collecting", Some(Stage::Collect)),
        ("closed", None),
    ] {
        if let Some(stage) = hold {
            bench.world.hold(stage);
        }
        let run = life.start(name);
        let is_over = matches!(name, "collecting" | "closed");
        if is_over {
            bench.world.completes(&run);
        }
        match hold {
            Some(stage) => life.until(name, async |_| bench.world.has_reached(&run, stage)),
            None if is_over => life.until_closed(&run),
            None => life.until_phase(&run, Phase::Running),
        }
        let world = bench.world.clone();
        let (deleted, ()) = life.wait(async {
            let caller = crate::life::caller("somebody");
            let key = crate::life::thread(name);
            let deleting = life.engine.delete_session(&caller, &key);
            let releasing = async {
                tokio::time::sleep(Duration::from_millis(30)).await;
                if let Some(stage) = hold {
                    world.release(stage);
                }
            };
            tokio::join!(deleting, releasing)
        });
        assert!(deleted.unwrap().deleted, "{name}");
        is_gone(&life, &run, &format!("builtin:main:{name}"));
        // Asking again changes nothing.
        assert!(life.delete(name));
    }
}

fn a_deletion_goes_on_after_a_kill(bench: &mut Bench) {
    bench.result_wait = Duration::from_millis(30);
    bench.world.never_stops();
    let life = bench.life();
    let run = life.start("one");
    life.until_phase(&run, Phase::Running);
    assert!(!life.delete("one"), "its run goes on");
    life.kill();
    let life = bench.life();
    life.until("it is told to stop", async |_| {
        bench.world.calls(&run).contains(&Call::Cancel)
    });
    bench.world.completes(&run);
    life.until("it is gone", async |engine| {
        engine.store().deletions().await.unwrap().is_empty()
    });
    is_gone(&life, &run, "builtin:main:one");
}
