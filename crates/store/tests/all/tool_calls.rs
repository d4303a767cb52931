//! Tool calls: recorded once under a lease, each with the first of its results.

use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_contract::{Millis, ToolCall, ToolResult};
use threadline_store::{StoreError, StoredToolCall};

use crate::world::{World, on_both};

on_both![
    a_call_comes_back_whole_with_its_first_result,
    calls_are_fenced,
];

fn call(id: &str) -> ToolCall {
    ToolCall {
        id: id.into(),
        name: "note \0 add".into(),
        arguments: json!({"text": "a \0 b", "n": 3}),
    }
}

async fn a_call_comes_back_whole_with_its_first_result(world: World) {
    let (run, lease) = world.leased().await;
    let store = &world.store;
    for id in ["call-1-2", "call-1-1"] {
        store
            .record_tool_call(&lease, &call(id), Millis(1))
            .await
            .unwrap();
    }
    // The same call again, whatever it says now, changes nothing.
    let other = ToolCall {
        name: "other".into(),
        ..call("call-1-2")
    };
    store
        .record_tool_call(&lease, &other, Millis(2))
        .await
        .unwrap();
    let first = ToolResult::done("one \0 two");
    for result in [&first, &ToolResult::failed("late")] {
        let stands = store
            .record_tool_result(&lease, "call-1-2", result, Millis(3))
            .await;
        assert_eq!(stands.unwrap(), first);
    }
    let stored = |id: &str, result: Option<&ToolResult>| StoredToolCall {
        call: call(id),
        result: result.cloned(),
    };
    assert_eq!(
        store.tool_calls(&run.id).await.unwrap(),
        [stored("call-1-2", Some(&first)), stored("call-1-1", None)]
    );
    let unknown = store
        .record_tool_result(&lease, "call-9-9", &first, Millis(3))
        .await;
    assert!(matches!(unknown, Err(StoreError::NotFound)), "{unknown:?}");
}

async fn calls_are_fenced(world: World) {
    let (run, stale) = world.stale().await;
    let store = &world.store;
    let recorded = store
        .record_tool_call(&stale, &call("call-1-1"), Millis(1))
        .await;
    assert!(matches!(recorded, Err(StoreError::Stale)), "{recorded:?}");
    let result = ToolResult::done("x");
    let ended = store.record_tool_result(&stale, "call-1-1", &result, Millis(1));
    let ended = ended.await;
    assert!(matches!(ended, Err(StoreError::Stale)), "{ended:?}");
    assert_eq!(store.tool_calls(&run.id).await.unwrap(), []);
}
