use pretty_assertions::assert_eq;
use threadline_contract::Code;

use super::*;

#[test]
fn every_state_has_a_word() {
    use Lifecycle::*;
    let aborted = Some(ResultCode::Aborted);
    let success = Some(ResultCode::Success);
    let lost = Some(ResultCode::Code(Code::AgentLost));
    for (lifecycle, result, sync, asked, look, word) in [
        (Ready, None, None, false, Look::Quiet, "ready"),
        (Queued, None, None, false, Look::Quiet, "queued"),
        (
            Running,
            None,
            Some(SyncStatus::Running),
            false,
            Look::Running,
            "working",
        ),
        (Running, None, None, true, Look::Waiting, "waiting for you"),
        (
            Ready,
            success,
            Some(SyncStatus::Synced),
            false,
            Look::Done,
            "done",
        ),
        (
            Ready,
            success,
            Some(SyncStatus::Syncing),
            false,
            Look::Running,
            "syncing files",
        ),
        (
            Ready,
            success,
            Some(SyncStatus::Partial),
            false,
            Look::Waiting,
            "done, files missing",
        ),
        (
            Ready,
            aborted,
            Some(SyncStatus::NoArtifacts),
            false,
            Look::Quiet,
            "cancelled",
        ),
        (
            Ready,
            lost,
            Some(SyncStatus::Failed),
            false,
            Look::Failed,
            "failed",
        ),
        (
            Ready,
            Some(ResultCode::Code(Code::RequiredArtifactMissing)),
            Some(SyncStatus::Failed),
            false,
            Look::Failed,
            "not delivered",
        ),
        (
            Ready,
            Some(ResultCode::ArtifactMissing),
            Some(SyncStatus::Failed),
            false,
            Look::Failed,
            "not delivered",
        ),
        (Archived, success, None, false, Look::Quiet, "archived"),
    ] {
        assert_eq!(
            state(lifecycle, result, sync, None, asked, false),
            State::new(look, word)
        );
    }
    for (files, look, word) in [
        (FilesNow::AsDelivered, Look::Done, "done"),
        (FilesNow::Changed, Look::Waiting, "done, files changed"),
        (FilesNow::Missing, Look::Waiting, "done, files missing"),
    ] {
        let synced = Some(SyncStatus::Synced);
        let now = state(Ready, success, synced, Some(files), false, false);
        assert_eq!(now, State::new(look, word));
    }
    // Nothing is heard of its question either.
    for asked in [false, true] {
        let away = state(Running, None, Some(SyncStatus::Running), None, asked, true);
        assert_eq!(away, State::new(Look::Waiting, "waiting for its bridge"));
    }
}

#[test]
fn every_failure_says_what_to_do() {
    for code in Code::ALL {
        let (title, advice) = outcome(ResultCode::Code(*code)).unwrap();
        assert!(!title.is_empty() && advice.ends_with('.'), "{code}");
    }
    assert_eq!(outcome(ResultCode::Success), None);
    assert!(may_be_synced(ResultCode::Code(Code::ConnectionClosed)));
    assert!(!may_be_synced(ResultCode::Code(Code::AgentLost)));
}

#[test]
fn advice_fits_where_it_stands() {
    let advice = "The model endpoint answered with an error. The sentence carries it.";
    assert_eq!(
        briefly(advice),
        "The model endpoint answered with an error."
    );
    assert_eq!(beside(advice), "The model endpoint answered with an error.");
    let advice = Code::RequiredArtifactMissing.advice();
    assert_eq!(
        briefly(advice),
        "The run ended, but something it had to deliver is not there."
    );
    assert_eq!(briefly("Check it."), "Check it.");
}

#[test]
fn a_long_title_is_cut_between_characters() {
    assert_eq!(shortly("Rivers"), "Rivers");
    let long = "ü".repeat(61);
    assert_eq!(shortly(&long), format!("{}…", "ü".repeat(60)));
}

#[test]
fn backticks_become_code_and_nothing_else_does() {
    for (text, want) in [
        ("Check it.", "Check it."),
        (
            "Set `a.b` or `C`.",
            "Set <code>a.b</code> or <code>C</code>.",
        ),
        ("One ` alone", "One ` alone"),
        ("`<b>` & more", "<code>&lt;b&gt;</code> &amp; more"),
        ("``", ""),
        (
            "It is away (Connection refused (os error 111)). Try (os error x).",
            "It is away (Connection refused). Try (os error x).",
        ),
    ] {
        assert_eq!(ticked(text).into_string(), want);
    }
}
