//! The agents themselves, without the bridge: what the other tests rely on.

use std::{fs, process::Command};

use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_e2e::{agents::Agent, direct::Direct, scripted_model::Model};

/// Says something, writes a file with leave, and meets a model that fails.
async fn works_alone(agent: Agent) {
    let model = Model::start().await;
    let world = tempfile::tempdir().unwrap();
    let (home, bin) = (world.path().join("home"), world.path().join("bin"));
    let work = world.path().join("work");
    fs::create_dir_all(&work).unwrap();
    let Some(path) = agent.settle(&home, &bin, &model.url) else {
        return;
    };
    let mut command = Command::new(path);
    command.args(agent.command().iter().skip(1));
    command.envs(agent.variables(&model.url));
    // Codex alone lets a second model judge what leaves its sandbox; so it asks the person.
    command.env("INITIAL_AGENT_MODE", "workspace-write");
    let mut direct = Direct::start(command, &work).await;

    let said = direct.turn("[[say hello there]]", "allow_once").await;
    assert_eq!(said.answer["result"]["stopReason"], json!("end_turn"));
    assert!(said.text.contains("hello there"), "{said:#?}");

    let wrote = direct
        .turn(
            "[[write reports/a.md = it's here]] [[say written]]",
            "allow_once",
        )
        .await;
    let file = fs::read_to_string(work.join("reports/a.md"));
    assert_eq!(
        (
            file.ok().as_deref(),
            wrote.asked.len(),
            wrote.text.contains("written")
        ),
        (Some("it's here"), 1, true),
        "{wrote:#?}"
    );

    // Codex and Hermes tell a failure of the model as text; the others as an error.
    let failed = direct
        .turn("[[fail 400]] [[say never]]", "allow_once")
        .await;
    assert_eq!(
        failed.answer.get("error").is_some(),
        ![Agent::Codex, Agent::Hermes].contains(&agent),
        "{failed:#?}"
    );
    assert!(!failed.text.contains("never"), "{failed:#?}");
}

#[tokio::test]
async fn the_scripted_agent_works_alone() {
    let work = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_scripted-agent");
    let mut direct = Direct::start(Command::new(program), work.path()).await;

    let said = direct.turn("[[rate 500]] [[count 5]]", "").await;
    assert_eq!(
        (said.text.as_str(), said.updates.len()),
        ("1 2 3 4 5 ", 5),
        "{said:#?}"
    );
    let prompt = "[[write reports/a.md = here]] [[shell cat reports/a.md]] [[say it says {last}]]";
    let wrote = direct.turn(prompt, "allow_once").await;
    assert_eq!(
        (wrote.text.as_str(), wrote.asked.len(), wrote.updates.len()),
        ("it says here", 1, 7),
        "{wrote:#?}"
    );
    let refused = direct
        .turn("[[write b.md = x]] [[say {last}]]", "reject_once")
        .await;
    assert_eq!(refused.text, "The person said no.");
    let failed = direct.turn("[[fail 400]] [[say x]]", "").await;
    assert_eq!(failed.answer["error"]["message"], json!("model: 400"));
}

#[tokio::test]
async fn gemini_works_alone() {
    works_alone(Agent::Gemini).await;
}

#[tokio::test]
async fn codex_works_alone() {
    works_alone(Agent::Codex).await;
}

#[tokio::test]
async fn opencode_works_alone() {
    works_alone(Agent::OpenCode).await;
}

#[tokio::test]
async fn hermes_works_alone() {
    works_alone(Agent::Hermes).await;
}
