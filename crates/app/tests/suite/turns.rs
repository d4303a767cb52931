//! What becomes of a run: its end, its code, and the session that it leaves.

use std::{sync::atomic::Ordering, time::Duration};

use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_app::api::{RetryParams, SendParams};
use threadline_contract::{
    Code, Fault, ResultCode, RunStatus, RuntimeId, method,
    thread::{Lifecycle, SyncStatus, TaskThread},
};

use crate::support::{
    DELIVERED, Plan, World, eventually, id, on_openclaw, paths, prompt_of, settled, standing,
    transcript, wait_for_run,
};

#[tokio::test]
async fn a16_a_running_handle_is_kept_and_asked_again_and_is_no_result() {
    let world = World::new().await;
    world.bridge.shared.handles.store(true, Ordering::SeqCst);
    world.bridge.always(Plan::hold());
    let thread = world.send_to_openclaw("long").await.thread;
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
    let thread = world.send_to_openclaw("report").await.thread;
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
    assert_eq!(standing(&done), DELIVERED);
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
    let thread = world.send_elsewhere(prompt_of("ask me")).await.thread;
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
    let params = threadline_contract::method::AnswerParams {
        question_id: question,
        option_id: None,
        text: Some("yes".into()),
    };
    world.app.answer_elsewhere(params).await.unwrap();
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
async fn the_registrys_end_frees_the_thread_and_tells_the_answer_before_the_result_is_out() {
    let world = World::new().await;
    let held = Plan {
        hold_result: true,
        ..Plan::done("text").file("a.txt", "a")
    };
    world.bridge.always(held);
    let thread = world.send("go").await.thread;
    let early = world
        .until(id(&thread), |t| {
            t.lifecycle_state.status == Lifecycle::Ready && transcript(t).len() == 2
        })
        .await;
    let want = (
        Lifecycle::Ready,
        Some(ResultCode::Success),
        Some(SyncStatus::Syncing),
    );
    assert_eq!(standing(&early), want);
    assert_eq!(
        transcript(&early),
        [("user", "go", false), ("assistant", "text", false)]
    );
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
            ("assistant", "text", false),
            ("user", "more", false),
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

fn stored(world: &World, thread: &TaskThread) -> serde_json::Value {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    let name = format!("{}.json", URL_SAFE_NO_PAD.encode(thread.thread_id.as_str()));
    let bytes = std::fs::read(world.config.data.join("threads").join(name)).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[tokio::test]
async fn where_the_session_works_is_told_from_its_second_turn_on() {
    let world = World::new().await;
    world.bridge.always(Plan::done("ok"));
    let thread = world.done("one").await;
    world.send_to(id(&thread), "two").await;
    let done = world
        .until(id(&thread), |t| settled(t) && transcript(t).len() == 4)
        .await;
    let session = done.context_state.task_association.unwrap().session_key;
    let folder = format!(
        "/srv/tasks/{}",
        threadline_contract::scope::segment(session.unwrap().as_str())
    );
    let turns = world.bridge.turns();
    assert_eq!(turns[0].params["remoteWorkingDirectoryHint"], json!(null));
    assert_eq!(turns[1].params["remoteWorkingDirectoryHint"], json!(folder));
    let prompt = turns[1].params["prompt"].as_str().unwrap();
    let (block, words) = threadline_contract::context::split(prompt);
    let hint = format!("Remote workspace hint: {folder} (");
    assert!(block.unwrap().contains(&hint), "{prompt}");
    assert_eq!(words, "two");
}
