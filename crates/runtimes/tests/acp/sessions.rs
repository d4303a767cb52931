//! Sessions over several turns: one conversation, one folder, one agent.

use pretty_assertions::assert_eq;
use threadline_contract::Code;
use threadline_runtimes::{
    Availability, EndStatus, Readiness, RuntimeInfo as _, Sessions as _, Turns as _,
};

use crate::world::*;

#[tokio::test]
async fn three_turns_on_one_session_have_three_disjoint_scopes() {
    let world = World::new();
    let acp = world.acp();
    let mut boots = Vec::new();
    for turn in 1..=3 {
        let plan = plan(
            &format!("r{turn}"),
            &format!("!recall\n!put f{turn}.md {turn}"),
        );
        let (seen, end) = finish(&acp, &plan).await;
        assert_eq!(texts(&seen), format!("{} before", turn - 1));
        let (delivered, _) = files(&acp, &plan, &end).await;
        assert_eq!(
            delivered,
            [(format!("f{turn}.md"), format!("{turn}\n"))].into()
        );
        boots.push(world.host().boot);
    }
    boots.dedup();
    assert_eq!(boots.len(), 1, "the same agent all the time");
}

#[tokio::test]
async fn a_session_goes_on_in_a_new_process() {
    for args in [&[][..], &["--no-resume"][..]] {
        let world = World::like(args);
        let acp = world.acp();
        finish(&acp, &plan("r1", "!say one")).await;
        let before = world.host().boot;
        world
            .bare_hosts()
            .stop(plan("r1", "").session.as_str())
            .await
            .unwrap();
        let (seen, end) = finish(&acp, &plan("r2", "!recall")).await;
        // What a loaded session tells again is not this turn's.
        assert_eq!(texts(&seen), "1 before", "{args:?}");
        assert_eq!(end, completed("1 before", &[]));
        assert_ne!(world.host().boot, before);
    }
}

#[tokio::test]
async fn what_cannot_be_continued_is_never_begun_anew_in_silence() {
    let world = World::like(&["--no-resume", "--no-load"]);
    let acp = world.acp();
    finish(&acp, &plan("r1", "!say one")).await;
    // As long as the agent is there, it goes on.
    let (seen, _) = finish(&acp, &plan("r2", "!recall")).await;
    assert_eq!(texts(&seen), "1 before");
    let session = plan("r1", "").session;
    world.bare_hosts().stop(session.as_str()).await.unwrap();
    let (_, end) = finish(&acp, &plan("r3", "!recall")).await;
    assert_eq!(
        (end.status, end.code),
        (EndStatus::Failed, Some(Code::ContinuationUnavailable))
    );
    // A new session is one when somebody asks for it.
    let mut fresh = plan("r4", "!recall");
    fresh.continues = false;
    let (seen, _) = finish(&acp, &fresh).await;
    assert_eq!(texts(&seen), "0 before");

    // The agent has forgotten it.
    let world = World::new();
    let acp = world.acp();
    finish(&acp, &plan("r1", "!say one")).await;
    world.bare_hosts().stop(session.as_str()).await.unwrap();
    std::fs::remove_dir_all(world.path().join("home/.scripted-agent")).unwrap();
    let (_, end) = finish(&acp, &plan("r2", "!recall")).await;
    let message = "The agent cannot go on with the session: Resource not found";
    assert_eq!(
        (end.code, end.message.as_deref()),
        (Some(Code::ContinuationUnavailable), Some(message))
    );
}

#[tokio::test]
async fn no_two_agents_work_in_one_folder() {
    let world = World::new();
    let acp = world.acp();
    let own = world.own_folder();
    let of = |thread: &str, run: &str, prompt: &str| {
        let mut plan = plan_of(thread, run, prompt);
        plan.working_directory = Some(own.clone());
        plan
    };
    let busy = of("one", "r1", "!say working\n!hang");
    let mut follow = begin(&acp, &busy).await;
    assert_eq!(said(&mut follow).await, "working");
    let (_, end) = finish(&acp, &of("two", "r2", "!say hi")).await;
    assert_eq!(
        (end.status, end.code),
        (EndStatus::Failed, Some(Code::Conflict))
    );
    acp.cancel(&busy.run_ref()).await.unwrap();
    let (_, end) = rest(follow).await;
    assert_eq!(end.unwrap().status, EndStatus::Cancelled);
    // One that has nothing to do makes room, and its session goes on later.
    let (seen, _) = finish(&acp, &of("two", "r3", "!recall")).await;
    assert_eq!(texts(&seen), "0 before");
    let (seen, _) = finish(&acp, &of("one", "r4", "!recall")).await;
    assert_eq!(texts(&seen), "1 before");
    assert_eq!(world.host().session, busy.session.as_str());
}

#[tokio::test]
async fn agents_that_nobody_needs_end_by_themselves() {
    let mut world = World::new();
    world.config.agent.idle = std::time::Duration::from_millis(200);
    let acp = world.acp();
    let plan = plan("r1", "!say one");
    finish(&acp, &plan).await;
    let agent = world.hosts().remove(0).agent;
    until("the host ends", async || {
        world.standing(&plan).await == "ended"
    })
    .await;
    assert!(!agent.is_alive());
}

#[tokio::test]
async fn a_closed_session_keeps_no_process_but_one_that_works() {
    let world = World::new();
    let acp = world.acp();
    let first = plan("r1", "!say one\n!hang");
    let mut follow = begin(&acp, &first).await;
    said(&mut follow).await;
    acp.close(&first.session).await.unwrap();
    assert_eq!(world.standing(&first).await, "alive", "it works");
    acp.cancel(&first.run_ref()).await.unwrap();
    let (_, end) = rest(follow).await;
    assert_eq!(end.unwrap().status, EndStatus::Cancelled);
    let agent = world.host().agent;
    acp.close(&first.session).await.unwrap();
    assert_eq!(world.standing(&first).await, "ended");
    assert!(!agent.is_alive());
    acp.close(&first.session).await.unwrap();
    let (seen, _) = finish(&acp, &plan("r2", "!recall")).await;
    assert_eq!(texts(&seen), "1 before", "it can be opened again");
}

#[tokio::test]
async fn the_version_is_known_once_the_agent_ran() {
    let world = World::new();
    let program = world.config.agent.command.first().unwrap().clone();
    let acp = world.acp();
    let ready = |about: &str| Availability::new(Readiness::Ready, about, Some(program.clone()));
    assert_eq!(acp.probe().await, ready("installed"));
    finish(&acp, &plan("r1", "!say hi")).await;
    assert_eq!(world.acp().probe().await, ready("version 1.2.3"));
}
