use pretty_assertions::assert_eq;
use threadline_contract::{Code, ResultCode, thread::SyncStatus};

use super::{Exit, HELP};

fn codes() -> impl Iterator<Item = &'static str> {
    let (_, codes) = HELP.split_once("Exit codes:\n").unwrap();
    codes.lines()
}

#[test]
fn numbers_are_a_promise() {
    let numbers = Exit::ALL.map(Exit::number);
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 70, 130]);
    let told: Vec<u8> = HELP
        .lines()
        .skip(1)
        .filter_map(|l| l.split_whitespace().next()?.parse().ok())
        .collect();
    assert_eq!(told, numbers);
    let page = include_str!("../../../docs/cli.md");
    for line in codes() {
        let (number, sentence) = line.trim().split_once("  ").unwrap();
        assert!(
            page.contains(&format!("| {number} | {sentence} |")),
            "docs/cli.md lacks: {line}"
        );
    }
}

#[test]
fn a_run_is_told_by_its_result_and_its_files() {
    use ResultCode as R;
    let table = [
        (None, None, Exit::Done),
        (Some(R::Success), Some(SyncStatus::Synced), Exit::Done),
        (
            Some(R::Success),
            Some(SyncStatus::NoExportedArtifacts),
            Exit::Done,
        ),
        (
            Some(R::Success),
            Some(SyncStatus::Partial),
            Exit::FilesIncomplete,
        ),
        (
            Some(R::Success),
            Some(SyncStatus::Failed),
            Exit::FilesIncomplete,
        ),
        (Some(R::Failed), Some(SyncStatus::NoArtifacts), Exit::Failed),
        (Some(R::Aborted), None, Exit::Cancelled),
        (
            Some(R::ArtifactMissing),
            Some(SyncStatus::Synced),
            Exit::NotDelivered,
        ),
        (
            Some(R::Code(Code::RequiredArtifactMissing)),
            None,
            Exit::NotDelivered,
        ),
        (Some(R::Code(Code::ModelUnreachable)), None, Exit::Failed),
        (Some(R::Code(Code::ConnectFailed)), None, Exit::Unreachable),
        (Some(R::AcpHttp(502)), None, Exit::Unreachable),
    ];
    for (result, sync, want) in table {
        assert_eq!(Exit::of_result(result, sync), want, "{result:?} {sync:?}");
    }
}

#[test]
fn an_error_is_never_success() {
    for code in Code::ALL {
        assert_ne!(Exit::of_code(*code), Exit::Done, "{code}");
    }
}
