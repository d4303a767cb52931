//! Asking the person.

use std::time::Duration;

use pretty_assertions::assert_eq;
use threadline_contract::{Code, QuestionId, QuestionKind, QuestionOption};
use threadline_runtimes::{Ask, Logged, TurnPlan, Turns as _, Update};

use crate::world::{World, begin, completed, finish, plan, rest, until};

fn turn() -> TurnPlan {
    plan("run-1", "[[ask Which colour?|red|blue]] [[say {last}!]]")
}

fn asked(update: &Update) -> Option<Ask> {
    match update {
        Update::Asked(ask) => Some(ask.clone()),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_answer_reaches_the_model_whichever_way_it_is_given() {
    for (answer, heard) in [
        (Some("option-2"), "The person answered: blue!"),
        (Some("rather green"), "The person answered: rather green!"),
        (None, "The person declined to answer.!"),
    ] {
        let world = World::with_model("no-usage").await;
        let builtin = world.builtin();
        let plan = turn();
        let mut follow = begin(&builtin, &plan).await;
        let ask = until(&mut follow, asked).await;
        let option = |n: u32, label: &str| QuestionOption {
            option_id: format!("option-{n}"),
            label: label.into(),
            kind: None,
        };
        assert_eq!(
            ask,
            Ask {
                id: ask.id.clone(),
                kind: QuestionKind::Question,
                text: "Which colour?".into(),
                options: vec![option(1, "red"), option(2, "blue")],
                free_text: true,
                tool: None,
            }
        );
        builtin
            .answer(&plan.run_ref(), &ask.id, answer)
            .await
            .unwrap();
        let (_, end) = rest(follow).await;
        assert_eq!(end, Some(completed(heard, &[])));
        // Repeating the same answer is fine, changing it is not.
        let again = builtin.answer(&plan.run_ref(), &ask.id, answer).await;
        assert_eq!(again, Ok(()));
        let other = builtin.answer(&plan.run_ref(), &ask.id, Some("x")).await;
        assert_eq!(other.unwrap_err().code, Code::QuestionAlreadyClosed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_question_that_was_asked_can_be_answered() {
    let world = World::with_model("no-usage").await;
    let builtin = world.builtin();
    let plan = turn();
    let nobody = builtin
        .answer(&plan.run_ref(), &QuestionId::fresh(), Some("red"))
        .await;
    assert_eq!(nobody.unwrap_err().code, Code::RunLost);
    let mut follow = begin(&builtin, &plan).await;
    let ask = until(&mut follow, asked).await;
    let wrong = builtin
        .answer(&plan.run_ref(), &QuestionId::fresh(), Some("red"))
        .await;
    assert_eq!(wrong.unwrap_err().code, Code::QuestionNotFound);
    builtin.cancel(&plan.run_ref()).await.unwrap();
    rest(follow).await;
    let late = builtin.answer(&plan.run_ref(), &ask.id, Some("red")).await;
    assert_eq!(late.unwrap_err().code, Code::QuestionAlreadyClosed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_with_an_open_question_costs_no_budget() {
    let mut world = World::with_model("no-usage").await;
    world.config.limits.max_time = Duration::from_millis(1500);
    let builtin = world.builtin();
    let plan = turn();
    let mut follow = begin(&builtin, &plan).await;
    let ask = until(&mut follow, asked).await;
    tokio::time::sleep(Duration::from_millis(1600)).await;
    builtin
        .answer(&plan.run_ref(), &ask.id, Some("red"))
        .await
        .unwrap();
    let (_, end) = rest(follow).await;
    assert_eq!(end, Some(completed("The person answered: red!", &[])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_survives_a_restart_under_its_own_id() {
    let world = World::with_model("no-usage").await;
    let plan = turn();
    let before = world.builtin();
    let mut follow = begin(&before, &plan).await;
    let ask = until(&mut follow, asked).await;
    drop(before);
    let after = world.builtin();
    // The answer comes before anybody follows the run again.
    after
        .answer(&plan.run_ref(), &ask.id, Some("blue"))
        .await
        .unwrap();
    let (frames, end) = rest(
        after
            .follow(&plan.run_ref(), Logged::up_to(2))
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(frames.iter().filter_map(|f| asked(&f.update)).count(), 0);
    assert_eq!(end, Some(completed("The person answered: blue!", &[])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_was_given_is_not_asked_for_again() {
    let world = World::with_model("no-usage").await;
    let plan = plan("run-1", "[[ask Ready?]] [[sleep 300]] [[say {last}]]");
    let before = world.builtin();
    let mut follow = begin(&before, &plan).await;
    let ask = until(&mut follow, asked).await;
    before
        .answer(&plan.run_ref(), &ask.id, Some("yes"))
        .await
        .unwrap();
    drop(before);
    let after = world.builtin();
    let (frames, end) = rest(
        after
            .follow(&plan.run_ref(), Logged::up_to(0))
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(frames.iter().filter_map(|f| asked(&f.update)).count(), 1);
    assert_eq!(end, Some(completed("The person answered: yes", &[])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_question_is_not_put_to_anybody() {
    let world = World::with_model("no-usage").await;
    let plan = plan(
        "run-1",
        "[[call ask_user {\"question\": \" \"}]] [[say {last}]]",
    );
    let (_, end) = finish(&world.builtin(), &plan).await;
    assert_eq!(end, completed("The question is empty.", &[]));
}
