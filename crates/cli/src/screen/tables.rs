//! Threads and questions as lists.

use jiff::tz::TimeZone;
use threadline_app::api::{AskedQuestion, Summary, ThreadView};
use threadline_contract::{Millis, Question, thread::Role};

use super::{
    Terminal,
    ending::{files, summary, trouble},
    words::{ago, clean, count, line, quoted, short, size, standing},
};

/// One line per thread.
pub(crate) fn threads(list: &[Summary], now: Millis, zone: &TimeZone, to: Terminal) -> String {
    let rows: Vec<[String; 4]> = list
        .iter()
        .map(|t| {
            let state = standing(
                t.lifecycle_status,
                t.last_result_code,
                t.last_artifact_sync_status,
                t.open_questions > 0,
            );
            let files = match t.files {
                0 => String::new(),
                n => format!("{}, {}", count(n.into(), "file"), size(t.bytes)),
            };
            [
                t.name.clone(),
                state.to_owned(),
                files,
                ago(now, t.updated_at_ms, zone),
            ]
        })
        .collect();
    let width = |column: usize| {
        rows.iter()
            .map(|r| r[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let (name, state, files, when) = (width(0), width(1), width(2), width(3));
    let used = name + state + files + when + 8;
    let mut out = String::new();
    for (row, thread) in rows.iter().zip(list) {
        let title = short(&thread.title, to.width.saturating_sub(used).max(20));
        let state = format!("{:state$}", row[1]);
        let state = match row[1].as_str() {
            "done" => to.good(&state),
            "failed" | "not delivered" | "files missing" => to.bad(&state),
            "asks you" => to.warn(&state),
            _ => state,
        };
        let name = to.bold(&format!("{:name$}", row[0]));
        let rest = to.dim(&format!("{:files$}  {:when$}", row[2], row[3]));
        out.push_str(format!("{name}  {state}  {rest}  {title}").trim_end());
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
        !view.questions.is_empty(),
    );
    let mut facts = vec![state.to_owned()];
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
    for message in &t.context_state.messages {
        let (who, text) = match message.role {
            Role::User => (to.bold("You"), clean(&message.text)),
            Role::Assistant if message.error => (to.bad("Error"), clean(&message.text)),
            Role::Assistant => (to.bold("Answer"), clean(&message.text)),
        };
        out.push_str(&format!(
            "\n{who}  {}\n{}\n",
            to.dim(&ago(now, message.timestamp_ms, zone)),
            text.trim_end()
        ));
    }
    for turn in &t.context_state.queued_turns {
        out.push_str(&format!("\n{}\n{}\n", to.dim("Waits"), clean(&turn.prompt)));
    }
    for question in &view.questions {
        out.push_str(&format!(
            "\n{}{}",
            ask(question, to),
            how_to_answer(&t.name, to)
        ));
    }
    out.push('\n');
    out.push_str(&summary(view, to, home));
    out
}

/// What a thread has come to, in a line: for commands that only change something.
pub(crate) fn stands(view: &ThreadView, to: Terminal) -> String {
    let t = &view.thread;
    let state = standing(
        t.lifecycle_state.status,
        t.lifecycle_state.last_result_code,
        t.context_state.last_artifact_sync_status,
        !view.questions.is_empty(),
    );
    let mut out = format!("{}  {state}\n", to.bold(&t.name));
    out.push_str(&files(&t.context_state.last_artifacts, to));
    if let Some(trouble) = trouble(view, None) {
        out.push_str(&format!("{}\n", clean(&trouble)));
    }
    out
}

/// A question with what can be chosen.
pub(crate) fn ask(question: &Question, to: Terminal) -> String {
    let mut out = format!(
        "{} {}\n",
        to.warn("?"),
        to.bold(clean(&question.text).trim())
    );
    for (at, option) in question.options.iter().enumerate() {
        out.push_str(&format!(
            "  {}  {}\n",
            to.bold(&(at + 1).to_string()),
            line(&option.label)
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
