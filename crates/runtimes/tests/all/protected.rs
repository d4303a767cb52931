//! A turn whose work folder lies above our own folders reaches none of them.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_contract::{Code, Deliverable, OmitReason};
use threadline_runtimes::{Files as _, TurnPlan, Turns as _, Update};

use crate::world::{World, finish, plan, plan_of};

/// A home with the world's data folder in it, and settings beside: all with secrets.
async fn home() -> (World, PathBuf) {
    let mut world = World::with_model("no-usage").await;
    let home = world.path().to_owned();
    fs::create_dir_all(home.join("config")).unwrap();
    fs::create_dir_all(home.join("hosts/s1")).unwrap();
    for secret in [
        "data/token",
        "data/threadline.db",
        "config/threadline.toml",
        "hosts/s1/socket",
        "loaded.toml",
    ] {
        fs::write(home.join(secret), "SECRET").unwrap();
    }
    fs::write(home.join("mine.md"), "mine").unwrap();
    let protected = ["config", "hosts", "loaded.toml", "later/threadline"].map(|p| home.join(p));
    world.config.workspace = world.config.workspace.clone().protecting(protected);
    (world, home)
}

fn in_folder(folder: &Path, run: &str, prompt: &str, expects: &[&str]) -> TurnPlan {
    let deliverable = |glob: &&str| Deliverable {
        glob: (*glob).to_owned(),
        content_type: None,
        min_bytes: None,
        min_count: None,
    };
    TurnPlan {
        working_directory: Some(folder.to_owned()),
        deliverables: expects.iter().map(deliverable).collect(),
        ..plan(run, prompt)
    }
}

fn call(tool: &str, arguments: serde_json::Value) -> String {
    format!("[[call {tool} {arguments}]]")
}

/// Every way in that a tool call can name, and what the model is told of each.
#[tokio::test]
async fn no_tool_reaches_our_own_folders_from_a_folder_above() {
    let (world, home) = home().await;
    let builtin = world.builtin();
    // Another session's work, and links of every kind that the user's folder may hold.
    let other = plan_of("other", "run-1", "[[write theirs.md = SECRET]]");
    finish(&builtin, &other).await;
    symlink(home.join("data/token"), home.join("link")).unwrap();
    symlink("data", home.join("folder")).unwrap();
    fs::hard_link(home.join("data/token"), home.join("hard")).unwrap();
    fs::hard_link(home.join("loaded.toml"), home.join("hard.toml")).unwrap();
    let theirs = fs::read_dir(home.join("data/tasks")).unwrap();
    let theirs = theirs
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .next()
        .unwrap();
    let absolute = home.join("data/token").display().to_string();
    let theirs = format!("data/tasks/{theirs}/work/theirs.md");
    let ways = [
        "data/token",
        "./data/threadline.db",
        absolute.as_str(),
        "config/threadline.toml",
        "loaded.toml",
        "hosts/s1/socket",
        "link",
        "folder/token",
        "hard",
        "hard.toml",
        theirs.as_str(),
        "data/new",
        "later/threadline/threadline.toml",
    ];
    let mut number = 0;
    for way in ways {
        for call in [
            call("read_file", json!({"path": way})),
            call("write_file", json!({"path": way, "content": "evil"})),
            call(
                "edit_file",
                json!({"path": way, "old": "SECRET", "new": "evil"}),
            ),
        ] {
            // A name beside a second name of the same bytes is the user's to give away.
            let harmless = call.contains("write_file") && way.starts_with("hard");
            // Nothing can be edited that is not there; that it may not be made is told when it is written.
            let absent = way.contains("new") || way.contains("later");
            if harmless || (absent && !call.contains("write_file")) {
                continue;
            }
            number += 1;
            let turn = in_folder(&home, &format!("run-{number}"), &call, &[]);
            let (frames, end) = finish(&builtin, &turn).await;
            let details: Vec<Option<String>> = frames
                .into_iter()
                .filter_map(|f| match f.update {
                    Update::Step(step) => step.detail,
                    _ => None,
                })
                .map(Some)
                .collect();
            let told = format!(
                "{way}: The path leads to Threadline's own data or settings, which no task may read or change. Name a file of yours (PATH_PROTECTED)."
            );
            assert_eq!(details, [Some(told)], "{call}");
            assert_eq!(end.wrote, Vec::<String>::new(), "{call}");
        }
    }
    let requests = world.seen.requests();
    let messages = requests.iter().filter_map(|r| r["messages"].as_array());
    let results: Vec<&str> = messages
        .flatten()
        .filter(|m| m["role"] == "tool")
        .filter_map(|m| m["content"].as_str())
        .filter(|text| text.contains("SECRET"))
        .collect();
    assert_eq!(results, Vec::<&str>::new());
    for secret in [
        "data/token",
        "data/threadline.db",
        "config/threadline.toml",
        "loaded.toml",
    ] {
        assert_eq!(fs::read_to_string(home.join(secret)).unwrap(), "SECRET");
    }
    assert!(!home.join("later").exists());
}

#[tokio::test]
async fn a_listing_skips_our_own_folders_and_says_so() {
    let (world, home) = home().await;
    let builtin = world.builtin();
    let turn = in_folder(&home, "run-1", "[[list]] [[say {last}]]", &[]);
    let (_, end) = finish(&builtin, &turn).await;
    assert_eq!(
        end.text.as_deref(),
        Some(
            "config (Threadline's own, not listed)\n\
             data (Threadline's own, not listed)\n\
             hosts (Threadline's own, not listed)\n\
             loaded.toml (Threadline's own, not listed)\n\
             mine.md (4 bytes)"
        )
    );
    let inside = call("list_files", json!({"path": "data"}));
    let (_, end) = finish(
        &builtin,
        &in_folder(&home, "run-2", &format!("{inside} [[say {{last}}]]"), &[]),
    )
    .await;
    assert!(end.text.unwrap().ends_with("(PATH_PROTECTED)."));
}

#[tokio::test]
async fn nothing_of_ours_is_delivered_from_a_folder_above() {
    let (world, home) = home().await;
    let builtin = world.builtin();
    fs::hard_link(home.join("data/token"), home.join("hard")).unwrap();
    let expects = ["**/*", "data/token", "hard", "loaded.toml"];
    let turn = in_folder(&home, "run-1", "[[write made.md = made]]", &expects);
    let (_, mut end) = finish(&builtin, &turn).await;
    // As if another process had written them during the turn, and the runtime named them.
    for secret in ["data/token", "loaded.toml", "config/threadline.toml"] {
        fs::write(home.join(secret), "SECRET 2").unwrap();
    }
    end.wrote.push("config/threadline.toml".into());
    let manifest = builtin.collect(&turn, &end).await.unwrap();
    let delivered: Vec<String> = manifest
        .artifacts
        .iter()
        .map(|a| a.unwrap().path.to_string())
        .collect();
    assert_eq!(delivered, ["made.md"]);
    let left: Vec<(&str, OmitReason)> = manifest
        .omitted
        .iter()
        .map(|o| (o.path.as_str(), o.reason))
        .collect();
    assert_eq!(
        left,
        [
            ("config/threadline.toml", OmitReason::Protected),
            ("data/token", OmitReason::Protected),
            ("hard", OmitReason::Protected),
            ("loaded.toml", OmitReason::Protected),
        ]
    );
}

#[tokio::test]
async fn our_own_folders_are_no_working_directory() {
    let (world, home) = home().await;
    let builtin = world.builtin();
    finish(&builtin, &plan_of("other", "run-1", "hello")).await;
    for folder in ["data", "data/tasks", "config", "hosts/s1"] {
        let turn = in_folder(&home.join(folder), "run-1", "hello", &[]);
        let fault = builtin.prepare(&turn).await.unwrap_err();
        assert_eq!(fault.code, Code::WorkdirNotAllowed, "{folder}: {fault}");
    }
}

/// Its own scope is the one folder of ours that a turn may write, wherever it works.
#[tokio::test]
async fn the_runs_own_folder_is_reached_by_its_path() {
    let (world, home) = home().await;
    let builtin = world.builtin();
    let first = in_folder(&home, "run-1", "hello", &[]);
    let scope = builtin.prepare(&first).await.unwrap().artifact_directory;
    let relative = scope.strip_prefix(&home).unwrap().join("two.md");
    let prompt = format!(
        "{} {}",
        call(
            "write_file",
            json!({"path": scope.join("one.md"), "content": "1"})
        ),
        call("write_file", json!({"path": relative, "content": "2"})),
    );
    let turn = TurnPlan { prompt, ..first };
    let (_, end) = finish(&builtin, &turn).await;
    let manifest = builtin.collect(&turn, &end).await.unwrap();
    let mut delivered: Vec<String> = manifest
        .artifacts
        .iter()
        .map(|a| a.unwrap().path.to_string())
        .collect();
    delivered.sort_unstable();
    assert_eq!(delivered, ["one.md", "two.md"]);
}

#[tokio::test]
async fn a_link_in_the_users_folder_is_written_through_and_stays() {
    let (world, home) = home().await;
    let builtin = world.builtin();
    let project = home.join("project");
    fs::create_dir_all(project.join("real")).unwrap();
    fs::write(project.join("real/notes.md"), "old").unwrap();
    symlink("real/notes.md", project.join("notes.md")).unwrap();
    symlink(home.join("mine.md"), project.join("out.md")).unwrap();
    let prompt = format!(
        "{} {} {} [[say {{last}}]]",
        call("write_file", json!({"path": "notes.md", "content": "new"})),
        call(
            "edit_file",
            json!({"path": "notes.md", "old": "new", "new": "newer"})
        ),
        call("write_file", json!({"path": "out.md", "content": "evil"})),
    );
    let turn = in_folder(&project, "run-1", &prompt, &[]);
    let (_, end) = finish(&builtin, &turn).await;
    assert_eq!(
        end.text.as_deref(),
        Some("out.md leads out of the work folder through a symbolic link.")
    );
    assert_eq!(end.wrote, ["real/notes.md"]);
    let link = fs::read_link(project.join("notes.md")).unwrap();
    assert_eq!(link, Path::new("real/notes.md"));
    assert_eq!(
        fs::read_to_string(project.join("real/notes.md")).unwrap(),
        "newer"
    );
    assert_eq!(fs::read_to_string(home.join("mine.md")).unwrap(), "mine");
}
