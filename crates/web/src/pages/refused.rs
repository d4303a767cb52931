//! What a person reads who is not let in, or asked for something that is not there.

use axum::http::{StatusCode, Uri};
use maud::{Markup, html};
use threadline_contract::{Code, Fault};

use super::bare;
use crate::{NO_PAGES, words};

/// Nobody knows this browser.
pub(crate) fn no_cookie(wanted: &Uri) -> Markup {
    let path = wanted.path_and_query().map_or("/", |p| p.as_str());
    bare(
        "Come in",
        &html! {
            h1 { "This browser is not known here" }
            p { "Run " code { "threadline up" } " in a terminal and open the link that it prints. It works once and lets this browser in." }
            p.muted { "You were in before? A link on another site cannot bring you in, but this one can." }
            a.button href=(path) { "Continue" }
        },
    )
}

/// The bridge runs without pages.
pub(crate) fn no_pages() -> Markup {
    bare(
        "No pages here",
        &html! {
            h1 { "There are no pages here" }
            p { (words::ticked(NO_PAGES)) }
        },
    )
}

/// A link that lets nobody in: not any more, or never.
pub(crate) fn stale_link() -> Markup {
    bare(
        "Link not valid",
        &html! {
            h1 { "This link does not let you in" }
            p { "Each link works once, within ten minutes. This one was used, is too old, or is not complete." }
            p { "Run " code { "threadline up" } " in a terminal. It prints a fresh link; open that one." }
            p.muted { "This browser may be in already:" }
            a.button href="/" { "Go to the first page" }
        },
    )
}

/// The cookie is set, and the next step begins on a page of ours.
pub(crate) fn come_in() -> Markup {
    bare(
        "Welcome",
        &html! {
            h1 { "Welcome" }
            a.button.primary href="/" { "Go to the first page" }
        },
    )
}

/// Anything else that was refused.
pub(crate) fn sentence(status: StatusCode, told: Option<&str>) -> Markup {
    let title = match status {
        StatusCode::NOT_FOUND => "There is nothing here",
        StatusCode::FORBIDDEN => "Not from here",
        status if status.is_server_error() => "Something broke",
        _ => "That did not work",
    };
    bare(
        title,
        &html! {
            h1 { (title) }
            @if let Some(told) = told { p { (words::ticked(told)) } }
            a.button href="/" { "Go to the first page" }
        },
    )
}

/// A fault while a page was made, or while a form was carried out.
pub(crate) fn fault(fault: &Fault, back: &str) -> Markup {
    let title = match fault.code.http() {
        404 => "There is nothing here",
        500.. => "Something broke",
        _ => "That did not work",
    };
    bare(
        title,
        &html! {
            h1 { (title) }
            @if fault.code == Code::ThreadNotFound {
                // The sentence itself names a command.
                p { "There is no such thread. It may have been deleted, here or elsewhere." }
                p.small.muted { code { (fault.code) } }
                a.button href="/threads" { "See all threads" }
            } @else {
                p { (words::ticked(&fault.message)) }
                p.small.muted { code { (fault.code) } }
                a.button href=(back) { "Go back" }
            }
        },
    )
}

/// The files of the user's that a deletion left.
pub(crate) struct Stayed<'a> {
    /// Where they lie.
    pub(crate) folder: &'a str,
    /// Their paths in it; of many, the first.
    pub(crate) paths: Vec<&'a str>,
    /// How many there are.
    pub(crate) total: u64,
}

/// A thread is gone here, but its bridge has to be told yet, or files of the user's stay.
pub(crate) fn deleted(pending: Option<&str>, kept: Option<&Stayed<'_>>, next: &str) -> Markup {
    bare(
        "Deleted",
        &html! {
            h1 { "The thread is deleted here" }
            @if let Some(pending) = pending {
                p { (words::ticked(pending)) }
            }
            @if let Some(kept) = kept {
                p { (words::count(kept.total, "file")) " that you made or edited stayed in " code { (kept.folder) } ":" }
                ul.small {
                    @for path in &kept.paths { li { code { (path) } } }
                    @let more = kept.total.saturating_sub(kept.paths.len() as u64);
                    @if more > 0 { li.muted { (more) " more" } }
                }
            }
            a.button href=(next) { "Go on" }
        },
    )
}
