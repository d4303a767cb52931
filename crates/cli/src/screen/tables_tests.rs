use jiff::tz::TimeZone;
use pretty_assertions::assert_eq;
use threadline_contract::{
    Answer, Code, ResultCode, RunWarning,
    thread::{SyncStatus, TurnState},
};

use super::*;
use crate::screen::fixtures::{file, message, question, run, thread as record, view};

const NOW: Millis = Millis(301_000);

fn listed(
    name: &str,
    status: Lifecycle,
    result: Option<ResultCode>,
    files: u32,
    title: &str,
) -> Summary {
    Summary {
        thread_id: crate::screen::fixtures::key(),
        name: name.into(),
        title: title.into(),
        lifecycle_status: status,
        last_result_code: result,
        last_artifact_sync_status: Some(SyncStatus::Synced),
        runtime: None,
        updated_at_ms: Millis(1_000),
        last_run_at_ms: None,
        files,
        bytes: u64::from(files) * 1000,
        earlier_files: 0,
        earlier_bytes: 0,
        files_now: (files > 0).then_some(FilesNow::AsDelivered),
        open_questions: 0,
        queued_turns: 0,
        queue: None,
        reason: None,
        away: false,
    }
}

#[test]
fn threads_stand_in_columns() {
    let mut asking = listed("oak-plan", Lifecycle::Running, None, 0, "Plan\nthe garden");
    asking.open_questions = 1;
    let list = [
        listed(
            "river-report",
            Lifecycle::Ready,
            Some(ResultCode::Success),
            3,
            "Write about rivers",
        ),
        listed("tea", Lifecycle::Running, None, 0, "Compare teas"),
        asking,
        listed("x", Lifecycle::Ready, Some(ResultCode::Failed), 1, "Fail"),
    ];
    let want = "\
river-report  done      3 files, 3.0 kB  5 min ago  Write about rivers
tea           running                    5 min ago  Compare teas
oak-plan      asks you                   5 min ago  Plan the garden
x             failed    1 file, 1.0 kB   5 min ago  Fail
";
    assert_eq!(threads(&list, NOW, &TimeZone::UTC, Terminal::PLAIN), want);
}

#[test]
fn a_list_counts_the_files_of_earlier_runs_too() {
    let listed = |name: &str, files| Summary {
        earlier_files: 2,
        earlier_bytes: 9,
        ..listed(
            name,
            Lifecycle::Ready,
            Some(ResultCode::Success),
            files,
            "T",
        )
    };
    let list = [listed("a", 0), listed("b", 3)];
    let want = "\
a  done  2 earlier                   5 min ago  T
b  done  3 files, 3.0 kB, 2 earlier  5 min ago  T
";
    assert_eq!(threads(&list, NOW, &TimeZone::UTC, Terminal::PLAIN), want);
}

#[test]
fn a_turn_that_waits_at_its_bridge_is_not_called_running() {
    let mut queued = record();
    queued.lifecycle_state.status = Lifecycle::Running;
    queued.context_state.messages = vec![Message {
        state: Some(TurnState::Running),
        ..message(Role::User, "Go")
    }];
    let mut shown = view(queued);
    shown.queue = Some(threadline_contract::QueuePlace {
        position: 1,
        queued: 2,
    });
    let text = thread(&shown, NOW, &TimeZone::UTC, Terminal::PLAIN, None);
    assert!(
        text.starts_with(
            "river-report  queued · builtin · 5 min ago\nQueued: it waits for a free place of builtin, number 1 of 2 in line.\n\nYou  5 min ago · waits\nGo\n"
        ),
        "{text}"
    );
}

#[test]
fn files_of_earlier_runs_are_shown_with_what_became_of_them() {
    let mut shown = view(record());
    shown.earlier = vec![EarlierRun {
        run_id: run("r0"),
        folder: "/home/me/w".into(),
        files: 12,
        bytes: 12,
        paths: (0..12).map(|n| format!("f{n:02}")).collect(),
        edited: vec!["f01".into()],
    }];
    let text = thread(&shown, NOW, &TimeZone::UTC, Terminal::PLAIN, None);
    assert!(text.contains("No files of the last run.\n"), "{text}");
    let (_, told) = text.split_once("Of an earlier run").unwrap();
    assert_eq!(
        told,
        "  12 files in /home/me/w\n  f00\n  f01  edited since\n  f02\n  f03\n  f04\n  f05\n  f06\n  f07\n  f08\n  f09\n  and 2 more\n"
    );
}

#[test]
fn a_list_says_how_the_files_are_now_or_that_nobody_looked() {
    let done = |name: &str, now| Summary {
        files_now: now,
        ..listed(name, Lifecycle::Ready, Some(ResultCode::Success), 3, "T")
    };
    let list = [
        done("a", Some(FilesNow::Changed)),
        done("b", Some(FilesNow::Missing)),
        done("c", None),
    ];
    let want = "\
a  files changed  3 files, 3.0 kB                 5 min ago  T
b  files missing  3 files, 3.0 kB                 5 min ago  T
c  done           3 files, 3.0 kB, not looked at  5 min ago  T
";
    assert_eq!(threads(&list, NOW, &TimeZone::UTC, Terminal::PLAIN), want);
}

#[test]
fn a_thread_is_shown_with_what_was_said_and_what_waits() {
    let mut record = record();
    record.context_state.last_artifact_sync_status = Some(SyncStatus::Synced);
    record.context_state.last_artifacts = vec![file("notes.md", 2148)];
    let mut view = view(record);
    view.questions = vec![question("q-1")];
    let want = "\
river-report  asks you · builtin · 5 min ago

You  5 min ago
Write about rivers

Answer  5 min ago
Done.

? Which colour?
  1  Red
  2  Blue
  or in your own words
  Answer  threadline answer river-report \"…\"

✓ notes.md   2.1 kB  abababababab

Folder  /home/me/.xworkmate/threads/river-report
Go on   threadline run --thread river-report \"…\"
";
    assert_eq!(
        thread(&view, NOW, &TimeZone::UTC, Terminal::PLAIN, None),
        want
    );
}

#[test]
fn waiting_questions_name_their_thread_and_their_command() {
    let asked = AskedQuestion {
        question: question("q-1"),
        thread_name: Some("river-report".into()),
        thread_title: Some("Write about rivers".into()),
    };
    let want = "\
river-report  5 min ago  Write about rivers
? Which colour?
  1  Red
  2  Blue
  or in your own words
  Answer  threadline answer river-report \"…\"

";
    assert_eq!(
        questions(&[asked], NOW, &TimeZone::UTC, Terminal::PLAIN),
        want
    );
}

#[test]
fn a_narrow_terminal_gets_what_matters() {
    let list = [
        listed(
            "river-report",
            Lifecycle::Ready,
            Some(ResultCode::Success),
            3,
            "Write about rivers and lakes",
        ),
        listed("tea", Lifecycle::Running, None, 0, "Compare teas"),
    ];
    let at = |width| {
        let to = Terminal {
            width,
            ..Terminal::PLAIN
        };
        threads(&list, NOW, &TimeZone::UTC, to)
    };
    assert_eq!(
        at(60),
        "\
river-report  done     5 min ago  Write about rivers and la…
tea           running  5 min ago  Compare teas
"
    );
    assert_eq!(
        at(40),
        "\
river-report  done     Write about rive…
tea           running  Compare teas
"
    );
    assert_eq!(at(25), "river-report  done\ntea           running\n");
}

#[test]
fn every_turn_says_what_became_of_it_and_every_question_how_it_ended() {
    let turn = |text: &str, at, state| Message {
        timestamp_ms: Millis(at),
        state: Some(state),
        ..message(Role::User, text)
    };
    let mut record = record();
    record.lifecycle_state.status = Lifecycle::Archived;
    record.context_state.messages = vec![
        Message {
            run_id: Some(run("r1")),
            ..turn("one", 1_000, TurnState::Done)
        },
        Message {
            run_id: Some(run("r2")),
            ..turn("two", 4_000, TurnState::Cancelled)
        },
        Message {
            timestamp_ms: Millis(5_000),
            run_id: Some(run("r1")),
            warnings: vec![RunWarning {
                code: Code::AnswerIncomplete,
                message: "A part may be missing.".into(),
            }],
            ..message(Role::Assistant, "Done.")
        },
        Message {
            timestamp_ms: Millis(5_000),
            run_id: Some(run("r2")),
            unfinished: true,
            ..message(Role::Assistant, "I beg")
        },
        turn("three", 5_000, TurnState::Dropped),
        turn("four", 6_000, TurnState::Queued),
    ];
    let mut asked = question("q-1");
    asked.state = QuestionState::Answered;
    asked.answer = Some(Answer::OptionId("b".into()));
    asked.closed_at = Some(Millis(2_000));
    let mut ruled = question("q-3");
    ruled.closed_by = Some("policy:read=allow".into());
    ruled.state = QuestionState::Answered;
    ruled.answer = Some(Answer::OptionId("r".into()));
    ruled.closed_at = Some(Millis(2_500));
    let mut withdrawn = question("q-2");
    withdrawn.state = QuestionState::Withdrawn;
    withdrawn.run_id = run("r2");
    withdrawn.closed_at = Some(Millis(7_000));
    record.context_state.closed_questions = vec![asked, ruled, withdrawn];
    let want = "\
river-report  archived · done · builtin · 5 min ago

You  5 min ago
one

? Which colour?
  ✓ Blue

? Which colour?
  ✓ Red (by policy: read=allow)

Answer  4 min ago
Done.
! A part may be missing. [ANSWER_INCOMPLETE]

You  4 min ago · cancelled
two

? Which colour?
  The question was withdrawn.

Answer  4 min ago · unfinished
I beg

You  4 min ago · dropped before it ran
three

You  4 min ago · waits
four

No files.

Restore threadline restore river-report
";
    assert_eq!(
        thread(&view(record), NOW, &TimeZone::UTC, Terminal::PLAIN, None),
        want
    );
}
