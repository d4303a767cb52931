//! What a gateway asks people while a run goes on: durable questions here, answered there.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::bench::{Bench, Outcome, completed};

/// Every command needs leave, and the bridge is an administrator, who is asked for it.
#[tokio::test(flavor = "multi_thread")]
async fn the_agents_questions_and_commands_wait_for_people() {
    let config = json!({"tools": {"exec": {"security": "allowlist", "ask": "always"}}});
    let admin = [("THREADLINE_OPENCLAW_ADMIN", "true")];
    let Some(mut bench) = Bench::start_with(config, &admin).await else {
        return;
    };
    bench.run("draft:warm", "[[say warm]]").await;
    tokio::join!(
        chosen(&bench),
        declined(&bench),
        allowed(&bench),
        refused(&bench)
    );
    left_and_found(&mut bench).await;
    deleted(&bench).await;
}

/// An administrator's bridge removes the session too: nobody finds the old words by the old name.
async fn deleted(bench: &Bench) {
    let thread = "draft:deleted";
    bench.run(thread, "[[say the old words]]").await;
    let gone = bench
        .world
        .rpc(
            "session.delete",
            json!({"sessionId": thread, "threadId": thread}),
        )
        .await;
    assert!(gone["result"].is_object(), "{gone:#}");
    assert_eq!(
        bench.run(thread, "[[say new words]]").await,
        completed("new words", &[])
    );
    let requests = bench.model.seen.requests();
    let last = requests
        .iter()
        .rfind(|r| r.to_string().contains("new words"));
    let last = last.map(ToString::to_string).unwrap_or_default();
    assert!(!last.contains("the old words"), "{last}");
}

fn prompt(word: &str) -> String {
    let questions = json!({"questions": [{"id": "color", "header": "Color", "question": "Which color?",
        "options": [{"label": "Red", "description": "warm"}, {"label": "Blue"}]}]});
    format!("[[call ask_user {questions}]] [[say {word} {{last}}]]")
}

async fn answer(bench: &Bench, question: &Value, how: Value) {
    let mut params = how;
    params["questionId"] = question["questionId"].clone();
    let said = bench.world.rpc("xworkmate.questions.answer", params).await;
    assert!(said["result"].is_object(), "{said:#}");
}

async fn chosen(bench: &Bench) {
    let thread = "draft:chosen";
    bench.send(thread, &prompt("heard")).await;
    let question = bench.world.question(thread).await;
    assert_eq!(
        (&question["kind"], &question["text"], &question["options"]),
        (
            &json!("question"),
            &json!("Which color?\n- Red: warm"),
            &json!([{"optionId": "Red", "label": "Red"}, {"optionId": "Blue", "label": "Blue"}]),
        )
    );
    answer(bench, &question, json!({"optionId": "Blue"})).await;
    let ended = bench.ended(thread).await;
    assert_eq!(ended.status, "completed");
    let text = ended.text.unwrap_or_default();
    assert!(text.starts_with("heard Color: Blue"), "{text}");
}

/// Whoever chooses nothing has not allowed it.
async fn declined(bench: &Bench) {
    let thread = "draft:declined";
    bench
        .send(thread, "[[shell touch declined.txt]] [[say declined]]")
        .await;
    let question = bench.world.question(thread).await;
    let params = json!({"requestId": question["questionId"], "decision": "cancel"});
    let said = bench
        .world
        .rpc("xworkmate.permissions.respond", params)
        .await;
    assert_eq!(said["result"]["accepted"], json!(true), "{said:#}");
    assert_eq!(bench.ended(thread).await, completed("declined", &[]));
    assert!(!bench.gateway.workspace().join("declined.txt").exists());
}

async fn allowed(bench: &Bench) {
    let thread = "draft:allowed";
    let made = bench.gateway.workspace().join("allowed.txt");
    bench
        .send(thread, "[[shell touch allowed.txt]] [[say allowed]]")
        .await;
    let question = bench.world.question(thread).await;
    let text = question["text"].as_str().unwrap_or_default();
    assert!(
        text.starts_with("Allow this command? touch allowed.txt"),
        "{text}"
    );
    assert!(!made.exists());
    bench.world.permit(&question, "allow_once").await;
    assert_eq!(
        bench.ended(thread).await,
        completed("allowed", &["allowed.txt"])
    );
    assert!(made.exists());
}

async fn refused(bench: &Bench) {
    let thread = "draft:refused";
    bench
        .send(thread, "[[shell touch refused.txt]] [[say refused]]")
        .await;
    let question = bench.world.question(thread).await;
    bench.world.permit(&question, "reject_once").await;
    assert_eq!(bench.ended(thread).await, completed("refused", &[]));
    assert!(!bench.gateway.workspace().join("refused.txt").exists());
}

/// The bridge dies while the question waits: it is the same question afterwards. Then a run that is
/// stopped takes its question along.
async fn left_and_found(bench: &mut Bench) {
    let thread = "draft:left";
    bench.send(thread, &prompt("found")).await;
    let before = bench.world.question(thread).await;
    bench.world.kill();
    bench.world.start().await;
    let after = bench.world.question(thread).await;
    assert_eq!(after["questionId"], before["questionId"]);
    answer(bench, &after, json!({"text": "Green"})).await;
    let ended = bench.ended(thread).await;
    let text = ended.text.unwrap_or_default();
    assert!(text.starts_with("found Color: Green"), "{text}");

    bench.send(thread, &prompt("never")).await;
    bench.world.question(thread).await;
    bench.stop(thread).await;
    assert_eq!(bench.ended(thread).await, Outcome::of("cancelled"));
    let asked = bench
        .world
        .rpc("xworkmate.questions.list", json!({"threadId": thread}))
        .await;
    assert_eq!(asked["result"]["questions"], json!([]), "{asked:#}");
}
