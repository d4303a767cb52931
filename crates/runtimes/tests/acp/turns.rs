//! Turns that go as they should.

use pretty_assertions::assert_eq;
use threadline_contract::{OmitReason, Step, StepState};
use threadline_runtimes::{End, EndStatus, Sessions as _, TurnPlan, Turns as _, Update};

use crate::world::*;

fn step(id: &str, title: &str, tool: &str, state: StepState, detail: Option<&str>) -> Update {
    Update::Step(Step {
        step_id: id.into(),
        title: title.into(),
        tool: Some(tool.into()),
        state,
        detail: detail.map(str::to_owned),
        duration_ms: (state != StepState::Running).then_some(0),
    })
}

#[tokio::test]
async fn a_turn_speaks_writes_and_delivers() {
    let world = World::new();
    let acp = world.acp();
    let plan = plan("r1", "!say Hello there\n!put notes/a.md one\n!say Done");
    let (seen, end) = finish(&acp, &plan).await;
    let want = vec![
        Update::Text("Hello ".into()),
        Update::Text("there".into()),
        step(
            "put-notes/a.md",
            "Write notes/a.md",
            "edit",
            StepState::Running,
            None,
        ),
        step(
            "put-notes/a.md",
            "Write notes/a.md",
            "edit",
            StepState::Done,
            None,
        ),
        Update::Text("\n\nDone".into()),
    ];
    assert_eq!(seen, want);
    assert_eq!(end, completed("Hello there\n\nDone", &["notes/a.md"]));
    let (delivered, manifest) = files(&acp, &plan, &end).await;
    assert_eq!(delivered, [("notes/a.md".into(), "one\n".into())].into());
    assert_eq!(manifest.omitted, vec![]);
    // The agent stays for the next turn, and nobody is attached to it.
    let hosts = world.bare_hosts();
    let hello = hosts.inspect(plan.session.as_str()).await.unwrap();
    assert_eq!((hello.open_turns, hello.waiting), (0, 0));
    acp.forget(&plan.session, std::slice::from_ref(&plan.run))
        .await
        .unwrap();
    assert_eq!(world.standing(&plan).await, "absent");
}

#[tokio::test]
async fn plans_noise_and_what_we_never_offered() {
    let world = World::like(&["--like", "codex"]);
    let acp = world.acp();
    let plan = plan(
        "r1",
        "!noise\n!plan\n!request fs/read_text_file\n!request terminal/create\n!request _x/y",
    );
    let (seen, end) = finish(&acp, &plan).await;
    let planned = |detail: &str, done: u8| {
        let state = match done {
            2 => StepState::Done,
            _ => StepState::Running,
        };
        Update::Step(Step {
            step_id: "plan".into(),
            title: format!("Plan: {done} of 2 done"),
            tool: Some("plan".into()),
            state,
            detail: Some(detail.into()),
            duration_ms: None,
        })
    };
    let want = vec![
        planned("[ ] Look\n[ ] Write", 0),
        planned("[x] Look\n[>] Write", 1),
        planned("[x] Look\n[x] Write", 2),
        Update::Text("fs/read_text_file -32601".into()),
        Update::Text("terminal/create -32601".into()),
        Update::Text("_x/y -32601".into()),
    ];
    assert_eq!(seen, want);
    assert_eq!(end.status, EndStatus::Completed);
}

#[tokio::test]
async fn the_agent_sees_the_environment_that_is_allowed_and_no_more() {
    let mut world = World::new();
    let env = &mut world.config.agent.env;
    env.insert("MINE".into(), "given".into());
    // Cargo sets it for every test, and nobody allowed it.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let (seen, _) = finish(
        &world.acp(),
        &plan("r1", "!env MINE\n!env CARGO_MANIFEST_DIR"),
    )
    .await;
    assert_eq!(texts(&seen), "given(unset)");
}

#[tokio::test]
async fn in_a_folder_of_the_users_only_what_tool_calls_name_comes_home() {
    let world = World::like(&["--like", "hermes"]);
    let acp = world.acp();
    let own = world.own_folder();
    std::fs::write(own.join("old.md"), "old").unwrap();
    let mut plan = plan(
        "r1",
        "!put named.md a\n!shell silent.md b\n!shell ../out.md c",
    );
    plan.working_directory = Some(own.clone());
    let (_, end) = finish(&acp, &plan).await;
    assert_eq!(end.wrote, ["named.md"]);
    let (delivered, manifest) = files(&acp, &plan, &end).await;
    assert_eq!(delivered, [("named.md".into(), "a\n".into())].into());
    let omitted: Vec<(&str, OmitReason)> = manifest
        .omitted
        .iter()
        .map(|o| (o.path.as_str(), o.reason))
        .collect();
    assert_eq!(omitted, [("silent.md", OmitReason::OutsideScope)]);
    assert_eq!(world.host().folder, own);
    assert!(world.path().join("out.md").exists());
}

#[tokio::test]
async fn what_lies_in_the_scope_or_outside_is_told_apart() {
    let world = World::new();
    let acp = world.acp();
    let mut plan = plan("r1", "");
    let scope = acp.prepare(&plan).await.unwrap().artifact_directory;
    let far = world.path().join("far.md");
    plan.prompt = format!("!put {}/in.md a\n!put {} b", scope.display(), far.display());
    let (_, end) = finish(&acp, &plan).await;
    assert_eq!(end.wrote, [far.to_str().unwrap()]);
    let (delivered, manifest) = files(&acp, &plan, &end).await;
    assert_eq!(delivered, [("in.md".into(), "a\n".into())].into());
    let omitted: Vec<(&str, OmitReason)> = manifest
        .omitted
        .iter()
        .map(|o| (o.path.as_str(), o.reason))
        .collect();
    assert_eq!(omitted, [(far.to_str().unwrap(), OmitReason::OutsideScope)]);
}

#[tokio::test]
async fn costs_are_those_of_the_turn() {
    let world = World::new();
    let acp = world.acp();
    let (_, end) = finish(&acp, &plan("r1", "!cost 0.25")).await;
    assert_eq!(end.usage.and_then(|u| u.cost_usd), Some(0.25));
    let (seen, end) = finish(&acp, &plan("r2", "!cost 0.5\n!cost 0.5\n!cost 0.75")).await;
    assert_eq!(end.usage.and_then(|u| u.cost_usd), Some(0.5));
    // Told as it grows, so that a run that is lost has used it all the same.
    let told: Vec<Option<f64>> = seen
        .iter()
        .filter_map(|update| match update {
            Update::Usage(usage) => Some(usage.cost_usd),
            _ => None,
        })
        .collect();
    assert_eq!(told, [Some(0.25), Some(0.5)]);
}

/// Some agents begin their sum anew with each process, and some go on with it.
#[tokio::test]
async fn what_a_turn_cost_is_right_after_the_agent_was_started_anew() {
    let spent = |end: &End| end.usage.and_then(|u| u.cost_usd);
    let cases = [
        // It begins anew.
        (&[][..], "!cost 0.1", Some(0.1)),
        // It goes on, and says from where.
        (&["--cost-before", "300"][..], "!cost 0.4", Some(0.1)),
        (&["--cost-before", "0"][..], "!cost 0.9", Some(0.9)),
        // It goes on without a word.
        (&[][..], "!cost 0.4", Some(0.1)),
        // Nothing is known: the same sum, or no price.
        (&[][..], "!cost 0.3", None),
        (&[][..], "!cost 0", None),
        (&[][..], "!say x", None),
    ];
    for (args, order, want) in cases {
        let world = World::like(args);
        let acp = world.acp();
        let first = plan("r1", "!cost 0.3");
        let (_, end) = finish(&acp, &first).await;
        assert_eq!(spent(&end), Some(0.3));
        let hosts = world.bare_hosts();
        hosts.stop(first.session.as_str()).await.unwrap();
        let (seen, end) = finish(&acp, &plan("r2", order)).await;
        assert_eq!(spent(&end), want, "{args:?} {order}");
        let told = seen.iter().find_map(|update| match update {
            Update::Usage(usage) => Some(usage.cost_usd),
            _ => None,
        });
        assert_eq!(told.flatten(), want, "{args:?} {order}");
    }
}

/// An agent that counts nothing for a text has not seen the end of its model's answer.
#[tokio::test]
async fn an_answer_for_which_nothing_was_counted_is_told_as_one_that_may_be_cut() {
    let cut = "The agent said that it was done, but counted no tokens for its answer: its model may have broken off in the middle. Read the answer before you rely on it, and send the message again if a part is missing.";
    let zero = r#"{"stopReason": "end_turn", "usage": {"inputTokens": 0, "outputTokens": 0}}"#;
    let quota = r#"{"stopReason": "end_turn", "_meta": {"quota": {"token_count": {"input_tokens": 0, "output_tokens": 0}}}}"#;
    let silent = r#"{"stopReason": "end_turn"}"#;
    let some = r#"{"stopReason": "end_turn", "usage": {"inputTokens": 5, "outputTokens": 1}}"#;
    let cases = [
        (format!("!say half\n!done {zero}"), Some(cut)),
        (format!("!say half\n!done {quota}"), Some(cut)),
        // Without a text there is nothing to be counted, and without a count nothing is said by it.
        (format!("!done {zero}"), None),
        (format!("!say all\n!done {silent}"), None),
        (format!("!say all\n!done {some}"), None),
    ];
    let world = World::new();
    let acp = world.acp();
    for (at, (prompt, want)) in cases.into_iter().enumerate() {
        let (_, end) = finish(&acp, &plan(&format!("r{at}"), &prompt)).await;
        let told = (end.status, end.code, end.message.as_deref());
        assert_eq!(told, (EndStatus::Completed, None, want), "{prompt}");
    }
}

#[tokio::test]
async fn instructions_are_given_once_in_front_of_the_prompt_and_again_when_they_change() {
    let world = World::new();
    let acp = world.acp();
    let turn = |run: &str, instructions: Option<&str>| TurnPlan {
        instructions: instructions.map(str::to_owned),
        ..plan(run, "!say Hello")
    };
    // How often the agent was given instructions at all, and each of the two.
    let given = || {
        let frames = world.journaled();
        ["Instructionsforthis", "Bebrief.", "Beverbose."].map(|text| frames.matches(text).count())
    };
    for (run, instructions, want) in [
        ("r1", Some("Be brief."), [1, 1, 0]),
        ("r2", Some("Be brief."), [1, 1, 0]),
        ("r3", None, [1, 1, 0]),
        ("r4", Some("Be verbose."), [2, 1, 1]),
    ] {
        let (seen, end) = finish(&acp, &turn(run, instructions)).await;
        assert_eq!(seen, vec![Update::Text("Hello".into())], "{run}");
        assert_eq!(end, completed("Hello", &[]), "{run}");
        assert_eq!(given(), want, "{run}");
    }
}
