use std::{thread, time::Duration};

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn request(id: &str) -> Request {
    Request {
        id: Some(Id::Text(id.to_owned())),
        method: "m".to_owned(),
        params: json!({}),
    }
}

fn queue(concurrent: usize, waiting: usize, patience: Duration) -> Queue {
    Queue::new(Limits {
        concurrent,
        waiting,
        patience,
        ..Limits::default()
    })
}

#[test]
fn workers_come_when_they_are_needed_and_go_when_they_are_not() {
    let queue = queue(2, 3, Duration::ZERO);
    assert_eq!(queue.push(request("a")), Pushed::NeedsWorker);
    assert_eq!(queue.push(request("b")), Pushed::NeedsWorker);
    assert_eq!(queue.push(request("c")), Pushed::Waits);
    for id in ["a", "b", "c"] {
        assert_eq!(queue.next(), Some(Task::Do(request(id))));
    }
    assert_eq!((queue.next(), queue.next()), (None, None));
    assert_eq!(queue.push(request("d")), Pushed::NeedsWorker);
}

#[test]
fn who_brings_too_much_waits() {
    let queue = queue(1, 1, Duration::ZERO);
    queue.push(request("a"));
    assert_eq!(queue.next(), Some(Task::Do(request("a"))));
    queue.push(request("b"));
    thread::scope(|scope| {
        let third = scope.spawn(|| queue.push(request("c")));
        thread::sleep(Duration::from_millis(50));
        assert!(!third.is_finished());
        assert_eq!(queue.next(), Some(Task::Do(request("b"))));
        assert_eq!(third.join().unwrap(), Pushed::Waits);
    });
}

#[test]
fn what_waits_can_be_taken_back_once() {
    let queue = queue(1, 4, Duration::ZERO);
    for id in ["a", "b", "c"] {
        queue.push(request(id));
    }
    assert_eq!(queue.next(), Some(Task::Do(request("a"))));
    assert_eq!(queue.take_back(&Id::Text("a".into())), None);
    assert_eq!(queue.take_back(&Id::Text("b".into())), Some(request("b")));
    assert_eq!(queue.take_back(&Id::Text("b".into())), None);
    assert_eq!(queue.next(), Some(Task::Do(request("c"))));
}

#[test]
fn at_the_end_of_the_input_everything_is_done_and_nothing_is_taken() {
    let queue = queue(1, 4, Duration::ZERO);
    queue.push(request("a"));
    queue.push(request("b"));
    queue.drain();
    assert_eq!(queue.push(request("c")), Pushed::Refused(request("c")));
    assert_eq!(queue.next(), Some(Task::Do(request("a"))));
    assert_eq!(queue.next(), Some(Task::Do(request("b"))));
    assert_eq!(queue.next(), None);
    assert!(queue.wait_for_end());
}

#[test]
fn a_stop_refuses_what_waits_and_has_an_end() {
    let queue = queue(1, 4, Duration::from_millis(60));
    queue.push(request("a"));
    queue.push(request("b"));
    assert_eq!(queue.next(), Some(Task::Do(request("a"))));
    queue.stop();
    // A later end of the input takes nothing back.
    queue.drain();
    assert!(queue.is_stopped());
    assert!(!queue.wait_for_end());
    assert_eq!(queue.next(), Some(Task::Refuse(request("b"))));
    assert_eq!(queue.next(), None);
    assert!(queue.wait_for_end());
}

#[test]
fn a_stop_wakes_who_waits_for_room() {
    let queue = queue(1, 0, Duration::ZERO);
    queue.push(request("a"));
    thread::scope(|scope| {
        let waits = scope.spawn(|| queue.push(request("b")));
        thread::sleep(Duration::from_millis(20));
        queue.stop();
        assert_eq!(waits.join().unwrap(), Pushed::Refused(request("b")));
    });
}
