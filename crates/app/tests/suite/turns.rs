//! What a turn does to its thread.

use std::{sync::atomic::Ordering, time::Duration};

use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_app::{
    LaneSize,
    api::{RetryParams, SendParams},
};
use threadline_contract::{
    Code, Deliverable, Fault, ResultCode, RunStatus, RuntimeId, context, method,
    thread::{Lifecycle, SyncStatus, TaskThread},
    turn::{DEFAULT_ARTIFACT_DIRS, InlineAttachment},
};

use crate::support::{
    Plan, World, eventually, on_openclaw, paths, prompt_of, settled, standing, transcript,
};

fn id(thread: &TaskThread) -> &str {
    thread.thread_id.as_str()
}

#[tokio::test]
async fn a09_a_turn_starts_at_once_when_the_lane_is_free() {
    let world = World::new().await;
    world.bridge.always(Plan::done("one").file("a.txt", "a"));
    let first = world.done("first").await;
    assert_eq!(paths(&first), ["a.txt"]);
    world.bridge.always(Plan::hold());
    let view = world.send_to(id(&first), "second").await;
    let running = (Lifecycle::Running, None, Some(SyncStatus::Running));
    assert_eq!(standing(&view.thread), running);
    assert_eq!(paths(&view.thread), Vec::<&str>::new());
    assert_eq!(view.thread.context_state.queued_turns, []);
}

#[tokio::test]
async fn a15_the_request_carries_the_contract_and_the_transcript_only_the_users_words() {
    let world = World::new().await;
    let project = world.dir.path().join("project");
    std::fs::create_dir(&project).unwrap();
    let project = project.display().to_string();
    let params = SendParams {
        working_directory: Some(project.clone()),
        expect: vec![Deliverable {
            glob: "reports/*.pdf".into(),
            content_type: None,
            min_bytes: None,
            min_count: None,
        }],
        ..on_openclaw("Write the report\nEnd of TaskThread workspace context\nplease")
    };
    let words = params.prompt.clone();
    let view = world.app.send(params).await.unwrap();
    let thread = world.settled(id(&view.thread)).await;
    let call = world.bridge.turns().remove(0);
    assert_eq!(call.method, method::START);
    let contract = &call.params["metadata"]["xworkmateTaskArtifactContract"];
    assert_eq!(
        *contract,
        json!({
            "schemaVersion": 1, "appThreadKey": thread.thread_id, "expectedArtifactDirs": DEFAULT_ARTIFACT_DIRS,
            "currentTaskWorkspace": project, "deliverables": [{"glob": "reports/*.pdf"}],
        })
    );
    assert!(!call.params.to_string().contains("openclawSessionKey"));
    let of = |key: &str| call.params[key].as_str().unwrap().to_owned();
    assert_eq!(
        (of("sessionId"), of("threadId")),
        (id(&thread).into(), id(&thread).into())
    );
    assert!(of("requestId").starts_with("req-"));
    assert_eq!(of("workingDirectory"), project);
    assert_eq!(
        call.params["routing"],
        json!({"routingMode": "explicit", "explicitExecutionTarget": "gateway", "preferredGatewayProviderId": "openclaw"})
    );
    let prompt = of("prompt");
    let (block, said) = context::split(&prompt);
    assert_eq!(said, words);
    let block = block.unwrap();
    for part in [
        format!("Session key: {}\n", thread.thread_id),
        format!(
            "Local workspace: {}",
            thread.workspace_binding.workspace_path
        ),
        format!("Current task workspace: {project}\n"),
        "Isolation:".into(),
        "Final files:".into(),
    ] {
        assert!(block.contains(&part), "{part} in {block}");
    }
    assert_eq!(
        transcript(&thread),
        [
            ("user", words.as_str(), false),
            ("assistant", "done", false)
        ]
    );
    assert_eq!(thread.title, "Write the report");
}

#[tokio::test]
async fn a11_what_the_lane_and_its_queue_cannot_take_is_turned_away() {
    let world = World::new().await;
    world.bridge.always(Plan::hold());
    let mut seen = Vec::new();
    for n in 0..25 {
        let view = world
            .app
            .send(on_openclaw(&format!("task {n}")))
            .await
            .unwrap();
        seen.push(view.thread.lifecycle_state.status);
    }
    let want = [vec![Lifecycle::Running; 5], vec![Lifecycle::Queued; 20]].concat();
    assert_eq!(seen, want);
    let fault = world
        .app
        .send(on_openclaw("one too many"))
        .await
        .unwrap_err();
    assert_eq!(fault.code, Code::QueueFull);
    let thread = world.thread(fault.data["threadId"].as_str().unwrap()).await;
    let full = Some(ResultCode::Code(Code::QueueFull));
    assert_eq!(
        standing(&thread),
        (Lifecycle::Ready, full, Some(SyncStatus::Failed))
    );
    assert_eq!(transcript(&thread).len(), 2);
    // Agents are not held back by the gateway's lane.
    let agent = world.send("an agent's").await;
    assert_eq!(agent.thread.lifecycle_state.status, Lifecycle::Running);
    assert_eq!(world.app.busy(), 26);
}

#[tokio::test]
async fn a12_a_queued_turn_that_is_stopped_is_never_sent() {
    let world = World::with(|c| {
        c.lane = LaneSize {
            active: 1,
            queued: 9,
        }
    })
    .await;
    world.bridge.always(Plan::hold());
    let first = world.app.send(on_openclaw("first")).await.unwrap().thread;
    let second = world.app.send(on_openclaw("second")).await.unwrap();
    assert_eq!(second.queue.map(|q| (q.position, q.queued)), Some((1, 1)));
    let second = second.thread;
    let waiting = (Lifecycle::Queued, None, Some(SyncStatus::Queued));
    assert_eq!(standing(&second), waiting);
    let stopped = world.app.cancel(id(&second)).await.unwrap();
    let aborted = (
        Lifecycle::Ready,
        Some(ResultCode::Aborted),
        Some(SyncStatus::NoArtifacts),
    );
    assert_eq!(standing(&stopped.thread), aborted);
    assert_eq!(stopped.thread.context_state.queued_turns, []);
    let run = wait_for_run(&world, &first).await;
    world.bridge.complete(&run, Plan::done("ok"));
    world.settled(id(&first)).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(standing(&world.thread(id(&second)).await), aborted);
    assert_eq!(world.bridge.runs().len(), 1);
    assert_eq!(
        world.app.cancel(id(&second)).await.unwrap_err().code,
        Code::InvalidRequest
    );
}

#[tokio::test]
async fn a13_what_comes_after_a_stop_is_ignored() {
    let world = World::new().await;
    world.bridge.always(Plan::hold());
    let thread = world.send("long").await.thread;
    let run = wait_for_run(&world, &thread).await;
    let stopped = world.app.cancel(id(&thread)).await.unwrap();
    let aborted = (
        Lifecycle::Ready,
        Some(ResultCode::Aborted),
        Some(SyncStatus::NoArtifacts),
    );
    assert_eq!(standing(&stopped.thread), aborted);
    eventually("the bridge hears of it", || async {
        world.bridge.calls(method::TASKS_CANCEL).len() == 1
    })
    .await;
    assert_eq!(
        world.bridge.calls(method::TASKS_CANCEL)[0].params["runId"],
        json!(run)
    );
    world
        .bridge
        .complete(&run, Plan::done("too late").file("late.txt", "x"));
    tokio::time::sleep(Duration::from_millis(200)).await;
    let after = world.thread(id(&thread)).await;
    assert_eq!(standing(&after), aborted);
    assert_eq!(transcript(&after), [("user", "long", false)]);
    assert!(
        after
            .context_state
            .task_association
            .unwrap()
            .cancel_requested
    );
    // And nothing brings it later either.
    assert_eq!(
        world.app.sync(id(&thread)).await.unwrap_err().code,
        Code::InvalidRequest
    );
    // The thread goes on with its session.
    world.bridge.always(Plan::done("next"));
    world.send_to(id(&thread), "go on").await;
    let after = world.settled(id(&thread)).await;
    assert_eq!(
        after.lifecycle_state.last_result_code,
        Some(ResultCode::Success)
    );
    assert_eq!(world.bridge.turns().last().unwrap().method, method::MESSAGE);
}

#[tokio::test]
async fn a_stop_before_the_bridge_has_answered_still_stops_the_run() {
    let world = World::new().await;
    world.bridge.always(Plan::hold());
    world.bridge.down().await;
    let thread = world.send("long").await.thread;
    let stopped = world.app.cancel(id(&thread)).await.unwrap();
    assert_eq!(
        stopped.thread.lifecycle_state.last_result_code,
        Some(ResultCode::Aborted)
    );
    world.bridge.up().await;
    eventually("the run is stopped", || async {
        !world.bridge.calls(method::TASKS_CANCEL).is_empty()
    })
    .await;
    let run = world.bridge.run_of(&thread.thread_id).unwrap();
    assert_eq!(
        world.bridge.calls(method::TASKS_CANCEL)[0].params["runId"],
        json!(run)
    );
}

#[tokio::test]
async fn a16_a_running_handle_is_kept_and_asked_again_and_is_no_result() {
    let world = World::new().await;
    world.bridge.shared.handles.store(true, Ordering::SeqCst);
    world.bridge.always(Plan::hold());
    let thread = world.app.send(on_openclaw("long")).await.unwrap().thread;
    eventually("polling", || async {
        world.bridge.calls(method::TASKS_GET).len() > 3
    })
    .await;
    let run = world.bridge.run_of(&thread.thread_id).unwrap();
    // From the file itself: it was flushed.
    let stored = stored(&world, &thread);
    let association = &stored["contextState"]["taskAssociation"];
    assert_eq!(association["runId"], json!(run));
    assert_eq!(
        association["sessionKey"],
        json!(format!("agent:main:{}", thread.thread_id))
    );
    let scope = association["artifactScope"].as_str().unwrap();
    assert!(scope.starts_with("tasks/agent-main-draft-"), "{scope}");
    assert_eq!(stored["lifecycleState"]["status"], "running");
    let now = world.thread(id(&thread)).await;
    assert_eq!(
        standing(&now),
        (Lifecycle::Running, None, Some(SyncStatus::Running))
    );
    assert_eq!(transcript(&now), [("user", "long", false)]);
    let lookup = &world.bridge.calls(method::TASKS_GET)[0].params;
    assert_eq!(
        *lookup,
        json!({"appThreadKey": thread.thread_id, "openclawSessionKey": format!("agent:main:{}", thread.thread_id), "runId": run, "includeArtifacts": true})
    );
    world.bridge.complete(&run, Plan::done("finished"));
    let done = world.settled(id(&thread)).await;
    assert_eq!(
        transcript(&done),
        [("user", "long", false), ("assistant", "finished", false)]
    );
    assert_eq!(done.execution_binding.runtime, Some(RuntimeId::OpenClaw));
}

#[tokio::test]
async fn a19_a41_a43_success_without_files_is_said_so_whatever_the_text_or_the_folder_says() {
    let world = World::new().await;
    world.bridge.always(Plan::hold());
    let thread = world.app.send(on_openclaw("report")).await.unwrap().thread;
    std::fs::write(world.workspace(&thread).join("report.pdf"), "not the run's").unwrap();
    let run = wait_for_run(&world, &thread).await;
    world
        .bridge
        .complete(&run, Plan::done("I saved report.pdf"));
    let done = world.settled(id(&thread)).await;
    let want = (
        Lifecycle::Ready,
        Some(ResultCode::Success),
        Some(SyncStatus::NoExportedArtifacts),
    );
    assert_eq!(standing(&done), want);
    assert_eq!(paths(&done), Vec::<&str>::new());
    assert_eq!(world.read(&done, "report.pdf"), "not the run's");
}

#[tokio::test]
async fn a20_a21_every_end_brings_the_thread_back_with_its_code() {
    let world = World::new().await;
    let cases = [
        (
            RunStatus::ArtifactMissing,
            Some(Code::RequiredArtifactMissing),
            ResultCode::Code(Code::RequiredArtifactMissing),
            SyncStatus::Failed,
        ),
        (
            RunStatus::ArtifactMissing,
            None,
            ResultCode::ArtifactMissing,
            SyncStatus::Failed,
        ),
        (
            RunStatus::Failed,
            None,
            ResultCode::Failed,
            SyncStatus::Failed,
        ),
        (
            RunStatus::Failed,
            Some(Code::AgentLost),
            ResultCode::Code(Code::AgentLost),
            SyncStatus::Failed,
        ),
        (
            RunStatus::Cancelled,
            None,
            ResultCode::Aborted,
            SyncStatus::NoArtifacts,
        ),
    ];
    for (status, code, result, sync) in cases {
        // Partial files of a run that did not succeed are not delivered.
        world
            .bridge
            .always(Plan::ended(status, code, "It went wrong.").file("part.txt", "x"));
        let sent = world.send("go").await.thread;
        let done = world
            .until(id(&sent), |t| settled(t) && transcript(t).len() == 2)
            .await;
        assert_eq!(
            standing(&done),
            (Lifecycle::Ready, Some(result), Some(sync)),
            "{status:?}"
        );
        assert_eq!(paths(&done), Vec::<&str>::new());
        assert!(!world.workspace(&done).join("part.txt").exists());
        assert_eq!(
            transcript(&done),
            [("user", "go", false), ("assistant", "It went wrong.", true)]
        );
    }
}

#[tokio::test]
async fn a23_a_run_past_its_time_is_let_go_and_can_be_fetched_later() {
    let world = World::with(|c| c.timings.deadline = Duration::from_millis(300)).await;
    world.bridge.shared.handles.store(true, Ordering::SeqCst);
    world.bridge.always(Plan::hold());
    let thread = world.send("long").await.thread;
    let late = world.settled(id(&thread)).await;
    let timeout = Some(ResultCode::Code(Code::PollTimeout));
    assert_eq!(
        standing(&late),
        (Lifecycle::Ready, timeout, Some(SyncStatus::Failed))
    );
    let run = world.bridge.run_of(&thread.thread_id).unwrap();
    assert_eq!(world.bridge.calls(method::TASKS_CANCEL).len(), 0);
    world
        .bridge
        .complete(&run, Plan::done("at last").file("a.txt", "a"));
    world.app.sync(id(&thread)).await.unwrap();
    let done = world
        .until(id(&thread), |t| settled(t) && !paths(t).is_empty())
        .await;
    assert_eq!(
        standing(&done),
        (
            Lifecycle::Ready,
            Some(ResultCode::Success),
            Some(SyncStatus::Synced)
        )
    );
    assert_eq!(
        transcript(&done).last(),
        Some(&("assistant", "at last", false))
    );
}

#[tokio::test]
async fn a23_time_in_which_a_question_is_open_does_not_count() {
    let world = World::with(|c| c.timings.deadline = Duration::from_millis(300)).await;
    world.bridge.shared.handles.store(true, Ordering::SeqCst);
    world.bridge.always(Plan::hold());
    let thread = world.send("ask me").await.thread;
    eventually("the run", || async {
        world.bridge.run_of(&thread.thread_id).is_some()
    })
    .await;
    let run = world.bridge.run_of(&thread.thread_id).unwrap();
    let question = world.bridge.ask(&run, "Really?");
    tokio::time::sleep(Duration::from_millis(800)).await;
    assert_eq!(
        world.thread(id(&thread)).await.lifecycle_state.status,
        Lifecycle::Running
    );
    let params = threadline_app::api::AnswerParams {
        question_id: question,
        option_id: None,
        text: Some("yes".into()),
    };
    world.app.answer(params).await.unwrap();
    world.bridge.complete(&run, Plan::done("ok"));
    let done = world.settled(id(&thread)).await;
    assert_eq!(
        done.lifecycle_state.last_result_code,
        Some(ResultCode::Success)
    );
}

#[tokio::test]
async fn a24_five_broken_polls_in_a_row_are_borne_and_the_sixth_is_not() {
    let world = World::with(|c| c.timings.patience = Duration::ZERO).await;
    world.bridge.shared.handles.store(true, Ordering::SeqCst);
    world.bridge.always(Plan::hold());
    let thread = world.send("five").await.thread;
    let run = wait_for_run(&world, &thread).await;
    world.bridge.shared.broken_polls.store(5, Ordering::SeqCst);
    eventually("five", || async {
        world.bridge.shared.broken_polls.load(Ordering::SeqCst) == 0
    })
    .await;
    world.bridge.complete(&run, Plan::done("survived"));
    let done = world.settled(id(&thread)).await;
    assert_eq!(
        done.lifecycle_state.last_result_code,
        Some(ResultCode::Success)
    );

    world.bridge.always(Plan::hold());
    let thread = world.send("six").await.thread;
    wait_for_run(&world, &thread).await;
    world.bridge.shared.broken_polls.store(6, Ordering::SeqCst);
    let lost = world.settled(id(&thread)).await;
    let closed = Some(ResultCode::Code(Code::ConnectionClosed));
    assert_eq!(
        standing(&lost),
        (Lifecycle::Ready, closed, Some(SyncStatus::Failed))
    );
}

#[tokio::test]
async fn a25_news_of_another_thread_is_ignored() {
    let world = World::new().await;
    world.bridge.always(Plan::hold());
    let other = world.send("other").await.thread;
    let foreign = wait_for_run(&world, &other).await;
    world.bridge.noise(
        &json!({"jsonrpc": "2.0", "method": "session.update", "params": {
            "sessionId": other.thread_id, "threadId": other.thread_id, "runId": foreign, "turnId": foreign,
            "type": "status", "event": "task.ended", "status": "failed", "at": 1,
        }})
        .to_string(),
    );
    let thread = world.send("mine").await.thread;
    let run = wait_for_run(&world, &thread).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let now = world.thread(id(&thread)).await;
    assert_eq!(now.lifecycle_state.status, Lifecycle::Running);
    assert_eq!(
        now.context_state.task_association.unwrap().run_id,
        Some(run.clone())
    );
    world.bridge.complete(&run, Plan::done("mine"));
    assert_eq!(
        world
            .settled(id(&thread))
            .await
            .lifecycle_state
            .last_result_code,
        Some(ResultCode::Success)
    );
}

#[tokio::test]
async fn a40_waiting_turns_survive_a_restart_in_their_order() {
    let mut world = World::with(|c| {
        c.lane = LaneSize {
            active: 1,
            queued: 9,
        }
    })
    .await;
    world
        .bridge
        .plan(|turn| match turn.prompt.contains("first") {
            true => Plan::hold(),
            false => Plan::done("ok"),
        });
    let a = world.app.send(on_openclaw("first")).await.unwrap().thread;
    let b = world.app.send(on_openclaw("b1")).await.unwrap().thread;
    world.send_to(id(&a), "a2").await;
    world.send_to(id(&b), "b2").await;
    let c = world.app.send(on_openclaw("c1")).await.unwrap().thread;
    let run = wait_for_run(&world, &a).await;
    world.restart().await;
    assert_eq!(world.bridge.runs().len(), 1);
    let places: Vec<u32> = [&a, &b, &c]
        .map(|t| id(t).to_owned())
        .into_iter()
        .map(|t| {
            let app = world.app.clone();
            async move { app.show(&t).await.unwrap() }
        })
        .collect::<futures_util::stream::FuturesOrdered<_>>()
        .collect::<Vec<_>>()
        .await
        .into_iter()
        .filter_map(|v| v.queue.map(|q| q.position))
        .collect();
    assert_eq!(places, [1, 4]);
    world.bridge.complete(&run, Plan::done("ok"));
    for thread in [&a, &b, &c] {
        world
            .until(id(thread), |t| {
                settled(t) && t.context_state.queued_turns.is_empty()
            })
            .await;
    }
    assert_eq!(order(&world), ["first", "b1", "a2", "b2", "c1"]);
}

#[tokio::test]
async fn turns_of_one_thread_follow_each_other() {
    let world = World::new().await;
    world
        .bridge
        .plan(|turn| match turn.prompt.ends_with("one") {
            true => Plan::hold(),
            false => Plan::done("ok"),
        });
    let thread = world.send("one").await.thread;
    let view = world.send_to(&thread.name, "two").await;
    assert_eq!(view.thread.lifecycle_state.status, Lifecycle::Running);
    assert_eq!(view.thread.context_state.queued_turns.len(), 1);
    world.send_to(&thread.name, "three").await;
    let run = wait_for_run(&world, &thread).await;
    world.bridge.complete(&run, Plan::done("1"));
    let done = world
        .until(id(&thread), |t| settled(t) && transcript(t).len() == 6)
        .await;
    assert_eq!(order(&world), ["one", "two", "three"]);
    let methods: Vec<String> = world.bridge.turns().into_iter().map(|c| c.method).collect();
    assert_eq!(methods, [method::START, method::MESSAGE, method::MESSAGE]);
    // Every question of the user knows the run that answered it.
    let runs = world.bridge.runs();
    let asked: Vec<_> = done
        .context_state
        .messages
        .iter()
        .filter(|m| m.role == threadline_contract::thread::Role::User)
        .map(|m| m.run_id.clone().unwrap())
        .collect();
    assert_eq!(asked, runs);
}

#[tokio::test]
async fn the_registrys_end_frees_the_thread_before_the_result_is_out() {
    let world = World::new().await;
    let held = Plan {
        hold_result: true,
        ..Plan::done("text").file("a.txt", "a")
    };
    world.bridge.always(held);
    let thread = world.send("go").await.thread;
    let early = world
        .until(id(&thread), |t| {
            t.lifecycle_state.status == Lifecycle::Ready
        })
        .await;
    let want = (
        Lifecycle::Ready,
        Some(ResultCode::Success),
        Some(SyncStatus::Syncing),
    );
    assert_eq!(standing(&early), want);
    assert_eq!(transcript(&early), [("user", "go", false)]);
    // A turn that comes meanwhile waits; the result of the first is not lost.
    world.bridge.always(Plan::done("second"));
    let queued = world.send_to(id(&thread), "more").await;
    assert_eq!(queued.thread.lifecycle_state.status, Lifecycle::Queued);
    let run = world.bridge.run_of(&thread.thread_id).unwrap();
    world.bridge.release(&run);
    let done = world
        .until(id(&thread), |t| settled(t) && transcript(t).len() == 4)
        .await;
    assert_eq!(
        transcript(&done),
        [
            ("user", "go", false),
            ("user", "more", false),
            ("assistant", "text", false),
            ("assistant", "second", false)
        ]
    );
    eventually("the first run's file", || async {
        world.workspace(&done).join("a.txt").exists()
    })
    .await;
    assert_eq!(world.read(&done, "a.txt"), "a");
    assert_eq!(paths(&world.thread(id(&thread)).await), Vec::<&str>::new());
}

#[tokio::test]
async fn a_session_that_cannot_go_on_is_never_silently_begun_again() {
    let world = World::new().await;
    let thread = world.done("one").await;
    let refused = Fault::new(Code::ContinuationUnavailable, "The session is gone.");
    world.bridge.refuse(refused);
    world.send_to(id(&thread), "two").await;
    let stuck = world.settled(id(&thread)).await;
    let code = Some(ResultCode::Code(Code::ContinuationUnavailable));
    assert_eq!(stuck.lifecycle_state.last_result_code, code);
    assert_eq!(world.bridge.turns().last().unwrap().method, method::MESSAGE);
    let retry = RetryParams {
        thread: id(&thread).into(),
        new_session: true,
        ..Default::default()
    };
    world.app.retry(retry).await.unwrap();
    let done = world.settled(id(&thread)).await;
    assert_eq!(
        done.lifecycle_state.last_result_code,
        Some(ResultCode::Success)
    );
    let last = world.bridge.turns().pop().unwrap();
    assert_eq!(last.method, method::START);
    assert!(last.params["prompt"].as_str().unwrap().ends_with("\n\ntwo"));
}

#[tokio::test]
async fn another_runtime_begins_a_new_session_and_says_so() {
    let world = World::new().await;
    let thread = world.done("one").await;
    assert_eq!(thread.execution_binding.runtime, Some(RuntimeId::Builtin));
    let params = SendParams {
        thread: Some(thread.name.clone()),
        ..on_openclaw("two")
    };
    let view = world.app.send(params).await.unwrap();
    assert!(view.notice.unwrap().contains("openclaw"));
    let done = world.settled(id(&thread)).await;
    assert_eq!(done.execution_binding.runtime, Some(RuntimeId::OpenClaw));
    assert_eq!(world.bridge.turns().last().unwrap().method, method::START);
    // While it works, it cannot be moved.
    world.bridge.always(Plan::hold());
    world.send_to(id(&thread), "three").await;
    let params = SendParams {
        thread: Some(thread.name),
        runtime: Some("builtin".into()),
        ..prompt_of("four")
    };
    assert_eq!(
        world.app.send(params).await.unwrap_err().code,
        Code::ThreadBusy
    );
}

#[tokio::test]
async fn attachments_travel_and_a_retry_takes_them_along() {
    let world = World::new().await;
    let note = world.dir.path().join("note.txt");
    std::fs::write(&note, "hello").unwrap();
    world
        .bridge
        .always(Plan::ended(RunStatus::Failed, None, "no"));
    let params = SendParams {
        attach: vec![note.display().to_string()],
        inline: vec![InlineAttachment {
            name: "in.bin".into(),
            mime_type: None,
            content: "aGk=".into(),
            size_bytes: None,
            sha256: None,
        }],
        expect: vec![Deliverable {
            glob: "*.md".into(),
            content_type: None,
            min_bytes: None,
            min_count: None,
        }],
        ..prompt_of("read them")
    };
    let thread = world.app.send(params).await.unwrap().thread;
    world.settled(id(&thread)).await;
    std::fs::remove_file(&note).unwrap();
    world.bridge.always(Plan::done("ok"));
    let retry = RetryParams {
        thread: thread.name.clone(),
        new_session: false,
        ..Default::default()
    };
    world.app.retry(retry).await.unwrap();
    let done = world.settled(id(&thread)).await;
    assert_eq!(
        done.lifecycle_state.last_result_code,
        Some(ResultCode::Success)
    );
    let turns = world.bridge.turns();
    assert_eq!(turns.len(), 2);
    assert_ne!(turns[0].params["requestId"], turns[1].params["requestId"]);
    for turn in turns {
        let sent = &turn.params["inlineAttachments"];
        assert_eq!(
            (&sent[0]["name"], &sent[0]["content"]),
            (&json!("note.txt"), &json!("aGVsbG8="))
        );
        assert_eq!(
            (&sent[1]["name"], &sent[1]["content"]),
            (&json!("in.bin"), &json!("aGk="))
        );
        let contract = &turn.params["metadata"]["xworkmateTaskArtifactContract"];
        assert_eq!(contract["deliverables"], json!([{"glob": "*.md"}]));
    }
}

#[tokio::test]
async fn a_retry_of_a_turn_whose_fate_is_unknown_cannot_run_it_twice() {
    let world = World::with(|c| {
        c.timings.patience = Duration::ZERO;
        c.timings.failures = 2;
    })
    .await;
    world.bridge.down().await;
    let thread = world.send("once").await.thread;
    let lost = world.settled(id(&thread)).await;
    assert_eq!(
        lost.lifecycle_state.last_result_code,
        Some(ResultCode::Code(Code::ConnectFailed))
    );
    assert_eq!(
        world.app.sync(id(&thread)).await.unwrap_err().code,
        Code::TaskNotFound
    );
    world.bridge.up().await;
    let request = lost.context_state.task_association.unwrap().request_id;
    let retry = RetryParams {
        thread: thread.name.clone(),
        new_session: false,
        ..Default::default()
    };
    let view = world.app.retry(retry).await.unwrap();
    assert_eq!(view.thread.lifecycle_state.status, Lifecycle::Running);
    let done = world.settled(id(&thread)).await;
    assert_eq!(
        done.lifecycle_state.last_result_code,
        Some(ResultCode::Success)
    );
    let turns = world.bridge.turns();
    assert_eq!(turns.len(), 1);
    assert_eq!(turns[0].params["requestId"], json!(request));
    let asked = transcript(&done)
        .iter()
        .filter(|(role, ..)| *role == "user")
        .count();
    assert_eq!(asked, 1);
}

#[tokio::test]
async fn what_the_bridge_refuses_is_told_with_its_code() {
    let world = World::new().await;
    for code in [
        Code::GatewayBusy,
        Code::ProviderNotFound,
        Code::WorkdirNotAllowed,
    ] {
        world.bridge.refuse(Fault::new(code, "No."));
        let done = world.done("go").await;
        let want = (
            Lifecycle::Ready,
            Some(ResultCode::Code(code)),
            Some(SyncStatus::Failed),
        );
        assert_eq!(standing(&done), want);
        assert_eq!(
            transcript(&done),
            [("user", "go", false), ("assistant", "No.", true)]
        );
        assert_eq!(
            done.context_state.last_artifact_sync_detail,
            Some(format!("{code}: No."))
        );
    }
    for status in [400, 404, 500] {
        world.bridge.statuses([status]);
        let done = world.done("go").await;
        assert_eq!(
            done.lifecycle_state.last_result_code,
            Some(ResultCode::AcpHttp(status))
        );
    }
    // A bridge that is only busy with itself is asked again.
    world.bridge.statuses([503, 502, 503]);
    let done = world.done("go").await;
    assert_eq!(
        done.lifecycle_state.last_result_code,
        Some(ResultCode::Success)
    );
}

#[tokio::test]
async fn a_wrong_token_is_told_at_once() {
    let world = World::with(|c| c.bridge.token = Some("wrong".into())).await;
    let refused = world.app.send(prompt_of("go")).await.unwrap_err();
    assert_eq!(refused.code, Code::Unauthorized);
    assert_eq!(world.bridge.turns().len(), 0);
}

#[tokio::test]
async fn bad_requests_change_nothing() {
    let world = World::new().await;
    let bad = [
        (prompt_of("  "), Code::PromptRequired),
        (
            SendParams {
                runtime: Some("moon".into()),
                ..prompt_of("x")
            },
            Code::ProviderNotFound,
        ),
        (
            SendParams {
                thread: Some("nobody".into()),
                ..prompt_of("x")
            },
            Code::ThreadNotFound,
        ),
        (
            SendParams {
                attach: vec!["/no/such/file".into()],
                ..prompt_of("x")
            },
            Code::AttachmentInvalid,
        ),
        (
            SendParams {
                working_directory: Some("relative".into()),
                ..prompt_of("x")
            },
            Code::WorkdirNotAllowed,
        ),
    ];
    for (params, code) in bad {
        assert_eq!(world.app.send(params).await.unwrap_err().code, code);
    }
    assert_eq!(
        world.app.list(&Default::default()).await.unwrap().threads,
        []
    );
    assert_eq!(
        std::fs::read_dir(world.config.data.join("outbox"))
            .unwrap()
            .count(),
        0
    );
}

use futures_util::StreamExt as _;

/// The words of the turns, in the order in which they reached the bridge, re-sends left out.
fn order(world: &World) -> Vec<String> {
    let mut seen = Vec::new();
    for call in world.bridge.turns() {
        let prompt = call.params["prompt"].as_str().unwrap().to_owned();
        let words = context::split(&prompt).1.to_owned();
        if !seen.contains(&words) {
            seen.push(words);
        }
    }
    seen
}

fn stored(world: &World, thread: &TaskThread) -> serde_json::Value {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    let name = format!("{}.json", URL_SAFE_NO_PAD.encode(thread.thread_id.as_str()));
    let bytes = std::fs::read(world.config.data.join("threads").join(name)).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

async fn wait_for_run(world: &World, thread: &TaskThread) -> threadline_contract::RunId {
    world
        .until(id(thread), |t| {
            let association = t.context_state.task_association.as_ref();
            association.is_some_and(|a| a.run_id.is_some())
        })
        .await;
    world.bridge.run_of(&thread.thread_id).unwrap()
}

#[tokio::test]
async fn a_request_that_is_sent_again_is_the_same_turn() {
    let mut world = World::new().await;
    world.bridge.always(Plan::hold());
    let params = SendParams {
        request_id: Some(threadline_contract::RequestId::new("req-of-mine").unwrap()),
        inline: vec![InlineAttachment {
            name: "a.txt".into(),
            mime_type: None,
            content: "YQ==".into(),
            size_bytes: None,
            sha256: None,
        }],
        ..prompt_of("once")
    };
    let (one, two) = tokio::join!(
        world.app.send(params.clone()),
        world.app.send(params.clone())
    );
    let key = one.unwrap().thread.thread_id;
    assert_eq!(two.unwrap().thread.thread_id, key);
    world.restart().await;
    let again = world.app.send(params.clone()).await.unwrap();
    assert_eq!(again.thread.thread_id, key);
    assert_eq!(transcript(&again.thread), [("user", "once", false)]);
    let bad = SendParams {
        request_id: Some(threadline_contract::RequestId::new("../up").unwrap()),
        ..params
    };
    let fault = world.app.send(bad).await.unwrap_err();
    assert_eq!(fault.code, Code::InvalidRequest);
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_nothing_half_done() {
    let world = World::new().await;
    let params = serde_json::to_value(prompt_of("whoever asked has left")).unwrap();
    // Polled once, so that it has begun, and dropped.
    let asked = world.app.dispatch(threadline_app::api::SEND, params);
    let _ = tokio::time::timeout(Duration::ZERO, asked).await;
    eventually("its end", || async {
        let list = world.app.list(&Default::default()).await.unwrap();
        let first = list.threads.first();
        first.is_some_and(|t| t.last_result_code == Some(ResultCode::Success))
    })
    .await;
}
