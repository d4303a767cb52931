use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_contract::Usage;

use super::{Answer, TooLong, Wanted};

fn answer(pieces: &[Value]) -> (Vec<String>, Answer) {
    let mut answer = Answer::default();
    let texts = pieces
        .iter()
        .map(|p| {
            answer
                .add(serde_json::from_value(p.clone()).unwrap())
                .unwrap()
        })
        .collect();
    (texts, answer)
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

fn wanted(id: &str, tool: &str, arguments: &str) -> Wanted {
    Wanted {
        id: id.into(),
        tool: tool.into(),
        arguments: arguments.into(),
    }
}

#[test]
fn text_usage_and_the_reason_to_stop_come_in_pieces() {
    let (texts, answer) = answer(&[
        delta(json!({"role": "assistant", "content": null})),
        delta(json!({"content": "Hel"})),
        delta(json!({"content": [{"type": "text", "text": "lo"}, {"type": "image"}]})),
        json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2, "cost": 0.5}}),
    ]);
    assert_eq!(texts, ["", "Hel", "lo", "", ""]);
    assert_eq!(answer.text, "Hello");
    assert_eq!(answer.finish.as_deref(), Some("stop"));
    assert_eq!(
        answer.usage,
        Some(Usage {
            input_tokens: Some(7),
            output_tokens: Some(2),
            cost_usd: Some(0.5)
        })
    );
}

#[test]
fn calls_are_put_together_by_index() {
    let call = |index: Value, id: Value, name: Value, arguments: &str| {
        delta(json!({"tool_calls": [{
            "index": index, "id": id, "function": {"name": name, "arguments": arguments}
        }]}))
    };
    let no = Value::Null;
    let (_, both) = answer(&[
        call(json!(0), json!("a"), json!("write_file"), ""),
        call(json!(1), json!("b"), json!("list_files"), "{}"),
        call(json!(0), no.clone(), no.clone(), "{\"path\":"),
        call(json!(0), json!(""), no.clone(), "\"x\"}"),
    ]);
    assert_eq!(
        both.calls,
        [
            wanted("a", "write_file", "{\"path\":\"x\"}"),
            wanted("b", "list_files", "{}")
        ]
    );
    let (_, same_index) = answer(&[
        call(json!(0), json!("a"), json!("one"), "{}"),
        call(json!(0), json!("b"), json!("two"), "{}"),
    ]);
    assert_eq!(
        same_index.calls,
        [wanted("a", "one", "{}"), wanted("b", "two", "{}")]
    );
    let (_, no_index) = answer(&[
        call(no.clone(), json!("a"), json!("one"), "{"),
        call(no.clone(), no.clone(), no.clone(), "}"),
        call(no, json!("b"), json!("two"), "{}"),
    ]);
    assert_eq!(
        no_index.calls,
        [wanted("a", "one", "{}"), wanted("b", "two", "{}")]
    );
}

#[test]
fn a_whole_message_is_one_piece() {
    let (texts, answer) = answer(&[json!({
        "choices": [{"message": {"role": "assistant", "content": "Hi", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "list_files", "arguments": "{}"}}
        ]}, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2}
    })]);
    assert_eq!(texts, ["Hi"]);
    assert_eq!(answer.calls, [wanted("c", "list_files", "{}")]);
}

#[test]
fn an_endless_answer_is_refused() {
    let mut answer = Answer::default();
    let mib = "x".repeat(1 << 20);
    let piece = || serde_json::from_value(delta(json!({"content": mib}))).unwrap();
    for _ in 0..16 {
        answer.add(piece()).unwrap();
    }
    assert_eq!(answer.add(piece()), Err(TooLong));
}
