//! A run whose server is killed again and again has the log of one whose server lived.

use std::time::Duration;

use pretty_assertions::assert_eq;
use threadline_contract::{Step, StepState, Usage};
use threadline_runtimes::Update;

use crate::{life::Bench, told::Record};

const FRAMES: i64 = 500;

/// What the run does: every kind of frame that is logged.
fn update(no: i64) -> Update {
    match no % 7 {
        0 => Update::Step(Step {
            step_id: format!("step-{}", no / 7),
            title: "A step".into(),
            tool: None,
            state: StepState::Running,
            detail: None,
            duration_ms: None,
        }),
        3 => Update::Note(format!("Note {no}")),
        5 => Update::Usage(Usage {
            output_tokens: Some(no as u64),
            ..Usage::default()
        }),
        _ => Update::Text(format!("{no} ")),
    }
}

fn undisturbed(bench: &Bench) -> Vec<String> {
    let life = bench.life();
    let run = life.start("undisturbed");
    for no in 1..=FRAMES {
        bench.world.does(&run, update(no));
    }
    bench.world.completes(&run);
    life.until_closed(&run);
    assert_eq!(life.record(&run), Record::completed());
    life.log(&run)
}

#[test]
fn a_run_whose_server_is_killed_at_random_has_the_log_of_one_whose_server_lives() {
    let bench = Bench::sqlite();
    let expected = undisturbed(&bench);
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut any = move |most: u64| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % most
    };
    let mut kills = 0;
    for round in 0..4 {
        let mut life = bench.life();
        let run = life.start(&format!("round-{round}"));
        let mut done = 0;
        while done < FRAMES {
            let more = (done + 1 + any(60) as i64).min(FRAMES);
            for no in done + 1..=more {
                bench.world.does(&run, update(no));
            }
            done = more;
            // Anything from nothing to all of it may be logged by then.
            life.goes_on_for(Duration::from_micros(any(6_000)));
            life.kill();
            kills += 1;
            life = bench.life();
        }
        bench.world.completes(&run);
        life.goes_on_for(Duration::from_micros(any(6_000)));
        life.kill();
        let life = bench.life();
        life.until_closed(&run);
        assert_eq!(
            life.log(&run),
            expected,
            "round {round} after {kills} kills"
        );
        assert_eq!(life.record(&run), Record::completed());
        assert_eq!(bench.world.executions(&run), 1);
        life.kill();
    }
    assert!(kills > 40, "only {kills} kills");
}
