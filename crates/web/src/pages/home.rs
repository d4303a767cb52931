//! `/`: what needs the user, answerable in place; what goes on; what was brought home.

use axum::extract::State;
use maud::{Markup, html};
use threadline_app::api::{self, AskedQuestion, Home, NoParams, Summary};
use threadline_contract::thread::{Lifecycle, SyncStatus};

use super::{
    Frame, Here, Unmade, act,
    ask::{Lay, answers, wanted},
    needing, problem,
};
use crate::{Web, local::call, urls, words};

pub(crate) async fn handle(State(web): State<Web>) -> Result<Markup, Unmade> {
    let home: Home = call(&*web.app, api::HOME, NoParams {}).await?;
    let frame = Frame {
        title: "Home",
        here: Here::Home,
        needs: Some(needing(&home)),
        events: Some("/app/events".into()),
    };
    Ok(frame.around(&page(&home)))
}

fn page(home: &Home) -> Markup {
    let needs = needing(home);
    let empty = needs == 0 && home.working.is_empty() && home.done_today.is_empty();
    html! {
        main.page #main data-live {
            header {
                div {
                    h1 { (heading(needs)) }
                    p.muted { (beneath(home, needs)) }
                }
                @if !empty { a.button.primary href="/new" { "New task " kbd { "n" } } }
            }
            @for sentence in &home.unreachable {
                p.note {
                    b { "A bridge does not answer. " }
                    (sentence) " Questions of its threads may be missing here."
                }
            }
            @for found in &home.problems { (problem(found)) }
            @if needs > 0 {
                section aria-label="Needs you" { div.card.rows {
                    @for (n, question) in home.questions.iter().enumerate() { (asked(question, n == 0)) }
                    @for thread in &home.failed { (broken(thread)) }
                } }
            }
            @if !home.working.is_empty() {
                section { h2 { "Working now " span.muted.small { (home.working.len()) } }
                    div.card.rows { @for thread in &home.working { (working(thread)) } } }
            }
            @if !home.done_today.is_empty() {
                section { h2 { "Brought home today " span.muted.small { (brought(home)) } }
                    div.card.rows { @for thread in &home.done_today { (done(thread)) } } }
            }
            @if empty { (start()) }
        }
    }
}

fn heading(needs: usize) -> String {
    match needs {
        0 => "Nothing needs you".into(),
        1 => "1 thing needs you".into(),
        n => format!("{n} things need you"),
    }
}

fn beneath(home: &Home, needs: usize) -> &'static str {
    match (needs, home.working.is_empty()) {
        (0, true) => "And nothing is running.",
        (0, false) => "The work below goes on by itself.",
        (_, true) => "Nothing else is running.",
        (_, false) => "Everything else is running on its own.",
    }
}

fn brought(home: &Home) -> String {
    let tasks = words::several(home.done_today.len() as u64, "task");
    match home.files_today {
        0 => tasks,
        files => format!(
            "{tasks}, {}, all verified",
            words::several(files.into(), "file")
        ),
    }
}

fn asked(asked: &AskedQuestion, first: bool) -> Markup {
    let question = &asked.question;
    let href = asked.thread_name.as_deref().map(urls::thread);
    let title = asked.thread_title.as_deref();
    let title = title.unwrap_or("Another app’s thread");
    html! {
        div.need #(format!("q-{}", question.question_id)) {
            div {
                @match &href {
                    Some(href) => a.what href=(href) { (question.text) },
                    None => span.what { (question.text) },
                }
                p.why { (title) " · asked " (words::ago(question.asked_at)) " · " (wanted(question)) }
            }
            (answers(question, Lay::Row, first, "/"))
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
    html! {
        div.need #(format!("t-{}", thread.name)) {
            div {
                a.what href=(urls::thread(&thread.name)) { (thread.title) }
                p.why {
                    span.bad { (title) } " · " (words::briefly(&advice)) " · "
                    code { (code) } " · " (words::ago(thread.updated_at_ms))
                }
            }
            div.buttons {
                (act(api::RETRY, &thread.name, "/", "button", "Try again"))
                a.button href=(urls::thread(&thread.name)) { "See what happened" }
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
        (true, _) => "Another run goes first",
        (false, 0) => "At work",
        (false, _) => "Asked you something",
    };
    html! {
        a.row href=(urls::thread(&thread.name)) #(format!("t-{}", thread.name)) {
            b { (thread.title) }
            span.why {
                (doing)
                @if !place.is_empty() { " · " (place) }
                @if waiting > 0 { " · " (words::several(waiting, "message")) " waiting" }
            }
            span.end {
                (words::state_of(thread))
                @if let Some(at) = thread.last_run_at_ms.filter(|_| !queued) {
                    span.muted.small { (words::since(at)) }
                }
            }
        }
    }
}

fn done(thread: &Summary) -> Markup {
    let partly = matches!(
        thread.last_artifact_sync_status,
        Some(SyncStatus::Partial | SyncStatus::Failed)
    );
    html! {
        a.row href=(urls::thread(&thread.name)) #(format!("t-{}", thread.name)) {
            b { (thread.title) }
            span.why {
                @match thread.files {
                    0 => "No files",
                    n => { (words::several(n.into(), "file")) " · " (words::size(thread.bytes)) },
                }
                @if partly { " · some could not be brought" }
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
