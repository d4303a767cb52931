//! The model agent at work.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::{EmptyReason, Step, StepState, Usage, context};
use threadline_runtimes::{
    Availability, End, Files as _, Manifest, Readiness, RuntimeInfo as _, Update,
};

use crate::world::{World, completed, files, finish, plan, plan_of, updates};

fn step(id: &str, tool: &str, title: &str, state: StepState, detail: Option<&str>) -> Update {
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
async fn it_writes_what_it_is_told_and_delivers_it() {
    use StepState::{Done, Running};
    let world = World::with_model("no-usage").await;
    let builtin = world.builtin();
    let plan = plan(
        "run-1",
        "[[write reports/final.md = hello]] [[also write a.txt = hi]] [[list]] [[say I saved both.]]",
    );
    let (frames, end) = finish(&builtin, &plan).await;
    let write = |id: &str, title: &str, state| step(id, "write_file", title, state, None);
    assert_eq!(
        updates(&frames),
        vec![
            write("call-1-1", "Writing reports/final.md", Running),
            write("call-1-1", "Wrote reports/final.md", Done),
            write("call-1-2", "Writing a.txt", Running),
            write("call-1-2", "Wrote a.txt", Done),
            step("call-2-1", "list_files", "Listing the files", Running, None),
            step("call-2-1", "list_files", "Listed the files", Done, None),
            Update::Text("I saved both.".into()),
        ]
    );
    assert_eq!(
        end,
        completed("I saved both.", &["reports/final.md", "a.txt"])
    );
    let files = files(&builtin, &plan, &end).await;
    let files: Vec<(&str, &str)> = files.iter().map(|(k, v)| (&**k, &**v)).collect();
    assert_eq!(files, [("a.txt", "hi"), ("reports/final.md", "hello")]);

    let requests = world.seen.requests();
    assert_eq!(requests.len(), 3);
    let key = Some("Bearer sk-very-secret".to_owned());
    assert_eq!(world.seen.authorizations(), vec![key; 3]);
    let last = &requests[2];
    assert_eq!(last["stream"], json!(true));
    assert_eq!(last["stream_options"], json!({"include_usage": true}));
    let tools: Vec<&Value> = last["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| &t["function"]["name"])
        .collect();
    assert_eq!(
        tools,
        [
            "write_file",
            "read_file",
            "list_files",
            "edit_file",
            "ask_user"
        ]
    );
    assert_eq!(
        last["messages"].as_array().unwrap()[2..],
        [
            json!({"role": "assistant", "content": null, "tool_calls": [
                {"id": "c0x0", "type": "function", "function": {"name": "write_file", "arguments": "{\"content\":\"hello\",\"path\":\"reports/final.md\"}"}},
                {"id": "c0x1", "type": "function", "function": {"name": "write_file", "arguments": "{\"content\":\"hi\",\"path\":\"a.txt\"}"}},
            ]}),
            json!({"role": "tool", "tool_call_id": "c0x0", "content": "Wrote reports/final.md (5 bytes)."}),
            json!({"role": "tool", "tool_call_id": "c0x1", "content": "Wrote a.txt (2 bytes)."}),
            json!({"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1x0", "type": "function", "function": {"name": "list_files", "arguments": "{}"}},
            ]}),
            json!({"role": "tool", "tool_call_id": "c1x0", "content": "a.txt (2 bytes)\nreports/final.md (5 bytes)"}),
        ]
    );
    assert!(!world.records().contains("sk-very-secret"));
}

#[tokio::test]
async fn a_claim_is_not_a_file() {
    let world = World::with_model("no-usage").await;
    let builtin = world.builtin();
    let plan = plan("run-1", "[[say I saved report.pdf in the work folder.]]");
    let (_, end) = finish(&builtin, &plan).await;
    assert_eq!(
        end,
        completed("I saved report.pdf in the work folder.", &[])
    );
    let manifest = builtin.collect(&plan, &end).await.unwrap();
    assert_eq!(
        manifest,
        Manifest {
            artifacts: vec![].into(),
            omitted: vec![],
            empty_reason: Some(EmptyReason::ScopeEmpty),
            receipt: manifest.receipt,
            usage: None,
        }
    );
    assert!(manifest.receipt.is_some(), "that nothing came is noted too");
}

#[tokio::test]
async fn an_edit_that_does_not_fit_fails_and_the_model_hears_why() {
    let world = World::with_model("no-usage").await;
    let builtin = world.builtin();
    let plan = plan(
        "run-1",
        "[[write a.md = one two one]] [[edit a.md|one|1]] [[also edit a.md|three|3]] [[edit a.md|two|2]] [[say {last}]]",
    );
    let (frames, end) = finish(&builtin, &plan).await;
    let failures: Vec<Update> = updates(&frames)
        .into_iter()
        .filter(|u| matches!(u, Update::Step(s) if s.state == StepState::Failed))
        .collect();
    let failed =
        |id: &str, why: &str| step(id, "edit_file", "Edited a.md", StepState::Failed, Some(why));
    assert_eq!(
        failures,
        [
            failed(
                "call-2-1",
                "`old` occurs 2 times in a.md. Give more of the text around it."
            ),
            failed(
                "call-2-2",
                "`old` does not occur in a.md. Read the file and copy it exactly."
            ),
        ]
    );
    assert_eq!(end, completed("Edited a.md (now 9 bytes).", &["a.md"]));
    assert_eq!(files(&builtin, &plan, &end).await["a.md"], "one 2 one");
}

#[tokio::test]
async fn hostile_paths_reach_nothing() {
    let world = World::with_model("no-usage").await;
    let builtin = world.builtin();
    let secret = world.path().join("secret");
    std::fs::write(&secret, "outside").unwrap();
    let plan = plan(
        "run-1",
        &format!(
            "[[write ../../../../secret = gone]] [[also write {} = gone]] [[also read {}]] [[also write ../session.json = x]] [[say {{last}}]]",
            secret.display(),
            secret.display()
        ),
    );
    let (frames, end) = finish(&builtin, &plan).await;
    let failed = frames
        .iter()
        .filter(|f| matches!(&f.update, Update::Step(s) if s.state == StepState::Failed));
    assert_eq!(failed.count(), 4);
    assert_eq!(
        end,
        completed(
            "`../session.json` is outside the work folder. Use a plain relative path such as reports/final.md.",
            &[]
        )
    );
    assert_eq!(std::fs::read_to_string(secret).unwrap(), "outside");
    let manifest = builtin.collect(&plan, &end).await.unwrap();
    assert_eq!(manifest.empty_reason, Some(EmptyReason::ScopeEmpty));
}

#[tokio::test]
async fn a_large_file_arrives_whole() {
    let world = World::with_model("no-usage").await;
    let builtin = world.builtin();
    let plan = plan("run-1", "[[write big.txt 5000000]] [[say {last}]]");
    let (_, end) = finish(&builtin, &plan).await;
    assert_eq!(
        end,
        completed("Wrote big.txt (5000000 bytes).", &["big.txt"])
    );
    let content = &files(&builtin, &plan, &end).await["big.txt"];
    assert_eq!(
        (content.len(), content.lines().next()),
        (5_000_000, Some("big.txt, line 1"))
    );
    // The model is not sent its own five megabytes again.
    let second = world.seen.requests()[1].to_string().len();
    assert!(second < 50_000, "{second}");
}

#[tokio::test]
async fn usage_is_summed_where_it_is_reported_and_absent_where_not() {
    let prompt = "[[list]] [[say done]]";
    let run = async |model: &str| {
        let world = World::with_model(model).await;
        let (frames, end) = finish(&world.builtin(), &plan("run-1", prompt)).await;
        let shown: Vec<Usage> = frames
            .iter()
            .filter_map(|f| match f.update {
                Update::Usage(usage) => Some(usage),
                _ => None,
            })
            .collect();
        let sent = world.seen.requests();
        let sent = sent
            .iter()
            .map(|r| r["messages"].to_string().len() as u64 / 4)
            .collect::<Vec<_>>();
        (shown, end.usage, sent)
    };
    assert_eq!(
        (run("no-usage").await.0, run("no-usage").await.1),
        (vec![], None)
    );
    let (shown, total, sent) = run("scripted").await;
    let used = |input, output| Usage {
        input_tokens: Some(input),
        output_tokens: Some(output),
        cost_usd: None,
    };
    // `{}` has two bytes and `done` four.
    let both = used(sent[0] + sent[1], 1);
    assert_eq!((shown, total), (vec![used(sent[0], 0), both], Some(both)));
}

#[tokio::test]
async fn text_comes_in_pieces_and_messages_are_paragraphs() {
    let world = World::with_model("no-usage").await;
    let plan = plan(
        "run-1",
        "[[slow 60]] [[say one two three]] [[also list]] [[say four]]",
    );
    let (frames, end) = finish(&world.builtin(), &plan).await;
    let texts: Vec<String> = frames
        .into_iter()
        .filter_map(|f| match f.update {
            Update::Text(text) => Some(text),
            _ => None,
        })
        .collect();
    assert_eq!(texts.concat(), "one two three\n\nfour");
    assert!(texts.len() >= 3, "{texts:?}");
    assert_eq!(end, completed("one two three\n\nfour", &[]));
}

#[tokio::test]
async fn a_turn_knows_the_turns_before_it_and_no_other_sessions() {
    let world = World::with_model("no-usage").await;
    let builtin = world.builtin();
    let first = context::join(["key: t"], "[[write a.md = hi]] [[say Wrote it.]]");
    finish(&builtin, &plan("run-1", &first)).await;
    finish(
        &builtin,
        &plan_of("other", "run-2", "[[write a.md = other]] [[say Other.]]"),
    )
    .await;
    let sent = world.seen.requests().len();
    let last = plan("run-3", "[[read a.md]] [[say It holds {last}.]]");
    let (_, end) = finish(&builtin, &last).await;
    assert_eq!(end.text.as_deref(), Some("It holds hi."));
    let request = &world.seen.requests()[sent];
    assert_eq!(
        request["messages"].as_array().unwrap()[1..],
        [
            json!({"role": "user", "content": "[[write a.md = hi]] [[say Wrote it.]]"}),
            json!({"role": "assistant", "content": null, "tool_calls": [
                {"id": "c0x0", "type": "function", "function": {"name": "write_file", "arguments": "{\"content\":\"hi\",\"path\":\"a.md\"}"}},
            ]}),
            json!({"role": "tool", "tool_call_id": "c0x0", "content": "Wrote a.md (2 bytes)."}),
            json!({"role": "assistant", "content": "Wrote it."}),
            json!({"role": "user", "content": last.prompt}),
        ]
    );
    // A turn that begins a conversation hears nothing of the one before.
    let mut fresh = plan("run-4", "[[say hello]]");
    fresh.continues = false;
    finish(&builtin, &fresh).await;
    let request = world.seen.requests().pop().unwrap();
    assert_eq!(request["messages"].as_array().unwrap().len(), 2);
    // Nor does the next one, which goes on with what was begun anew.
    let next = plan("run-5", "[[say again]]");
    finish(&builtin, &next).await;
    let request = world.seen.requests().pop().unwrap();
    assert_eq!(
        request["messages"].as_array().unwrap()[1..],
        [
            json!({"role": "user", "content": fresh.prompt}),
            json!({"role": "assistant", "content": "hello"}),
            json!({"role": "user", "content": next.prompt}),
        ]
    );
}

#[tokio::test]
async fn a_long_past_is_told_in_short_and_within_bounds() {
    let world = World::with_model("no-usage").await;
    let builtin = world.builtin();
    for turn in 0..6 {
        let calls = "[[also list]]".repeat(11);
        let prompt = format!("turn {turn} [[list]] {calls} [[say said {turn}]]");
        finish(&builtin, &plan(&format!("run-{turn}"), &prompt)).await;
    }
    finish(&builtin, &plan("run-last", "[[say done]]")).await;
    let request = world.seen.requests().pop().unwrap();
    let messages = request["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages
        .iter()
        .map(|m| m["role"].as_str().unwrap())
        .collect();
    assert!(messages.len() <= 42, "{}", messages.len());
    // Every turn begins with its user; the oldest ones lost their tool calls, not their words.
    assert_eq!(roles[..3], ["system", "user", "assistant"]);
    assert!(
        messages[1]["content"]
            .as_str()
            .unwrap()
            .starts_with("turn 0")
    );
    assert_eq!(
        messages[2],
        json!({"role": "assistant", "content": "said 0"})
    );
    let users = roles.iter().filter(|r| **r == "user").count();
    assert_eq!(users, 7);
}

#[tokio::test]
async fn it_says_which_model_it_is() {
    let world = World::with_model("scripted").await;
    let url = world.config.model.as_ref().unwrap().url.clone();
    let host = url.trim_start_matches("http://").trim_end_matches("/v1/");
    assert_eq!(
        world.builtin().probe().await,
        Availability::new(Readiness::Ready, "model scripted", Some(host.to_owned()))
    );
}

#[tokio::test]
async fn an_endpoint_without_a_key_gets_no_header() {
    let mut world = World::with_model("no-usage").await;
    world.config.model.as_mut().unwrap().key = None;
    let (_, end) = finish(&world.builtin(), &plan("run-1", "[[say hi]]")).await;
    assert_eq!(end, completed("hi", &[]));
    assert_eq!(world.seen.authorizations(), [None]);
}

#[tokio::test]
async fn calls_that_make_no_sense_are_steps_that_failed() {
    let world = World::with_model("no-usage").await;
    let plan = plan(
        "run-1",
        "[[call format_disk {}]] [[call write_file {\"path\": ]] [[say {last}]]",
    );
    let (frames, end) = finish(&world.builtin(), &plan).await;
    let End { text, .. } = end;
    assert!(text.unwrap().starts_with("The arguments are not right: "));
    assert_eq!(
        updates(&frames)[0],
        step(
            "call-1-1",
            "format_disk",
            "Called format_disk",
            StepState::Failed,
            Some(
                "There is no tool `format_disk`. There are write_file, read_file, list_files, edit_file and ask_user."
            )
        )
    );
}
