//! Records on disk: each costs at most itself.

use std::{fs, path::PathBuf};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_app::api::{List, Summary};
use threadline_contract::{Code, thread::TaskThread};

use crate::support::{World, eventually};

fn folder(world: &World) -> PathBuf {
    world.config.data.join("threads")
}

fn file_of(world: &World, key: &str) -> PathBuf {
    folder(world).join(format!("{}.json", URL_SAFE_NO_PAD.encode(key)))
}

fn names(list: &List) -> Vec<&str> {
    let mut names: Vec<&str> = list.threads.iter().map(|t| t.name.as_str()).collect();
    names.sort_unstable();
    names
}

async fn three(world: &World) -> Vec<TaskThread> {
    let mut threads = Vec::new();
    for n in 0..3 {
        threads.push(world.done(&format!("task {n}")).await);
    }
    eventually("nothing goes on", || async { world.app.busy() == 0 }).await;
    threads
}

fn edit(path: &PathBuf, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

#[tokio::test]
async fn a03_a_record_is_named_after_its_key() {
    let mut world = World::new().await;
    let thread = world.done("go").await;
    // The peer's own example, put there by hand, is found under its name.
    let key = "draft:1780658097668838-1";
    let path = folder(&world).join("ZHJhZnQ6MTc4MDY1ODA5NzY2ODgzOC0x.json");
    assert_eq!(file_of(&world, key), path);
    world.app.close().await.unwrap();
    fs::copy(file_of(&world, thread.thread_id.as_str()), &path).unwrap();
    edit(&path, |v| {
        v["threadId"] = json!(key);
        v["name"] = json!("by-hand");
        v["contextState"]["taskAssociation"] = Value::Null;
    });
    world.restart().await;
    assert_eq!(world.thread(key).await.name, "by-hand");
}

#[tokio::test]
async fn a04_a08_a_corrupt_record_costs_only_itself() {
    let mut world = World::new().await;
    let threads = three(&world).await;
    let key = |n: usize| threads[n].thread_id.as_str().to_owned();
    world.app.close().await.unwrap();
    fs::write(file_of(&world, &key(0)), b"{\"torn\": ").unwrap();
    edit(&file_of(&world, &key(1)), |v| {
        v["executionBinding"]["executionMode"] = json!("auto")
    });
    world.restart().await;
    let list = world.app.list(&Default::default()).await.unwrap();
    assert_eq!(names(&list), [threads[2].name.as_str()]);
    assert_eq!(world.thread(&key(2)).await, threads[2]);
    assert_eq!(list.problems, world.app.problems().problems);
    assert_eq!(list.problems.len(), 2);
    for (n, bytes) in [(0, Some(&b"{\"torn\": "[..])), (1, None)] {
        let file = file_of(&world, &key(n));
        assert!(!file.exists());
        let problem = list
            .problems
            .iter()
            .find(|p| p.file == file.display().to_string())
            .unwrap();
        let kept = problem.kept.as_ref().unwrap();
        let prefix = format!("{}.invalid-", file.display());
        assert!(
            kept.starts_with(&prefix) && kept.ends_with(".bak"),
            "{kept}"
        );
        assert!(
            problem.message.starts_with("It is not a record: "),
            "{}",
            problem.message
        );
        if let Some(bytes) = bytes {
            assert_eq!(fs::read(kept).unwrap(), bytes);
        }
        assert_eq!(
            world.app.show(&key(n)).await.unwrap_err().code,
            Code::ThreadNotFound
        );
    }
    // They are told of as long as the copies lie there.
    world.restart().await;
    assert_eq!(world.app.problems().problems.len(), 2);
    // The app goes on.
    assert_eq!(world.done("new").await.title, "new");
}

#[tokio::test]
async fn a_record_that_is_damaged_while_the_app_runs_is_set_aside_when_it_is_read() {
    let world = World::new().await;
    let threads = three(&world).await;
    let key = threads[1].thread_id.as_str();
    fs::write(file_of(&world, key), b"").unwrap();
    let fault = world.app.show(key).await.unwrap_err();
    assert_eq!(fault.code, Code::ThreadCorrupt);
    assert!(PathBuf::from(fault.data["kept"].as_str().unwrap()).exists());
    assert_eq!(
        world
            .app
            .list(&Default::default())
            .await
            .unwrap()
            .threads
            .len(),
        2
    );
    // One that was removed by hand is simply gone.
    fs::remove_file(file_of(&world, threads[0].thread_id.as_str())).unwrap();
    let fault = world
        .app
        .show(threads[0].thread_id.as_str())
        .await
        .unwrap_err();
    assert_eq!(fault.code, Code::ThreadNotFound);
    assert_eq!(
        world
            .app
            .list(&Default::default())
            .await
            .unwrap()
            .threads
            .len(),
        1
    );
}

#[tokio::test]
async fn a05_records_that_the_index_misses_come_after_the_others_in_order() {
    let mut world = World::new().await;
    let threads = three(&world).await;
    world.app.close().await.unwrap();
    let source = file_of(&world, threads[0].thread_id.as_str());
    for (key, name) in [("z:2", "hand-two"), ("a:1", "hand-one")] {
        let path = file_of(&world, key);
        fs::copy(&source, &path).unwrap();
        edit(&path, |v| {
            v["threadId"] = json!(key);
            v["name"] = json!(name);
        });
    }
    world.restart().await;
    world.app.close().await.unwrap();
    let index: Value =
        serde_json::from_slice(&fs::read(folder(&world).join("index.json")).unwrap()).unwrap();
    let order: Vec<&str> = index["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["threadId"].as_str().unwrap())
        .collect();
    let mut want: Vec<&str> = threads.iter().map(|t| t.thread_id.as_str()).collect();
    want.extend(["a:1", "z:2"]);
    assert_eq!(order, want);
}

#[tokio::test]
async fn the_index_is_made_again_when_it_is_lost_corrupt_or_behind() {
    let mut world = World::new().await;
    let threads = three(&world).await;
    let before: Vec<Summary> = world.app.list(&Default::default()).await.unwrap().threads;
    let index = folder(&world).join("index.json");
    for damage in ["lost", "corrupt", "behind"] {
        world.app.close().await.unwrap();
        let mut want = before.clone();
        match damage {
            "lost" => fs::remove_file(&index).unwrap(),
            "corrupt" => fs::write(&index, "{\"version\":1,\"threads\":[{").unwrap(),
            _ => {
                let path = file_of(&world, threads[0].thread_id.as_str());
                edit(&path, |v| v["title"] = json!("changed by hand"));
                let changed = want
                    .iter_mut()
                    .find(|s| s.thread_id == threads[0].thread_id);
                changed.unwrap().title = "changed by hand".into();
            }
        }
        world.restart().await;
        let list = world.app.list(&Default::default()).await.unwrap();
        assert_eq!(list.threads, want, "{damage}");
        let told = list.problems.iter().any(|p| p.file.ends_with("index.json"));
        assert_eq!(told, damage == "corrupt");
    }
}

#[tokio::test]
async fn a07_a_write_that_was_cut_short_leaves_the_old_record() {
    let mut world = World::new().await;
    let thread = world.done("go").await;
    world.app.close().await.unwrap();
    let torn = folder(&world).join(".threadline-1-1.tmp");
    fs::write(&torn, "{\"half").unwrap();
    world.restart().await;
    assert_eq!(world.thread(thread.thread_id.as_str()).await, thread);
    assert!(!torn.exists());
    assert_eq!(world.app.problems().problems, []);
}

#[tokio::test]
async fn a_newer_versions_record_is_left_alone() {
    let mut world = World::new().await;
    let thread = world.done("go").await;
    let path = file_of(&world, thread.thread_id.as_str());
    for strange in [json!(null), json!({"new": true})] {
        world.app.close().await.unwrap();
        edit(&path, |v| {
            v["schemaVersion"] = json!(99_990_101);
            if !strange.is_null() {
                v["executionBinding"] = strange;
            }
        });
        let bytes = fs::read(&path).unwrap();
        world.restart().await;
        assert_eq!(
            world.app.list(&Default::default()).await.unwrap().threads,
            []
        );
        assert_eq!(world.app.problems().problems.len(), 1);
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
}

#[tokio::test]
async fn only_changed_records_are_written() {
    let mut world = World::new().await;
    let threads = three(&world).await;
    let modified = |n: usize| {
        let path = file_of(&world, threads[n].thread_id.as_str());
        fs::metadata(path).unwrap().modified().unwrap()
    };
    let before = [modified(0), modified(1), modified(2)];
    world.send_to(threads[1].thread_id.as_str(), "more").await;
    world.settled(threads[1].thread_id.as_str()).await;
    let after = [modified(0), modified(1), modified(2)];
    assert_eq!([after[0], after[2]], [before[0], before[2]]);
    assert_ne!(after[1], before[1]);
    let after = [modified(0), modified(2)];
    world.restart().await;
    let path = |n: usize| file_of(&world, threads[n].thread_id.as_str());
    let now = [0, 2].map(|n| fs::metadata(path(n)).unwrap().modified().unwrap());
    assert_eq!(now, after);
}

#[tokio::test]
async fn the_data_folder_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::new().await;
    let thread = world.done("go").await;
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(world.config.data.clone()), 0o700);
    assert_eq!(mode(folder(&world)), 0o700);
    assert_eq!(mode(file_of(&world, thread.thread_id.as_str())), 0o600);
}

#[tokio::test]
async fn thousands_of_threads_open_from_the_index_alone() {
    let mut world = World::new().await;
    let thread = world.done("go").await;
    world.app.close().await.unwrap();
    let source = file_of(&world, thread.thread_id.as_str());
    let text = fs::read_to_string(&source).unwrap();
    for n in 0..3_000 {
        let key = format!("draft:{n}-1");
        let copy = text
            .replace(thread.thread_id.as_str(), &key)
            .replace(&thread.name, &format!("many-{n}"));
        fs::write(file_of(&world, &key), copy).unwrap();
    }
    world.restart().await;
    world.app.close().await.unwrap();
    // Unreadable records would be noticed: none is read.
    let begun = std::time::Instant::now();
    world.restart().await;
    let took = begun.elapsed();
    assert!(took < std::time::Duration::from_secs(3), "{took:?}");
    assert_eq!(
        world.app.find("many-2999").unwrap().as_str(),
        "draft:2999-1"
    );
    let mut seen = 0;
    let mut before = None;
    loop {
        let params = threadline_app::api::ListParams {
            limit: Some(500),
            before,
            archived: false,
            ..Default::default()
        };
        let page = world.app.list(&params).await.unwrap();
        seen += page.threads.len();
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(seen, 3_001);
}
