use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

const LEAD: Lead = Lead {
    bytes: 1_000,
    entries: 5,
};

fn frame(text: &str) -> Frame {
    Frame::parse(text.as_bytes()).unwrap()
}

fn said(ledger: &mut Ledger, text: &str, size: u64) {
    ledger.wrote_said(&frame(text).kind(), size);
}

fn sent(ledger: &mut Ledger, key: &str, frame: &Frame, size: u64) -> u64 {
    ledger.wrote_sent(key, frame, &frame.kind(), size)
}

fn admit(ledger: &Ledger, key: &str, frame: &Frame) -> Admission {
    ledger.admit(key, frame, &frame.kind())
}

fn refusal(admission: Admission) -> RefusalCode {
    match admission {
        Admission::Refused(refusal) => refusal.code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_agent_waits_when_the_lead_is_used_up_and_goes_on_when_it_shrinks() {
    let mut ledger = Ledger::new(LEAD);
    said(&mut ledger, r#"{"method":"a"}"#, 999);
    assert!(ledger.may_read());
    said(&mut ledger, r#"{"method":"a"}"#, 1);
    assert!(!ledger.may_read(), "by bytes");
    ledger.ack(1).unwrap();
    assert!(ledger.may_read());
    for _ in 0..4 {
        said(&mut ledger, r#"{"method":"a"}"#, 1);
    }
    assert!(!ledger.may_read(), "by entries");
    ledger.ack(6).unwrap();
    assert!(ledger.may_read());
    assert_eq!((ledger.last(), ledger.acked(), ledger.lead), (6, 6, 0));
}

#[test]
fn a_frame_larger_than_the_lead_is_taken_and_stops_the_agent() {
    let mut ledger = Ledger::new(LEAD);
    said(&mut ledger, r#"{"method":"a"}"#, 50_000);
    assert!(!ledger.may_read());
    ledger.ack(1).unwrap();
    assert!(ledger.may_read());
}

#[test]
fn a_frame_that_is_handed_in_again_is_the_same_entry() {
    let mut ledger = Ledger::new(LEAD);
    let prompt = frame(r#"{"id":1,"method":"session/prompt"}"#);
    assert_eq!(admit(&ledger, "k", &prompt), Admission::New);
    assert_eq!(sent(&mut ledger, "k", &prompt, 10), 1);
    assert_eq!(admit(&ledger, "k", &prompt), Admission::Again(1));
    let other = frame(r#"{"id":2,"method":"session/prompt"}"#);
    assert_eq!(refusal(admit(&ledger, "k", &other)), RefusalCode::KeyReused);
    assert_eq!(refusal(admit(&ledger, "", &other)), RefusalCode::BadKey);
    assert_eq!(
        refusal(admit(&ledger, &"k".repeat(129), &other)),
        RefusalCode::BadKey
    );
}

#[test]
fn keys_are_kept_until_acknowledged_and_then_for_a_while() {
    let mut ledger = Ledger::new(LEAD);
    let note = frame(r#"{"method":"note"}"#);
    for i in 1..=3 * KEYS_KEPT {
        sent(&mut ledger, &format!("k{i}"), &note, 1);
    }
    assert_eq!(admit(&ledger, "k1", &note), Admission::Again(1));
    ledger.ack(3 * KEYS_KEPT as u64).unwrap();
    assert_eq!(ledger.keys.len(), KEYS_KEPT);
    assert_eq!(admit(&ledger, "k1", &note), Admission::New);
    let kept = 2 * KEYS_KEPT + 1;
    assert_eq!(
        admit(&ledger, &format!("k{kept}"), &note),
        Admission::Again(kept as u64)
    );
}

#[test]
fn an_answer_reaches_who_waits_for_it_and_only_once() {
    let mut ledger = Ledger::new(LEAD);
    said(
        &mut ledger,
        r#"{"id":"7","method":"session/request_permission"}"#,
        1,
    );
    assert_eq!(ledger.waiting(), 1);
    let number = frame(r#"{"id":7,"result":{}}"#);
    assert_eq!(
        refusal(admit(&ledger, "n", &number)),
        RefusalCode::NotWaiting
    );
    let text = frame(r#"{"id":"7","result":{}}"#);
    assert_eq!(admit(&ledger, "a", &text), Admission::New);
    sent(&mut ledger, "a", &text, 1);
    assert_eq!(ledger.waiting(), 0);
    assert_eq!(admit(&ledger, "a", &text), Admission::Again(2));
    assert_eq!(refusal(admit(&ledger, "b", &text)), RefusalCode::NotWaiting);
}

#[test]
fn what_is_asked_without_a_turn_has_nobody_to_answer_it() {
    let mut ledger = Ledger::new(LEAD);
    let prompt = frame(r#"{"id":1,"method":"session/prompt"}"#);
    sent(&mut ledger, "p", &prompt, 1);
    said(&mut ledger, r#"{"id":"b","method":"ask"}"#, 1);
    said(&mut ledger, r#"{"id":7,"method":"read"}"#, 1);
    assert_eq!((ledger.open_turns(), ledger.unattended()), (1, vec![]));
    said(&mut ledger, r#"{"id":1,"result":{}}"#, 1);
    let asked = |no, id, method: &str| Asked {
        no,
        id,
        method: method.into(),
    };
    let both = [
        asked(2, Id::Text("b".into()), "ask"),
        asked(3, Id::Number("7".into()), "read"),
    ];
    assert_eq!((ledger.open_turns(), ledger.unattended()), (0, both.into()));
    let answer = frame(r#"{"id":"b","result":{}}"#);
    sent(&mut ledger, "a", &answer, 1);
    assert_eq!(ledger.unattended().len(), 1);
}

#[test]
fn more_open_requests_than_can_be_told_apart_stay_open() {
    let mut ledger = Ledger::new(LEAD);
    for i in 0..=OPEN_MOST {
        said(&mut ledger, &format!(r#"{{"id":{i},"method":"ask"}}"#), 1);
    }
    let beyond = frame(&format!(r#"{{"id":{OPEN_MOST},"result":1}}"#));
    assert_eq!(admit(&ledger, "a", &beyond), Admission::New);
    assert_eq!(ledger.waiting(), OPEN_MOST + 1);
}

#[test]
fn a_bridge_can_go_on_from_what_is_kept_and_from_nowhere_else() {
    let mut ledger = Ledger::new(LEAD);
    for _ in 0..4 {
        said(&mut ledger, r#"{"method":"a"}"#, 1);
    }
    let code = |after, first| ledger.check_attach(after, first).map_err(|r| r.code);
    assert_eq!(code(0, 1), Ok(()));
    assert_eq!(code(4, 1), Ok(()));
    assert_eq!(code(5, 1), Err(RefusalCode::Ahead));
    assert_eq!(code(2, 3), Ok(()));
    assert_eq!(code(1, 3), Err(RefusalCode::Gap));
}

#[test]
fn acknowledging_what_is_not_there_changes_nothing() {
    let mut ledger = Ledger::new(LEAD);
    said(&mut ledger, r#"{"method":"a"}"#, 1);
    assert_eq!(ledger.ack(2).map_err(|r| r.code), Err(RefusalCode::Ahead));
    assert_eq!(ledger.acked(), 0);
    ledger.ack(1).unwrap();
    ledger.ack(0).unwrap();
    assert_eq!(ledger.acked(), 1);
}

#[test]
fn an_answer_counts_however_the_agent_writes_its_number() {
    for id in ["12", "12.0", "\"12\""] {
        let mut ledger = Ledger::new(LEAD);
        let prompt = frame(r#"{"id":12,"method":"session/prompt"}"#);
        sent(&mut ledger, "k", &prompt, 1);
        assert_eq!(ledger.open_turns(), 1);
        said(&mut ledger, &format!(r#"{{"id":{id},"result":{{}}}}"#), 1);
        assert_eq!(ledger.open_turns(), 0, "{id}");
    }
}

proptest! {
    /// The lead is always the sum of what is not acknowledged, in whatever order things happen.
    #[test]
    fn the_lead_is_what_is_not_acknowledged(steps in prop::collection::vec((0u64..400, any::<bool>()), 1..200)) {
        let mut ledger = Ledger::new(LEAD);
        let mut sizes: Vec<u64> = vec![];
        let mut acked = 0usize;
        for (n, write) in steps {
            if write {
                said(&mut ledger, r#"{"method":"a"}"#, n);
                sizes.push(n);
            } else {
                let no = n as usize % (sizes.len() + 2);
                prop_assert_eq!(ledger.ack(no as u64).is_ok(), no <= sizes.len());
                if no <= sizes.len() { acked = acked.max(no); }
            }
            let lead: u64 = sizes[acked..].iter().sum();
            prop_assert_eq!(ledger.lead, lead);
            prop_assert_eq!(ledger.may_read(), lead < LEAD.bytes && sizes.len() - acked < LEAD.entries);
        }
    }
}
