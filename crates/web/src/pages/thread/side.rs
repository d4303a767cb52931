//! Beside the conversation: the files of the current run, what was not taken and why, and the facts
//! about session and run.

use maud::{Markup, html};
use threadline_app::api::{self, EarlierRun, ThreadView};
use threadline_contract::{
    Omitted, ResultCode,
    thread::{Lifecycle, SyncStatus, TaskAssociation, TaskThread},
};

use super::super::{act, icon};
use crate::{kind, urls, words};

/// Bytes of a file name's ending, such as `.html`, that is always shown.
const ENDING: usize = 8;
/// Files that were not taken, shown without unfolding.
const NAMED: usize = 5;

pub(super) fn draw(view: &ThreadView) -> Markup {
    html! {
        (files(&view.thread))
        (left_out(&view.thread.context_state.last_omitted))
        (earlier(&view.earlier))
        (facts(&view.thread))
    }
}

fn files(record: &TaskThread) -> Markup {
    let state = &record.context_state;
    let paths = &state.last_task_artifact_relative_paths;
    let known = |path: &str| {
        state
            .last_artifacts
            .iter()
            .find(|f| f.path.as_str() == path)
    };
    let all: u64 = state.last_artifacts.iter().map(|f| f.size).sum();
    html! {
        section.card.files aria-label="Files" {
            header {
                h2 { "Files" }
                @if !paths.is_empty() { span.muted.small { (paths.len()) " · " (words::size(all)) } }
            }
            @for path in paths {
                @let file = known(path.as_str());
                a.file href=(urls::preview(&record.name, path.as_str())) data-preview data-path=(path) {
                    span.kind aria-hidden="true" { (kind::badge(path.as_str())) }
                    span.name title=(path) { (name(path.as_str())) }
                    span.muted.small.num { @if let Some(file) = file { (words::size(file.size)) } }
                    @match file {
                        Some(file) if file.missing => span.small.amber.changed { "is missing here; Sync brings it back" },
                        Some(file) if file.changed => span.small.amber.changed { "changed since it was verified" },
                        _ => {}
                    }
                }
            }
            div #coming data-own {}
            (sync(record, paths.len()))
        }
    }
}

/// Where there is no room, the folder is cut off first, then the name, and what kind of file it is never.
fn name(path: &str) -> Markup {
    let (folder, name) = match path.rfind('/') {
        Some(at) => path.split_at(at + 1),
        None => ("", path),
    };
    let (stem, end) = match name.rfind('.') {
        Some(at) if at > 0 && name.len() - at <= ENDING => name.split_at(at),
        _ => (name, ""),
    };
    html! {
        @if !folder.is_empty() { span.folder { (folder) } }
        span.own { span { (stem) } @if !end.is_empty() { span { (end) } } }
    }
}

fn sync(record: &TaskThread, files: usize) -> Markup {
    let state = &record.context_state;
    let detail = state
        .last_artifact_sync_detail
        .as_deref()
        .unwrap_or_default();
    let here = urls::thread(&record.name);
    let again = act(api::SYNC, &record.name, &here, "button", "Sync");
    let earlier = super::turns::of(record)
        .iter()
        .filter(|t| t.run.is_some())
        .count()
        > 1;
    let changed = state.last_artifacts.iter().filter(|f| f.changed).count();
    let calm = |words: &str| html! { p.calm { (words) } };
    let trouble = |words: &str| {
        html! { div.trouble { p { b { (words) " " } (words::ticked(detail)) } (again) } }
    };
    match state.last_artifact_sync_status {
        None => calm("Files that the agent makes come here when its run has ended."),
        Some(SyncStatus::Queued | SyncStatus::Running) => html! {
            p.calm {
                "Files come when this run has ended."
                @if earlier { " Those of earlier runs then move to .xworkmate/runs in the folder." }
            }
        },
        Some(SyncStatus::Syncing)
            if record
                .lifecycle_state
                .last_result_code
                .is_some_and(ResultCode::is_cancelled) =>
        {
            calm("The run was cancelled. What it left is looked for.")
        }
        Some(SyncStatus::Syncing) => {
            html! { p.calm { span.state.running { span.dot aria-hidden="true" {} "Files are on their way" } } }
        }
        Some(SyncStatus::Synced) if changed > 0 => html! {
            div.trouble.amber {
                p {
                    b { (changed) " of " (files) " " (if changed == 1 { "is" } else { "are" }) " no longer as delivered. " }
                    "Sync brings back what was delivered, and keeps what you changed beside it."
                }
                (again)
            }
        },
        Some(SyncStatus::Synced) => html! {
            p.proof {
                (icon::check())
                span { (files) " of " (files) " verified" }
                @if let Some(at) = state.last_artifact_sync_at_ms { span.muted.small { (words::clock(at)) } }
                @if let Some(receipt) = state.last_receipt.map(|digest| digest.to_hex()) {
                    span.muted.small title=(receipt) { "receipt " code { (&receipt[..12]) } }
                }
            }
        },
        Some(SyncStatus::Partial) => trouble("Not every file is here."),
        Some(SyncStatus::NoExportedArtifacts) => calm("This run made no files."),
        Some(SyncStatus::Failed | SyncStatus::NoArtifacts) => {
            match record.lifecycle_state.last_result_code {
                Some(ResultCode::Success) => trouble("The files are not here."),
                // Why, and what can be done, is told in the conversation.
                result => calm(without_files(record, result)),
            }
        }
    }
}

/// Why a run that did not succeed has no files.
fn without_files(record: &TaskThread, result: Option<ResultCode>) -> &'static str {
    let run = record.context_state.task_association.as_ref();
    let began = run.is_some_and(|run| run.run_id.is_some());
    match result {
        Some(code) if code.is_cancelled() => "No files were brought: the run was cancelled.",
        _ if !began => "No files: the run did not begin.",
        Some(code) if words::may_be_synced(code) => "No files yet: the result did not arrive.",
        _ => "No files: the run did not succeed.",
    }
}

fn left_out(omitted: &[Omitted]) -> Markup {
    let line = |file: &Omitted| html! { li { code { (file.path) } " " (file.reason.in_words()) } };
    let was = if omitted.len() == 1 { "was" } else { "were" };
    let (named, rest) = omitted.split_at(omitted.len().min(NAMED));
    html! {
        @if !omitted.is_empty() {
            section.note aria-label="Files that were not taken" {
                p { b { (words::count(omitted.len() as u64, "file")) " " (was) " not taken" } }
                ul { @for file in named { (line(file)) } }
                @if !rest.is_empty() {
                    details { summary { (rest.len()) " more" } ul { @for file in rest { (line(file)) } } }
                }
            }
        }
    }
}

/// What earlier runs brought, and where it lies.
fn earlier(runs: &[EarlierRun]) -> Markup {
    html! {
        @if !runs.is_empty() {
            section.card.files.before aria-label="Files of earlier runs" {
                header { h2 { "Files of earlier runs" } }
                @for run in runs {
                    details {
                        summary { (words::count(run.files.into(), "file")) " · " (words::size(run.bytes)) }
                        ul {
                            @for path in &run.paths {
                                li { (path) @if run.edited.contains(path) { " " span.small.amber { "edited since" } } }
                            }
                        }
                        @if run.paths.len() < run.files as usize {
                            p.muted { (run.files as usize - run.paths.len()) " more" }
                        }
                        p.muted { "They lie in " code { (run.folder) } " " (copy(&run.folder)) }
                        p.muted { "Run " (id(run.run_id.as_str())) }
                    }
                }
            }
        }
    }
}

/// An identifier: seldom read, so it takes one line, and is copied whole.
pub(in crate::pages) fn id(text: &str) -> Markup {
    html! { code.id title=(text) { (text) } " " (copy(text)) }
}

fn facts(record: &TaskThread) -> Markup {
    let binding = &record.workspace_binding;
    let folder = binding.workspace_path.as_str();
    let run = record.context_state.task_association.as_ref();
    html! {
        section.facts aria-label="Details" {
            h2 { "Details" }
            dl {
                (fact("Name", &html! { code { (record.name) } }))
                (fact("Folder", &html! { code { (folder) } " " (copy(folder)) }))
                @if let Some(own) = &binding.working_directory { (fact("Works in", &html! { code { (own) } })) }
                @if let Some(runtime) = &record.execution_binding.runtime {
                    (fact("Runs on", &html! { (words::runtime(runtime)) }))
                }
                @if let Some(policy) = &record.context_state.permission_policy {
                    (fact("Policy", &html! { (policy) }))
                }
                @if let Some(run) = run { (run_facts(record, run)) }
                @if run.is_none() { (fact("Made", &words::moment(record.created_at_ms))) }
            }
        }
    }
}

fn run_facts(record: &TaskThread, run: &TaskAssociation) -> Markup {
    let going = record.lifecycle_state.status == Lifecycle::Running;
    let which = if going { "Run" } else { "Last run" };
    html! {
        @if let Some(session) = &run.session_key { (fact("Session", &id(session.as_str()))) }
        @if let Some(id) = &run.run_id {
            (fact(which, &self::id(id.as_str())))
            (fact("Started", &words::moment(run.started_at_ms)))
            @if let Some(wall) = run.wall_ms { (fact("Took", &took(wall, run.waited_ms))) }
            @if !going || run.usage.is_some() { (fact("Used", &words::used(run.usage.as_ref()))) }
        } @else {
            (fact("Asked for", &words::moment(run.started_at_ms)))
        }
    }
}

fn took(wall: i64, waited: Option<i64>) -> Markup {
    html! {
        (words::duration(wall))
        @if let Some(waited) = waited { ", " (words::duration(waited)) " of it for an answer" }
    }
}

/// A fact with its name.
pub(in crate::pages) fn fact(word: &str, value: &Markup) -> Markup {
    html! { div { dt { (word) } dd { (value) } } }
}

fn copy(text: &str) -> Markup {
    html! { button.quiet.small type="button" data-copy=(crate::shown::verbatim(text)) { "Copy" } }
}
