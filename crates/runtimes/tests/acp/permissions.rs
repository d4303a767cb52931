//! Permissions: each agent asks in its own way, a person chooses by kind.

use std::{path::Path, time::Duration};

use pretty_assertions::assert_eq;
use threadline_contract::{Code, QuestionKind, StepState, ToolKind};
use threadline_runtimes::{Ask, EndStatus, Logged, Turns as _, Update};

use crate::world::*;

const AGENTS: [&str; 4] = ["codex", "gemini", "hermes", "opencode"];

/// The words of the option of a kind.
fn of_kind(ask: &Ask, kind: &str) -> String {
    let mut options = ask.options.iter();
    let option = options.find(|o| o.kind.as_deref() == Some(kind)).unwrap();
    option.label.clone()
}

#[tokio::test]
async fn every_agent_writes_when_it_is_allowed_to() {
    for agent in AGENTS {
        let world = World::like(&["--like", agent]);
        let acp = world.acp();
        let plan = plan("r1", "!write report.md words");
        let mut follow = begin(&acp, &plan).await;
        let (before, ask) = question(&mut follow).await;
        assert_eq!(ask.kind, QuestionKind::Permission);
        let kinds: Vec<&str> = ask
            .options
            .iter()
            .filter_map(|o| o.kind.as_deref())
            .collect();
        let want: &[&str] = match agent {
            "hermes" => &["allow_once", "reject_once"],
            _ => &["allow_once", "allow_always", "reject_once"],
        };
        assert_eq!(kinds, want, "{agent}");
        assert!(
            ask.text.starts_with("Allow this? Writing to report.md\n\n"),
            "{}",
            ask.text
        );
        assert!(
            ask.text.ends_with("report.md (+1 -0)\n+words"),
            "{}",
            ask.text
        );
        // Some announce the call first, others only ask.
        let steps = before
            .iter()
            .filter(|f| matches!(f.update, Update::Step(_)));
        assert!(steps.count() > 0, "{agent}");
        assert!(
            !acp.prepare(&plan)
                .await
                .unwrap()
                .work_folder
                .join("report.md")
                .exists()
        );
        let yes = of_kind(&ask, "allow_once");
        acp.answer(&plan.run_ref(), &ask.id, Some(&yes))
            .await
            .unwrap();
        let (after, end) = rest(follow).await;
        in_order(&after, before.len() as i64 + 1);
        let end = end.unwrap();
        assert_eq!(
            end,
            completed("Done: the file has been written.", &["report.md"]),
            "{agent}"
        );
        let state = after.iter().rev().find_map(|frame| match &frame.update {
            Update::Step(step) => Some((step.step_id.clone(), step.state)),
            _ => None,
        });
        assert_eq!(
            state,
            Some(("call-report.md".into(), StepState::Done)),
            "{agent}"
        );
        let (delivered, _) = files(&acp, &plan, &end).await;
        assert_eq!(
            delivered,
            [("report.md".into(), "words\n".into())].into(),
            "{agent}"
        );
        // The same answer again is no second one.
        acp.answer(&plan.run_ref(), &ask.id, Some(&yes))
            .await
            .unwrap();
        let other = acp
            .answer(&plan.run_ref(), &ask.id, None)
            .await
            .unwrap_err();
        assert_eq!(other.code, Code::QuestionAlreadyClosed);
    }
}

#[tokio::test]
async fn a_refused_write_is_told_by_what_happened_not_by_what_the_agent_says() {
    for agent in AGENTS {
        let world = World::like(&["--like", agent]);
        let acp = world.acp();
        let plan = plan("r1", "!write report.md words");
        let mut follow = begin(&acp, &plan).await;
        let (_, ask) = question(&mut follow).await;
        let no = of_kind(&ask, "reject_once");
        acp.answer(&plan.run_ref(), &ask.id, Some(&no))
            .await
            .unwrap();
        let (after, end) = rest(follow).await;
        let end = end.unwrap();
        // Nothing was written, whatever is claimed.
        assert_eq!(end.wrote, Vec::<String>::new(), "{agent}");
        let (delivered, manifest) = files(&acp, &plan, &end).await;
        assert_eq!((delivered.len(), manifest.omitted.len()), (0, 0), "{agent}");
        // What it would have written is no reason.
        let step = after.iter().rev().find_map(|frame| match &frame.update {
            Update::Step(step) => Some((step.state, step.detail.as_deref())),
            _ => None,
        });
        let want = (StepState::Failed, Some("It was not allowed."));
        assert_eq!(step, Some(want), "{agent}");
        match agent {
            "codex" => {
                assert_eq!(
                    (end.status, end.code),
                    (EndStatus::Failed, Some(Code::TurnDeclined))
                );
                let want = "The agent stopped, because a permission was declined.";
                assert_eq!(end.message.as_deref(), Some(want));
            }
            _ => assert_eq!(
                (end.status, end.code),
                (EndStatus::Completed, None),
                "{agent}"
            ),
        }
    }
}

#[tokio::test]
async fn declining_chooses_nothing_and_texts_may_be_ids() {
    let world = World::like(&["--like", "gemini"]);
    let acp = world.acp();
    let plan = plan("r1", "!text-ids\n!write a.md words\n!say never");
    let mut follow = begin(&acp, &plan).await;
    let (_, ask) = question(&mut follow).await;
    let fault = acp
        .answer(&plan.run_ref(), &ask.id, Some("Maybe"))
        .await
        .unwrap_err();
    assert_eq!(fault.code, Code::QuestionOptionNotOffered);
    acp.answer(&plan.run_ref(), &ask.id, None).await.unwrap();
    let (after, end) = rest(follow).await;
    assert_eq!(texts(&updates(&after)), "heard cancelled");
    let end = end.unwrap();
    assert_eq!(end.wrote, Vec::<String>::new());
    assert_eq!(end.code, Some(Code::TurnDeclined));
}

#[tokio::test]
async fn a_question_outlives_the_bridge_and_its_answer_reaches_the_same_agent() {
    for ids in ["!sleep 0", "!text-ids"] {
        let world = World::new();
        let acp = world.acp();
        let plan = plan("r1", &format!("{ids}\n!write a.md words\n!say after"));
        let mut follow = begin(&acp, &plan).await;
        let (before, ask) = question(&mut follow).await;
        let host = world.host();
        acp.stop().await;
        drop((follow, acp));
        // Another bridge, some time later: the question is where it was.
        let acp = world.acp();
        let last = before.len() as i64;
        let follow = acp
            .follow(&plan.run_ref(), Logged::up_to(last))
            .await
            .unwrap();
        acp.answer(&plan.run_ref(), &ask.id, Some("Yes"))
            .await
            .unwrap();
        let (after, end) = rest(follow).await;
        in_order(&after, last + 1);
        assert_eq!(world.host(), host);
        let end = end.unwrap();
        assert_eq!(
            end,
            completed("Done: the file has been written.after", &["a.md"])
        );
    }
}

#[tokio::test]
async fn a_question_asked_while_no_bridge_was_there_is_asked_by_the_next() {
    let world = World::new();
    let acp = world.acp();
    let plan = plan("r1", "!say one\n!sleep 400\n!write a.md words");
    let mut follow = begin(&acp, &plan).await;
    assert_eq!(said(&mut follow).await, "one");
    acp.stop().await;
    drop((follow, acp));
    let hosts = world.bare_hosts();
    until("it waits for an answer", async || {
        let hello = hosts.inspect(plan.session.as_str()).await;
        hello.is_ok_and(|h| h.waiting == 1)
    })
    .await;
    let acp = world.acp();
    let mut follow = acp.follow(&plan.run_ref(), Logged::up_to(1)).await.unwrap();
    let (before, ask) = question(&mut follow).await;
    in_order(&before, 2);
    acp.answer(&plan.run_ref(), &ask.id, Some("Yes"))
        .await
        .unwrap();
    let (_, end) = rest(follow).await;
    assert_eq!(end.unwrap().status, EndStatus::Completed);
}

/// What the agent was told in the end, by the file that it writes it to.
async fn outcome(folder: &Path, name: &str) -> String {
    let path = folder.join(name);
    until("the agent hears something", async || path.exists()).await;
    std::fs::read_to_string(path).unwrap()
}

const CANCELLED: &str = "{\"outcome\":\"cancelled\"}\n";

#[tokio::test]
async fn a_question_that_outlives_its_turn_is_over_and_keeps_no_host() {
    let mut world = World::new();
    world.config.agent.idle = Duration::from_millis(1_500);
    let acp = world.acp();
    // One is open at the end of the turn, another comes after it.
    let plan = plan("r1", "!ask open 0\n!ask late 600\n!sleep 200\n!say bye");
    let work = acp.prepare(&plan).await.unwrap().work_folder;
    let mut follow = begin(&acp, &plan).await;
    let (_, ask) = question(&mut follow).await;
    let (_, end) = rest(follow).await;
    assert_eq!(end.unwrap(), completed("bye", &[]));
    assert_eq!(outcome(&work, "open").await, CANCELLED);
    assert_eq!(outcome(&work, "late").await, CANCELLED);
    let late = acp.answer(&plan.run_ref(), &ask.id, Some("Yes")).await;
    assert_eq!(late.unwrap_err().code, Code::QuestionAlreadyClosed);
    until("the host ends", async || {
        world.standing(&plan).await == "ended"
    })
    .await;
}

#[tokio::test]
async fn a_question_is_over_with_its_turn_also_while_no_bridge_is_there() {
    let mut world = World::new();
    world.config.agent.idle = Duration::from_millis(300);
    let acp = world.acp();
    let plan = plan("r1", "!say one\n!ask open 100\n!sleep 400");
    let work = acp.prepare(&plan).await.unwrap().work_folder;
    let mut follow = begin(&acp, &plan).await;
    assert_eq!(said(&mut follow).await, "one");
    acp.stop().await;
    drop((follow, acp));
    assert_eq!(outcome(&work, "open").await, CANCELLED);
    until("the host ends", async || {
        world.standing(&plan).await == "ended"
    })
    .await;
    let (_, end) = rest(
        world
            .acp()
            .follow(&plan.run_ref(), Logged::up_to(1))
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(end.unwrap(), completed("one", &[]));
}

#[tokio::test]
async fn a_sub_agent_asks_like_any_other() {
    let world = World::new();
    let acp = world.acp();
    let call = r#"{"toolCallId":"x","title":"Dig","kind":"execute"}"#;
    let options = r#"[{"optionId":"y","name":"Yes","kind":"allow_once"}]"#;
    let params = format!(r#"{{"sessionId":"sub","toolCall":{call},"options":{options}}}"#);
    let asks = format!(
        r#"!raw {{"jsonrpc":"2.0","id":"s","method":"session/request_permission","params":{params}}}"#
    );
    let plan = plan("r1", &format!("{asks}\n!heard 1"));
    let mut follow = begin(&acp, &plan).await;
    let (before, ask) = question(&mut follow).await;
    assert_eq!(before.len(), 1, "its steps are not this run's");
    let want = "Allow this? Dig\n\nAsked in another session of the agent.";
    assert_eq!(
        (ask.text.as_str(), ask.tool),
        (want, Some(ToolKind::Execute))
    );
    acp.answer(&plan.run_ref(), &ask.id, Some("Yes"))
        .await
        .unwrap();
    let (after, end) = rest(follow).await;
    let want =
        r#"{"jsonrpc":"2.0","id":"s","result":{"outcome":{"optionId":"y","outcome":"selected"}}}"#;
    assert_eq!(texts(&updates(&after)), want);
    assert_eq!(end.unwrap().status, EndStatus::Completed);
}

#[tokio::test]
async fn what_is_declined_in_a_persons_name_is_told() {
    let world = World::like(&["--ask-early"]);
    let (seen, end) = finish(&world.acp(), &plan("r1", "!heard 1")).await;
    let note = "The agent was not allowed this, because no turn was open, so nobody could be asked: Look around";
    assert_eq!(seen.first(), Some(&Update::Note(note.into())));
    let want = r#"{"jsonrpc":"2.0","id":"early","result":{"outcome":{"outcome":"cancelled"}}}"#;
    assert_eq!(texts(&seen), want);
    assert_eq!(end.status, EndStatus::Completed);
}
