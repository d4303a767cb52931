use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::Owner;

use crate::TurnPlan;

fn stored(field: &str, value: &str) -> Value {
    json!({
        field: value,
        "session": "builtin:main:x",
        "run": "turn-1",
        "prompt": "hello",
        "continues": false,
        "working_directory": null,
        "expected_dirs": [],
        "deliverables": [],
        "attachments": [],
    })
}

#[test]
fn a_turn_of_a_thread_is_stored_as_ever() {
    for (field, value, owner) in [
        ("thread", "draft:1", "thread:draft:1"),
        // A thread of before this name was reserved.
        ("thread", "build:b1", "thread:build:b1"),
        ("owner", "board:t1:a1:v2", "board:t1:a1:v2"),
        ("owner", "board:base:a1", "board:base:a1"),
        ("owner", "build:b1", "build:b1"),
    ] {
        let plan: TurnPlan = serde_json::from_value(stored(field, value)).unwrap();
        assert_eq!(plan.owner, owner.parse::<Owner>().unwrap());
        let again = serde_json::to_value(&plan).unwrap();
        assert_eq!(again.get(field), Some(&json!(value)));
        assert_eq!(serde_json::from_value::<TurnPlan>(again).unwrap(), plan);
    }
    assert!(serde_json::from_value::<TurnPlan>(stored("whose", "draft:1")).is_err());
}
