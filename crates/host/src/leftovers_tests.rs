use std::process::{Child, Command};

use pretty_assertions::assert_eq;

use super::*;

fn marked_sleep(mark: &str) -> Child {
    let mut sleep = Command::new("sleep");
    sleep.arg("60").env(MARK, mark).spawn().unwrap()
}

/// Between fork and exec a child still has the environment of its parent.
fn until_marked(mark: &str) {
    let begun = Instant::now();
    let dead = [DeadHost {
        boot: mark,
        agent: None,
        family: BTreeSet::new(),
    }];
    while left_behind(&dead).iter().all(Vec::is_empty) && begun.elapsed() < Duration::from_secs(10)
    {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_carries_the_mark_of_a_dead_host_is_found_and_nothing_else() {
    let mark = |name: &str| format!("sweep-test-{name}-{}", std::process::id());
    let (first, second, third) = (mark("a"), mark("b"), mark("c"));
    let mut ours = [
        marked_sleep(&first),
        marked_sleep(&first),
        marked_sleep(&second),
    ];
    let mut other = marked_sleep("another");
    until_marked(&first);
    until_marked(&second);
    let hosts = [&first, &second, &third].map(|boot| DeadHost {
        boot,
        agent: None,
        family: BTreeSet::new(),
    });
    let ended = end_leftovers(&hosts, Duration::from_secs(10));
    assert_eq!(ended, [Some(2), Some(1), Some(0)]);
    for child in &mut ours {
        assert!(!child.wait().unwrap().success());
    }
    assert!(other.try_wait().unwrap().is_none());
    other.kill().unwrap();
    other.wait().unwrap();
}
