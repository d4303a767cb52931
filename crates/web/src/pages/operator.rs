//! `/operator`: how this machine's bridge stands, and why. Runtimes, hosts, questions and open runs on one
//! page; all runs and all sessions page by page.

mod lines;

use axum::{
    Extension,
    extract::{Query, State},
};
use maud::{Markup, html};
use serde::Deserialize;
use threadline_app::api::{
    self, Asked, AskedQuestion, Named, Queue, QueueParams, QueuedTurnView, WaitsFor,
};
use threadline_contract::{
    Fault, Principal,
    operator::{OperatorStatus, RunsPage, RunsParams, SessionsParams, WhichRuns},
};

use super::{Frame, Here, Unmade, home, needs};
use crate::{Web, local::call, operate, urls, words};

/// How often the page is fetched again, in seconds: hosts and runtimes change without a word.
const EVERY: u32 = 5;
/// Open runs on the first page.
const OPEN: u32 = 20;
/// Waiting messages that are named.
const MESSAGES: usize = 20;

/// The three pages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Overview,
    Runs,
    Sessions,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    which: WhichRuns,
    before: String,
}

impl Wanted {
    fn cursor(&self) -> Option<String> {
        Some(self.before.clone()).filter(|before| !before.is_empty())
    }
}

pub(crate) async fn overview(
    State(web): State<Web>,
    Extension(by): Extension<Principal>,
) -> Result<Markup, Unmade> {
    overview_at(&web, &by, Here::Operator).await
}

/// The first of the pages, at its place in the navigation.
pub(crate) async fn overview_at(web: &Web, by: &Principal, here: Here) -> Result<Markup, Unmade> {
    let open = RunsParams {
        which: WhichRuns::Open,
        limit: Some(OPEN),
        cursor: None,
    };
    let (status, open, asked, waiting) = tokio::join!(
        operate::status(web, by),
        operate::runs(web, by, open),
        operate::questions(web, by),
        waiting(web, by),
    );
    let page = page(&status?, &open?, &asked, &waiting?);
    let title = match here {
        Here::Home => "Home",
        _ => "Operator",
    };
    Ok(framed(web, by, (title, here), &page).await)
}

/// The messages that wait in the app's threads. The others are among those that are queued.
async fn waiting(web: &Web, by: &Principal) -> Result<Vec<QueuedTurnView>, Fault> {
    if !by.account.is_local() {
        return Ok(vec![]);
    }
    let queue = call::<Queue>(&*web.app, api::QUEUE_LIST, QueueParams::default());
    let mut waiting = queue.await?.turns;
    waiting.retain(|turn| turn.waits_for == WaitsFor::OwnThread);
    Ok(waiting)
}

pub(crate) async fn runs(
    State(web): State<Web>,
    Extension(by): Extension<Principal>,
    Query(wanted): Query<Wanted>,
) -> Result<Markup, Unmade> {
    let params = RunsParams {
        which: wanted.which,
        limit: None,
        cursor: wanted.cursor(),
    };
    let found = operate::runs(&web, &by, params).await?;
    let here = |which: WhichRuns| format!("/operator/runs?which={}", word(which));
    let next = found.of.next_cursor.as_deref();
    let content = html! {
        nav.tabs.fit aria-label="Which runs" {
            @for (which, label) in [(WhichRuns::All, "All"), (WhichRuns::Open, "Open"), (WhichRuns::Failed, "Failed")] {
                a href=(here(which)) aria-current=[(which == wanted.which).then_some("page")] { (label) }
            }
        }
        @if found.of.runs.is_empty() { (nothing(wanted.which)) } @else {
            div.card.rows { @for run in &found.of.runs { (lines::run(run, &found.names, false)) } }
        }
        (pager(&here(wanted.which), &wanted, next))
    };
    let content = part(Part::Runs, "Runs", &content);
    Ok(framed(&web, &by, ("Runs", Here::Operator), &content).await)
}

pub(crate) async fn sessions(
    State(web): State<Web>,
    Extension(by): Extension<Principal>,
    Query(wanted): Query<Wanted>,
) -> Result<Markup, Unmade> {
    let params = SessionsParams {
        limit: None,
        cursor: wanted.cursor(),
    };
    let found = operate::sessions(&web, &by, params).await?;
    let next = found.of.next_cursor.as_deref();
    let content = html! {
        @if found.of.sessions.is_empty() {
            section.empty { p { b { "No sessions yet." } } p.muted { "A thread gets one with its first turn." } }
        } @else {
            div.card.rows { @for session in &found.of.sessions { (lines::session(session, &found.names)) } }
        }
        (pager("/operator/sessions?", &wanted, next))
    };
    let content = part(Part::Sessions, "Sessions", &content);
    Ok(framed(&web, &by, ("Sessions", Here::Operator), &content).await)
}

async fn framed(
    web: &Web,
    by: &Principal,
    (title, here): (&str, Here),
    content: &Markup,
) -> Markup {
    let viewer = web.viewer(by);
    let frame = Frame {
        title,
        here,
        needs: needs(web, by).await,
        // What changes in threads is the app's to tell.
        events: viewer.has_threads.then(|| "/app/events".into()),
        viewer,
    };
    frame.around(content)
}

fn part(part: Part, title: &str, content: &Markup) -> Markup {
    let parts = [
        (Part::Overview, "/operator", "Overview"),
        (Part::Runs, "/operator/runs", "Runs"),
        (Part::Sessions, "/operator/sessions", "Sessions"),
    ];
    html! {
        main.page.operator #main data-live data-every=(EVERY) {
            header {
                h1 { (title) }
                nav.tabs aria-label="Parts" {
                    @for (this, href, label) in parts {
                        a href=(href) aria-current=[(this == part).then_some("page")] { (label) }
                    }
                }
            }
            (content)
        }
    }
}

fn page(
    status: &Named<OperatorStatus>,
    open: &Named<RunsPage>,
    asked: &Result<Asked, Fault>,
    waiting: &[QueuedTurnView],
) -> Markup {
    let (of, names) = (&status.of, &status.names);
    let rest = open.of.next_cursor.is_some();
    let content = html! {
        p.muted.lead { (summary(of, waiting.len())) }
        @match asked {
            Ok(asked) if !asked.questions.is_empty() => (questions(&asked.questions)),
            Ok(_) => {},
            Err(fault) => p.note { b { "Questions could not be asked for. " } (words::ticked(&fault.message)) },
        }
        section {
            h2 { "Open runs" }
            @if open.of.runs.is_empty() {
                p.card.calm { "Nothing runs and nothing waits." }
            } @else {
                div.card.rows {
                    @for run in &open.of.runs { (lines::run(run, &open.names, true)) }
                    @if rest { a.row.rest href="/operator/runs?which=open" { span { "More open runs" } } }
                }
            }
        }
        @if !waiting.is_empty() { (messages(waiting)) }
        section {
            h2 { "Runtimes " span.muted.small { "places are shared by everybody who uses this server" } }
            div.card.rows { @for runtime in &of.runtimes { (lines::runtime(runtime, names)) } }
        }
        section {
            h2 { "Agent processes " span.muted.small { "they outlive the server" } }
            @if of.hosts.is_empty() {
                p.card.calm { "None. One is started with the first turn of a session on an agent." }
            } @else {
                div.card.rows { @for host in &of.hosts { (lines::host(host, names)) } }
            }
        }
    };
    part(Part::Overview, "Operator", &content)
}

/// The messages that have not become runs yet.
fn messages(waiting: &[QueuedTurnView]) -> Markup {
    let (named, rest) = waiting.split_at(waiting.len().min(MESSAGES));
    html! {
        section {
            h2 { "Messages that wait in their threads" }
            div.card.rows {
                @for turn in named {
                    a.row href=(urls::thread(&turn.thread_name)) {
                        span { (words::shortly(&turn.prompt)) }
                        span.muted.small { (turn.thread_name) " · sent " (words::ago(turn.queued_at_ms)) }
                    }
                }
                @if !rest.is_empty() { p.row.rest { "and " (rest.len()) " more" } }
            }
        }
    }
}

fn summary(of: &OperatorStatus, waiting: usize) -> String {
    let open = of.open;
    let mut parts = vec![
        format!("{} running", open.running),
        format!("{} queued", open.queued),
    ];
    if open.collecting > 0 {
        parts.push(format!("{} collecting files", open.collecting));
    }
    if waiting > 0 {
        let messages = words::count(waiting as u64, "message");
        let place = if waiting == 1 {
            "its thread"
        } else {
            "their threads"
        };
        parts.push(format!("{messages} waiting in {place}"));
    }
    parts.push(words::count(of.questions.into(), "open question"));
    format!("{} · version {}", parts.join(" · "), of.version)
}

fn questions(questions: &[AskedQuestion]) -> Markup {
    html! {
        section {
            h2 { "Waiting for an answer" }
            div.card.rows {
                @for question in questions {
                    (home::asked(question, "/operator"))
                }
            }
        }
    }
}

fn nothing(which: WhichRuns) -> Markup {
    let (title, more) = match which {
        WhichRuns::All => ("No runs yet.", "Every turn of a thread is a run."),
        WhichRuns::Open => (
            "Nothing runs and nothing waits.",
            "Runs that ended are under All.",
        ),
        WhichRuns::Failed => (
            "No run failed.",
            "Those that fail are listed here with their reasons.",
        ),
    };
    html! { section.empty { p { b { (title) } } p.muted { (more) } } }
}

fn pager(here: &str, wanted: &Wanted, next: Option<&str>) -> Markup {
    html! {
        nav.pager aria-label="Pages" {
            @if !wanted.before.is_empty() { a.button href=(here) { "Newest" } }
            @if let Some(next) = next {
                a.button href=(format!("{here}&before={}", urls::segment(next))) { "Older" }
            }
        }
    }
}

fn word(which: WhichRuns) -> &'static str {
    match which {
        WhichRuns::All => "all",
        WhichRuns::Open => "open",
        WhichRuns::Failed => "failed",
    }
}
