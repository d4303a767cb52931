//! `/threads/<name>/files/<path>`: one file, to be looked at. The thread's page shows the same in a
//! sheet above itself.

use std::io::Read as _;

use axum::extract::{Path, State, rejection::PathRejection};
use maud::{Markup, html};
use threadline_app::api::{self, ThreadParams, ThreadView};
use threadline_contract::{Code, Fault};

use super::{Frame, Here, Unmade, close, icon, needs};
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
    wanted: Result<Path<(String, String)>, PathRejection>,
) -> Result<Markup, Unmade> {
    let Path((name, path)) = wanted.map_err(not_a_path)?;
    let found = Found::open(&web, &name, path.clone()).await?;
    let view: ThreadView = call(&*web.app, api::SHOW, ThreadParams { thread: name }).await?;
    let facts = Facts::of(&view, &found);
    let content = content(found, &facts.href).await?;
    let frame = Frame {
        title: &path,
        here: Here::Threads,
        needs: needs(&web).await,
        events: None,
    };
    Ok(frame.around(&page(&facts, &content)))
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
    let up = format!("Back to {}", facts.title);
    html! {
        main.page.sight #main {
            article #sight {
                header.bar {
                    a.button.quiet.icon.up href=(facts.up) aria-label=(up) data-up { (icon::back()) }
                    div.title {
                        h1 title=(facts.path) { (facts.path) }
                        p.muted.small {
                            span.kind { (kind::badge(&facts.path)) } " " (words::size(facts.size)) " · "
                            @if facts.changed { span.bad { "changed since it was verified" } }
                            @else { span.good title=(facts.digest) { "verified " code { (&facts.digest[..12]) } } }
                        }
                    }
                    div.acts {
                        a.button href=(format!("{}?download", facts.href)) download { "Download" }
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
