use pretty_assertions::assert_eq;

use super::*;
use crate::screen::fixtures::request;

fn turn(thread: &str, prompt: &str, attachments: u32) -> QueuedTurnView {
    QueuedTurnView {
        thread_id: AppThreadKey::new(thread).unwrap(),
        thread_name: thread.into(),
        request_id: request("q"),
        prompt: prompt.into(),
        waits_for: match attachments {
            2 => WaitsFor::Place,
            _ => WaitsFor::OwnThread,
        },
        position: 1,
        queued: 3,
        attachments,
        expect: vec![],
        queued_at_ms: Millis(0),
    }
}

#[test]
fn messages_are_numbered_within_their_threads() {
    let turns = [
        turn("river-report", "Add a\ntable", 0),
        turn("a", "Vẽ bản đồ", 2),
        turn("river-report", "Add\u{1b}[2J a map", 1),
    ];
    assert_eq!(numbers(&turns), [1, 1, 2]);
    assert_eq!(
        waiting(&turns, Millis(120_000), &TimeZone::UTC, Terminal::PLAIN),
        "\
river-report  1  2 min ago, for the run before it               Add a table
a             1  2 min ago, 2 files, for a free place (1 of 3)  Vẽ bản đồ
river-report  2  2 min ago, 1 file, for the run before it       Add\u{fffd}[2J a map
"
    );
}
