//! What a person reads who is not let in, or asked for something that is not there.

use axum::http::{StatusCode, Uri};
use maud::{Markup, html};
use threadline_contract::Fault;

use super::bare;

/// Nobody knows this browser.
pub(crate) fn no_cookie(wanted: &Uri) -> Markup {
    let path = wanted.path_and_query().map_or("/", |p| p.as_str());
    bare(
        "Come in",
        &html! {
            h1 { "This browser is not known here" }
            p { "Open the link that " code { "threadline up" } " prints. It works once and lets this browser in." }
            p.muted { "You were in before? A link on another site cannot bring you in, but this one can." }
            a.button href=(path) { "Continue" }
        },
    )
}

/// A link that lets nobody in any more.
pub(crate) fn used_link() -> Markup {
    bare(
        "Link used",
        &html! {
            h1 { "This link was used already" }
            p { "Each link lets one browser in, once, within ten minutes. " code { "threadline up" } " prints a new one." }
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
            @if let Some(told) = told { p { (told) } }
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
            p { (fault.message) }
            p.small.muted { code { (fault.code) } }
            a.button href=(back) { "Go back" }
        },
    )
}
