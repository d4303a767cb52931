use pretty_assertions::assert_eq;
use threadline_contract::{
    Code, Millis, OmitReason,
    thread::{Message, Role, TaskThread},
};

use super::*;
use crate::screen::fixtures::{association, file, message, thread, view};

const HOME: Option<&str> = Some("/home/me");

/// The end of a thread's current turn.
fn summary_of(thread: TaskThread, given: &Given, to: Terminal, home: Option<&str>) -> String {
    let view = view(thread);
    summary(&view, &TurnView::current(&view), given, to, home)
}

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
– cache/x\u{fffd}[2J  not taken: it is a hidden file, a cache or a tool's own

Folder  /home/me/.xworkmate/threads/river-report
Go on   threadline run --thread river-report \"…\"
";
    assert_eq!(
        summary_of(thread.clone(), &Given::default(), Terminal::PLAIN, HOME),
        want
    );

    let person = Terminal {
        person: true,
        color: true,
        width: 100,
    };
    let folder = summary_of(thread, &Given::default(), person, HOME)
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
    assert_eq!(
        summary_of(thread(), &Given::default(), Terminal::PLAIN, HOME),
        want
    );
}

#[test]
fn files_that_did_not_come_are_named_with_the_command_that_syncs_them() {
    let mut thread = thread();
    thread.context_state.last_artifacts = vec![file("a", 1)];
    thread.context_state.last_artifact_sync_status = Some(SyncStatus::Partial);
    thread.context_state.last_artifact_sync_detail = Some("b: it is gone".into());
    let want = "\
✓ a      1 B  abababababab
! b: it is gone

Folder  /home/me/.xworkmate/threads/river-report
Sync    threadline sync river-report
Go on   threadline run --thread river-report \"…\"
";
    assert_eq!(
        summary_of(thread, &Given::default(), Terminal::PLAIN, HOME),
        want
    );
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
        trouble(&TurnView::current(&view(thread)), last)
    };
    let error = |text: &str| Message {
        error: true,
        ..message(Role::Assistant, text)
    };
    assert_eq!(told(ResultCode::Success, vec![], Some("x")), None);
    assert_eq!(
        told(ResultCode::Aborted, vec![], None),
        Some("The run was cancelled.".into())
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
    let want =
        "error: 127.0.0.1:8787 is taken. [PORT_IN_USE]\n  Choose another address with --listen.\n";
    assert_eq!(error(&fault, Terminal::PLAIN), want);
    let whole = Fault::new(Code::ThreadNotFound, Code::ThreadNotFound.advice());
    assert_eq!(
        error(&whole, Terminal::PLAIN),
        "error: There is no such thread. `threadline threads` lists them. [THREAD_NOT_FOUND]\n"
    );
    let several = Fault::new(Code::ConfigInvalid, "2 settings are wrong.\n  a: x\n  b: y");
    let want = "error: 2 settings are wrong. [CONFIG_INVALID]\n  a: x\n  b: y\n";
    assert_eq!(error(&several, Terminal::PLAIN), want);
}

#[test]
fn hints_are_in_words_of_the_command_line() {
    let said = |code, message: &str| error(&Fault::new(code, message), Terminal::PLAIN);
    assert_eq!(
        said(
            Code::ProviderNotFound,
            "--runtime: there is no `moon` here."
        ),
        "error: --runtime: there is no `moon` here. [PROVIDER_NOT_FOUND]\n  `threadline doctor` lists the runtimes there are.\n"
    );
    assert_eq!(
        said(
            Code::ThreadBusy,
            "The thread has a run. Wait for its end or cancel it first."
        ),
        "error: The thread has a run. [THREAD_BUSY]\n  `threadline watch` waits for its end, `threadline cancel` ends it.\n"
    );
    assert_eq!(
        said(
            Code::ThreadArchived,
            "The thread is archived. Restore it first."
        ),
        "error: The thread is archived. [THREAD_ARCHIVED]\n  `threadline restore` brings it back.\n"
    );
    assert_eq!(
        said(Code::InvalidRequest, "Say it so."),
        "error: Say it so. [INVALID_REQUEST]\n"
    );
}

#[test]
fn no_error_says_anything_twice_or_ends_a_line_with_a_space() {
    for code in Code::ALL {
        for message in ["It is so.", code.advice()] {
            let text = error(&Fault::new(*code, message), Terminal::PLAIN);
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines.len() <= 2, "{text}");
            assert!(lines.iter().all(|l| l.trim_end() == *l), "{text:?}");
            if let [first, second] = lines.as_slice() {
                for sentence in second.trim().split(". ") {
                    assert!(!first.contains(sentence.trim_end_matches('.')), "{text}");
                }
            }
        }
    }
}

#[test]
fn the_end_says_where_things_went_and_never_advises_what_would_be_refused_again() {
    let mut thread = thread();
    thread.context_state.last_artifacts = vec![file("a", 1)];
    thread.workspace_binding.working_directory = Some("/home/me/p".into());
    thread.context_state.permission_policy = Some("ask,read=allow".parse().expect("a policy"));
    let given = Given {
        attached: vec!["data.csv".into(), "standard input".into()],
        copied: Some("1 file to charts".into()),
    };
    let want = "\
✓ a      1 B  abababababab

Folder  /home/me/.xworkmate/threads/river-report
Copied  1 file to charts
Worked  in /home/me/p
Given   data.csv, standard input
Policy  permissions: ask,read=allow
Go on   threadline run --thread river-report \"…\"
";
    assert_eq!(summary_of(thread, &given, Terminal::PLAIN, HOME), want);
    let ways = |result, status| {
        let mut thread = crate::screen::fixtures::thread();
        thread.lifecycle_state.last_result_code = Some(result);
        thread.lifecycle_state.status = status;
        thread.context_state.last_artifact_sync_status = None;
        summary_of(thread, &Given::default(), Terminal::PLAIN, HOME)
    };
    assert_eq!(
        ways(ResultCode::Failed, Lifecycle::Ready),
        "Retry   threadline retry river-report\nGo on   threadline run --thread river-report \"…\"\n"
    );
    assert_eq!(
        ways(ResultCode::Failed, Lifecycle::Running),
        "Watch   threadline watch river-report\nCancel  threadline cancel river-report\n"
    );
    assert_eq!(
        ways(ResultCode::Code(Code::WorkdirNotAllowed), Lifecycle::Ready),
        ""
    );
    assert_eq!(
        ways(ResultCode::Success, Lifecycle::Archived),
        "Restore threadline restore river-report\n"
    );
}

#[test]
fn a_run_that_is_given_up_without_its_bridge_is_not_called_cancelled() {
    let mut thread = thread();
    thread.lifecycle_state.status = Lifecycle::Running;
    let mut before = view(thread);
    assert_eq!(given_up(&before), None, "its bridge has it, and is told");
    before.away = Some(threadline_app::api::Away {
        code: ResultCode::Code(Code::ConnectFailed),
        message: "The bridge cannot be reached.".into(),
        since_ms: Millis(1),
        gives_up_at_ms: Millis(2),
    });
    assert_eq!(
        given_up(&before).as_deref(),
        Some(
            "the run is given up here; its bridge could not be told: The bridge cannot be reached. It will be when it can be reached"
        )
    );
    before.away = None;
    before.thread.context_state.task_association = Some(association("q1", None));
    assert_eq!(
        given_up(&before).as_deref(),
        Some("the run is given up here; its bridge had not confirmed it yet, and is told")
    );
}

#[test]
fn a_file_that_is_not_what_was_verified_says_so() {
    let mut changed = file("notes.md", 2148);
    changed.changed = true;
    let mut gone = file("b", 1);
    (gone.changed, gone.missing) = (true, true);
    assert_eq!(
        files(&[changed, file("a", 1), gone], Terminal::PLAIN),
        "! notes.md   2.1 kB  changed since\n✓ a             1 B  abababababab\n✗ b             1 B  missing here\n"
    );
}

#[test]
fn an_error_fits_the_terminal() {
    let to = Terminal {
        person: true,
        color: false,
        width: 40,
    };
    let fault = Fault::new(
        Code::WorkdirNotAllowed,
        "--in: /usr cannot be worked in: it is somewhere else.",
    );
    assert_eq!(
        error(&fault, to),
        "\
error: --in: /usr cannot be worked in:
  it is somewhere else.
  [WORKDIR_NOT_ALLOWED]
  Choose another folder, or add one
  above it to `work_roots`.
"
    );
}

#[test]
fn warnings_about_the_last_answer_are_told_with_their_code() {
    let warning = |message: &str| RunWarning {
        code: Code::AnswerIncomplete,
        message: message.into(),
    };
    let answer = |warnings| Message {
        warnings,
        ..message(Role::Assistant, "half")
    };
    let mut thread = thread();
    thread.context_state.messages = vec![
        answer(vec![warning("An old one.")]),
        message(Role::User, "again"),
        answer(vec![warning("A part may be missing.")]),
    ];
    let said = view(thread.clone());
    assert_eq!(
        warnings(&TurnView::current(&said).warnings, Terminal::PLAIN),
        "! A part may be missing. [ANSWER_INCOMPLETE]\n"
    );
    thread.context_state.messages.pop();
    assert_eq!(TurnView::current(&view(thread)).warnings, []);
}
