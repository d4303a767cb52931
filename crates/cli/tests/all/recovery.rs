//! The owner is killed without warning, at different moments of a run.

use std::time::Duration;

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Said, World, name_of, signal, until};

fn killed_after(pause: Duration) {
    let world = World::new().with("THREADLINE_BUILTIN_DEMO_PAUSE_MS", "150");
    let run = world.start(&["run", "one two three"]);
    let pid = until("an owner", || world.owner_pid());
    std::thread::sleep(pause);
    signal(pid, Signal::KILL);

    let said = Said::of(run.wait_with_output().unwrap()).ended(0);
    let steps: Vec<&str> = said.err.lines().filter(|l| l.starts_with("  ✓")).collect();
    assert_eq!(
        steps,
        [
            "  ✓ Wrote notes.md",
            "  ✓ Wrote words.csv",
            "  ✓ Wrote words.svg"
        ],
        "each once, in order: {said:?}"
    );
    assert_eq!(said.out.matches("3 words").count(), 1, "{said:?}");
    assert_ne!(world.owner_pid(), Some(pid));

    let threads = world.run(&["threads", "--json"]).ended(0).json();
    let ran = threads["threads"].as_array().unwrap().iter();
    let ran = ran.filter(|t| !t["lastResultCode"].is_null()).count();
    assert_eq!(ran, 1, "one task: {threads}");
    let view = world.thread(&name_of(&said));
    assert_eq!(
        view["thread"]["lifecycleState"]["lastResultCode"],
        "success"
    );
    assert_eq!(
        view["thread"]["contextState"]["lastArtifacts"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    let messages = view["thread"]["contextState"]["messages"]
        .as_array()
        .unwrap();
    let roles: Vec<&Value> = messages.iter().map(|m| &m["role"]).collect();
    assert_eq!(roles, ["user", "assistant"], "nothing ran twice");
}

#[test]
fn killed_as_soon_as_it_is_there() {
    // The task is on its way just then: it is handed over again, and is still one task.
    for pause in [0, 20, 40, 60] {
        killed_after(Duration::from_millis(pause));
    }
}

#[test]
fn killed_while_it_begins() {
    killed_after(Duration::from_millis(250));
}

#[test]
fn killed_in_the_middle() {
    killed_after(Duration::from_millis(600));
}

#[test]
fn killed_near_its_end() {
    killed_after(Duration::from_millis(900));
}

#[test]
fn a_run_that_nobody_watched_is_found_again() {
    let world = World::new().with("THREADLINE_BUILTIN_DEMO_PAUSE_MS", "200");
    let said = world
        .run(&["run", "hello", "--detach", "--json"])
        .ended(0)
        .lines()
        .remove(0);
    let name = said["data"]["thread"]["name"].as_str().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    signal(world.owner_pid().unwrap(), Signal::KILL);
    // A look is enough to have it taken up.
    let view = world.thread(name);
    assert_eq!(view["thread"]["lifecycleState"]["status"], "running");
    world.run(&["watch", name]).ended(0);
    let view = world.thread(name);
    assert_eq!(
        view["thread"]["contextState"]["lastArtifactSyncStatus"],
        "synced"
    );
    assert_eq!(world.starts(), 2);
}

#[test]
fn stopping_the_background_process_only_interrupts() {
    let world = World::new().with("THREADLINE_BUILTIN_DEMO_PAUSE_MS", "300");
    let said = world
        .run(&["run", "hello", "--detach", "--json"])
        .ended(0)
        .lines()
        .remove(0);
    let name = said["data"]["thread"]["name"].as_str().unwrap();
    std::thread::sleep(Duration::from_millis(400));
    world.run(&["stop"]).ended(0);
    assert_eq!(world.owner(), None);
    let said = world.run(&["watch", name]).ended(0);
    assert!(said.out.contains("✓ words.svg"), "{said:?}");
}
