//! Finding threads, putting them away, and the first page.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_app::api::{self, BridgeParams, ListParams, SendParams};
use threadline_contract::{
    Code, ResultCode, RunStatus, method,
    thread::{Lifecycle, TaskThread},
};

use crate::support::{
    FakeBridge, Plan, World, deletion, eventually, id, prompt_of, standing, transcript,
};

#[tokio::test]
async fn threads_are_found_by_name_beginning_or_key() {
    let world = World::new().await;
    let mut threads = Vec::new();
    for n in 0..40 {
        threads.push(world.done(&format!("task {n}")).await);
    }
    for thread in &threads {
        assert_eq!(world.app.find(&thread.name).unwrap(), thread.thread_id);
        assert_eq!(
            world.app.find(&thread.name.to_uppercase()).unwrap(),
            thread.thread_id
        );
        assert_eq!(world.app.find(id(thread)).unwrap(), thread.thread_id);
        // The shortest beginning that no other name has.
        let unique = (1..=thread.name.len())
            .map(|n| &thread.name[..n])
            .find(|p| threads.iter().filter(|t| t.name.starts_with(p)).count() == 1)
            .unwrap();
        assert_eq!(world.app.find(unique).unwrap(), thread.thread_id);
    }
    for nobody in ["zzz", "", " ", "draft:1"] {
        assert_eq!(
            world.app.find(nobody).unwrap_err().code,
            Code::ThreadNotFound,
            "{nobody}"
        );
    }
    let initial = |t: &TaskThread| t.name[..1].to_owned();
    let shared = threads
        .iter()
        .map(initial)
        .find(|i| threads.iter().filter(|t| t.name.starts_with(i)).count() > 1);
    let fault = world.app.find(&shared.unwrap()).unwrap_err();
    assert_eq!(fault.code, Code::ThreadAmbiguous);
    assert!(fault.data["candidates"].as_array().unwrap().len() > 1);
}

#[tokio::test]
async fn lists_are_paged_last_changed_first() {
    let world = World::new().await;
    for n in 0..7 {
        world.done(&format!("task {n}")).await;
    }
    let mut titles = Vec::new();
    let mut before = None;
    let mut pages = 0;
    loop {
        let params = ListParams {
            limit: Some(3),
            before,
            archived: false,
            ..Default::default()
        };
        let page = world.app.list(&params).await.unwrap();
        titles.extend(page.threads.into_iter().map(|t| t.title));
        pages += 1;
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    let want: Vec<String> = (0..7).rev().map(|n| format!("task {n}")).collect();
    assert_eq!((titles, pages), (want, 3));
    let bad = ListParams {
        before: Some("nonsense".into()),
        ..ListParams::default()
    };
    assert_eq!(
        world.app.list(&bad).await.unwrap_err().code,
        Code::InvalidRequest
    );
}

#[tokio::test]
async fn a39_an_archived_thread_can_be_restored_or_deleted_with_its_folder() {
    let world = World::new().await;
    world.bridge.always(Plan::done("ok").file("a.txt", "a"));
    let thread = world.done("go").await;
    let folder = world.workspace(&thread);
    assert_eq!(
        world.app.delete(deletion(&thread)).await.unwrap_err().code,
        Code::InvalidRequest
    );
    let away = world.app.archive(id(&thread)).await.unwrap();
    assert_eq!(away.thread.lifecycle_state.status, Lifecycle::Archived);
    eventually("the session is closed", || async {
        world.bridge.calls(method::CLOSE).len() == 1
    })
    .await;
    assert_eq!(
        world
            .app
            .list(&ListParams::default())
            .await
            .unwrap()
            .threads,
        []
    );
    let archived = ListParams {
        archived: true,
        ..ListParams::default()
    };
    assert_eq!(world.app.list(&archived).await.unwrap().threads.len(), 1);
    let to_it = SendParams {
        thread: Some(thread.name.clone()),
        ..prompt_of("more")
    };
    assert_eq!(
        world.app.send(to_it).await.unwrap_err().code,
        Code::ThreadArchived
    );
    assert_eq!(
        world.app.sync(id(&thread)).await.unwrap_err().code,
        Code::ThreadArchived
    );
    let back = world.app.restore(id(&thread)).await.unwrap();
    assert_eq!(standing(&back.thread), standing(&thread));
    world.app.archive(id(&thread)).await.unwrap();
    let deleted = world.app.delete(deletion(&thread)).await.unwrap();
    assert_eq!(deleted.removed_folder, Some(folder.display().to_string()));
    assert!(!folder.exists());
    assert_eq!(
        world.app.show(id(&thread)).await.unwrap_err().code,
        Code::ThreadNotFound
    );
    let left = std::fs::read_dir(world.config.data.join("threads")).unwrap();
    let records = left
        .filter(|e| e.as_ref().unwrap().file_name() != "index.json")
        .count();
    assert_eq!(records, 0);
}

#[tokio::test]
async fn a39_a_folder_that_the_user_chose_is_kept() {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    let mut world = World::new().await;
    let thread = world.done("go").await;
    let custom = world.dir.path().join("mine");
    std::fs::create_dir(&custom).unwrap();
    std::fs::write(custom.join("x"), "x").unwrap();
    world.app.close().await.unwrap();
    let name = format!("threads/{}.json", URL_SAFE_NO_PAD.encode(id(&thread)));
    let path = world.config.data.join(name);
    let mut record: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    record["workspaceBinding"]["workspacePath"] = json!(custom);
    std::fs::write(&path, record.to_string()).unwrap();
    world.restart().await;
    world.app.archive(id(&thread)).await.unwrap();
    let deleted = world.app.delete(deletion(&thread)).await.unwrap();
    assert_eq!(deleted.removed_folder, None);
    assert_eq!(std::fs::read_to_string(custom.join("x")).unwrap(), "x");
}

#[tokio::test]
async fn a_busy_thread_is_not_put_away() {
    let world = World::new().await;
    world.bridge.always(Plan::hold());
    let thread = world.send("go").await.thread;
    assert_eq!(
        world.app.archive(id(&thread)).await.unwrap_err().code,
        Code::ThreadBusy
    );
}

#[tokio::test]
async fn a01_the_workspace_lies_in_the_users_home() {
    let world = World::new().await;
    let thread = world.done("go").await;
    let name = thread.thread_id.as_str().replace(':', "-");
    assert_eq!(
        world.workspace(&thread),
        world.config.workspaces.join(&name)
    );
    assert_eq!(threadline_app::folder_name(&thread.thread_id), name);
    assert!(world.workspace(&thread).is_dir());
}

#[tokio::test]
async fn the_first_page_shows_what_needs_the_user() {
    let world = World::new().await;
    let done = world.done("fine").await;
    world.bridge.always(Plan::ended(
        RunStatus::Failed,
        Some(Code::ModelFailed),
        "no",
    ));
    let failed = world.done("bad").await;
    world
        .bridge
        .always(Plan::done("ok").file("a", "1").file("b", "2"));
    let files = world.done("files").await;
    world.bridge.always(Plan::hold());
    let working = world.send("slow").await.thread;
    let stopped = world.send("stopped").await.thread;
    world.app.cancel(id(&stopped)).await.unwrap();
    world.settled(id(&stopped)).await;
    let home = world.app.home().await.unwrap();
    let keys = |list: &[api::Summary]| -> Vec<String> {
        list.iter().map(|s| s.thread_id.to_string()).collect()
    };
    assert_eq!(keys(&home.failed), [id(&failed)]);
    assert_eq!(keys(&home.working), [id(&working)]);
    assert_eq!(keys(&home.done_today), [id(&files), id(&done)]);
    assert_eq!(
        (home.files_today, home.unreachable, home.questions),
        (2, vec![], vec![])
    );
    assert_eq!(home.failed[0].reason.as_deref(), Some("no"));
    assert_eq!(home.done_today[0].reason, None);
    assert_eq!(
        home.totals,
        api::Totals {
            failed: 1,
            working: 1,
            done_today: 2
        }
    );
    // The lists end somewhere; what they stand for is counted all the same.
    for _ in 0..21 {
        world.send("slow").await;
    }
    let home = world.app.home().await.unwrap();
    assert_eq!((home.working.len(), home.totals.working), (20, 22));
    // A bridge that is away hides nothing of it, and another one that is away is named.
    world.send_elsewhere(prompt_of("slow")).await;
    world.bridge.down().await;
    let home = world.app.home().await.unwrap();
    assert_eq!(keys(&home.failed), [id(&failed)]);
    let elsewhere = world.app.questions_elsewhere().await;
    assert_eq!(
        (elsewhere.questions, elsewhere.unreachable.len()),
        (vec![], 1)
    );
}

#[tokio::test]
async fn a_thread_can_live_on_another_bridge() {
    let mut world = World::new().await;
    let other = FakeBridge::start().await;
    other.always(Plan::done("from the other").file("a.txt", "a"));
    let params = SendParams {
        bridge: Some(BridgeParams {
            url: format!("{}/", other.url()),
            token: Some("secret".into()),
        }),
        ..prompt_of("go")
    };
    let thread = world.app.send(params).await.unwrap().thread;
    let done = world.settled(id(&thread)).await;
    assert_eq!(done.execution_binding.endpoint_id, other.url());
    assert_eq!(transcript(&done)[1].1, "from the other");
    assert_eq!(world.bridge.turns().len(), 0);
    // The token is remembered, and lies in no record.
    world.restart().await;
    world.send_to(id(&thread), "more").await;
    let done = world.settled(id(&thread)).await;
    assert_eq!(
        done.lifecycle_state.last_result_code,
        Some(ResultCode::Success)
    );
    assert!(!serde_json::to_string(&done).unwrap().contains("secret"));
    let elsewhere = SendParams {
        thread: Some(thread.name.clone()),
        bridge: Some(BridgeParams {
            url: world.bridge.url(),
            token: None,
        }),
        ..prompt_of("move")
    };
    assert_eq!(
        world.app.send(elsewhere).await.unwrap_err().code,
        Code::InvalidRequest
    );
}

#[tokio::test]
async fn every_method_of_the_local_api_is_answered() {
    let world = World::new().await;
    let call = async |method: &str, params: Value| world.app.dispatch(method, params).await;
    let sent = call(api::SEND, json!({"prompt": "go"})).await.unwrap();
    let name = sent["thread"]["name"].as_str().unwrap().to_owned();
    world.settled(&name).await;
    let thread = json!({"thread": name});
    assert_eq!(
        call(api::SHOW, thread.clone()).await.unwrap()["thread"]["title"],
        "go"
    );
    assert_eq!(
        call(api::LIST, json!({})).await.unwrap()["threads"][0]["name"],
        json!(name)
    );
    assert_eq!(
        call(api::PROBLEMS, json!({})).await.unwrap(),
        json!({"problems": []})
    );
    assert_eq!(
        call(api::HOME, json!({})).await.unwrap()["doneToday"][0]["name"],
        json!(name)
    );
    let runtimes = call(api::RUNTIMES, json!({})).await.unwrap();
    assert_eq!(
        runtimes["runtimes"],
        json!([
            {"runtime": "builtin", "label": "Built in", "available": true, "status": "ready", "maxActive": 4, "maxQueued": 100},
            {"runtime": "openclaw", "label": "OpenClaw", "available": false, "status": "", "maxActive": 5, "maxQueued": 20},
        ])
    );
    assert_eq!(
        call(api::RETRY, thread.clone()).await.unwrap()["thread"]["name"],
        json!(name)
    );
    world.settled(&name).await;
    assert!(call(api::SYNC, thread.clone()).await.is_ok());
    world.settled(&name).await;
    let code = async |method: &str, params: Value| call(method, params).await.unwrap_err().code;
    assert_eq!(
        code(api::CANCEL, thread.clone()).await,
        Code::InvalidRequest
    );
    assert!(call(api::ARCHIVE, thread.clone()).await.is_ok());
    assert!(call(api::RESTORE, thread.clone()).await.is_ok());
    assert!(call(api::ARCHIVE, thread.clone()).await.is_ok());
    assert_eq!(
        call(api::DELETE, thread).await.unwrap()["name"],
        json!(name)
    );
    assert_eq!(code("app.nothing", json!({})).await, Code::MethodNotFound);
    for (method, params) in [
        (api::SEND, json!({})),
        (api::SEND, json!({"prompt": 1})),
        (api::SEND, json!({"prompt": "x", "extra": 1})),
        (api::SHOW, json!({})),
        (api::LIST, json!({"limit": -1})),
        (api::HOME, json!({"x": 1})),
    ] {
        assert_eq!(
            code(method, params.clone()).await,
            Code::InvalidRequest,
            "{method} {params}"
        );
    }
}
