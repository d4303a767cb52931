//! The way of a run through its phases, and what a kill in each of them changes: nothing.

use pretty_assertions::assert_eq;
use threadline_contract::{Code, Millis, RunStatus};
use threadline_runtimes::EndStatus;
use threadline_store::{ArtifactState, Ended, Phase, RunEnd};

use crate::{
    life::{Bench, Life, on_both},
    told::Record,
    world::{Call, Stage, ended},
};

on_both![
    a_run_goes_its_way,
    a_kill_in_any_phase_changes_nothing,
    the_first_end_stands,
    a_start_whose_answer_is_lost_is_not_repeated,
    a_run_that_its_runtime_lost_has_failed,
    what_a_run_says_before_it_fails_is_its_text,
];

const LOG: [&str; 5] = [
    "started running",
    "delta #1 \"One, \"",
    "delta #2 \"two.\"",
    "task.ended completed",
    "completed completed",
];

fn a_run_goes_its_way(bench: &mut Bench) {
    let life = bench.life();
    let run = life.start("one");
    life.until_phase(&run, Phase::Running);
    life.world.says(&run, "One, ");
    life.world.says(&run, "two.");
    life.world.leaves(&run, "report.md");
    life.world.completes(&run);
    life.until_closed(&run);
    assert_eq!(life.record(&run), Record::completed());
    assert_eq!(life.log(&run), LOG);
    assert_eq!(
        life.world.calls(&run),
        [
            Call::Prepare,
            Call::Start,
            Call::Follow(0),
            Call::Collect(EndStatus::Completed),
        ]
    );
    let account = threadline_contract::AccountId::local();
    let files = life
        .wait(life.engine.store().artifacts(&account, &run, 0, 10))
        .unwrap();
    let files: Vec<String> = files.iter().map(|f| f.path.to_string()).collect();
    assert_eq!(files, ["report.md"]);
    life.until("nobody drives it", async |engine| engine.active() == 0);
}

/// Lives until a run is at a point, is killed there, and goes on in another life.
fn killed_at(
    bench: &Bench,
    thread: &str,
    hold: Option<Stage>,
    at: impl Fn(&Life, &threadline_contract::RunId),
) {
    if let Some(stage) = hold {
        bench.world.hold(stage);
    }
    let life = bench.life();
    let run = life.start(thread);
    let world = &bench.world;
    if hold == Some(Stage::Collect) {
        world.says(&run, "One, ");
        world.says(&run, "two.");
        world.completes(&run);
    }
    if let Some(stage) = hold {
        life.until(&format!("{stage:?} is reached"), async |_| {
            world.has_reached(&run, stage)
        });
    }
    at(&life, &run);
    life.kill();
    if let Some(stage) = hold {
        world.release(stage);
    }
    let life = bench.life();
    if hold != Some(Stage::Collect) {
        life.until_phase(&run, Phase::Running);
        world.says(&run, "One, ");
        life.until_logged(&run, 1);
        world.says(&run, "two.");
        world.completes(&run);
    }
    life.until_closed(&run);
    assert_eq!(life.record(&run), Record::completed(), "held at {hold:?}");
    assert_eq!(life.log(&run), LOG, "held at {hold:?}");
    assert_eq!(world.executions(&run), 1, "held at {hold:?}");
    life.kill();
}

fn a_kill_in_any_phase_changes_nothing(bench: &mut Bench) {
    killed_at(bench, "preparing", Some(Stage::Prepare), |life, run| {
        assert_eq!(life.run(run).phase, Phase::Preparing);
    });
    killed_at(bench, "starting", Some(Stage::Start), |life, run| {
        assert_eq!(life.run(run).phase, Phase::Starting);
    });
    killed_at(bench, "running", None, |life, run| {
        life.until_phase(run, Phase::Running);
    });
    killed_at(bench, "collecting", Some(Stage::Collect), |life, run| {
        assert_eq!(life.run(run).phase, Phase::Collecting);
    });
    // Between two frames.
    let life = bench.life();
    let run = life.start("between");
    bench.world.says(&run, "One, ");
    life.until_logged(&run, 1);
    life.kill();
    let life = bench.life();
    bench.world.says(&run, "two.");
    bench.world.completes(&run);
    life.until_closed(&run);
    assert_eq!(life.log(&run), LOG);
    assert_eq!(
        bench.world.calls(&run),
        [
            Call::Prepare,
            Call::Start,
            Call::Follow(0),
            Call::Follow(1),
            Call::Collect(EndStatus::Completed),
        ]
    );
}

/// A registry that changes its mind changes nothing; what it says otherwise is kept and never applied.
fn the_first_end_stands(bench: &mut Bench) {
    bench.world.hold(Stage::Collect);
    let life = bench.life();
    let run = life.start("one");
    bench.world.completes(&run);
    life.until_phase(&run, Phase::Collecting);
    life.kill();
    bench.world.ends(&run, ended(EndStatus::Failed));
    bench.world.release(Stage::Collect);
    let life = bench.life();
    life.until_closed(&run);
    assert_eq!(life.record(&run), Record::completed());
    let lease = life.run(&run).lease();
    let later = RunEnd {
        status: RunStatus::Failed,
        code: Some(Code::ModelFailed),
        message: None,
        text: None,
        usage: None,
        missing: None,
        ended_at: Millis::now(),
        phase: None,
    };
    let told = life
        .wait(life.engine.store().end_run(&lease, later, vec![]))
        .unwrap();
    assert!(matches!(told, Ended::Already(_)));
    assert_eq!(
        life.record(&run),
        Record {
            anomalies: 1,
            ..Record::completed()
        }
    );
    assert_eq!(
        life.log(&run),
        [
            "started running",
            "task.ended completed",
            "completed completed"
        ]
    );
}

fn a_start_whose_answer_is_lost_is_not_repeated(bench: &mut Bench) {
    let life = bench.life();
    bench.world.loses_start();
    let run = life.start("one");
    life.until_phase(&run, Phase::Running);
    bench.world.completes(&run);
    life.until_closed(&run);
    assert_eq!(life.record(&run), Record::completed());
    assert_eq!(bench.world.executions(&run), 1);
}

fn a_run_that_its_runtime_lost_has_failed(bench: &mut Bench) {
    let life = bench.life();
    let run = life.start("one");
    life.until_phase(&run, Phase::Running);
    bench.world.says(&run, "Half");
    life.until_logged(&run, 1);
    life.kill();
    bench.world.forgets(&run);
    let life = bench.life();
    life.until_closed(&run);
    let record = life.record(&run);
    assert_eq!(
        (
            record.status,
            record.code,
            record.files,
            record.text.as_deref()
        ),
        (
            RunStatus::Failed,
            Some(Code::RunLost),
            ArtifactState::Done,
            Some("Half")
        )
    );
}

fn what_a_run_says_before_it_fails_is_its_text(bench: &mut Bench) {
    let life = bench.life();
    let run = life.start("one");
    bench.world.says(&run, "So far");
    bench.world.ends(&run, ended(EndStatus::Failed));
    life.until_closed(&run);
    assert_eq!(
        life.record(&run),
        Record {
            status: RunStatus::Failed,
            code: Some(Code::ModelFailed),
            text: Some("So far".into()),
            ..Record::completed()
        }
    );
    assert_eq!(
        life.log(&run),
        [
            "started running",
            "delta #1 \"So far\"",
            "task.ended failed MODEL_FAILED",
            "completed failed MODEL_FAILED",
        ]
    );
}
