//! Deleting a thread: what goes, and what stays because it is the user's own.

use maud::{Markup, html};
use threadline_app::api::{self, DeletionPreview, OwnFile, ThreadParams};
use threadline_contract::thread::{Lifecycle, TaskThread};

use super::super::form;
use crate::{Web, local::call, urls, words};

/// Files of the user's that are named one by one.
const NAMED_FILES: usize = 8;

/// What deleting would remove and keep; only an archived thread can be deleted.
pub(super) async fn preview(web: &Web, record: &TaskThread) -> Option<DeletionPreview> {
    if record.lifecycle_state.status != Lifecycle::Archived {
        return None;
    }
    let thread = record.name.clone();
    let preview = call(&*web.app, api::DELETE_PREVIEW, ThreadParams { thread }).await;
    // The page says what holds for every thread then.
    preview
        .inspect_err(|fault| tracing::warn!("What a deletion would keep is not known: {fault}"))
        .ok()
}

/// The part of the menu that deletes.
pub(super) fn draw(record: &TaskThread, preview: Option<&DeletionPreview>) -> Markup {
    let here = urls::thread(&record.name);
    let yours = preview.map_or(&[][..], |preview| &preview.yours);
    let inside = html! {
        // Files that were not shown do not go: the app compares.
        @if let Some(preview) = preview { input type="hidden" name="yoursDigest" value=(preview.yours_digest); }
        @if !yours.is_empty() {
            label.check { input type="checkbox" name="withMyFiles" value="1"; " Remove them too" }
        }
        button.button.danger type="submit" { "Delete for good" }
    };
    html! {
        details.sure data-fresh {
            summary.quiet.bad { "Delete…" }
            p.small { "The thread, what its runs delivered and what its bridge holds of them, also of cancelled ones, are removed for good. " (stays(preview)) }
            @if !yours.is_empty() { (names(preview)) }
            div data-guard { (form(api::DELETE, &record.name, &here, &inside)) }
        }
    }
}

fn stays(preview: Option<&DeletionPreview>) -> Markup {
    match preview {
        None => html! { "Files that you made or edited stay, and so does a folder of your own." },
        Some(preview) if preview.folder.is_none() => html! { "Its folder is your own and stays." },
        Some(preview) if preview.yours.is_empty() => {
            html! { "Its folder holds nothing that you made or edited, and goes too." }
        }
        Some(preview) => {
            let files = preview.yours_total.files;
            html! { b { (words::count(files, "file")) " that you made or edited " (if files == 1 { "stays" } else { "stay" }) ":" } }
        }
    }
}

fn names(preview: Option<&DeletionPreview>) -> Markup {
    let Some(preview) = preview else {
        return html! {};
    };
    let line = |file: &OwnFile| {
        html! { li { code { (file.path) } " " span.muted { (words::size(file.size)) @if file.edited { ", edited" } } } }
    };
    let shown = preview.yours.len().min(NAMED_FILES);
    let more = preview.yours_total.files.saturating_sub(shown as u64);
    html! {
        ul.small {
            @for file in preview.yours.iter().take(shown) { (line(file)) }
            @if more > 0 { li.muted { (more) " more" } }
        }
    }
}
