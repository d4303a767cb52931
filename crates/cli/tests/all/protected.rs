//! An agent that is let into the home folder reaches nothing of Threadline's own there.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::{
    model::{Model, calls, last_answer, says},
    support::World,
};

#[test]
fn an_agent_in_the_home_folder_never_reads_or_delivers_the_token_and_the_settings() {
    let model = Model::start(vec![
        |_| calls("read_file", &json!({"path": "data/token"})),
        |_| calls("read_file", &json!({"path": "threadline.toml"})),
        |_| {
            calls(
                "read_file",
                &json!({"path": ".config/threadline/threadline.toml"}),
            )
        },
        |_| {
            calls(
                "write_file",
                &json!({"path": "threadline.toml", "content": "evil"}),
            )
        },
        |_| calls("write_file", &json!({"path": "made.md", "content": "made"})),
        |request| {
            let messages = request["messages"].as_array().unwrap().iter();
            let told = messages.filter(|m| m["role"] == "tool");
            let told: Vec<&str> = told.filter_map(|m| m["content"].as_str()).collect();
            says(&format!("{}\n{}", told.join("\n"), last_answer(request)))
        },
    ]);
    let mut world = World::new()
        .with("THREADLINE_MODEL_URL", &model.url)
        .with("THREADLINE_MODEL", "script");
    // Not in a folder whose name begins with a dot, which is never looked into.
    let data = world.home().join("data");
    world.set("THREADLINE_DATA", data.to_str().unwrap());
    let own = world.home().join(".config/threadline");
    fs::create_dir_all(&own).unwrap();
    let settings = "[owner]\nidle_seconds = 31\n";
    fs::write(own.join("threadline.toml"), settings).unwrap();
    fs::write(world.home().join("threadline.toml"), settings).unwrap();
    let home = world.home().to_str().unwrap();
    let run = ["run", "--in", home, "--expect", "**/*", "go", "--json"];
    let said = world.run(&run);
    let token = fs::read_to_string(world.data().join("token")).unwrap();
    let everything = format!("{}{}", said.out, said.err);
    assert!(
        !everything.contains(token.trim()) && !everything.contains("idle_seconds"),
        "{said:#?}"
    );
    assert_eq!(
        everything.matches("(PATH_PROTECTED)").count() % 4,
        0,
        "{said:#?}"
    );
    assert!(everything.contains("(PATH_PROTECTED)"), "{said:#?}");
    assert_eq!(
        fs::read_to_string(world.home().join("threadline.toml")).unwrap(),
        settings
    );
    let mut delivered = Vec::new();
    let mut left = vec![world.home().join(".xworkmate/threads")];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true if path.ends_with(".xworkmate") => {}
                true => left.push(path),
                false => delivered.push(path.file_name().unwrap().to_owned()),
            }
        }
    }
    assert_eq!(delivered, ["made.md"], "{said:#?}");
}
