//! A stop, whenever it comes: a request that the runtime confirms, and that a run which never began needs nobody for.

use std::time::Duration;

use pretty_assertions::assert_eq;
use threadline_contract::RunStatus;
use threadline_runtimes::EndStatus;
use threadline_store::{ArtifactState, Phase};

use crate::{
    life::{Bench, on_both},
    told::Record,
    world::{Call, Stage},
};

on_both![
    a_run_that_waits_is_stopped_without_its_runtime,
    a_run_that_is_being_prepared_is_stopped_without_its_runtime,
    a_run_that_is_being_begun_is_stopped_by_its_runtime,
    a_run_that_works_is_stopped_by_its_runtime,
    a_stop_is_told_again_after_a_kill,
    a_stop_at_an_open_question_withdraws_it,
    a_stop_after_the_end_changes_nothing,
    a_run_that_completes_all_the_same_has_completed,
];

fn never_began() -> Record {
    Record {
        phase: Phase::Closed,
        status: RunStatus::Cancelled,
        code: None,
        message: Some("Stopped before it began.".into()),
        text: None,
        files: ArtifactState::Pending,
        missing: vec![],
        anomalies: 0,
        stop_asked: true,
    }
}

fn stopped() -> Record {
    Record {
        status: RunStatus::Cancelled,
        stop_asked: true,
        ..Record::completed()
    }
}

fn a_run_that_waits_is_stopped_without_its_runtime(bench: &mut Bench) {
    bench.world = bench.world.clone().with_lane(1, 5);
    let life = bench.life();
    let first = life.start("first");
    life.until_phase(&first, Phase::Running);
    let run = life.start("second");
    life.until_told(&run, "queued 1/1");
    life.stop_run(&run);
    life.until_closed(&run);
    assert_eq!(life.record(&run), never_began());
    assert_eq!(
        life.log(&run),
        [
            "queued 1/1",
            "task.cancel_requested",
            "task.ended cancelled (Stopped before it began.)",
            "completed cancelled",
        ]
    );
    assert_eq!(bench.world.calls(&run), []);
}

fn a_run_that_is_being_prepared_is_stopped_without_its_runtime(bench: &mut Bench) {
    bench.world.hold(Stage::Prepare);
    let life = bench.life();
    let run = life.start("one");
    life.until("it is being prepared", async |_| {
        bench.world.has_reached(&run, Stage::Prepare)
    });
    life.stop_run(&run);
    life.until_closed(&run);
    assert_eq!(life.record(&run), never_began());
    assert_eq!(bench.world.calls(&run), [Call::Prepare]);
    assert_eq!(bench.world.executions(&run), 0);
}

fn a_run_that_is_being_begun_is_stopped_by_its_runtime(bench: &mut Bench) {
    bench.world.hold(Stage::Start);
    let life = bench.life();
    let run = life.start("one");
    life.until("it is being begun", async |_| {
        bench.world.has_reached(&run, Stage::Start)
    });
    life.stop_run(&run);
    life.until("its runtime is asked to stop it", async |_| {
        bench.world.calls(&run).contains(&Call::Cancel)
    });
    bench.world.release(Stage::Start);
    life.until_closed(&run);
    assert_eq!(life.record(&run), stopped());
    assert_eq!(
        life.log(&run),
        [
            "task.cancel_requested",
            "started running",
            "task.ended cancelled",
            "completed cancelled",
        ]
    );
}

fn a_run_that_works_is_stopped_by_its_runtime(bench: &mut Bench) {
    let life = bench.life();
    let run = life.start("one");
    bench.world.says(&run, "Half");
    life.until_logged(&run, 1);
    life.stop_run(&run);
    life.until_closed(&run);
    assert_eq!(
        life.record(&run),
        Record {
            text: Some("Half".into()),
            ..stopped()
        }
    );
    assert_eq!(
        life.log(&run),
        [
            "started running",
            "delta #1 \"Half\"",
            "task.cancel_requested",
            "task.ended cancelled",
            "completed cancelled",
        ]
    );
    let mut calls = bench.world.calls(&run);
    calls.dedup();
    assert_eq!(
        calls,
        [
            Call::Prepare,
            Call::Start,
            Call::Follow(0),
            Call::Cancel,
            Call::Collect(EndStatus::Cancelled),
        ]
    );
}

fn a_stop_is_told_again_after_a_kill(bench: &mut Bench) {
    bench.world.never_stops();
    let life = bench.life();
    let run = life.start("one");
    life.until_phase(&run, Phase::Running);
    life.stop_run(&run);
    life.kill();
    let before = bench
        .world
        .calls(&run)
        .iter()
        .filter(|c| **c == Call::Cancel)
        .count();
    let life = bench.life();
    life.until("it is told again", async |_| {
        let told = bench.world.calls(&run);
        told.iter().filter(|c| **c == Call::Cancel).count() > before
    });
    assert_eq!(
        life.run(&run).status,
        RunStatus::Running,
        "its registry alone ends it"
    );
    bench
        .world
        .ends(&run, crate::world::ended(EndStatus::Cancelled));
    life.until_closed(&run);
    assert_eq!(life.record(&run), stopped());
}

fn a_stop_at_an_open_question_withdraws_it(bench: &mut Bench) {
    let life = bench.life();
    let run = life.start("one");
    bench.world.asks(&run, "q1");
    life.until_asked(&run, "q1");
    life.stop_run(&run);
    life.until_closed(&run);
    assert_eq!(life.questions(&run), ["q1 withdrawn by the run ended"]);
    assert_eq!(life.record(&run), stopped());
    assert_eq!(
        life.log(&run),
        [
            "started running",
            "task.question_asked #1 q1 open",
            "task.cancel_requested",
            "task.question_closed q1 withdrawn by the run ended",
            "task.ended cancelled",
            "completed cancelled",
        ]
    );
    assert_eq!(bench.world.answers(&run), []);
}

fn a_stop_after_the_end_changes_nothing(bench: &mut Bench) {
    let life = bench.life();
    let run = life.start("one");
    bench.world.completes(&run);
    life.until_closed(&run);
    let (record, log) = (life.record(&run), life.log(&run));
    life.stop_run(&run);
    life.goes_on_for(Duration::from_millis(20));
    assert_eq!((life.record(&run), life.log(&run)), (record, log));
    assert!(!bench.world.calls(&run).contains(&Call::Cancel));
}

fn a_run_that_completes_all_the_same_has_completed(bench: &mut Bench) {
    bench.world.never_stops();
    let life = bench.life();
    let run = life.start("one");
    life.until_phase(&run, Phase::Running);
    life.stop_run(&run);
    bench.world.completes(&run);
    life.until_closed(&run);
    assert_eq!(
        life.record(&run),
        Record {
            stop_asked: true,
            ..Record::completed()
        }
    );
}
