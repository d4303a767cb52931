//! `/threads`: all of them, last changed first; search, the archived ones, page by page.

use std::collections::HashSet;

use axum::{
    Extension,
    extract::{Query, State},
};
use maud::{Markup, html};
use serde::Deserialize;
use threadline_app::api::{self, List, ListParams, Problem, Summary};
use threadline_contract::{AppThreadKey, Fault, Principal};

use super::{Frame, Here, Unmade, icon, needs, problem};
use crate::{
    Web,
    local::call,
    urls,
    words::{self, Look},
};

/// Threads on a page.
const PAGE: usize = 50;
/// Threads that are looked at together while searching.
const STRIDE: usize = 500;
/// Threads that a search looks through before it asks to go on.
const SEARCHED: usize = 5000;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    q: String,
    archived: String,
    before: String,
}

impl Wanted {
    fn archived(&self) -> bool {
        !self.archived.is_empty()
    }

    fn href(&self, archived: bool, before: Option<&str>) -> String {
        let mut parts = Vec::new();
        if !self.q.is_empty() {
            parts.push(format!("q={}", urls::segment(&self.q)));
        }
        if archived {
            parts.push("archived=1".into());
        }
        if let Some(before) = before {
            parts.push(format!("before={}", urls::segment(before)));
        }
        if parts.is_empty() {
            "/threads".into()
        } else {
            format!("/threads?{}", parts.join("&"))
        }
    }
}

pub(crate) async fn handle(
    State(web): State<Web>,
    Extension(by): Extension<Principal>,
    Query(wanted): Query<Wanted>,
) -> Result<Markup, Unmade> {
    let list = find(&web, &wanted).await?;
    let title = if wanted.archived() {
        "Archived threads"
    } else {
        "Threads"
    };
    let frame = Frame {
        title,
        here: Here::Threads,
        needs: needs(&web, &by).await,
        viewer: web.viewer(&by),
        events: Some("/app/events".into()),
    };
    Ok(frame.around(&page(title, &wanted, &list)))
}

/// What is shown of the list.
struct Shown {
    threads: Vec<Summary>,
    next: Option<String>,
    problems: Vec<Problem>,
}

async fn find(web: &Web, wanted: &Wanted) -> Result<Shown, Fault> {
    let words: Vec<String> = wanted.q.split_whitespace().map(str::to_lowercase).collect();
    let mut before = Some(wanted.before.clone()).filter(|b| !b.is_empty());
    let mut shown = Shown {
        threads: vec![],
        next: None,
        problems: vec![],
    };
    let asked = asked_for(web, wanted, before.as_deref()).await?;
    let mut looked = 0;
    loop {
        let limit = if words.is_empty() { PAGE } else { STRIDE };
        let params = ListParams {
            archived: wanted.archived(),
            limit: Some(limit),
            before: before.clone(),
            text: None,
        };
        let list: List = call(&*web.app, api::LIST, params).await?;
        looked += list.threads.len();
        shown.problems = list.problems;
        shown.threads.extend(
            list.threads
                .into_iter()
                .filter(|t| matches(t, &words) || asked.contains(&t.thread_id)),
        );
        shown.next = list.next.clone();
        // A searched page may end up longer than others; none is cut in the middle.
        if words.is_empty()
            || list.next.is_none()
            || shown.threads.len() >= PAGE
            || looked >= SEARCHED
        {
            return Ok(shown);
        }
        before = list.next;
    }
}

/// The threads in which the words were said, which only the app can look up.
async fn asked_for(
    web: &Web,
    wanted: &Wanted,
    before: Option<&str>,
) -> Result<HashSet<AppThreadKey>, Fault> {
    if wanted.q.trim().is_empty() {
        return Ok(HashSet::new());
    }
    let params = ListParams {
        archived: wanted.archived(),
        limit: Some(STRIDE),
        before: before.map(str::to_owned),
        text: Some(wanted.q.clone()),
    };
    let list: List = call(&*web.app, api::LIST, params).await?;
    Ok(list.threads.into_iter().map(|t| t.thread_id).collect())
}

fn matches(thread: &Summary, words: &[String]) -> bool {
    let place = thread
        .runtime
        .as_ref()
        .map(words::runtime)
        .unwrap_or_default();
    let state = words::state_of(thread);
    // However it is said, it is found among those that failed.
    let failed = if state.look == Look::Failed {
        "failed"
    } else {
        ""
    };
    let text = format!(
        "{} {} {place} {} {failed}",
        thread.title, thread.name, state.word
    )
    .to_lowercase();
    words.iter().all(|word| text.contains(word))
}

fn page(title: &str, wanted: &Wanted, list: &Shown) -> Markup {
    let archived = wanted.archived();
    html! {
        main.page #main {
            header {
                h1 { (title) }
                a.button.primary href="/new" { "New task " kbd { "n" } }
            }
            form.search role="search" action="/threads" method="get" {
                label.field { (icon::search()) span.hidden { "Search threads" }
                    input type="search" name="q" value=(wanted.q) placeholder="Search by words"
                        data-search autocomplete="off"; }
                @if archived { input type="hidden" name="archived" value="1"; }
                nav.tabs aria-label="Which threads" {
                    a href=(wanted.href(false, None)) aria-current=[(!archived).then_some("page")] { "Current" }
                    a href=(wanted.href(true, None)) aria-current=[archived.then_some("page")] { "Archived" }
                }
            }
            div #list data-live {
                @for found in &list.problems { (problem(found)) }
                @if list.threads.is_empty() { (empty(wanted, list.next.is_some())) } @else {
                    div.card.rows { @for thread in &list.threads { (row(thread)) } }
                }
                nav.pager aria-label="Pages" {
                    @if !wanted.before.is_empty() { a.button href=(wanted.href(archived, None)) { "Newest" } }
                    @if let Some(next) = &list.next {
                        a.button href=(wanted.href(archived, Some(next))) { "Older" }
                    }
                }
            }
        }
    }
}

fn row(thread: &Summary) -> Markup {
    let place = thread.runtime.as_ref().map_or("", words::runtime);
    let (files, questions) = (u64::from(thread.files), u64::from(thread.open_questions));
    html! {
        a.row href=(urls::thread(&thread.name)) #(format!("t-{}", thread.name)) {
            b { (thread.title) }
            span.why {
                span.mono { (thread.name) }
                @if !place.is_empty() { " · " (place) }
                @if files > 0 { " · " (words::count(files, "file")) ", " (words::size(thread.bytes)) }
                (super::home::earlier_files(thread))
                @if questions > 0 { " · " (words::count(questions, "question")) " for you" }
            }
            span.end { (words::state_of(thread)) span.muted.small { (words::ago(thread.updated_at_ms)) } }
        }
    }
}

fn empty(wanted: &Wanted, more: bool) -> Markup {
    html! {
        section.empty {
            @if !wanted.q.is_empty() {
                p { b { "No thread has these words." } }
                p.muted {
                    @if more { "Older ones were not looked through yet." }
                    @else { "Titles, names, agents, states and what was asked for were searched." }
                }
                a.button href=(Wanted::default().href(wanted.archived(), None)) { "Show all" }
            } @else if wanted.archived() {
                p { b { "Nothing is archived." } }
                p.muted { "Archive a thread that you are done with, and it waits here." }
                a.button href="/threads" { "Current threads" }
            } @else {
                p { b { "No threads yet." } }
                p.muted { "A thread is a conversation with one agent, with a folder for its files." }
                a.button.primary href="/new" { "Start a task" }
            }
        }
    }
}
