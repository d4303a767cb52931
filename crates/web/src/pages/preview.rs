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
    files::{self, Found},
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
    let gone = |_| {
        Fault::new(
            Code::ArtifactNotFound,
            "The thread's current run brought no such file.",
        )
    };
    let Path((name, path)) = wanted.map_err(gone)?;
    let view: ThreadView = call(&*web.app, api::SHOW, ThreadParams { thread: name }).await?;
    let found = files::find(&view, &path).await?;
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
    thread: String,
    title: String,
    path: String,
    href: String,
    size: u64,
    digest: Option<String>,
    /// It is not any more what was brought home.
    changed: bool,
}

impl Facts {
    fn of(view: &ThreadView, found: &Found) -> Self {
        Self {
            thread: view.thread.name.clone(),
            title: view.thread.title.clone(),
            path: found.path.clone(),
            href: urls::file(&view.thread.name, &found.path),
            size: found.size,
            digest: found.synced.as_ref().map(|s| s.sha256.to_hex()),
            changed: found.synced.as_ref().is_some_and(|s| s.size != found.size),
        }
    }
}

fn page(facts: &Facts, content: &Markup) -> Markup {
    html! {
        main.page.sight #main {
            article #sight {
                header.bar {
                    a.button.quiet.icon.up href=(urls::thread(&facts.thread)) aria-label=(format!("Back to {}", facts.title)) data-up { (icon::back()) }
                    div.title {
                        h1 title=(facts.path) { (facts.path) }
                        p.muted.small {
                            span.kind { (kind::badge(&facts.path)) } " " (words::size(facts.size))
                            @match &facts.digest {
                                Some(digest) if !facts.changed => { " · " span.good title=(digest) { "verified " code { (&digest[..12]) } } },
                                Some(_) => " · changed since it was brought home",
                                None => "",
                            }
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
    let kind = found.kind();
    let name = found.path.clone();
    Ok(match kind {
        Kind::Picture(_) => html! { img.shown src=(href) alt=(name); },
        Kind::Pdf => {
            html! { iframe.shown src=(href) title=(name) {} p.small.muted { a href=(href) target="_blank" rel="noopener" { "Open it in a tab of its own" } } }
        }
        Kind::Html => html! {
            p.small.muted { "Shown without its scripts. An agent’s page never runs here." }
            iframe.shown sandbox="" src=(href) title=(name) {}
        },
        Kind::Sound(_) => html! { audio.shown controls preload="metadata" src=(href) {} },
        Kind::Film(_) => html! { video.shown controls preload="metadata" src=(href) {} },
        Kind::Other => {
            html! { div.empty { p { b { "This kind of file cannot be shown here." } } p.muted { "Download it to open it with a program of yours." } } }
        }
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
    let number = |cell: &str| cell.trim().parse::<f64>().is_ok();
    html! {
        div.scroll tabindex="0" role="region" aria-label="Table" {
            table {
                thead { tr { @for cell in &table.head { th scope="col" { (cell) } } } }
                tbody { @for row in &table.rows { tr { @for cell in row { td class=[number(cell).then_some("num")] { (cell) } } } } }
            }
        }
        (more(cut || table.more))
    }
}

fn more(cut: bool) -> Markup {
    html! { @if cut { p.note { "Only the beginning is shown. Download the file to see all of it." } } }
}
