//! Questions: asked once, ended once, and what was decided reaches the run that asked.

use std::time::Duration;

use pretty_assertions::assert_eq;
use threadline_contract::{Code, PermissionLevel, PermissionPolicy};
use threadline_store::Phase;

use crate::{
    life::{Bench, answer, caller, on_both},
    told::Record,
    world::Call,
};

on_both![
    a_question_that_is_told_twice_is_asked_once,
    of_many_answers_at_once_one_counts,
    an_answer_that_did_not_reach_its_run_is_handed_over_after_a_restart,
    declining_is_told_as_no_choice,
    questions_of_a_run_that_ended_are_withdrawn,
    a_question_that_the_agent_takes_back_is_withdrawn,
    a_question_that_nobody_answers_expires,
    a_question_expires_although_the_server_was_killed_meanwhile,
    what_the_policy_answers_is_never_open,
];

fn a_question_that_is_told_twice_is_asked_once(bench: &mut Bench) {
    let life = bench.life();
    let run = life.start("one");
    bench.world.asks(&run, "q1");
    bench.world.asks(&run, "q1");
    bench.world.says(&run, "?");
    life.until_logged(&run, 3);
    life.kill();
    bench.world.asks(&run, "q1");
    bench.world.says(&run, "!");
    let life = bench.life();
    life.until_logged(&run, 5);
    assert_eq!(life.questions(&run), ["q1 open"]);
    life.answer("q1", "yes").unwrap();
    bench.world.completes(&run);
    life.until_closed(&run);
    assert_eq!(
        life.log(&run),
        [
            "started running",
            "task.question_asked #1 q1 open",
            "delta #3 \"?\"",
            "delta #5 \"!\"",
            "task.question_closed q1 answered yes by somebody",
            "task.ended completed",
            "completed completed",
        ]
    );
}

fn of_many_answers_at_once_one_counts(bench: &mut Bench) {
    let life = bench.life();
    let run = life.start("one");
    bench.world.asks(&run, "q1");
    life.until_asked(&run, "q1");
    let (yes, no) = life.wait(async {
        let engine = &life.engine;
        let by = |option: &'static str, n: u8| async move {
            let caller = caller(&format!("{option}-{n}"));
            engine.answer(&caller, answer("q1", option)).await
        };
        tokio::join!(async { [by("yes", 1).await, by("yes", 2).await] }, async {
            [by("no", 1).await, by("no", 2).await]
        },)
    });
    let won = if yes[0].is_ok() { "yes" } else { "no" };
    let (winners, losers) = if won == "yes" { (yes, no) } else { (no, yes) };
    assert!(
        winners.iter().all(Result::is_ok),
        "the same answer again is no second one"
    );
    for lost in losers {
        assert_eq!(lost.unwrap_err().code, Code::QuestionAlreadyClosed);
    }
    let label = if won == "yes" { "Allow" } else { "Reject" };
    life.until("the run hears it", async |_| {
        !bench.world.answers(&run).is_empty()
    });
    bench.world.completes(&run);
    life.until_closed(&run);
    assert_eq!(
        life.questions(&run),
        [format!("q1 answered {won} by {won}-1")]
    );
    let mut heard = bench.world.answers(&run);
    heard.dedup();
    assert_eq!(heard, [("q1".to_owned(), Some(label.to_owned()))]);
    let closed = format!("task.question_closed q1 answered {won} by {won}-1");
    assert_eq!(
        life.log(&run),
        [
            "started running",
            "task.question_asked #1 q1 open",
            &closed,
            "task.ended completed",
            "completed completed",
        ]
    );
}

fn an_answer_that_did_not_reach_its_run_is_handed_over_after_a_restart(bench: &mut Bench) {
    bench.world.hears(false);
    let life = bench.life();
    let run = life.start("one");
    bench.world.asks(&run, "q1");
    life.until_asked(&run, "q1");
    life.answer("q1", "no").unwrap();
    life.goes_on_for(Duration::from_millis(20));
    life.kill();
    assert_eq!(bench.world.answers(&run), []);
    bench.world.hears(true);
    let life = bench.life();
    life.until("the run hears it", async |_| {
        !bench.world.answers(&run).is_empty()
    });
    let mut heard = bench.world.answers(&run);
    heard.dedup();
    assert_eq!(heard, [("q1".to_owned(), Some("Reject".to_owned()))]);
    assert_eq!(life.run(&run).phase, Phase::Running);
}

fn declining_is_told_as_no_choice(bench: &mut Bench) {
    let life = bench.life();
    let run = life.start("one");
    bench.world.asks(&run, "q1");
    life.until_asked(&run, "q1");
    life.decline("q1").unwrap();
    life.until("the run hears it", async |_| {
        !bench.world.answers(&run).is_empty()
    });
    assert_eq!(life.questions(&run), ["q1 declined by somebody"]);
    assert_eq!(bench.world.answers(&run)[0], ("q1".to_owned(), None));
    assert_eq!(
        life.answer("q1", "yes").unwrap_err().code,
        Code::QuestionAlreadyClosed
    );
}

fn questions_of_a_run_that_ended_are_withdrawn(bench: &mut Bench) {
    let life = bench.life();
    let run = life.start("one");
    bench.world.asks(&run, "q1");
    bench.world.asks(&run, "q2");
    life.until_asked(&run, "q2");
    life.answer("q1", "yes").unwrap();
    bench.world.completes(&run);
    life.until_closed(&run);
    assert_eq!(
        life.questions(&run),
        [
            "q1 answered yes by somebody",
            "q2 withdrawn by the run ended"
        ]
    );
    assert_eq!(
        life.answer("q2", "yes").unwrap_err().code,
        Code::QuestionAlreadyClosed
    );
    assert_eq!(life.record(&run), Record::completed());
}

fn a_question_that_the_agent_takes_back_is_withdrawn(bench: &mut Bench) {
    let life = bench.life();
    let run = life.start("one");
    bench.world.asks(&run, "q1");
    life.until_asked(&run, "q1");
    let id = threadline_contract::QuestionId::new("q1").unwrap();
    bench
        .world
        .does(&run, threadline_runtimes::Update::Unasked(id));
    life.until("it is withdrawn", async |engine| {
        engine
            .store()
            .open_questions(&run)
            .await
            .unwrap()
            .is_empty()
    });
    assert_eq!(
        life.questions(&run),
        ["q1 withdrawn by the agent no longer asks"]
    );
    assert_eq!(bench.world.answers(&run), []);
}

fn a_question_that_nobody_answers_expires(bench: &mut Bench) {
    bench.rules.question_wait = Some(Duration::from_secs(1));
    let life = bench.life();
    let run = life.start("one");
    bench.world.asks(&run, "q1");
    life.until("the run hears it", async |_| {
        !bench.world.answers(&run).is_empty()
    });
    // What its agent is told is the option that says no.
    let no = ("q1".to_owned(), Some("Reject".to_owned()));
    assert_eq!(bench.world.answers(&run)[0], no);
    assert_eq!(
        life.questions(&run),
        ["q1 expired by nobody answered for 1 second"]
    );
    bench.world.completes(&run);
    life.until_closed(&run);
    assert_eq!(
        life.log(&run),
        [
            "started running",
            "task.question_asked #1 q1 open",
            "task.question_closed q1 expired by nobody answered for 1 second",
            "task.ended completed",
            "completed completed",
        ]
    );
}

fn a_question_expires_although_the_server_was_killed_meanwhile(bench: &mut Bench) {
    bench.rules.question_wait = Some(Duration::from_secs(1));
    let life = bench.life();
    let run = life.start("one");
    bench.world.asks(&run, "q1");
    life.until_asked(&run, "q1");
    life.kill();
    std::thread::sleep(Duration::from_secs(1));
    let life = bench.life();
    life.until("the run hears it", async |_| {
        !bench.world.answers(&run).is_empty()
    });
    assert_eq!(
        life.questions(&run),
        ["q1 expired by nobody answered for 1 second"]
    );
}

fn what_the_policy_answers_is_never_open(bench: &mut Bench) {
    bench.rules.policy = PermissionPolicy::from(PermissionLevel::FullAccess);
    let life = bench.life();
    let run = life.start("one");
    bench.world.asks(&run, "q1");
    life.until("the run hears it", async |_| {
        !bench.world.answers(&run).is_empty()
    });
    bench.world.completes(&run);
    life.until_closed(&run);
    let log = life.log(&run);
    let questions = life.questions(&run);
    assert_eq!(questions.len(), 1);
    assert!(
        questions[0].starts_with("q1 answered yes by policy:"),
        "{questions:?}"
    );
    assert_eq!(
        log,
        [
            "started running".to_owned(),
            format!("task.question_asked #1 {}", questions[0]),
            format!("task.question_closed {}", questions[0]),
            "task.ended completed".to_owned(),
            "completed completed".to_owned(),
        ]
    );
    assert!(
        bench
            .world
            .calls(&run)
            .contains(&Call::Answer("q1".into(), Some("Allow".into())))
    );
}
