use pretty_assertions::assert_eq;
use threadline_contract::{Code, OmitReason, thread::Message};

use super::*;
use crate::screen::fixtures::{file, message, thread, view};

const HOME: Option<&str> = Some("/home/me");

#[test]
fn a_run_with_files_ends_with_them_and_the_way_on() {
    let mut thread = thread();
    thread.context_state.last_artifact_sync_status = Some(SyncStatus::Synced);
    thread.context_state.last_artifacts =
        vec![file("notes.md", 2148), file("charts/words.svg", 812)];
    thread.context_state.last_omitted = vec![Omitted {
        path: "cache/x\x1b[2J".into(),
        reason: OmitReason::Skipped,
    }];
    let want = "\
✓ notes.md           2.1 kB  abababababab
✓ charts/words.svg    812 B  abababababab
– cache/x\u{fffd}[2J  not taken: a dotfile, cache or tool folder

Folder  /home/me/.xworkmate/threads/river-report
Go on   threadline run --thread river-report \"…\"
";
    assert_eq!(summary(&view(thread.clone()), Terminal::PLAIN, HOME), want);

    let person = Terminal {
        person: true,
        color: true,
        width: 100,
    };
    let folder = summary(&view(thread), person, HOME)
        .lines()
        .find(|l| l.contains("Folder"))
        .unwrap()
        .to_owned();
    assert_eq!(
        folder,
        "\u{1b}[2mFolder\u{1b}[0m  \u{1b}]8;;file:///home/me/.xworkmate/threads/river-report\u{1b}\\~/.xworkmate/threads/river-report\u{1b}]8;;\u{1b}\\"
    );
}

#[test]
fn a_run_without_files_says_so() {
    let want = "No files.\n\nGo on   threadline run --thread river-report \"…\"\n";
    assert_eq!(summary(&view(thread()), Terminal::PLAIN, HOME), want);
}

#[test]
fn files_that_did_not_come_are_named_with_the_command_that_fetches_them() {
    let mut thread = thread();
    thread.context_state.last_artifacts = vec![file("a", 1)];
    thread.context_state.last_artifact_sync_status = Some(SyncStatus::Partial);
    thread.context_state.last_artifact_sync_detail = Some("b: it is gone".into());
    let want = "\
✓ a      1 B  abababababab
! b: it is gone

Folder  /home/me/.xworkmate/threads/river-report
Fetch   threadline sync river-report
Go on   threadline run --thread river-report \"…\"
";
    assert_eq!(summary(&view(thread), Terminal::PLAIN, HOME), want);
}

#[test]
fn many_files_are_counted() {
    let many: Vec<SyncedFile> = (0..33).map(|n| file(&format!("f{n:02}"), 1000)).collect();
    let text = files(&many, Terminal::PLAIN);
    assert_eq!(text.lines().count(), 31);
    assert_eq!(text.lines().last(), Some("✓ and 3 files more, 3.0 kB"));
}

#[test]
fn trouble_is_told_in_the_words_of_the_run() {
    let told = |code, messages: Vec<Message>, last| {
        let mut thread = thread();
        thread.lifecycle_state.last_result_code = Some(code);
        thread.context_state.messages = messages;
        trouble(&view(thread), last)
    };
    let error = |text: &str| Message {
        error: true,
        ..message(Role::Assistant, text)
    };
    assert_eq!(told(ResultCode::Success, vec![], Some("x")), None);
    assert_eq!(
        told(ResultCode::Aborted, vec![], None),
        Some("The run was stopped.".into())
    );
    let unreachable = ResultCode::Code(Code::ModelUnreachable);
    assert_eq!(
        told(unreachable, vec![error("No answer from m.")], None),
        Some("No answer from m. [MODEL_UNREACHABLE]".into())
    );
    assert_eq!(
        told(unreachable, vec![], Some("No answer.")),
        Some("No answer. [MODEL_UNREACHABLE]".into())
    );
    assert_eq!(
        told(
            unreachable,
            vec![error("an older one"), message(Role::User, "again")],
            None
        ),
        Some(
            "The model endpoint does not answer. Check THREADLINE_MODEL_URL. [MODEL_UNREACHABLE]"
                .into()
        )
    );
    assert_eq!(
        told(ResultCode::AcpHttp(502), vec![], None),
        Some("The bridge answered HTTP 502. [ACP_HTTP_502]".into())
    );
}

#[test]
fn an_error_says_what_to_do_once() {
    let fault = Fault::new(Code::PortInUse, "127.0.0.1:8787 is taken.");
    let want = "error: 127.0.0.1:8787 is taken. [PORT_IN_USE]\n  Another program listens there. Choose another address with --listen.\n";
    assert_eq!(error(&fault, Terminal::PLAIN), want);
    let whole = Fault::new(Code::ThreadNotFound, Code::ThreadNotFound.advice());
    assert_eq!(
        error(&whole, Terminal::PLAIN),
        "error: There is no such thread. `threadline threads` lists them. [THREAD_NOT_FOUND]\n"
    );
    let several = Fault::new(Code::ConfigInvalid, "2 settings are wrong.\n  a: x\n  b: y");
    let want = "error: 2 settings are wrong. [CONFIG_INVALID]\n  a: x\n  b: y\n  Mend the settings that the list names. `threadline config show --origin` shows where each comes from.\n";
    assert_eq!(error(&several, Terminal::PLAIN), want);
}
