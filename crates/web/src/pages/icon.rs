//! The few drawings on the pages. All of them are decoration: words stand beside them.

use maud::{Markup, html};

use super::Here;

pub(super) fn logo() -> Markup {
    html! {
        svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2.2"
            stroke-linecap="round" aria-hidden="true" {
            path d="M4 6c5 0 6 12 16 12" {}
            path d="M4 12h16" opacity=".55" {}
            path d="M4 18c5 0 6-12 16-12" opacity=".3" {}
        }
    }
}

pub(super) fn of(here: Here) -> Markup {
    match here {
        Here::Home => drawn("M4 11.5 12 5l8 6.5V19a1 1 0 0 1-1 1h-4v-5H9v5H5a1 1 0 0 1-1-1z"),
        Here::Threads => drawn("M5 7h14M5 12h14M5 17h9"),
        Here::New => drawn("M12 5v14M5 12h14"),
        Here::Operator => drawn("M4 13h4l2.5-7 4 12L17 13h3"),
        Here::SignOut => drawn("M10 4H6a1 1 0 0 0-1 1v14a1 1 0 0 0 1 1h4M15 8l4 4-4 4M19 12H9"),
    }
}

pub(super) fn clip() -> Markup {
    drawn(
        "m19 11-7.5 7.5a4.6 4.6 0 0 1-6.5-6.5L12.6 4.4a3.1 3.1 0 0 1 4.4 4.4l-7.6 7.5a1.5 1.5 0 0 1-2.2-2.2L14 7.4",
    )
}

pub(super) fn cross() -> Markup {
    drawn("m6 6 12 12M18 6 6 18")
}

pub(super) fn more() -> Markup {
    drawn("M6 11.5v1M12 11.5v1M18 11.5v1")
}

pub(super) fn back() -> Markup {
    drawn("m14 6-6 6 6 6")
}

pub(super) fn check() -> Markup {
    drawn("m5 12.5 4.5 4.5L19 7.5")
}

pub(super) fn search() -> Markup {
    drawn("M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zm5-2 4.5 4.5")
}

fn drawn(path: &str) -> Markup {
    html! {
        svg.i viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.9"
            stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" {
            path d=(path) {}
        }
    }
}
