//! `/threads/<name>/files/<path>`: one file, to be looked at. The thread's page shows the same in a
//! sheet above itself.

use std::io::Read as _;

use axum::{
    Extension,
    extract::{Path, State, rejection::PathRejection},
    http::StatusCode,
};
use maud::{Markup, html};
use threadline_app::api::{self, ThreadParams, ThreadView};
use threadline_contract::{Code, Fault, Principal};

use super::{Frame, Here, Unmade, act, close, icon, needs};
use crate::{
    Web,
    files::{Found, not_a_path},
    kind::{self, Kind},
    local::call,
    markdown, table, urls, words,
};

/// Bytes of a text that are shown.
const SHOWN: u64 = 256 << 10;

pub(crate) async fn handle(
    State(web): State<Web>,
    Extension(by): Extension<Principal>,
    wanted: Result<Path<(String, String)>, PathRejection>,
) -> Result<(StatusCode, Markup), Unmade> {
    let Path((name, path)) = wanted.map_err(not_a_path)?;
    let thread = ThreadParams {
        thread: name.clone(),
    };
    let view: ThreadView = call(&*web.app, api::SHOW, thread).await?;
    let (status, page) = match sight(&web, &view, &path).await {
        Ok(page) => (StatusCode::OK, page),
        Err(fault) => (
            StatusCode::from_u16(fault.code.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            absent(&view, &path, &fault),
        ),
    };
    let frame = Frame {
        title: &path,
        here: Here::Threads,
        needs: needs(&web, &by).await,
        viewer: web.viewer(&by),
        events: None,
    };
    Ok((status, frame.around(&page)))
}

async fn sight(web: &Web, view: &ThreadView, path: &str) -> Result<Markup, Fault> {
    let found = Found::open(web, &view.thread.name, path.to_owned()).await?;
    let facts = Facts::of(view, &found);
    let content = content(found, &facts.href).await?;
    let content = html! {
        @if facts.changed {
            div.note {
                p { "This is not what was delivered. Sync brings that back, and keeps this one beside it." }
                (sync(view))
            }
        }
        (content)
    };
    Ok(page(&facts, &content))
}

/// In place of a file that cannot be shown: why, and what helps.
fn absent(view: &ThreadView, path: &str, fault: &Fault) -> Markup {
    let files = &view.thread.context_state.last_artifacts;
    let known = files.iter().any(|file| file.path.as_str() == path);
    let content = html! {
        div.empty {
            p { b { (if known { "The file is not here" } else { "There is nothing here" }) } }
            p { (words::ticked(&fault.message)) }
            p.small.muted { code { (fault.code) } }
            @if known { (sync(view)) }
        }
    };
    let up = urls::thread(&view.thread.name);
    around(
        &up,
        &view.thread.title,
        path,
        &html! {},
        &html! {},
        &content,
    )
}

fn sync(view: &ThreadView) -> Markup {
    let name = &view.thread.name;
    act(api::SYNC, name, &urls::thread(name), "button", "Sync")
}

/// What is said about a file.
struct Facts {
    up: String,
    title: String,
    path: String,
    href: String,
    size: u64,
    digest: String,
    /// It is not any more what was verified when it came home.
    changed: bool,
}

impl Facts {
    fn of(view: &ThreadView, found: &Found) -> Self {
        Self {
            up: urls::thread(&view.thread.name),
            title: view.thread.title.clone(),
            path: found.path.clone(),
            href: urls::file(&view.thread.name, &found.path),
            size: found.size,
            digest: found.synced.sha256.to_hex(),
            changed: found.synced.changed || found.synced.size != found.size,
        }
    }
}

fn page(facts: &Facts, content: &Markup) -> Markup {
    let about = html! {
        span.kind { (kind::badge(&facts.path)) } " " (words::size(facts.size)) " · "
        @if facts.changed { span.amber { "changed since it was verified" } }
        @else { span.good title=(facts.digest) { "verified " code { (&facts.digest[..12]) } } }
    };
    let acts = html! { a.button href=(format!("{}?download", facts.href)) download { "Download" } };
    around(&facts.up, &facts.title, &facts.path, &about, &acts, content)
}

/// The same frame in a sheet and as a page of its own.
fn around(
    up: &str,
    title: &str,
    path: &str,
    about: &Markup,
    acts: &Markup,
    content: &Markup,
) -> Markup {
    html! {
        main.page.sight #main {
            article #sight {
                header.bar {
                    a.button.quiet.icon.up href=(up) aria-label={ "Back to " (title) } data-up { (icon::back()) }
                    div.title {
                        h1 title=(path) { (path) }
                        p.muted.small { (about) }
                    }
                    div.acts {
                        (acts)
                        span.only-sheet { (close()) }
                    }
                }
                div.content { (content) }
            }
        }
    }
}

async fn content(found: Found, href: &str) -> Result<Markup, Fault> {
    let name = found.path.clone();
    Ok(match found.kind() {
        Kind::Picture(_) => html! { img.shown src=(href) alt=(name); },
        Kind::Sound(_) => html! { audio.shown controls preload="metadata" src=(href) {} },
        Kind::Film(_) => html! { video.shown controls preload="metadata" src=(href) {} },
        Kind::Pdf => html! {
            iframe.shown src=(href) title=(name) {}
            p.small.muted { a href=(href) target="_blank" rel="noopener" { "Open it in a tab of its own" } }
        },
        Kind::Html => html! {
            p.small.muted { "Shown without its scripts. An agent’s page never runs here." }
            iframe.shown sandbox="" src=(href) title=(name) {}
        },
        Kind::Other => html! {
            div.empty {
                p { b { "This kind of file cannot be shown here." } }
                p.muted { "Download it to open it with a program of yours." }
            }
        },
        Kind::Markdown => {
            let (text, cut) = text(found).await?;
            html! { div.said.document { (markdown::draw(&text)) } (more(cut)) }
        }
        Kind::Table(separator) => {
            let (text, cut) = text(found).await?;
            rows(&text, separator, cut)
        }
        Kind::Text => {
            let (text, cut) = text(found).await?;
            html! { pre.text tabindex="0" { (text) } (more(cut)) }
        }
    })
}

/// The beginning of a file as text, and whether there is more.
async fn text(found: Found) -> Result<(String, bool), Fault> {
    let read = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        (&found.file).take(SHOWN).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>((bytes, found.size > SHOWN))
    });
    match read.await {
        Ok(Ok((bytes, cut))) => Ok((String::from_utf8_lossy(&bytes).into_owned(), cut)),
        Ok(Err(e)) => Err(Fault::new(
            Code::ArtifactNotFound,
            format!("The file cannot be read ({e})."),
        )),
        Err(e) => {
            tracing::error!(error = %e, "A preview broke");
            Err(Fault::internal())
        }
    }
}

fn rows(text: &str, separator: char, cut: bool) -> Markup {
    let table = table::read(text, separator);
    let is_number = |cell: &str| cell.trim().parse::<f64>().is_ok();
    let class = |cell: &str| is_number(cell).then_some("num");
    // The head of a column of numbers stands above them.
    let head = |n: usize| {
        let mut column = table.rows.iter().filter_map(|row| row.get(n)).peekable();
        let numbers = column.peek().is_some() && column.all(|cell| is_number(cell));
        numbers.then_some("num")
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label="Table" {
            table {
                thead { tr { @for (n, cell) in table.head.iter().enumerate() { th scope="col" class=[head(n)] { (cell) } } } }
                tbody {
                    @for row in &table.rows {
                        tr { @for cell in row { td class=[class(cell)] { (cell) } } }
                    }
                }
            }
        }
        (more(cut || table.more))
    }
}

fn more(cut: bool) -> Markup {
    html! {
        @if cut { p.note { "Only the beginning is shown. Download the file to see all of it." } }
    }
}
