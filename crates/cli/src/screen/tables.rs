//! Threads and questions as lists.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use threadline_app::api::{
    AskedQuestion, Away, EarlierRun, FilesNow, Summary, ThreadView, TurnView,
};
use threadline_contract::{
    Millis, Question, QuestionState, RunId,
    thread::{ContextState, Lifecycle, Message, Role, TurnState},
};

use super::{
    Terminal,
    ending::{Given, summary, warnings},
    words::{ago, clean, clock, columns, count, fit, line, quoted, short, size, standing, turn},
    wrap::{hanging, wrap},
};

/// Files of an earlier run that are named.
const EARLIER_NAMED: usize = 10;

/// Columns that are left for a title before other columns make room for it.
const TITLE: usize = 16;

/// One line per thread. In a narrow terminal the files, and then the times, make room.
pub(crate) fn threads(list: &[Summary], now: Millis, zone: &TimeZone, to: Terminal) -> String {
    let rows: Vec<[String; 4]> = list
        .iter()
        .map(|t| {
            let state = standing(
                t.lifecycle_status,
                t.last_result_code,
                t.last_artifact_sync_status,
                t.files_now,
                t.open_questions > 0,
                t.away,
                t.queue.is_some(),
            );
            let files = match (t.files, t.files_now) {
                (0, _) if t.earlier_files > 0 => format!("{} earlier", t.earlier_files),
                (0, _) => String::new(),
                (n, now) => format!(
                    "{}, {}{}",
                    count(n.into(), "file"),
                    size(t.bytes),
                    if now.is_none() { ", not looked at" } else { "" }
                ),
            };
            let files = match (t.files, t.earlier_files) {
                (0, _) | (_, 0) => files,
                (_, n) => format!("{files}, {n} earlier"),
            };
            let when = ago(now, t.updated_at_ms, zone);
            [t.name.clone(), state.to_owned(), files, when]
        })
        .collect();
    let mut widths: [usize; 4] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| columns(&row[column]));
        cells.max().unwrap_or(0)
    });
    let used = |widths: &[usize; 4]| widths.iter().filter(|w| **w > 0).map(|w| w + 2).sum();
    for dropped in [2, 3] {
        if to.width.saturating_sub(used(&widths)) < TITLE {
            widths[dropped] = 0;
        }
    }
    let room = to.width.saturating_sub(used(&widths));
    let mut out = String::new();
    for (row, thread) in rows.iter().zip(list) {
        let mut cells: Vec<String> = Vec::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            if width == 0 {
                continue;
            }
            let cell = fit(cell, width);
            let space = " ".repeat(width - columns(&cell));
            let cell = match (column, cell.as_str()) {
                (0, _) => to.bold(&cell),
                (1, "done") => to.good(&cell),
                (1, "failed" | "not delivered" | "files missing") => to.bad(&cell),
                (1, "asks you" | "files changed") => to.warn(&cell),
                (1, _) => cell,
                _ => to.dim(&cell),
            };
            cells.push(format!("{cell}{space}"));
        }
        if room > 4 {
            cells.push(fit(&thread.title, room));
        }
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// One thread with its transcript.
pub(crate) fn thread(
    view: &ThreadView,
    now: Millis,
    zone: &TimeZone,
    to: Terminal,
    home: Option<&str>,
) -> String {
    let t = &view.thread;
    let state = standing(
        t.lifecycle_state.status,
        t.lifecycle_state.last_result_code,
        t.context_state.last_artifact_sync_status,
        Some(FilesNow::of(&t.context_state.last_artifacts)),
        !view.questions.is_empty(),
        is_away(view),
        view.queue.is_some(),
    );
    let mut facts = Vec::new();
    if t.lifecycle_state.status == Lifecycle::Archived {
        facts.push("archived".to_owned());
    }
    facts.push(state.to_owned());
    facts.extend(
        t.execution_binding
            .runtime
            .as_ref()
            .map(ToString::to_string),
    );
    facts.push(ago(now, t.updated_at_ms, zone));
    let mut out = format!("{}  {}\n", to.bold(&t.name), to.dim(&facts.join(" · ")));
    if t.context_state.messages.is_empty() {
        out.push_str(&format!("{}\n", line(&t.title)));
    }
    if let Some(folder) = &t.workspace_binding.working_directory {
        out.push_str(&format!(
            "{}  {}\n",
            to.dim("Works in"),
            to.path(folder, home)
        ));
    }
    if let Some(away) = &view.away {
        out.push_str(&format!("{}\n", to.warn(&trying(away, zone))));
    }
    let waits = view.progress.as_ref().and_then(|p| p.message.as_deref());
    if let Some(waits) = waits {
        out.push_str(&format!("{}\n", to.warn(&line(waits))));
    }
    if let Some(place) = view.queue.filter(|_| state == "queued") {
        let runtime = t.execution_binding.runtime.as_ref();
        let whose = runtime.map_or_else(String::new, |runtime| format!(" of {runtime}"));
        out.push_str(&format!(
            "Queued: it waits for a free place{whose}, number {} of {} in line.\n",
            place.position, place.queued
        ));
    }
    let mut context = t.context_state.clone();
    if state == "queued" {
        // Its bridge has it, and it has not begun.
        for message in &mut context.messages {
            if message.state == Some(TurnState::Running) {
                message.state = Some(TurnState::Queued);
            }
        }
    }
    out.push_str(&transcript(&context, now, zone, to));
    for question in &view.questions {
        out.push_str(&format!(
            "\n{}{}",
            ask(question, to),
            how_to_answer(&t.name, to)
        ));
    }
    out.push('\n');
    let turn = TurnView::current(view);
    out.push_str(&summary(view, &turn, &Given::default(), to, home));
    out.push_str(&earlier(&view.earlier, to, home));
    out
}

/// What earlier runs delivered and is still here.
fn earlier(runs: &[EarlierRun], to: Terminal, home: Option<&str>) -> String {
    let mut out = String::new();
    for run in runs {
        out.push_str(&format!(
            "\n{}  {} in {}\n",
            to.dim("Of an earlier run"),
            count(run.files.into(), "file"),
            to.path(&run.folder, home)
        ));
        for path in run.paths.iter().take(EARLIER_NAMED) {
            let edited = match run.edited.contains(path) {
                true => format!("  {}", to.warn("edited since")),
                false => String::new(),
            };
            out.push_str(&format!("  {}{edited}\n", line(path)));
        }
        let named = run.paths.len().min(EARLIER_NAMED) as u64;
        if u64::from(run.files) > named {
            let more = u64::from(run.files) - named;
            out.push_str(&format!("  and {more} more\n"));
        }
    }
    out
}

/// Whether the bridge has not said yet that it has the run, or cannot be heard.
pub(crate) fn is_away(view: &ThreadView) -> bool {
    let task = view.thread.context_state.task_association.as_ref();
    view.away.is_some()
        || view.thread.lifecycle_state.status == Lifecycle::Running
            && task.is_some_and(|t| t.run_id.is_none())
}

/// Why a bridge cannot be heard, and until when it is tried.
pub(crate) fn trying(away: &Away, zone: &TimeZone) -> String {
    format!(
        "{} It is tried again until {}.",
        line(&away.message),
        clock(away.gives_up_at_ms, zone)
    )
}

/// What was said, turn by turn: what the user asked for, what the run asked back, what it answered. A
/// turn that was asked for while another one ran is told after that one's answer.
fn transcript(context: &ContextState, now: Millis, zone: &TimeZone, to: Terminal) -> String {
    let runs: BTreeSet<&RunId> = context
        .messages
        .iter()
        .filter(|m| m.role == Role::User)
        .filter_map(|m| m.run_id.as_ref())
        .collect();
    let mut out = String::new();
    for message in &context.messages {
        let run = message.run_id.as_ref().filter(|run| runs.contains(run));
        match (message.role, run) {
            (Role::Assistant, Some(_)) => {}
            (_, None) => out.push_str(&said(message, now, zone, to)),
            (Role::User, Some(run)) => {
                out.push_str(&said(message, now, zone, to));
                let asked = context.closed_questions.iter();
                for question in asked.filter(|q| q.run_id == *run) {
                    out.push_str(&answered(question, to));
                }
                let answers = context
                    .messages
                    .iter()
                    .filter(|m| m.role == Role::Assistant);
                for answer in answers.filter(|m| m.run_id.as_ref() == Some(run)) {
                    out.push_str(&said(answer, now, zone, to));
                }
            }
        }
    }
    out
}

fn said(message: &Message, now: Millis, zone: &TimeZone, to: Terminal) -> String {
    let who = match message.role {
        Role::User => to.bold("You"),
        Role::Assistant if message.error => to.bad("Error"),
        Role::Assistant => to.bold("Answer"),
    };
    let mut when = vec![ago(now, message.timestamp_ms, zone)];
    when.extend(message.state.and_then(turn).map(str::to_owned));
    when.extend(message.unfinished.then(|| "unfinished".to_owned()));
    let mut out = format!(
        "\n{who}  {}\n{}\n",
        to.dim(&when.join(" · ")),
        told(message.text.trim_end(), to)
    );
    out.push_str(&warnings(&message.warnings, to));
    out
}

/// What somebody said, broken between words where a person reads it.
fn told(text: &str, to: Terminal) -> String {
    match to.person {
        true => wrap(&clean(text), to.width),
        false => clean(text),
    }
}

/// A question that has ended, and how.
pub(crate) fn answered(question: &Question, to: Terminal) -> String {
    let asked = told(question.text.trim(), to);
    format!("\n{} {asked}\n  {}\n", to.dim("?"), ended(question, to))
}

/// How a question ended.
pub(crate) fn ended(question: &Question, to: Terminal) -> String {
    match (question.state, question.answer_text()) {
        (QuestionState::Answered, Some(answer)) => {
            let by = question
                .policy_rule()
                .map(|rule| format!(" (by policy: {rule})"));
            let said = format!("{answer}{}", by.unwrap_or_default());
            format!("{} {}", to.good("✓"), hanging(&line(&said), to.width, 4))
        }
        (QuestionState::Declined, _) => "The question was declined.".into(),
        (QuestionState::Expired, _) => "The question's time ran out.".into(),
        (QuestionState::Open, _) => "The question waits.".into(),
        (QuestionState::Answered | QuestionState::Withdrawn, _) => {
            "The question was withdrawn.".into()
        }
    }
}

/// A question with what can be chosen.
pub(crate) fn ask(question: &Question, to: Terminal) -> String {
    let mut out = format!(
        "{} {}\n",
        to.warn("?"),
        to.bold(hanging(clean(&question.text).trim(), to.width, 2).trim())
    );
    for (at, option) in question.options.iter().enumerate() {
        out.push_str(&format!(
            "  {}  {}\n",
            to.bold(&(at + 1).to_string()),
            hanging(&line(&option.label), to.width, 5)
        ));
    }
    if question.free_text && !question.options.is_empty() {
        out.push_str(&format!("  {}\n", to.dim("or in your own words")));
    }
    out
}

/// The command that answers.
pub(crate) fn how_to_answer(name: &str, to: Terminal) -> String {
    format!(
        "  {}  threadline answer {} \"…\"\n",
        to.dim("Answer"),
        quoted(name)
    )
}

/// The questions that wait.
pub(crate) fn questions(
    list: &[AskedQuestion],
    now: Millis,
    zone: &TimeZone,
    to: Terminal,
) -> String {
    let mut out = String::new();
    for asked in list {
        let id = asked.question.question_id.as_str();
        let name = asked.thread_name.as_deref().unwrap_or(id);
        let title = asked
            .thread_title
            .as_deref()
            .map(|t| short(t, 60))
            .unwrap_or_default();
        let when = ago(now, asked.question.asked_at, zone);
        out.push_str(&format!(
            "{}  {}\n",
            to.bold(name),
            to.dim(format!("{when}  {title}").trim_end())
        ));
        out.push_str(&ask(&asked.question, to));
        out.push_str(&how_to_answer(name, to));
        out.push('\n');
    }
    out
}

#[cfg(test)]
#[path = "tables_tests.rs"]
mod tests;
