//! Lanes: how many run at once, who is next, and who is turned away.

use std::time::Duration;

use pretty_assertions::assert_eq;
use threadline_contract::{Code, RunId};
use threadline_store::Phase;

use crate::life::{Bench, Life, on_both, turn};

on_both![
    turns_begin_in_the_order_in_which_they_came,
    a_session_has_one_turn_at_a_time_and_lets_others_pass,
    a_full_lane_turns_away,
    a_lane_is_the_same_after_a_kill,
];

fn phases(life: &Life, runs: &[&RunId]) -> Vec<Phase> {
    runs.iter().map(|run| life.run(run).phase).collect()
}

fn turns_begin_in_the_order_in_which_they_came(bench: &mut Bench) {
    bench.world = bench.world.clone().with_lane(2, 10);
    let life = bench.life();
    let mut runs: Vec<RunId> = vec![];
    for n in 0..5 {
        runs.push(life.start(&format!("t{n}")));
        match n {
            0 | 1 => life.until_phase(&runs[n], Phase::Running),
            _ => life.until_told(&runs[n], &format!("queued {0}/{0}", n - 1)),
        }
    }
    assert_eq!(bench.world.begun(), runs[..2]);
    for n in 0..3 {
        bench.world.completes(&runs[n]);
        life.until_phase(&runs[n + 2], Phase::Running);
        if n < 2 {
            life.until_told(&runs[4], &format!("queued {0}/{0}", 2 - n));
        }
        assert_eq!(bench.world.begun(), runs[..n + 3]);
    }
    // Whoever waits was told of every place on the way.
    assert_eq!(
        life.log(&runs[4]),
        ["queued 3/3", "queued 2/2", "queued 1/1", "started running"]
    );
}

fn a_session_has_one_turn_at_a_time_and_lets_others_pass(bench: &mut Bench) {
    bench.world = bench.world.clone().with_lane(2, 10);
    let life = bench.life();
    let first = life.start("one");
    life.until_phase(&first, Phase::Running);
    let second = life.send("session.message", turn("one")).unwrap();
    let other = life.start("other");
    life.until_phase(&other, Phase::Running);
    assert_eq!(
        phases(&life, &[&first, &second, &other]),
        [Phase::Running, Phase::Queued, Phase::Running]
    );
    bench.world.completes(&first);
    life.until_phase(&second, Phase::Running);
    assert_eq!(bench.world.begun(), [first, other, second]);
}

fn a_full_lane_turns_away(bench: &mut Bench) {
    bench.world = bench.world.clone().with_lane(1, 1);
    let life = bench.life();
    let first = life.start("t0");
    let second = life.start("t1");
    let refused = life.send("session.start", turn("t2")).unwrap_err();
    assert_eq!(refused.code, Code::RuntimeBusy);
    life.until_phase(&first, Phase::Running);
    bench.world.completes(&first);
    life.until_phase(&second, Phase::Running);
    life.start("t2");
}

fn a_lane_is_the_same_after_a_kill(bench: &mut Bench) {
    bench.world = bench.world.clone().with_lane(1, 10);
    let mut life = bench.life();
    let runs: Vec<RunId> = (0..4).map(|n| life.start(&format!("t{n}"))).collect();
    for n in 0..4 {
        life.until_phase(&runs[n], Phase::Running);
        life.kill();
        life = bench.life();
        life.goes_on_for(Duration::from_millis(20));
        assert_eq!(bench.world.begun(), runs[..=n]);
        bench.world.completes(&runs[n]);
    }
    life.until_closed(&runs[3]);
}
