//! The scripted agent in a world, configured by its command line.

use std::{fs, time::Duration};

use serde_json::{Value, json};
use threadline_e2e::world::World;

/// A world that knows the agent `scripted`, and takes so many of its turns at once.
pub(crate) fn world(at_once: usize) -> World {
    let world = World::new();
    let folder = world.path().join("home/.config/threadline");
    fs::create_dir_all(&folder).unwrap();
    let program = env!("CARGO_BIN_EXE_scripted-agent");
    let config = format!(
        "[agents.scripted]\ncommand = [{program:?}]\nmax_active = {at_once}\nmax_queued = 100\n"
    );
    fs::write(folder.join("threadline.toml"), config).unwrap();
    world
}

/// Starts a turn of the scripted agent, with a request id so that it can be sent again.
pub(crate) async fn send(world: &World, thread: &str, prompt: &str) -> Value {
    let mut turn = World::turn_on("scripted", thread, prompt);
    turn["requestId"] = json!(format!("request-{thread}"));
    let sent = world.rpc("session.start", turn).await;
    assert!(
        sent["result"]["runId"].is_string(),
        "{sent:#}\n{}",
        world.log()
    );
    sent["result"].clone()
}

/// Everything that a thread's runs said, as its log adds it up.
pub(crate) fn said(events: &[Value]) -> String {
    let deltas = events.iter().map(|event| &event["update"]);
    let deltas = deltas.filter(|update| update["event"] == json!("delta"));
    deltas
        .filter_map(|update| update["text"].as_str())
        .collect()
}

/// Waits until a thread said this.
pub(crate) async fn says(world: &World, thread: &str, words: &str) {
    let begun = std::time::Instant::now();
    while !said(&world.events(thread).await).contains(words) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", world.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
