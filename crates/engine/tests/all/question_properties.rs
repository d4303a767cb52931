//! Questions in any order of what can happen to them, with kills in between.

use std::{collections::BTreeMap, time::Duration};

use proptest::prelude::*;
use threadline_contract::{Code, QuestionId, RunId};
use threadline_runtimes::Update;
use threadline_store::Phase;

use crate::{
    life::{Bench, Life},
    told,
};

#[derive(Clone, Debug)]
enum Step {
    /// The agent asks, perhaps again.
    Ask(u8),
    /// The agent no longer asks.
    TakeBack(u8),
    Answer(u8, bool),
    Decline(u8),
    Kill,
    /// The runtime hears nothing, or hears again.
    Deaf(bool),
    /// The engine does what it has to do.
    GoOn,
    /// The question's time is over.
    Expire,
    Stop,
    End,
}

fn step() -> impl Strategy<Value = Step> {
    let question = || 0u8..3;
    prop_oneof![
        6 => question().prop_map(Step::Ask),
        1 => question().prop_map(Step::TakeBack),
        4 => (question(), any::<bool>()).prop_map(|(q, yes)| Step::Answer(q, yes)),
        2 => question().prop_map(Step::Decline),
        2 => Just(Step::Kill),
        1 => any::<bool>().prop_map(Step::Deaf),
        4 => Just(Step::GoOn),
        1 => Just(Step::Expire),
        1 => Just(Step::Stop),
        1 => Just(Step::End),
    ]
}

fn name(question: u8) -> String {
    format!("q{question}")
}

/// What a person did is refused only for a question that is not there or has ended.
fn decided(result: Result<(), threadline_contract::Fault>) {
    if let Err(fault) = result {
        assert!(
            matches!(
                fault.code,
                Code::QuestionNotFound | Code::QuestionAlreadyClosed
            ),
            "{fault}"
        );
    }
}

fn take(bench: &mut Bench, life: Life, run: &RunId, step: &Step) -> Life {
    let world = &bench.world;
    match step {
        Step::Ask(q) => world.asks(run, &name(*q)),
        Step::TakeBack(q) => {
            world.does(run, Update::Unasked(QuestionId::new(name(*q)).unwrap()));
        }
        Step::Answer(q, yes) => {
            let option = if *yes { "yes" } else { "no" };
            decided(life.answer(&name(*q), option).map(drop));
        }
        Step::Decline(q) => decided(life.decline(&name(*q))),
        Step::Kill => {
            life.kill();
            return bench.life();
        }
        Step::Deaf(is_deaf) => world.hears(!is_deaf),
        Step::GoOn => life.goes_on_for(Duration::from_millis(4)),
        Step::Expire => {
            // Whoever starts with another rule finds that the time of what is open is over.
            life.kill();
            bench.rules.question_wait = Some(Duration::ZERO);
            let life = bench.life();
            life.goes_on_for(Duration::from_millis(10));
            life.kill();
            bench.rules.question_wait = None;
            return bench.life();
        }
        Step::Stop => drop(life.stop_run(run)),
        Step::End => bench.world.completes(run),
    }
    life
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        max_shrink_iters: 40,
        ..ProptestConfig::default()
    })]
    #[test]
    fn each_question_ends_once_and_everybody_hears_the_same(steps in prop::collection::vec(step(), 1..24)) {
        let mut bench = Bench::sqlite();
        let mut life = bench.life();
        let run = life.start("one");
        life.until_phase(&run, Phase::Running);
        for step in &steps {
            life = take(&mut bench, life, &run, step);
        }
        bench.world.hears(true);
        // Everything that was decided while the run goes on reaches it.
        let decided = |life: &Life| -> Vec<threadline_contract::Question> {
            let all = life.all_questions(&run);
            all.into_iter().filter(|q| q.closed_at.is_some()).collect()
        };
        let goes_on = life.run(&run).phase == Phase::Running && !steps.iter().any(|s| matches!(s, Step::End | Step::Stop));
        if goes_on {
            let told: Vec<String> = decided(&life)
                .into_iter()
                .filter(|q| q.state != threadline_contract::QuestionState::Withdrawn)
                .map(|q| q.question_id.to_string())
                .collect();
            life.until("the run heard every decision", async |_| {
                let heard = bench.world.answers(&run);
                told.iter().all(|id| heard.iter().any(|(q, _)| q == id))
            });
        }
        bench.world.completes(&run);
        life.until_closed(&run);

        // Each has ended once, and the log says exactly what the record says.
        let questions = life.all_questions(&run);
        let log = life.log(&run);
        for question in &questions {
            let told = told::question(question);
            prop_assert!(question.closed_at.is_some(), "still open: {told}");
            let about = |event: &str| -> Vec<&String> {
                let id = question.question_id.as_str();
                let is_it = |line: &&String| line.starts_with(event) && line.split(' ').any(|word| word == id);
                log.iter().filter(is_it).collect()
            };
            prop_assert_eq!(about("task.question_asked").len(), 1);
            let closed = format!("task.question_closed {told}");
            prop_assert_eq!(about("task.question_closed"), vec![&closed]);
        }
        let closed = log.iter().filter(|line| line.starts_with("task.question_closed")).count();
        prop_assert_eq!(closed, questions.len());

        // The runtime never heard two different things, and nothing but what was decided.
        let mut heard: BTreeMap<String, Option<String>> = BTreeMap::new();
        for (question, answer) in bench.world.answers(&run) {
            let before = heard.insert(question.clone(), answer.clone());
            prop_assert!(before.is_none_or(|before| before == answer), "{} was told twice, differently", question);
        }
        for (id, answer) in heard {
            let question = questions.iter().find(|q| q.question_id.as_str() == id).unwrap();
            prop_assert_eq!(answer.as_deref(), question.told());
        }
    }
}
