//! Messages that wait: seen, dropped and edited, and what Ctrl-C of one terminal does to another's.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::{Said, World, signal, until};

/// A thread whose run goes on for as long as a test needs.
fn busy() -> (World, String) {
    let world = World::new().with("THREADLINE_BUILTIN_DEMO_PAUSE_MS", "3000");
    let sent = world.run(&["run", "first", "--detach", "--json"]).ended(0);
    let name = sent.lines()[1]["data"]["name"].as_str().unwrap().to_owned();
    (world, name)
}

fn asked(world: &World, name: &str) -> Vec<(String, String)> {
    let view = world.thread(name);
    let messages = view["thread"]["contextState"]["messages"]
        .as_array()
        .unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let own = messages.iter().filter(|m| m["role"] == "user");
    own.map(|m| (text(&m["text"]), text(&m["state"]))).collect()
}

fn states(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(text, state): &(&str, &str)| ((*text).to_owned(), (*state).to_owned());
    pairs.iter().map(own).collect()
}

#[test]
fn ctrl_c_on_a_message_that_waits_drops_it_and_nothing_else() {
    let (world, name) = busy();
    let second = world.start(&["run", "--thread", &name, "second"]);
    until("the second waits", || {
        let list = world.run(&["queue", "--json"]).ended(0).json();
        (list["turns"].as_array().unwrap().len() == 1).then_some(())
    });
    world
        .run(&["run", "--thread", &name, "third", "--detach"])
        .ended(0);
    // It must have seen the message waiting before it is told to drop it.
    std::thread::sleep(std::time::Duration::from_millis(300));
    signal(second.id(), rustix::process::Signal::INT);
    let said = Said::of(second.wait_with_output().unwrap()).ended(4);
    assert!(said.err.contains("Dropping the message"), "{said:?}");
    assert!(
        said.err
            .contains("The message was dropped before it began. The run before it goes on"),
        "{said:?}"
    );
    assert_eq!(
        asked(&world, &name),
        states(&[
            ("first", "running"),
            ("second", "dropped"),
            ("third", "queued")
        ])
    );
    world.run(&["cancel", &name]).ended(0);
}

#[test]
fn messages_that_wait_are_listed_dropped_and_edited() {
    let (world, name) = busy();
    assert_eq!(world.run(&["queue"]).ended(0).out, "No message waits.\n");
    for text in ["secnod", "third"] {
        world
            .run(&["run", "--thread", &name, text, "--detach"])
            .ended(0);
    }
    let listed = world.run(&["queue", "list", &name]).ended(0).out;
    assert_eq!(
        listed,
        format!(
            "{name}  1  just now, for the run before it  secnod\n{name}  2  just now, for the run before it  third\n"
        )
    );
    let shown = world.run(&["show", &name]).ended(0).out;
    let way = format!("Waiting 2 messages: threadline queue list {name}\n");
    assert!(shown.contains(&way), "{shown}");
    let status = world.run(&["status"]).ended(0).out;
    let head = status.lines().next().unwrap();
    assert!(
        head.starts_with("1 running, 0 queued, 2 messages waiting in their threads, "),
        "{status}"
    );
    assert!(status.contains(&listed), "{status}");
    let said = world.run(&["queue", "drop", &name]).ended(2);
    assert!(said.err.contains("--turn 2  third"), "{said:?}");
    let said = world.run(&["queue", "drop", &name, "--turn", "2"]).ended(0);
    assert_eq!(
        said.out,
        format!("{name}: the message that waited is dropped: third\n")
    );
    let said = world.run(&["queue", "edit", &name, "second"]).ended(0);
    assert_eq!(
        said.out,
        format!("{name}: the message that waits says now: second\n")
    );
    world
        .run_with_input(&["queue", "edit", &name, "-"], b"second, and more")
        .ended(0);
    world.run(&["queue", "edit", &name, " "]).ended(2);
    assert_eq!(
        asked(&world, &name),
        states(&[
            ("first", "running"),
            ("second, and more", "queued"),
            ("third", "dropped")
        ])
    );
    let listed = world.run(&["queue", "--json"]).ended(0).json();
    let turn = &listed["turns"][0];
    assert_eq!(
        (&turn["prompt"], &turn["position"], &turn["threadName"]),
        (&json!("second, and more"), &json!(1), &json!(name))
    );
    let said = world.run(&["queue", "drop", &name, "--turn", "9"]).ended(8);
    assert!(said.err.contains("[TURN_NOT_WAITING]"), "{said:?}");
    world.run(&["cancel", &name]).ended(0);
    world.run(&["queue", "drop", &name]).ended(8);
}
