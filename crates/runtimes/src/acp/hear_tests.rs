use pretty_assertions::assert_eq;
use serde_json::json;
use threadline_host::Frame as HostFrame;

use super::*;
use crate::journaled::Past as _;

fn bound() -> Past {
    let mut past = Past::default();
    past.apply(super::super::past::Line::Bound(Box::new(Bound {
        boot: "b".into(),
        base: 10,
        ..Bound::default()
    })));
    past
}

/// A past in which the agent works.
fn prompted() -> Past {
    let mut past = bound();
    past.session = Some("s".into());
    past.prompted = Some(1_000);
    past
}

fn entry(no: u64, at: i64, frame: Value) -> Entry {
    Entry {
        no,
        at,
        what: What::Said(HostFrame::of(&frame).unwrap()),
    }
}

fn take(past: &mut Past, entry: &Entry) -> Heard {
    let heard = hear(past, entry);
    past.apply(super::super::past::Line::Heard(Box::new(heard.clone())));
    heard
}

fn permission(id: Value, options: Value) -> Value {
    let params = json!({"sessionId": "s", "options": options, "toolCall": {"toolCallId": "1", "title": "Do"}});
    json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params})
}

#[test]
fn options_with_the_same_words_can_be_told_apart() {
    let option = |id: &str, kind: &str| json!({"optionId": id, "name": "Allow", "kind": kind});
    let options = json!([
        option("b", "allow_always"),
        option("a", "allow_once"),
        {"optionId": "c"},
        {"name": "no id"},
        {"optionId": "", "name": " ", "kind": "weird"},
    ]);
    let heard = take(
        &mut prompted(),
        &entry(7, 0, permission(json!("x"), options)),
    );
    let asked = heard.frames.iter().find_map(|frame| match &frame.update {
        Update::Asked(ask) => Some(ask.clone()),
        _ => None,
    });
    let ask = asked.unwrap();
    let labels: Vec<(&str, &str)> = ask
        .options
        .iter()
        .map(|o| (o.option_id.as_str(), o.label.as_str()))
        .collect();
    assert_eq!(ask.id.as_str(), "q-b-7");
    assert_eq!(
        labels,
        [
            ("a", "Allow"),
            ("b", "Allow (b)"),
            ("c", "c"),
            ("", "weird")
        ]
    );
}

/// Agents leave out of a tool call what they like; what is there is asked with.
#[test]
fn a_permission_names_the_tool_as_far_as_the_agent_does() {
    let asked = |calls: &[Value], call: Value| {
        let mut past = prompted();
        for (no, call) in calls.iter().enumerate() {
            let params = json!({"sessionId": "s", "update": call});
            let frame = json!({"jsonrpc": "2.0", "method": "session/update", "params": params});
            take(&mut past, &entry(no as u64 + 1, 0, frame));
        }
        let params = json!({"sessionId": "s", "options": [], "toolCall": call});
        let frame = json!({"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": params});
        let heard = take(&mut past, &entry(9, 0, frame));
        let mut asks = heard.frames.iter().filter_map(|frame| match &frame.update {
            Update::Asked(ask) => Some((ask.text.clone(), ask.tool)),
            _ => None,
        });
        asks.next().unwrap()
    };
    let told = json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "Write a.md", "kind": "edit"});
    for (calls, call, text, tool) in [
        // Told before, and only meant here.
        (
            vec![told],
            json!({"toolCallId": "1"}),
            "Write a.md",
            ToolKind::Edit,
        ),
        // First heard of here.
        (
            vec![],
            json!({"toolCallId": "1", "title": "ls", "kind": "execute"}),
            "ls",
            ToolKind::Execute,
        ),
        // Without an id.
        (
            vec![],
            json!({"title": "ls", "kind": "execute"}),
            "ls",
            ToolKind::Execute,
        ),
        (vec![], json!({"kind": "fetch"}), "fetch", ToolKind::Fetch),
        // Nothing at all, or nothing that is known.
        (vec![], json!({}), "use a tool", ToolKind::Other),
        (
            vec![],
            json!({"toolCallId": "1", "kind": "teleport"}),
            "teleport",
            ToolKind::Other,
        ),
    ] {
        let want = (format!("Allow this? {text}"), Some(tool));
        assert_eq!(asked(&calls, call), want);
    }
}

#[test]
fn time_stands_still_while_a_question_is_open() {
    let mut past = prompted();
    take(&mut past, &entry(1, 2_000, permission(json!(1), json!([]))));
    assert_eq!((past.spent(2_000), past.spent(9_000)), (1_000, 1_000));
    let sent = Entry {
        no: 2,
        at: 10_000,
        what: What::Sent {
            key: "reply:1".into(),
            frame: None,
        },
    };
    take(&mut past, &sent);
    assert_eq!(past.spent(12_000), 3_000);
}

#[test]
fn a_request_that_is_taken_back_waits_no_more() {
    let mut past = prompted();
    take(&mut past, &entry(1, 0, permission(json!("r"), json!([]))));
    let back =
        json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "r"}});
    let heard = take(&mut past, &entry(2, 0, back));
    let unasked = Update::Unasked(QuestionId::new("q-b-1").unwrap());
    assert_eq!(heard.frames.last().map(|f| &f.update), Some(&unasked));
    assert_eq!(past.requests.len(), 0);
}

#[test]
fn what_comes_before_the_prompt_is_nobodys() {
    let mut past = bound();
    past.session = Some("s".into());
    let text = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": {
        "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "old"}}}});
    assert_eq!(take(&mut past, &entry(1, 0, text)).frames, vec![]);
    // The answer to a prompt of another run has another number.
    let answer = json!({"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "end_turn"}});
    assert_eq!(take(&mut past, &entry(2, 0, answer)).end, None);
    // A permission outside of a turn is answered without asking anybody.
    take(&mut past, &entry(3, 0, permission(json!(5), json!([]))));
    let due = super::super::due::due(&past);
    let reply = due.into_iter().find(|(key, _)| key == "reply:3");
    assert_eq!(reply, None, "a run that has not begun answers nothing");
    assert_eq!(past.open().count(), 0);
}

#[test]
fn a_permission_says_what_kind_of_tool_call_it_is_for() {
    let mut past = prompted();
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": "told", "title": "Look", "kind": "read"});
    let told = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": call}});
    take(&mut past, &entry(7, 0, told));
    for (no, call, kind) in [
        (
            8,
            json!({"toolCallId": "a", "title": "Run", "kind": "execute"}),
            ToolKind::Execute,
        ),
        // Told before, and not said again.
        (9, json!({"toolCallId": "told"}), ToolKind::Read),
        // Of a kind that came with a later version, or of none: never taken for a harmless one.
        (
            10,
            json!({"toolCallId": "b", "kind": "switch_mode"}),
            ToolKind::Other,
        ),
        (
            11,
            json!({"toolCallId": "c", "title": "Do"}),
            ToolKind::Other,
        ),
        (12, json!({}), ToolKind::Other),
    ] {
        let params = json!({"sessionId": "s", "options": [], "toolCall": call});
        let asked = json!({"jsonrpc": "2.0", "id": no, "method": "session/request_permission", "params": params});
        let heard = take(&mut past, &entry(no, 0, asked));
        let tools: Vec<_> = heard
            .frames
            .iter()
            .filter_map(|frame| match &frame.update {
                Update::Asked(ask) => ask.tool,
                _ => None,
            })
            .collect();
        assert_eq!(tools, [kind], "{call}");
    }
}

#[test]
fn a_last_word_that_cannot_be_read_may_be_the_end() {
    let mut past = prompted();
    let stray = |no: u64, meant| Entry {
        no,
        at: 0,
        what: What::Stray(Stray {
            reason: StrayReason::NotJson,
            bytes: 9,
            head: "{\"broken".into(),
            meant,
        }),
    };
    let told = Kind::Notification { method: "m".into() };
    take(&mut past, &stray(1, Some(told)));
    assert!(!past.may_be_over(), "nobody waits for a notification");
    take(&mut past, &stray(2, Some(Kind::Other)));
    assert!(past.may_be_over());
    let text =
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "on"}});
    let update = json!({"method": "session/update", "params": {"sessionId": "s", "update": text}});
    take(&mut past, &entry(3, 0, update));
    assert!(!past.may_be_over(), "it goes on");
    take(&mut past, &stray(4, Some(Kind::Other)));
    take(&mut past, &entry(5, 0, permission(json!(1), json!([]))));
    take(&mut past, &stray(6, Some(Kind::Other)));
    assert!(!past.may_be_over(), "it waits for a person");
    take(&mut past, &stray(7, None));
    assert_eq!(past.not_read, 4, "a line of a log is none");
}

#[test]
fn a_step_that_is_open_when_its_turn_ends_is_shown_as_what_is_known() {
    let mut past = prompted();
    let told = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": {
        "sessionUpdate": "tool_call", "toolCallId": "2", "title": "Look"}}});
    take(&mut past, &entry(1, 0, told));
    take(&mut past, &entry(2, 0, permission(json!(1), json!([]))));
    let answer = json!({"jsonrpc": "2.0", "id": 12, "result": {"stopReason": "end_turn"}});
    let heard = take(&mut past, &entry(3, 0, answer));
    let steps: Vec<_> = heard
        .frames
        .iter()
        .filter_map(|frame| match &frame.update {
            Update::Step(step) => Some((&*step.step_id, step.state, step.detail.as_deref())),
            _ => None,
        })
        .collect();
    use threadline_contract::StepState::{Done, Failed};
    assert_eq!(
        steps,
        [
            ("1", Failed, Some("Nobody said whether it is allowed.")),
            ("2", Done, Some("The agent did not say how this ended.")),
        ]
    );
}

#[test]
fn a_version_is_a_number_however_it_is_written() {
    for (version, is_known) in [("1", true), ("1.0", true), ("2", false), ("1.5", false)] {
        let mut past = bound();
        let text = format!(r#"{{"id":10,"result":{{"protocolVersion":{version}}}}}"#);
        let frame = serde_json::from_str(&text).unwrap();
        let heard = take(&mut past, &entry(1, 0, frame));
        assert_eq!(
            (heard.end.is_none(), past.agent.is_some()),
            (is_known, is_known),
            "{version}"
        );
    }
}
