//! Agents whose lines are not quite what they should be: what can be read is, and what cannot is told.

use pretty_assertions::assert_eq;
use threadline_contract::Code;
use threadline_runtimes::{EndStatus, Turns as _, Update};

use crate::world::*;

const MISSING: &str =
    "Something that the agent said could not be read and is missing from this result.";

fn chunk(text: &str) -> String {
    let content = format!(r#"{{"type":"text","text":"{text}"}}"#);
    let update = format!(r#"{{"sessionUpdate":"agent_message_chunk","content":{content}}}"#);
    format!(
        r#"!raw {{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"$S","update":{update}}}}}"#
    )
}

fn ask(title: &str, more: &str) -> String {
    ask_as(r#""sa""#, "$S", title, more)
}

fn ask_as(id: &str, session: &str, title: &str, more: &str) -> String {
    let call = format!(r#"{{"toolCallId":"x","title":"{title}","kind":"edit"{more}}}"#);
    let options = r#"[{"optionId":"y","name":"Yes","kind":"allow_once"}]"#;
    format!(
        r#"!raw {{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{{"sessionId":"{session}","toolCall":{call},"options":{options}}}}}"#
    )
}

fn notes(updates: &[Update]) -> Vec<&str> {
    let all = updates.iter().filter_map(|update| match update {
        Update::Note(note) => Some(note.as_str()),
        _ => None,
    });
    all.collect()
}

#[tokio::test]
async fn half_an_emoji_does_not_cost_the_text_around_it() {
    let orders = [
        chunk(r"party \ud83d"),
        chunk(r"\ude00 time"),
        chunk("\tend"),
    ];
    let (seen, end) = finish(&World::new().acp(), &plan("r1", &orders.join("\n"))).await;
    assert_eq!(texts(&seen), "party \u{fffd}\u{fffd} time\tend");
    assert_eq!((end.status, end.message), (EndStatus::Completed, None));
}

#[tokio::test]
async fn permissions_are_asked_for_whatever_stands_in_them() {
    let deep = format!(r#","rawInput":{}{}"#, "[".repeat(300), "]".repeat(300));
    let asks = [
        (
            ask(r"write \ud83d notes", ""),
            "Allow this? write \u{fffd} notes",
        ),
        (ask("deep", &deep), "Allow this? deep"),
        (
            ask("much", r#","rawInput":[1e999,NaN]"#),
            "Allow this? much",
        ),
    ];
    for (order, text) in asks {
        let (world, plan) = (World::new(), plan("r1", &format!("{order}\n!hang")));
        let acp = world.acp();
        let mut follow = begin(&acp, &plan).await;
        let (_, ask) = question(&mut follow).await;
        assert_eq!(ask.text, text);
        acp.cancel(&plan.run_ref()).await.unwrap();
        assert_eq!(rest(follow).await.1.unwrap().status, EndStatus::Cancelled);
    }
}

#[tokio::test]
async fn the_end_of_a_turn_is_heard_however_it_is_written() {
    let ends = [
        r#"{"jsonrpc":"2.0","id":$P,"result":{"stopReason":"end_turn","_meta":{"t":"\ud83d"}}}"#,
        r#"{"jsonrpc":"2.0","id":$P,"result":{"stopReason":"end_turn","usage":{"inputTokens":1e999}}}"#,
        r#"{"jsonrpc":"2.0","id":$P,"result":{"stopReason":"end_turn","usage":{"inputTokens":NaN}}}"#,
        r#"{"jsonrpc":"2.0","id":"$P","result":{"stopReason":"end_turn"}}"#,
        r#"{"jsonrpc":"2.0","id":$P.0,"result":{"stopReason":"end_turn"}}"#,
        r#"[{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":$P,"result":{"stopReason":"end_turn"}}]"#,
        "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":$P,\"result\":{\"stopReason\":\"end_turn\"}}",
    ];
    let world = World::new();
    let acp = world.acp();
    for (at, end) in ends.into_iter().enumerate() {
        // One agent for all: a turn whose end its host does not hear would have to be ended with it.
        let plan = plan(&format!("r{at}"), &format!("!raw-end {end}"));
        let (_, ended) = finish(&acp, &plan).await;
        assert_eq!(
            (ended.status, ended.message),
            (EndStatus::Completed, None),
            "{end}"
        );
        assert_eq!(world.hosts().len(), 1, "{end}");
    }
    assert_eq!(
        texts(&finish(&acp, &plan("r9", "!recall")).await.0),
        "7 before"
    );
    // Also as its last words, without a line break.
    let last = r#"!last {"jsonrpc":"2.0","id":$P,"result":{"stopReason":"end_turn"}}"#;
    let (_, ended) = finish(&acp, &plan("r10", last)).await;
    assert_eq!(ended.status, EndStatus::Completed);
}

#[tokio::test]
async fn what_cannot_be_read_is_told_and_ends_what_waits_for_it() {
    let note = "A line of the agent could not be read, and is missing here: it is no message of its protocol.";
    let world = World::new();
    let acp = world.acp();
    let broken = r#"!raw-end {"jsonrpc":"2.0","id":$P,"result":{"stopReason":"end_turn",,}}"#;
    let (seen, end) = finish(&acp, &plan("r1", &format!("!say half\n{broken}"))).await;
    assert_eq!(notes(&seen), [note]);
    assert_eq!(
        (end.status, end.code, end.message.as_deref()),
        (
            EndStatus::Failed,
            Some(Code::ExecutionFailed),
            Some("The agent failed: its answer could not be read")
        )
    );

    // A request has its answer, so that the agent can go on; notes come to an end.
    let told = r#"!raw {"jsonrpc":"2.0","method":"session/update","params":{,}}"#;
    let orders = [
        "!broken-request",
        told,
        told,
        told,
        told,
        told,
        told,
        "!say on",
    ];
    let (seen, end) = finish(&acp, &plan("r2", &orders.join("\n"))).await;
    assert_eq!(texts(&seen), "-32700on");
    let last = format!("{note} Further ones are not shown.");
    assert_eq!(notes(&seen), [note, note, note, note, last.as_str()]);
    assert_eq!(
        (end.status, end.message.as_deref()),
        (EndStatus::Completed, Some(MISSING))
    );
}

#[tokio::test]
async fn a_line_that_is_too_long_is_a_gap_that_is_told() {
    let orders = format!(
        "!say a\n!long {}\n!say b",
        threadline_host::LONGEST_FRAME + 1
    );
    let (seen, end) = finish(&World::new().acp(), &plan("r1", &orders)).await;
    assert_eq!(texts(&seen), "ab");
    assert_eq!(
        notes(&seen),
        ["A line of the agent could not be read, and is missing here: it is too long (50 MB)."]
    );
    assert_eq!(
        (end.status, end.message.as_deref()),
        (EndStatus::Completed, Some(MISSING))
    );
}

#[tokio::test]
async fn a_second_answer_to_what_was_answered_decides_nothing() {
    // The first requests of a host: `initialize` and `session/new`.
    for id in [10, 11] {
        for said in [
            r#""error":{"code":-32603,"message":"late"}"#,
            r#""result":{}"#,
        ] {
            let stray = format!(r#"!raw {{"jsonrpc":"2.0","id":{id},{said}}}"#);
            let orders = format!("!say before\n{stray}\n!say after");
            let (seen, end) = finish(&World::new().acp(), &plan("r1", &orders)).await;
            assert_eq!(texts(&seen), "beforeafter", "{stray}");
            assert_eq!((end.status, end.message), (EndStatus::Completed, None));
        }
    }
}

#[tokio::test]
async fn an_id_comes_back_as_it_was_written() {
    for id in [
        "18446744073709551621",
        "1180591620717411303424",
        "-5",
        "1.50",
        r#""\u00e9 1""#,
    ] {
        let (world, order) = (World::new(), ask_as(id, "$S", "go on", ""));
        let (acp, plan) = (world.acp(), plan("r1", &format!("{order}\n!heard 1")));
        let mut follow = begin(&acp, &plan).await;
        let (_, ask) = question(&mut follow).await;
        acp.answer(&plan.run_ref(), &ask.id, Some("Yes"))
            .await
            .unwrap();
        let (seen, end) = rest(follow).await;
        let id = id.replace("\\u00e9", "é");
        let want = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"outcome":{{"optionId":"y","outcome":"selected"}}}}}}"#
        );
        assert_eq!(texts(&updates(&seen)), want);
        assert_eq!(end.unwrap().status, EndStatus::Completed);
    }
}

#[tokio::test]
async fn a_permission_under_no_id_is_refused_and_told() {
    for id in ["null", "true", r#"{"a":1}"#] {
        let orders = format!("{}\n!heard 1", ask_as(id, "$S", "go on", ""));
        let (seen, end) = finish(&World::new().acp(), &plan("r1", &orders)).await;
        let error = r#"{"code":-32600,"message":"the id of a request must be a number or a text"}"#;
        let want = format!(r#"{{"jsonrpc":"2.0","id":null,"error":{error}}}"#);
        assert_eq!(texts(&seen), want);
        let note = "The agent was not allowed this, because the request has no id under which it could be answered: go on";
        assert_eq!(notes(&seen), [note], "{id}");
        assert_eq!(end.status, EndStatus::Completed);
    }
}
