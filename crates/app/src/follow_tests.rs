use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

#[test]
fn a_run_is_waited_for_a_little_longer_than_the_bridge_gives_it() {
    let waited = |minutes: Value| {
        let snapshot: Snapshot = serde_json::from_value(json!({
            "success": true, "status": "running", "sessionId": "t", "threadId": "t", "appThreadKey": "t",
            "runId": "turn-1", "turnId": "turn-1", "sessionKey": "s", "runtime": "builtin", "mode": "agent-chat",
            "artifactScope": "tasks/s/turn-1", "createdAt": 1, "source": "registry", "observedAt": 2,
            "runtimeBudgetMinutes": minutes,
        }))
        .unwrap();
        deadline(&snapshot, Duration::from_secs(7)).as_secs()
    };
    assert_eq!(waited(json!(10)), 15 * 60);
    assert_eq!(waited(json!(60)), 65 * 60);
    // A bridge that does not say is waited for as long as we say.
    assert_eq!(waited(json!(null)), 7);
}
