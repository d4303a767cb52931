use pretty_assertions::assert_eq;
use threadline_contract::{AppThreadKey, Deliverable, OmitReason, Omitted, RunId, SessionKey};

use super::told;
use crate::{End, EndStatus, TurnPlan};

fn plan(expected: &[&str], deliverables: Vec<Deliverable>) -> TurnPlan {
    TurnPlan {
        owner: AppThreadKey::new("t").unwrap().into(),
        session: SessionKey::new("agent:main:t").unwrap(),
        run: RunId::new("r").unwrap(),
        prompt: String::new(),
        instructions: None,
        tools: vec![],
        continues: false,
        working_directory: None,
        expected_dirs: expected.iter().map(|&dir| dir.to_owned()).collect(),
        deliverables,
        attachments: vec![],
    }
}

fn left(path: &str, reason: OmitReason) -> Omitted {
    Omitted {
        path: path.to_owned(),
        reason,
    }
}

fn end(status: EndStatus, text: &str, wrote: &[&str]) -> End {
    End {
        status,
        code: None,
        message: None,
        text: Some(text.to_owned()),
        usage: None,
        wrote: wrote.iter().map(|&path| path.to_owned()).collect(),
    }
}

#[test]
fn what_was_there_before_is_worth_a_word_only_if_somebody_speaks_of_it() {
    let old = |name: &str| left(name, OmitReason::ChangedOutsideRun);
    let omitted = ["a.md", "named.md", "said.md", "wanted.pdf", "(and 7 more)"].map(old);
    let pdf = Deliverable {
        glob: "*.pdf".to_owned(),
        content_type: None,
        min_bytes: None,
        min_count: None,
    };
    let end = end(EndStatus::Completed, "I wrote said.md.", &["/w/named.md"]);
    let mut all = omitted.to_vec();
    all.push(left("theirs.md", OmitReason::AmbiguousOwner));
    assert_eq!(
        told(all, &end, &plan(&[], vec![pdf])),
        [
            old("named.md"),
            old("said.md"),
            old("wanted.pdf"),
            left("theirs.md", OmitReason::AmbiguousOwner),
        ]
    );
}

#[test]
fn what_a_run_wrote_that_did_not_succeed_stays_for_that_reason() {
    let outside = |path: &str| left(path, OmitReason::OutsideScope);
    let all = vec![
        outside("note.md"),
        outside("/etc/x"),
        outside("tasks/other/r/a.md"),
    ];
    for status in [EndStatus::Failed, EndStatus::Cancelled] {
        let end = end(status, "", &["note.md", "more.md", "/elsewhere/y"]);
        assert_eq!(
            told(all.clone(), &end, &plan(&[], vec![])),
            [
                left("note.md", OmitReason::RunFailed),
                outside("/etc/x"),
                outside("tasks/other/r/a.md"),
                left("more.md", OmitReason::RunFailed),
            ]
        );
    }
    let failed = end(EndStatus::Failed, "", &["scratch.md"]);
    let looked = plan(&["reports/"], vec![]);
    assert_eq!(told(vec![], &failed, &looked), [], "it is gone");
    let completed = end(EndStatus::Completed, "", &["note.md"]);
    assert_eq!(told(all.clone(), &completed, &plan(&[], vec![])), all);
}
