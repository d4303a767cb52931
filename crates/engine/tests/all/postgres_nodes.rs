//! Two servers on one database: one of them drives a run, and one that lost it writes nothing.

use std::time::Duration;

use pretty_assertions::assert_eq;
use threadline_contract::{Millis, RunId};
use threadline_store::{Phase, Takeover};

use crate::{
    life::{Bench, Life},
    told::Record,
    world::Call,
};

fn nodes() -> Bench {
    let mut bench = Bench::postgres();
    bench.world = bench.world.clone().remote();
    bench
}

/// Takes a run's lease away from the server that drives it.
fn steal(life: &Life, run: &RunId) {
    let store = life.engine.store();
    let runs = std::slice::from_ref(run);
    let taken = store.claim_runs(runs, "thief", Millis::now(), 60_000, Takeover::Always);
    assert_eq!(life.wait(taken).unwrap().len(), 1);
}

#[test]
fn a_server_that_lost_its_lease_writes_nothing() {
    let bench = nodes();
    let life = bench.node("a");
    let run = life.start("one");
    bench.world.says(&run, "One, ");
    bench.world.asks(&run, "q1");
    life.until_asked(&run, "q1");
    let (log, record) = (life.log(&run), life.record(&run));
    steal(&life, &run);
    // Everything that a run can do, its end and the withdrawal of its question with it.
    bench.world.says(&run, "two.");
    bench.world.asks(&run, "q2");
    bench.world.leaves(&run, "report.md");
    bench.world.completes(&run);
    life.until("it lets go of the run", async |engine| engine.active() == 0);
    life.goes_on_for(Duration::from_millis(50));
    assert_eq!(life.log(&run), log);
    assert_eq!(life.record(&run), record);
    assert_eq!(life.questions(&run), ["q1 open"]);
    assert!(
        !bench
            .world
            .calls(&run)
            .iter()
            .any(|call| matches!(call, Call::Collect(_)))
    );
}

/// Also where its first write would be the withdrawal of a question.
#[test]
fn a_server_that_lost_its_lease_closes_no_question() {
    let bench = nodes();
    let life = bench.node("a");
    let run = life.start("one");
    bench.world.asks(&run, "q1");
    life.until_asked(&run, "q1");
    let log = life.log(&run);
    steal(&life, &run);
    bench.world.completes(&run);
    life.until("it lets go of the run", async |engine| engine.active() == 0);
    assert_eq!(life.questions(&run), ["q1 open"]);
    assert_eq!(life.log(&run), log);
}

#[test]
fn a_run_of_a_server_that_was_killed_is_driven_to_its_end_by_another() {
    let mut bench = nodes();
    bench.lease_ttl = Duration::from_millis(600);
    let a = bench.node("a");
    let run = a.start("one");
    bench.world.says(&run, "One, ");
    a.until_logged(&run, 1);
    a.kill();
    let b = bench.node("b");
    bench.world.says(&run, "two.");
    bench.world.completes(&run);
    b.until_closed(&run);
    assert_eq!(b.record(&run), Record::completed());
    assert_eq!(
        b.log(&run),
        [
            "started running",
            "delta #1 \"One, \"",
            "delta #2 \"two.\"",
            "task.ended completed",
            "completed completed",
        ]
    );
    assert_eq!(bench.world.executions(&run), 1);
}

#[test]
fn an_answer_and_a_stop_reach_a_run_through_any_server() {
    let bench = nodes();
    let a = bench.node("a");
    let b = bench.node("b");
    let run = a.start("one");
    bench.world.asks(&run, "q1");
    a.until_asked(&run, "q1");
    b.answer("q1", "yes").unwrap();
    a.until("the run hears it", async |_| {
        !bench.world.answers(&run).is_empty()
    });
    b.stop_run(&run);
    a.until_phase(&run, Phase::Closed);
    assert_eq!(a.questions(&run), ["q1 answered yes by somebody"]);
    assert_eq!(
        a.log(&run),
        [
            "started running",
            "task.question_asked #1 q1 open",
            "task.question_closed q1 answered yes by somebody",
            "task.cancel_requested",
            "task.ended cancelled",
            "completed cancelled",
        ]
    );
}
