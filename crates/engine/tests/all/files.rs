//! Files: they never keep a run running; only declared ones change its verdict.

use std::time::Duration;

use pretty_assertions::assert_eq;
use threadline_contract::{Code, RunStatus};
use threadline_engine::FeedItem;
use threadline_runtimes::EndStatus;
use threadline_store::{ArtifactState, Phase};

use crate::{
    life::{Bench, caller, on_both, turn_with},
    told::Record,
    world::{Call, Stage},
};

on_both![
    declared_files_that_are_there_let_a_run_complete,
    declared_files_that_are_missing_change_the_verdict,
    a_verdict_does_not_wait_for_ever,
    a_verdict_that_waits_for_files_survives_a_kill,
    a_result_does_not_wait_for_files_that_nobody_declared,
    files_that_cannot_be_collected_do_not_change_a_result,
];

fn declared_files_that_are_there_let_a_run_complete(bench: &mut Bench) {
    let life = bench.life();
    let run = life
        .send("session.start", turn_with("one", &["*.md"]))
        .unwrap();
    bench.world.leaves(&run, "report.md");
    bench.world.completes(&run);
    life.until_closed(&run);
    assert_eq!(life.record(&run), Record::completed());
    assert_eq!(
        life.log(&run),
        [
            "started running",
            "task.verifying",
            "task.ended completed",
            "completed completed"
        ]
    );
}

fn missing() -> Record {
    Record {
        status: RunStatus::ArtifactMissing,
        code: Some(Code::RequiredArtifactMissing),
        message: Some("The run said it was done, but it did not deliver: *.md.".into()),
        missing: vec!["*.md".into()],
        ..Record::completed()
    }
}

fn declared_files_that_are_missing_change_the_verdict(bench: &mut Bench) {
    let life = bench.life();
    let run = life
        .send("session.start", turn_with("one", &["*.md", "*.txt"]))
        .unwrap();
    bench.world.leaves(&run, "report.txt");
    bench.world.completes(&run);
    life.until_closed(&run);
    assert_eq!(life.record(&run), missing());
    let ended = "OPENCLAW_REQUIRED_ARTIFACT_MISSING";
    assert_eq!(
        life.log(&run),
        [
            "started running".to_owned(),
            "task.verifying".to_owned(),
            format!(
                "task.ended artifact_missing {ended} (The run said it was done, but it did not deliver: *.md.)"
            ),
            format!("completed artifact_missing {ended}"),
        ]
    );
}

fn a_verdict_does_not_wait_for_ever(bench: &mut Bench) {
    bench.verify_wait = Duration::from_millis(100);
    bench.world.hold(Stage::Collect);
    let life = bench.life();
    let run = life
        .send("session.start", turn_with("one", &["*.md"]))
        .unwrap();
    bench.world.leaves(&run, "report.md");
    bench.world.completes(&run);
    life.until("it has its verdict", async |engine| {
        engine.store().run_any(&run).await.unwrap().status != RunStatus::Running
    });
    let verdict = life.record(&run);
    assert_eq!(
        (verdict.status, verdict.phase, verdict.files),
        (
            RunStatus::ArtifactMissing,
            Phase::Collecting,
            ArtifactState::Pending
        )
    );
    // They come late: the files are there, and the verdict stands.
    bench.world.release(Stage::Collect);
    life.until_closed(&run);
    let record = life.record(&run);
    assert_eq!(
        (record.status, record.files, record.anomalies),
        (RunStatus::ArtifactMissing, ArtifactState::Done, 0)
    );
}

fn a_verdict_that_waits_for_files_survives_a_kill(bench: &mut Bench) {
    bench.world.hold(Stage::Collect);
    let life = bench.life();
    let run = life
        .send("session.start", turn_with("one", &["*.md"]))
        .unwrap();
    bench.world.completes(&run);
    life.until_phase(&run, Phase::Collecting);
    assert_eq!(
        life.run(&run).status,
        RunStatus::Running,
        "it has no verdict yet"
    );
    life.kill();
    bench.world.release(Stage::Collect);
    let life = bench.life();
    life.until_closed(&run);
    assert_eq!(life.record(&run), missing());
}

fn a_result_does_not_wait_for_files_that_nobody_declared(bench: &mut Bench) {
    bench.result_wait = Duration::from_millis(50);
    bench.world.hold(Stage::Collect);
    let life = bench.life();
    let run = life.start("one");
    bench.world.leaves(&run, "report.md");
    bench.world.completes(&run);
    let result = life.wait(async {
        let mut feed = life
            .engine
            .run_feed(&caller("somebody"), &run, 0)
            .await
            .unwrap();
        loop {
            if let Some(FeedItem::Result(result)) = feed.next().await.unwrap() {
                break result;
            }
        }
    });
    assert_eq!(result.status, RunStatus::Completed);
    assert_eq!(life.run(&run).phase, Phase::Collecting);
    bench.world.release(Stage::Collect);
    life.until_closed(&run);
    assert_eq!(life.record(&run), Record::completed());
}

fn files_that_cannot_be_collected_do_not_change_a_result(bench: &mut Bench) {
    let life = bench.life();
    let run = life.start("one");
    bench.world.leaves(&run, "report.md");
    // Twice it fails, then it works.
    bench
        .world
        .collecting_fails(&[Code::RuntimeReadFailed, Code::RuntimeReadFailed]);
    bench.world.completes(&run);
    life.until_closed(&run);
    assert_eq!(life.record(&run), Record::completed());
    let collected = Call::Collect(EndStatus::Completed);
    let calls = bench.world.calls(&run);
    assert_eq!(calls.iter().filter(|call| **call == collected).count(), 3);
}
