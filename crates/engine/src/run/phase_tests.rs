use pretty_assertions::assert_eq;
use threadline_contract::Deliverable;

use super::{Event::*, *};
use Phase::*;

#[test]
fn every_pair_of_phase_and_event_is_decided() {
    let events = [Admitted, Prepared, Started, Ended, NeverRan, Collected];
    let table = [
        (
            Queued,
            [Some(Preparing), None, None, None, Some(Closed), None],
        ),
        (
            Preparing,
            [None, Some(Starting), None, None, Some(Closed), None],
        ),
        (
            Starting,
            [None, None, Some(Running), None, Some(Closed), None],
        ),
        (Running, [None, None, None, Some(Collecting), None, None]),
        (Collecting, [None, None, None, None, None, Some(Closed)]),
        (Closed, [None, None, None, None, None, None]),
    ];
    for (from, wants) in table {
        for (event, want) in events.into_iter().zip(wants) {
            assert_eq!(after(from, event), want.ok_or(Illegal(from, event)));
        }
    }
}

fn end(status: EndStatus) -> End {
    End {
        status,
        code: None,
        message: None,
        text: Some("done".into()),
        usage: None,
        wrote: vec![],
    }
}

#[test]
fn only_a_declared_deliverable_changes_a_result() {
    let missing = [Missing {
        deliverable: Deliverable {
            glob: "a.pdf".into(),
            content_type: None,
            min_bytes: None,
            min_count: None,
        },
        found: 0,
    }];
    let judged = |e: &End, asked, m: &[Missing]| {
        let v = verdict(e, asked, m);
        (v.status, v.code)
    };
    let completed = end(EndStatus::Completed);
    assert_eq!(judged(&completed, false, &[]), (RunStatus::Completed, None));
    // Cancel was asked for, but the registry completed it first: its truth stands.
    assert_eq!(judged(&completed, true, &[]), (RunStatus::Completed, None));
    assert_eq!(
        judged(&completed, false, &missing),
        (
            RunStatus::ArtifactMissing,
            Some(Code::RequiredArtifactMissing)
        )
    );
    assert_eq!(
        judged(&end(EndStatus::Failed), true, &missing),
        (RunStatus::Failed, Some(Code::ExecutionFailed))
    );
    assert_eq!(
        judged(&end(EndStatus::Cancelled), true, &missing),
        (RunStatus::Cancelled, None)
    );
    assert_eq!(
        judged(&end(EndStatus::Cancelled), false, &[]),
        (RunStatus::Failed, Some(Code::TurnDeclined))
    );
}

#[test]
fn a_run_that_was_stopped_at_its_runtime_is_cancelled_and_says_who_did_it() {
    let stopped = End {
        code: Some(Code::StoppedAtGateway),
        message: Some("Stopped there.".into()),
        ..end(EndStatus::Cancelled)
    };
    assert_eq!(
        verdict(&stopped, false, &[]),
        Verdict {
            status: RunStatus::Cancelled,
            code: Some(Code::StoppedAtGateway),
            message: Some("Stopped there.".into()),
        }
    );
    // Whoever asked for it as well has it stopped, by whomever.
    assert_eq!(
        verdict(&stopped, true, &[]),
        Verdict {
            status: RunStatus::Cancelled,
            code: None,
            message: None,
        }
    );
}
