//! A request that comes again: the same run, never a second one.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::Code;
use threadline_store::Phase;

use crate::life::{Bench, caller, on_both, turn};

on_both![
    the_same_request_gives_the_same_run,
    the_same_request_at_once_gives_one_run,
];

fn request(thread: &str, id: &str, prompt: &str) -> Value {
    let mut params = turn(thread);
    params["requestId"] = json!(id);
    params["prompt"] = json!(prompt);
    params
}

fn the_same_request_gives_the_same_run(bench: &mut Bench) {
    let life = bench.life();
    let send = |life: &crate::life::Life, params: Value| life.send("session.start", params);
    let run = send(&life, request("one", "r1", "Do it")).unwrap();
    assert_eq!(send(&life, request("one", "r1", "Do it")).unwrap(), run);
    life.until_phase(&run, Phase::Running);
    assert_eq!(send(&life, request("one", "r1", "Do it")).unwrap(), run);
    let other = send(&life, request("one", "r1", "Do something else")).unwrap_err();
    assert_eq!(other.code, Code::IdempotencyConflict);
    life.kill();
    let life = bench.life();
    assert_eq!(send(&life, request("one", "r1", "Do it")).unwrap(), run);
    bench.world.completes(&run);
    life.until_closed(&run);
    assert_eq!(send(&life, request("one", "r1", "Do it")).unwrap(), run);
    assert_eq!(bench.world.begun(), std::slice::from_ref(&run));
    // The id is the thread's own.
    let others = send(&life, request("two", "r1", "Do it")).unwrap();
    assert_ne!(others, run);
}

fn the_same_request_at_once_gives_one_run(bench: &mut Bench) {
    let life = bench.life();
    let caller = caller("somebody");
    let runs = life.wait(async {
        let send = || async {
            let answer = life
                .engine
                .turn(&caller, "session.start", request("one", "r1", "Do it"));
            match answer.await.unwrap() {
                threadline_engine::TurnAnswer::Accepted(accepted) => accepted.run,
                _ => panic!("not accepted"),
            }
        };
        let (a, b, c, d) = tokio::join!(send(), send(), send(), send());
        [a, b, c, d]
    });
    assert!(runs.iter().all(|run| *run == runs[0]), "{runs:?}");
    life.until_phase(&runs[0], Phase::Running);
    assert_eq!(bench.world.begun(), runs[..1]);
}
