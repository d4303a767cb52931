//! Turns that do not go as they should, each told as what it was.

use std::time::Duration;

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use threadline_contract::{Code, operator::HostState};
use threadline_runtimes::{
    End, EndStatus, Logged, Registry, RuntimeInfo as _, Signal as Sign, Turns as _, Update,
    acp::{Acp, AcpConfig, AgentHosts},
};

use crate::world::*;

fn told(end: &End) -> (EndStatus, Option<Code>, &str) {
    (
        end.status,
        end.code,
        end.message.as_deref().unwrap_or_default(),
    )
}

#[tokio::test]
async fn a_model_that_fails_is_not_a_turn_that_went_well() {
    let failed = [
        ("codex", "The agent's model failed: unexpected status 400"),
        (
            "hermes",
            "The agent's model failed: API call failed: HTTP 400",
        ),
        ("gemini", "The agent failed: scripted failure 400"),
        (
            "opencode",
            "The agent failed: Internal error: scripted failure 400",
        ),
    ];
    for (agent, message) in failed {
        let world = World::like(&["--like", agent]);
        let (_, end) = finish(&world.acp(), &plan("r1", "!model-error")).await;
        let want = (EndStatus::Failed, Some(Code::ModelFailed), message);
        assert_eq!(told(&end), want, "{agent}");
    }
    let world = World::new();
    let (_, end) = finish(&world.acp(), &plan("r1", "!model-error")).await;
    let want = "The agent failed: Internal error";
    assert_eq!(
        told(&end),
        (EndStatus::Failed, Some(Code::ExecutionFailed), want)
    );
}

#[tokio::test]
async fn agents_that_report_no_usage_have_not_failed() {
    let world = World::like(&["--like", "gemini"]);
    let (_, end) = finish(&world.acp(), &plan("r1", "!say fine")).await;
    assert_eq!(end, completed("fine", &[]));
}

#[tokio::test]
async fn reasons_to_stop_are_told_apart() {
    let reasons = [
        ("cancelled", Code::TurnDeclined),
        ("max_tokens", Code::BudgetExceeded),
        ("max_turn_requests", Code::BudgetExceeded),
        ("refusal", Code::ExecutionFailed),
        ("bored", Code::ExecutionFailed),
    ];
    let world = World::new();
    let acp = world.acp();
    for (at, (reason, code)) in reasons.into_iter().enumerate() {
        let plan = plan(&format!("r{at}"), &format!("!stop {reason}"));
        let (_, end) = finish(&acp, &plan).await;
        assert_eq!(
            (end.status, end.code),
            (EndStatus::Failed, Some(code)),
            "{reason}"
        );
    }
}

#[tokio::test]
async fn an_agent_that_dies_in_a_turn_is_lost() {
    let world = World::new();
    let acp = world.acp();
    let first = plan("r1", "!put a.md words\n!say half\n!die 3");
    let (_, end) = finish(&acp, &first).await;
    let message = "The agent is gone: it ended with status 3. Its last words: out of luck";
    assert_eq!(
        told(&end),
        (EndStatus::Failed, Some(Code::AgentLost), message)
    );
    assert_eq!(end.text.as_deref(), Some("half"));
    // What it wrote until then is delivered.
    let (delivered, _) = files(&acp, &first, &end).await;
    assert_eq!(delivered, [("a.md".into(), "words\n".into())].into());
    // The next turn goes on with the session in a new process.
    let (seen, end) = finish(&acp, &plan("r2", "!recall")).await;
    assert_eq!(
        (texts(&seen).as_str(), end.status),
        ("1 before", EndStatus::Completed)
    );
}

#[tokio::test]
async fn a_killed_agent_is_lost() {
    let world = World::new();
    let acp = world.acp();
    let plan = plan("r1", "!say working\n!hang");
    let mut follow = begin(&acp, &plan).await;
    assert_eq!(said(&mut follow).await, "working");
    kill(world.host().agent.pid, Signal::KILL);
    let (_, end) = rest(follow).await;
    let message = "The agent is gone: it was ended by signal 9.";
    assert_eq!(
        told(&end.unwrap()),
        (EndStatus::Failed, Some(Code::AgentLost), message)
    );
}

#[tokio::test]
async fn a_killed_host_takes_its_agent_along_and_the_next_turn_gets_another() {
    let world = World::like(&["--stay"]);
    let acp = world.acp();
    let first = plan("r1", "!write a.md words");
    let mut follow = begin(&acp, &first).await;
    let (_, ask) = question(&mut follow).await;
    let host = world.host();
    kill(host.host.pid, Signal::KILL);
    let (_, end) = rest(follow).await;
    let message = "The process that kept the agent was killed, and the agent is gone with it.";
    assert_eq!(
        told(&end.unwrap()),
        (EndStatus::Failed, Some(Code::AgentLost), message)
    );
    assert!(!host.agent.is_alive(), "nothing is left");
    let late = acp
        .answer(&first.run_ref(), &ask.id, Some("Yes"))
        .await
        .unwrap_err();
    assert_eq!(late.code, Code::QuestionAlreadyClosed);
    let (seen, _) = finish(&acp, &plan("r2", "!recall")).await;
    assert_eq!(texts(&seen), "1 before");
    assert_ne!(world.host().boot, host.boot);
}

/// Nobody needs the session: what is left is ended all the same, and at once.
#[tokio::test]
async fn what_an_idle_host_left_is_ended_as_soon_as_it_is_killed() {
    for is_started_anew in [false, true] {
        let world = World::like(&["--stay"]);
        let acp = world.acp();
        let plan = plan("r1", "!child");
        let (_, end) = finish(&acp, &plan).await;
        let child: u32 = end.text.as_deref().unwrap().parse().unwrap();
        let (acp, config) = match is_started_anew {
            false => (acp, world.config.clone()),
            // As after a start of the server: the hosts are there already.
            true => {
                acp.stop().await;
                let config = AcpConfig {
                    hosts: AgentHosts::new(world.bare_hosts()),
                    ..world.config.clone()
                };
                config.hosts.watch_all().await.unwrap();
                (Acp::new(config.clone()), config)
            }
        };
        let host = world.host();
        kill(host.host.pid, Signal::KILL);
        until("its child is ended", async || !is_there(child)).await;
        assert!(!host.agent.is_alive());
        until("it is told", async || {
            let hosts = acp.hosts().await.unwrap();
            hosts.iter().any(|host| host.cleanup.is_some())
        })
        .await;
        let mut hosts = acp.hosts().await.unwrap();
        let told = hosts.remove(0);
        let ended = told.cleanup.map(|done| done.ended);
        assert_eq!(
            (told.state, told.pid, ended, hosts),
            (HostState::Lost, host.host.pid, Some(1), vec![])
        );
        // The turn had ended before, and the session goes on.
        let registry = acp.ask_registry(&plan.run_ref()).await.unwrap();
        assert_eq!(registry, Registry::Ended(end));
        let (seen, _) = finish(&Acp::new(config), &crate::world::plan("r2", "!recall")).await;
        assert_eq!(texts(&seen), "1 before");
    }
}

#[tokio::test]
async fn a_host_that_was_killed_while_no_bridge_was_there_is_lost_too() {
    let world = World::new();
    let acp = world.acp();
    let plan = plan("r1", "!say working\n!say on\n!hang");
    let mut follow = begin(&acp, &plan).await;
    assert_eq!(said(&mut follow).await, "working");
    acp.stop().await;
    drop((follow, acp));
    let host = world.host();
    until("the host has written it down", async || {
        world.journaled().contains("\"text\":\"on\"")
    })
    .await;
    kill(host.host.pid, Signal::KILL);
    until("the host is gone", async || !host.host.is_alive()).await;
    let acp = world.acp();
    let (after, end) = rest(acp.follow(&plan.run_ref(), Logged::up_to(1)).await.unwrap()).await;
    assert_eq!(texts(&updates(&after)), "on", "what it wrote down is told");
    assert_eq!(end.unwrap().code, Some(Code::AgentLost));
}

#[tokio::test]
async fn agents_that_cannot_begin_say_why() {
    let cases: [(&[&str], &str); 2] = [
        (
            &["--login"],
            "The agent wants somebody to log in: Authentication required",
        ),
        (
            &["--version", "2"],
            "The agent speaks version 2 of the Agent Client Protocol; version 1 is needed.",
        ),
    ];
    for (args, message) in cases {
        let world = World::like(args);
        let plan = plan("r1", "!say hi");
        let acp = world.acp();
        let (_, end) = finish(&acp, &plan).await;
        let want = (EndStatus::Failed, Some(Code::ProviderUnavailable), message);
        assert_eq!(told(&end), want);
        until("it is gone", async || {
            world.standing(&plan).await == "ended"
        })
        .await;
    }
    let mut world = World::new();
    world.config.agent.command = vec!["/nowhere/agent".into()];
    let (_, end) = finish(&world.acp(), &plan("r1", "!say hi")).await;
    let message = "There is no program /nowhere/agent that can be run.";
    assert_eq!(
        told(&end),
        (EndStatus::Failed, Some(Code::ProviderUnavailable), message)
    );
    assert!(!world.acp().probe().await.available);

    let mut world = World::like(&["--slow-start", "600000"]);
    world.config.agent.startup = Duration::from_millis(300);
    let (_, end) = finish(&world.acp(), &plan("r1", "!say hi")).await;
    assert!(world.hosts().iter().all(|host| !host.host.is_alive()));
    let message = "scripted did not have a session ready after 0 seconds.";
    assert_eq!(
        told(&end),
        (EndStatus::Failed, Some(Code::ProviderUnavailable), message)
    );

    let mut world = World::new();
    world.config.agent.command = ["/bin/sh", "-c", "echo no key >&2; exit 7"]
        .map(str::to_owned)
        .to_vec();
    let (_, end) = finish(&world.acp(), &plan("r1", "!say hi")).await;
    let message = "The agent did not start: it ended with status 7. Its last words: no key";
    assert_eq!(
        told(&end),
        (EndStatus::Failed, Some(Code::ProviderUnavailable), message)
    );
}

#[tokio::test]
async fn a_turn_has_its_time_and_questions_cost_none() {
    let mut world = World::new();
    world.config.agent.turn = Some(Duration::from_millis(700));
    let acp = world.acp();
    let first = plan("r1", "!say working\n!hang");
    let (_, end) = finish(&acp, &first).await;
    let message = "The turn used up its time and was stopped.";
    assert_eq!(
        told(&end),
        (EndStatus::Failed, Some(Code::BudgetExceeded), message)
    );
    let second = plan("r2", "!write a.md words");
    let mut follow = begin(&acp, &second).await;
    let (_, ask) = question(&mut follow).await;
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    acp.answer(&second.run_ref(), &ask.id, Some("Yes"))
        .await
        .unwrap();
    let (_, end) = rest(follow).await;
    assert_eq!(end.unwrap().status, EndStatus::Completed);
}

#[tokio::test]
async fn keys_are_not_told_when_an_agent_quotes_them() {
    let mut world = World::new();
    let key = "sk-very-secret-key";
    let env = &mut world.config.agent.env;
    env.insert("MINE_API_KEY".into(), key.into());
    world.config.agent.command = ["/bin/sh", "-c", "echo bad $MINE_API_KEY >&2; exit 1"]
        .map(str::to_owned)
        .to_vec();
    let (_, end) = finish(&world.acp(), &plan("r1", "!say hi")).await;
    let message = "The agent did not start: it ended with status 1. Its last words: bad (…)";
    assert_eq!(end.message.as_deref(), Some(message));
}

#[tokio::test]
async fn an_agent_that_closes_its_output_is_lost_and_ended() {
    let world = World::new();
    let plan = plan("r1", "!say half\n!mute");
    let (_, end) = finish(&world.acp(), &plan).await;
    let message =
        "The agent is gone: it closed its output, and nothing could come from it any more.";
    assert_eq!(
        told(&end),
        (EndStatus::Failed, Some(Code::AgentLost), message)
    );
    assert!(world.hosts().iter().all(|host| !host.agent.is_alive()));
}

/// The adapter lives, and what it drives does not.
#[tokio::test]
async fn an_agent_that_lost_its_session_is_started_again_and_goes_on() {
    for args in [&[][..], &["--no-resume"][..]] {
        let world = World::like(args);
        let acp = world.acp();
        let (_, end) = finish(&acp, &plan("r1", "!say fine\n!lose-session")).await;
        assert_eq!(end, completed("fine", &[]));
        let before = world.host();
        let (seen, end) = finish(&acp, &plan("r2", "!recall")).await;
        let note = "The agent had lost this session. It is started again and goes on with it.";
        assert_eq!(
            seen,
            [Update::Note(note.into()), Update::Text("1 before".into())]
        );
        assert_eq!(end, completed("1 before", &[]));
        assert!(!before.host.is_alive());
        let (seen, _) = finish(&acp, &plan("r3", "!recall")).await;
        assert_eq!(texts(&seen), "2 before");
    }
}

/// A bridge that is stopped between the loss and the new start goes on there.
#[tokio::test]
async fn a_lost_session_is_taken_up_again_by_the_next_bridge_too() {
    let world = World::like(&["--slow-start", "300"]);
    let acp = world.acp();
    finish(&acp, &plan("r1", "!lose-session")).await;
    let second = plan("r2", "!recall");
    let mut follow = begin(&acp, &second).await;
    let note = signal(&mut follow).await;
    assert!(matches!(note, Some(Sign::Frame(_))), "{note:?}");
    acp.stop().await;
    drop((follow, acp));
    let acp = world.acp();
    let (frames, end) = rest(
        acp.follow(&second.run_ref(), Logged::up_to(1))
            .await
            .unwrap(),
    )
    .await;
    in_order(&frames, 2);
    assert_eq!(texts(&updates(&frames)), "1 before");
    assert_eq!(end.unwrap(), completed("1 before", &[]));
}

#[tokio::test]
async fn an_agent_that_lost_its_session_and_cannot_take_it_up_says_so() {
    let world = World::like(&["--no-resume", "--no-load"]);
    let acp = world.acp();
    finish(&acp, &plan("r1", "!lose-session")).await;
    let (_, end) = finish(&acp, &plan("r2", "!recall")).await;
    let message = "The agent has lost the session: Internal error (Session not found). It cannot take an earlier one up again. Start a new one.";
    assert_eq!(
        told(&end),
        (
            EndStatus::Failed,
            Some(Code::ContinuationUnavailable),
            message
        )
    );
}

/// What it says to no avail, the next process may not.
#[tokio::test]
async fn an_agent_that_fails_before_it_did_anything_is_not_used_again() {
    let world = World::new();
    let acp = world.acp();
    let error = r#"{"code": -32603, "message": "Internal error", "data": {"message": "ProcessTransport is not ready for writing"}}"#;
    let first = plan("r1", &format!("!fail {error}"));
    let (_, end) = finish(&acp, &first).await;
    let message = "The agent failed: Internal error (ProcessTransport is not ready for writing)";
    assert_eq!(
        told(&end),
        (EndStatus::Failed, Some(Code::ExecutionFailed), message)
    );
    until("its host has ended", async || {
        world.standing(&first).await == "ended"
    })
    .await;
    let (seen, _) = finish(&acp, &plan("r2", "!recall")).await;
    assert_eq!(texts(&seen), "1 before");
}

#[tokio::test]
async fn what_an_error_carries_is_told() {
    let cases = [
        (r#""data": "no quota""#, "failed (no quota)"),
        (r#""data": {"details": "no quota"}"#, "failed (no quota)"),
        (r#""data": {"message": "no quota"}"#, "failed (no quota)"),
        (
            r#""data": {"error": {"message": "no quota"}}"#,
            "failed (no quota)",
        ),
        (r#""data": {"error": "no quota"}"#, "failed (no quota)"),
        (
            r#""data": {"reason": "\u001b[31mno\u001b[0m quota"}"#,
            "failed (no quota)",
        ),
        (r#""data": {"message": "failed"}"#, "failed"),
        (r#""data": {"number": 7}"#, "failed"),
    ];
    let world = World::new();
    let acp = world.acp();
    for (at, (data, words)) in cases.into_iter().enumerate() {
        let order = format!(
            r#"!say x
!fail {{"code": -32603, "message": "failed", {data}}}"#
        );
        let (_, end) = finish(&acp, &plan(&format!("r{at}"), &order)).await;
        let message = format!("The agent failed: {words}");
        assert_eq!(end.message.as_deref(), Some(message.as_str()), "{data}");
    }
}

#[tokio::test]
async fn the_last_words_are_this_turns_and_for_people() {
    let cases = [
        ("!errors an old story", "!die-mute", ""),
        (
            "!say x",
            "!errors \\e[31mno model\\e[0m\n!errors 12:00 INFO bye\n!sleep 200\n!die-mute",
            " Its last words: no model",
        ),
    ];
    for (first, second, words) in cases {
        let world = World::new();
        let acp = world.acp();
        finish(&acp, &plan("r1", &format!("{first}\n!sleep 200"))).await;
        let (_, end) = finish(&acp, &plan("r2", second)).await;
        let message = format!("The agent is gone: it ended with status 4.{words}");
        assert_eq!(end.message, Some(message), "{second}");
    }
}
