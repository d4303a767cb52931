//! Instructions and tools that come with a turn.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::{Code, ToolCall, ToolDefinition, ToolResult};
use threadline_runtimes::{Follow, Logged, RuntimeInfo as _, TurnPlan, Turns as _, Update};

use crate::world::{World, begin, completed, finish, plan, rest, until};

const TWO: &str =
    r#"[[call note_add {"text": "milk"}]] [[also call note_list {}]] [[say It said: {last}]]"#;

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.into(),
        description: format!("Does {name}."),
        input_schema: json!({"type": "object", "properties": {"text": {"type": "string"}}}),
    }
}

fn turn(prompt: &str) -> TurnPlan {
    TurnPlan {
        tools: vec![tool("note_add"), tool("note_list")],
        ..plan("run-1", prompt)
    }
}

fn called(update: &Update) -> Option<ToolCall> {
    match update {
        Update::ToolCall(call) => Some(call.clone()),
        _ => None,
    }
}

fn call(id: &str, name: &str, arguments: Value) -> ToolCall {
    ToolCall {
        id: id.into(),
        name: name.into(),
        arguments,
    }
}

/// The messages of the last request that the model was sent.
fn messages(world: &World) -> Vec<Value> {
    let last = world.seen.requests().pop().unwrap();
    last["messages"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tools_of_one_answer_get_their_results() {
    let world = World::with_model("no-usage").await;
    let builtin = world.builtin();
    let plan = turn(TWO);
    let run = plan.run_ref();
    let mut follow = begin(&builtin, &plan).await;
    let first = until(&mut follow, called).await;
    assert_eq!(first, call("call-1-1", "note_add", json!({"text": "milk"})));
    let added = ToolResult::done("added");
    for _ in 0..2 {
        let given = builtin.tool_result(&run, "call-1-1", &added).await;
        assert_eq!(given, Ok(()), "the same result can be given again");
    }
    let other = ToolResult::done("something else");
    let other = builtin.tool_result(&run, "call-1-1", &other).await;
    assert_eq!(other.unwrap_err().code, Code::Conflict);
    let second = until(&mut follow, called).await;
    assert_eq!(second, call("call-1-2", "note_list", json!({})));
    let failed = ToolResult::failed("No list today.");
    builtin
        .tool_result(&run, "call-1-2", &failed)
        .await
        .unwrap();
    let (_, end) = rest(follow).await;
    assert_eq!(end, Some(completed("It said: No list today.", &[])));
    let results: Vec<Value> = messages(&world)
        .into_iter()
        .filter(|m| m["role"] == "tool")
        .map(|m| m["content"].clone())
        .collect();
    assert_eq!(results, [json!("added"), json!("No list today.")]);
    // After its end, the same result is still no news, and any other comes too late.
    assert_eq!(builtin.tool_result(&run, "call-1-1", &added).await, Ok(()));
    let late = builtin.tool_result(&run, "call-1-9", &added).await;
    assert_eq!(late.unwrap_err().code, Code::Conflict);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_is_offered_the_tools_beside_its_own() {
    let world = World::with_model("no-usage").await;
    let mut plan = turn("[[say Hello.]]");
    // It stands in the place of the agent's own of that name.
    plan.tools.push(tool("read_file"));
    finish(&world.builtin(), &plan).await;
    let request = world.seen.requests().pop().unwrap();
    let offered: Vec<&Value> = request["tools"].as_array().unwrap().iter().collect();
    let names: Vec<&str> = offered
        .iter()
        .map(|t| t["function"]["name"].as_str().unwrap())
        .collect();
    let own = ["write_file", "list_files", "edit_file", "ask_user"];
    let brought = ["note_add", "note_list", "read_file"];
    assert_eq!(names, [&own[..], &brought[..]].concat());
    assert_eq!(
        *offered[4],
        json!({"type": "function", "function": {
            "name": "note_add",
            "description": "Does note_add.",
            "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
        }})
    );
}

/// Everything that a run tells of calls from after a frame on, and its end.
async fn calls_of(follow: Follow) -> (Vec<ToolCall>, Option<threadline_runtimes::End>) {
    let (frames, end) = rest(follow).await;
    (
        frames.iter().filter_map(|f| called(&f.update)).collect(),
        end,
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_waits_over_a_kill_and_is_reported_once() {
    let world = World::with_model("no-usage").await;
    let plan = turn(r#"[[call note_add {"text": "milk"}]] [[say {last}]]"#);
    let run = plan.run_ref();
    let before = world.builtin();
    let mut follow = begin(&before, &plan).await;
    let reported = until(&mut follow, called).await;
    drop(before);
    // The result comes before anybody follows the run again.
    let after = world.builtin();
    let added = ToolResult::done("added");
    after.tool_result(&run, &reported.id, &added).await.unwrap();
    let from_start = after.follow(&run, Logged::up_to(0)).await.unwrap();
    assert_eq!(
        calls_of(from_start).await,
        (vec![reported.clone()], Some(completed("added", &[])))
    );
    // Whoever has the frame of the call already is not told of it again.
    let later = world.builtin();
    let after_call = later.follow(&run, Logged::up_to(2)).await.unwrap();
    assert_eq!(
        calls_of(after_call).await,
        (vec![], Some(completed("added", &[])))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_was_given_survives_a_kill() {
    let world = World::with_model("no-usage").await;
    let plan = turn(r#"[[call note_add {}]] [[sleep 300]] [[say {last}]]"#);
    let run = plan.run_ref();
    let before = world.builtin();
    let mut follow = begin(&before, &plan).await;
    let reported = until(&mut follow, called).await;
    let added = ToolResult::done("added");
    before
        .tool_result(&run, &reported.id, &added)
        .await
        .unwrap();
    drop(before);
    let after = world.builtin();
    assert_eq!(
        after.tool_result(&run, &reported.id, &added).await,
        Ok(()),
        "it has it already"
    );
    let follow = after.follow(&run, Logged::up_to(0)).await.unwrap();
    assert_eq!(
        calls_of(follow).await,
        (vec![reported], Some(completed("added", &[])))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_that_are_no_object_are_told_to_the_model_alone() {
    let world = World::with_model("no-usage").await;
    let plan = turn("[[call note_add 7]] [[say {last}]]");
    let (frames, end) = finish(&world.builtin(), &plan).await;
    assert_eq!(frames.iter().filter_map(|f| called(&f.update)).count(), 0);
    let want = "The arguments are not right: they must be a JSON object.";
    assert_eq!(end, completed(want, &[]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_waits_for_a_tool_can_be_stopped() {
    let world = World::with_model("no-usage").await;
    let builtin = world.builtin();
    let plan = turn(r#"[[call note_add {}]] [[say {last}]]"#);
    let mut follow = begin(&builtin, &plan).await;
    until(&mut follow, called).await;
    builtin.cancel(&plan.run_ref()).await.unwrap();
    let (_, end) = rest(follow).await;
    let status = end.map(|end| end.status);
    assert_eq!(status, Some(threadline_runtimes::EndStatus::Cancelled));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instructions_are_system_text_and_no_part_of_the_conversation() {
    let world = World::with_model("no-usage").await;
    let plan = TurnPlan {
        instructions: Some("Answer as a lighthouse keeper.".into()),
        ..plan("run-1", "[[say Ahoy.]]")
    };
    let builtin = world.builtin();
    let (frames, end) = finish(&builtin, &plan).await;
    let system = messages(&world).remove(0);
    assert_eq!(system["role"], "system");
    let text = system["content"].as_str().unwrap();
    assert!(
        text.ends_with("\nAnswer as a lighthouse keeper.\n"),
        "{text}"
    );
    assert!(!format!("{frames:?}{end:?}").contains("lighthouse"));
    // The next turn has none, and is not told of those before.
    let next = crate::world::plan("run-2", "[[say Ahoy again.]]");
    finish(&builtin, &next).await;
    assert!(!json!(messages(&world)).to_string().contains("lighthouse"));
}

#[test]
fn only_a_model_can_call_tools() {
    let demonstration = World::new().builtin();
    assert_eq!(
        (
            demonstration.takes_instructions(),
            demonstration.takes_tools()
        ),
        (true, false)
    );
}
