use pretty_assertions::assert_eq;
use threadline_contract::{AppThreadKey, RequestId};

use super::*;

fn turn(request: &str) -> QueuedTurnView {
    QueuedTurnView {
        thread_id: AppThreadKey::new("draft:1-1").unwrap(),
        thread_name: "river-report".into(),
        request_id: RequestId::new(request).unwrap(),
        prompt: format!("say {request}"),
        waits_for: threadline_app::api::WaitsFor::OwnThread,
        position: 1,
        queued: 2,
        attachments: 0,
        expect: vec![],
        queued_at_ms: Millis(0),
    }
}

fn picked(turns: &[&str], named: Option<&str>) -> Result<String, String> {
    let which = QueueTurn {
        thread: "river".into(),
        turn: named.map(str::to_owned),
    };
    let turns = turns.iter().map(|request| turn(request)).collect();
    let picked = pick(turns, &which);
    picked
        .map(|turn| turn.request_id.to_string())
        .map_err(|fault| format!("{}: {}", fault.code, fault.message))
}

#[test]
fn a_message_is_named_where_several_wait() {
    assert_eq!(picked(&["a"], None), Ok("a".into()));
    assert_eq!(picked(&["a", "b"], Some("2")), Ok("b".into()));
    assert_eq!(picked(&["a", "b"], Some("a")), Ok("a".into()));
    assert_eq!(
        picked(&["a", "b"], None),
        Err("INVALID_REQUEST: Several messages of river wait. Say which one, with --turn:\n  --turn 1  say a\n  --turn 2  say b".into())
    );
    for wrong in ["0", "3", "c", "-1"] {
        assert_eq!(
            picked(&["a", "b"], Some(wrong)),
            Err(format!(
                "TURN_NOT_WAITING: No message of river that waits is --turn {wrong}. `threadline queue list river` lists them."
            ))
        );
    }
    assert_eq!(
        picked(&[], None),
        Err("TURN_NOT_WAITING: No message of river waits.".into())
    );
}
