//! The pages, each rendered whole. In an open page the script fetches it again when something
//! changed, and swaps the parts that are marked `data-live`.

pub(crate) mod ask;
pub(crate) mod home;
mod icon;
pub(crate) mod new;
pub(crate) mod operator;
pub(crate) mod permit;
pub(crate) mod preview;
pub(crate) mod refused;
pub(crate) mod sign_in;
pub(crate) mod thread;
pub(crate) mod threads;

use std::time::Duration;

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use maud::{DOCTYPE, Markup, html};
use threadline_app::api::{self, Home, NoParams, RuntimeView, Runtimes};
use threadline_contract::{Fault, Principal, method::DEMONSTRATION, turn};

use crate::{Web, assets, local::call, operate, shown, words};

/// How long a page waits for the number beside “Home”.
const NUMBER_WAIT: Duration = Duration::from_millis(400);

/// A page that could not be made: the sentence, in the frame of a page.
pub(crate) struct Unmade(Fault);

impl From<Fault> for Unmade {
    fn from(fault: Fault) -> Self {
        Self(fault)
    }
}

impl IntoResponse for Unmade {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.0.code.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, refused::fault(&self.0, "/threads")).into_response()
    }
}

/// Which entry of the navigation a page belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Here {
    Home,
    Threads,
    New,
    Operator,
    SignOut,
}

/// What somebody sees around every page.
#[derive(Clone, Copy)]
pub(crate) struct Viewer {
    /// The app's threads are theirs.
    pub(crate) has_threads: bool,
    /// They signed in, and can sign out.
    pub(crate) signs_out: bool,
}

/// What stands around a page's own content.
pub(crate) struct Frame<'a> {
    pub(crate) title: &'a str,
    pub(crate) here: Here,
    /// How many things need the user, where that is known.
    pub(crate) needs: Option<usize>,
    /// The event stream that keeps the page right.
    pub(crate) events: Option<String>,
    /// Who looks at it.
    pub(crate) viewer: Viewer,
}

impl Frame<'_> {
    pub(crate) fn around(&self, content: &Markup) -> Markup {
        let needs = self.needs.filter(|n| *n > 0);
        let title = match needs {
            Some(n) => format!("({n}) {} · Threadline", self.title),
            None => format!("{} · Threadline", self.title),
        };
        shown::page(html! {
            (DOCTYPE)
            html lang="en" {
                head { (head(&title)) }
                body data-events=[self.events.as_deref()] {
                    a.skip href="#main" { "Skip to the content" }
                    nav.rail #rail aria-label="Main" data-live {
                        a.brand href="/" { (icon::logo()) span { "Threadline" } }
                        (entry(self.here, Here::Home, "/", "Home", needs))
                        @if self.viewer.has_threads {
                            (entry(self.here, Here::Threads, "/threads", "Threads", None))
                            (entry(self.here, Here::New, "/new", "New task", None))
                        }
                        (entry(self.here, Here::Operator, "/operator", "Operator", None))
                        @if self.viewer.signs_out {
                            (entry(self.here, Here::SignOut, "/sign-out", "Sign out", None))
                        }
                        span.gap {}
                        @if self.events.is_some() {
                            span.live #link data-own role="status" {
                                span.dot aria-hidden="true" {}
                                span { "Connecting" }
                            }
                        }
                        button.quiet.keys type="button" data-open="help" { "Keys " kbd { "?" } }
                    }
                    p.banner #banner role="alert" hidden {}
                    (content)
                    (help())
                    (sure())
                }
            }
        })
    }
}

/// A page by itself, for those who are not let in, and for what is not there.
pub(crate) fn bare(title: &str, content: &Markup) -> Markup {
    shown::page(html! {
        (DOCTYPE)
        html lang="en" {
            head { (head(&format!("{title} · Threadline"))) }
            body.bare {
                main #main {
                    p.brand { (icon::logo()) span { "Threadline" } }
                    (content)
                }
            }
        }
    })
}

fn head(title: &str) -> Markup {
    html! {
        meta charset="utf-8";
        meta name="viewport" content="width=device-width, initial-scale=1, interactive-widget=resizes-content";
        meta name="color-scheme" content="light dark";
        title { (title) }
        link rel="icon" href=(assets::url("icon.svg")) type="image/svg+xml";
        link rel="stylesheet" href=(assets::url("look.css"));
        @for name in assets::modules() { link rel="modulepreload" href=(assets::url(name)); }
        script type="module" src=(assets::url("main.js")) {}
    }
}

fn entry(here: Here, this: Here, href: &str, label: &str, count: Option<usize>) -> Markup {
    html! {
        a href=(href) aria-current=[(here == this).then_some("page")] {
            (icon::of(this))
            span.label { (label) }
            @if let Some(n) = count { span.count { (n) span.hidden { " waiting" } } }
        }
    }
}

fn help() -> Markup {
    let keys = [
        (&["n"][..], "New task"),
        (&["g", "h"], "Home"),
        (&["g", "t"], "Threads"),
        (&["g", "o"], "Operator"),
        (&["/"], "Search, or write a message"),
        (&["j", "k"], "Choose the next or the last question"),
        (
            &["1", "…", "9"],
            "Answer the chosen question; a permission has no key",
        ),
        (&["."], "Cancel the run, after asking once more"),
        (&["Ctrl", "Enter"], "Send"),
        (&["Esc"], "Close, or leave a field"),
        (&["?"], "This list"),
    ];
    html! {
        dialog.sheet #help aria-labelledby="help-title" {
            header { h2 #help-title { "Keys" } (close()) }
            dl.keys {
                @for (keys, what) in keys {
                    div { dt { @for key in keys { kbd { (key) } " " } } dd { (what) } }
                }
            }
        }
    }
}

/// Where the script asks once more before something that cannot be taken back.
fn sure() -> Markup {
    html! {
        dialog.sheet #sure aria-labelledby="sure-title" {
            header { h2 #sure-title { "Are you sure?" } (close()) }
            div.told {
                p {}
                div.buttons {
                    button.button type="button" { "Back" }
                    button.button.danger type="button" { "Go on" }
                }
            }
        }
    }
}

pub(crate) fn close() -> Markup {
    html! { button.quiet.icon type="button" data-close aria-label="Close" { (icon::cross()) } }
}

/// A form that does one thing to a thread. `inside` is its button, and whatever else it sends.
pub(crate) fn form(method: &str, thread: &str, back: &str, inside: &Markup) -> Markup {
    html! {
        form.act method="post" action="/do" data-rpc=(method) {
            input type="hidden" name="method" value=(method);
            input type="hidden" name="thread" value=(shown::verbatim(thread));
            input type="hidden" name="back" value=(back);
            (inside)
            p.error role="alert" data-own hidden {}
        }
    }
}

/// A form that is one button.
pub(crate) fn act(method: &str, thread: &str, back: &str, class: &str, word: &str) -> Markup {
    form(
        method,
        thread,
        back,
        &html! { button class=(class) type="submit" { (word) } },
    )
}

/// A stored thread that cannot be read.
pub(crate) fn problem(problem: &api::Problem) -> Markup {
    html! {
        p.note.bad {
            b { "A stored thread cannot be read. " }
            (words::ticked(&problem.message)) " " code { (problem.file) }
            @if let Some(kept) = &problem.kept { " Its bytes were kept in " code { (kept) } "." }
        }
    }
}

/// The parts of a form with which files are attached.
pub(crate) fn attach() -> Markup {
    html! {
        label.button.quiet.clip {
            (icon::clip()) "Attach"
            input.hidden type="file" multiple data-files
                data-one=(turn::ATTACHMENT_BYTES) data-all=(turn::ATTACHMENTS_BYTES);
        }
        noscript { span.muted.small { "Attaching needs JavaScript." } }
    }
}

/// How many things need the user: questions, and runs that failed.
pub(crate) fn needing(home: &Home) -> usize {
    home.questions.len() + all_failed(home)
}

/// How many threads failed, also those that are not listed.
pub(crate) fn all_failed(home: &Home) -> usize {
    home.totals.failed.max(home.failed.len())
}

/// Where turns can run, if that is known soon.
pub(crate) async fn runtimes(web: &Web) -> Option<Runtimes> {
    let found = call::<Runtimes>(&*web.app, api::RUNTIMES, NoParams {});
    tokio::time::timeout(NUMBER_WAIT, found).await.ok()?.ok()
}

/// Tells a person who has no model yet what runs instead, and how to have one.
pub(crate) fn no_model(found: &Runtimes) -> Markup {
    let mut able = found.runtimes.iter().filter(|r| r.available);
    let only_demonstrates = able.clone().next().is_some() && able.all(is_demonstration);
    html! {
        @if only_demonstrates {
            p.note.plain {
                b { "No model is configured: tasks run as a demonstration. " }
                "Set " code { "THREADLINE_MODEL_URL" } " and " code { "THREADLINE_MODEL" }
                ", then run " code { "threadline up" } " again."
            }
        }
    }
}

fn is_demonstration(runtime: &RuntimeView) -> bool {
    runtime.status == DEMONSTRATION
}

/// The number beside “Home” on the other pages. A slow bridge must not hold up a page for it.
pub(crate) async fn needs(web: &Web, by: &Principal) -> Option<usize> {
    let counted = async {
        Ok::<_, Fault>(match by.account.is_local() {
            true => needing(&operate::home(web, by).await?),
            false => operate::questions(web, by).await?.questions.len(),
        })
    };
    tokio::time::timeout(NUMBER_WAIT, counted).await.ok()?.ok()
}
