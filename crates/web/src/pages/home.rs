//! `/`: what needs the user, answerable in place; what goes on; what was brought home.

use axum::{Extension, extract::State};
use maud::{Markup, html};
use threadline_app::api::{self, AskedQuestion, FilesNow, Home, Runtimes, Summary};
use threadline_contract::{
    Principal,
    thread::{Lifecycle, SyncStatus},
};

use super::{
    Frame, Here, Unmade, act, all_failed,
    ask::{Lay, answers, text, wanted},
    needing, no_model, operator, problem, runtimes,
};
use crate::{Web, operate, urls, words};

/// Failures that are shown: what works and what is done shall not lie too far below.
const FAILED: usize = 8;

pub(crate) async fn handle(
    State(web): State<Web>,
    Extension(by): Extension<Principal>,
) -> Result<Markup, Unmade> {
    if !by.account.is_local() {
        // The threads are the machine's own account's; what this one has is here.
        return operator::overview_at(&web, &by, Here::Home).await;
    }
    let home = operate::home(&web, &by);
    let (home, runtimes) = tokio::join!(home, runtimes(&web));
    let home = home?;
    let frame = Frame {
        title: "Home",
        here: Here::Home,
        needs: Some(needing(&home)),
        events: Some("/app/events".into()),
        viewer: web.viewer(&by),
    };
    Ok(frame.around(&page(&home, runtimes.as_ref())))
}

fn page(home: &Home, runtimes: Option<&Runtimes>) -> Markup {
    let needs = needing(home);
    let working = on_its_own(home);
    // A thread whose question stands above is not shown twice.
    let asking = home.working.len() - working.len();
    let all_working = home.totals.working.saturating_sub(asking);
    let empty = needs == 0 && working.is_empty() && home.done_today.is_empty();
    html! {
        main.page #main data-live {
            header {
                div {
                    h1 { (heading(needs)) }
                    p.muted { (beneath(needs, &working)) }
                }
                @if !empty { a.button.primary href="/new" { "New task " kbd { "n" } } }
            }
            @if let Some(found) = runtimes { (no_model(found)) }
            @for sentence in &home.unreachable {
                p.note {
                    b { "A bridge does not answer. " }
                    (words::ticked(sentence)) " Questions of its threads may be missing here."
                }
            }
            @for found in &home.problems { (problem(found)) }
            @if needs > 0 {
                section aria-label="Needs you" { div.card.rows {
                    @for question in &home.questions { (asked(question, "/")) }
                    @for thread in home.failed.iter().take(FAILED) { (broken(thread)) }
                    (more(home.failed.len().min(FAILED), all_failed(home), "/threads?q=failed"))
                } }
            }
            @if !working.is_empty() {
                section { h2 { "Working now " span.muted.small { (all_working.max(working.len())) } }
                    div.card.rows {
                        @for thread in &working { (self::working(thread)) }
                        (more(working.len(), all_working, "/threads"))
                    } }
            }
            @if !home.done_today.is_empty() {
                section { h2 { "Done today " span.muted.small { (brought(home)) } }
                    div.card.rows {
                        @for thread in &home.done_today { (done(thread)) }
                        (more(home.done_today.len(), home.totals.done_today, "/threads?q=done"))
                    } }
            }
            @if empty { (start()) }
        }
    }
}

/// The threads that work without waiting for an answer to a question that is shown.
fn on_its_own(home: &Home) -> Vec<&Summary> {
    let asks = |thread: &&Summary| {
        let mut asked = home.questions.iter().map(|q| &q.question.thread_id);
        asked.any(|id| *id == thread.thread_id)
    };
    home.working.iter().filter(|t| !asks(t)).collect()
}

/// The list ends here, but there are more.
fn more(shown: usize, all: usize, href: &str) -> Markup {
    html! {
        @if all > shown { a.row.rest href=(href) { span { (all - shown) " more" } } }
    }
}

fn heading(needs: usize) -> String {
    match needs {
        0 => "Nothing needs you".into(),
        1 => "1 thing needs you".into(),
        n => format!("{n} things need you"),
    }
}

fn beneath(needs: usize, working: &[&Summary]) -> &'static str {
    let running = |t: &&&Summary| t.lifecycle_status == Lifecycle::Running;
    let away = working.iter().filter(running).any(|t| t.away);
    let running = working.iter().filter(running).any(|t| !t.away);
    match (needs, running) {
        (_, true) if away => "Some of the work below waits for its bridge.",
        (_, false) if away => "The work below waits for its bridge.",
        (0, true) => "The work below goes on by itself.",
        (_, true) => "Everything else is running on its own.",
        _ if !working.is_empty() => "The work below waits for its turn.",
        (0, false) => "And nothing is running.",
        (_, false) => "Nothing else is running.",
    }
}

fn brought(home: &Home) -> String {
    let tasks = home.totals.done_today.max(home.done_today.len());
    let tasks = words::count(tasks as u64, "task");
    let files = words::count(home.files_today.into(), "file");
    match home.files_today {
        0 => tasks,
        _ if home.done_today.iter().any(lacks_files) => {
            format!("{tasks}, {files} in their last results")
        }
        _ => format!("{tasks}, {files} in their last results, each one checked"),
    }
}

fn lacks_files(thread: &Summary) -> bool {
    let sync = thread.last_artifact_sync_status;
    matches!(sync, Some(SyncStatus::Partial | SyncStatus::Failed))
        || matches!(
            thread.files_now,
            Some(FilesNow::Missing | FilesNow::Changed)
        )
}

/// A question with the thread that asks it, answerable where it stands.
pub(super) fn asked(asked: &AskedQuestion, back: &str) -> Markup {
    let question = &asked.question;
    let href = asked.thread_name.as_deref().map(urls::thread);
    let title = asked.thread_title.as_deref();
    let title = title.unwrap_or("Another app’s thread");
    html! {
        div.need #(format!("q-{}", question.question_id)) data-card tabindex="0" role="group" aria-label="Question" {
            div {
                (text(question, href.as_deref(), None))
                p.why { (words::shortly(title)) " · asked " (words::ago(question.asked_at)) " · " (wanted(question)) }
            }
            (answers(question, Lay::Row, back))
        }
    }
}

fn broken(thread: &Summary) -> Markup {
    let outcome = thread.last_result_code.and_then(words::outcome);
    let (title, advice) = outcome.unwrap_or(("It did not work", String::new()));
    let code = thread
        .last_result_code
        .map(|c| c.to_string())
        .unwrap_or_default();
    // What the run itself says is worth more than what its code means in general.
    let why = match &thread.reason {
        Some(reason) => reason.as_str(),
        None => words::briefly(&advice),
    };
    html! {
        div.need #(format!("t-{}", thread.name)) {
            div {
                a.what.brief href=(urls::thread(&thread.name)) { (thread.title) }
                p.why {
                    span.bad { (title) } " · " (words::ticked(why)) " · "
                    code { (code) } " · " (words::ago(thread.updated_at_ms))
                }
            }
            div.buttons data-guard {
                (act(api::RETRY, &thread.name, "/", "button", "Retry"))
                a.button href=(urls::thread(&thread.name)) { "Open" }
                (act(api::ARCHIVE, &thread.name, "/", "button quiet", "Archive"))
            }
        }
    }
}

fn working(thread: &Summary) -> Markup {
    let place = thread.runtime.as_ref().map_or("", words::runtime);
    let queued = thread.lifecycle_status == Lifecycle::Queued;
    let waiting = u64::from(thread.queued_turns);
    let doing = match (queued, thread.open_questions) {
        _ if thread.away => "Its bridge has not answered yet",
        (true, _) => "Queued for a free place",
        (false, 0) if thread.queue.is_some() => "Queued for a free place",
        (false, 0) => "At work",
        (false, _) => "Asked you something",
    };
    html! {
        a.row href=(urls::thread(&thread.name)) #(format!("t-{}", thread.name)) {
            b { (thread.title) }
            span.why {
                (doing)
                @if !place.is_empty() { " · " (place) }
                @if waiting > 0 { " · " (words::count(waiting, "message")) " waiting" }
            }
            span.end {
                (words::state_of(thread))
                @if let Some(at) = thread.last_run_at_ms.filter(|_| !queued && !thread.away) {
                    span.muted.small { (words::since(at)) }
                }
            }
        }
    }
}

/// How many files its earlier runs brought.
pub(super) fn earlier_files(thread: &Summary) -> Markup {
    html! {
        @if thread.earlier_files > 0 {
            " · " (words::count(thread.earlier_files, "file")) " of earlier runs"
        }
    }
}

fn done(thread: &Summary) -> Markup {
    html! {
        a.row href=(urls::thread(&thread.name)) #(format!("t-{}", thread.name)) {
            b { (thread.title) }
            span.why {
                @match thread.files {
                    0 if thread.earlier_files > 0 => "No new files",
                    0 => "No files",
                    n => { (words::count(n.into(), "file")) " · " (words::size(thread.bytes)) },
                }
                (earlier_files(thread))
                @if lacks_files(thread) { " · not every file is here" }
            }
            span.end { (words::state_of(thread)) span.muted.small { (words::clock(thread.updated_at_ms)) } }
        }
    }
}

fn start() -> Markup {
    html! {
        section.empty {
            p { b { "Give an agent something to do." } }
            p.muted {
                "It works on its own in a folder of its own. You see every step here, "
                "and its files come home, each one checked."
            }
            a.button.primary href="/new" { "Start a task" }
        }
    }
}
