//! `/threads/<name>`: a conversation with its steps, questions and files, live.
//!
//! The record is drawn here. The steps of a run, and its text while it comes, are drawn by the
//! script from the thread's log, into the places marked `data-run`.

mod deletion;
pub(super) mod side;
mod turns;

use axum::{
    Extension,
    extract::{Path, State},
};
use maud::{Markup, html};
use threadline_app::api::{self, DeletionPreview, ThreadParams, ThreadView};
use threadline_contract::{
    Principal, ResultCode,
    thread::{Lifecycle, TaskThread},
};

use super::{Frame, Here, Unmade, act, ask, attach, icon, needs, permit};
use crate::{Web, local::call, markdown, urls, words};

/// Events that an opened page begins with. A log can be long; the script fetches earlier ones when
/// somebody wants them.
const TAIL: u32 = 1000;

pub(crate) async fn handle(
    State(web): State<Web>,
    Extension(by): Extension<Principal>,
    Path(name): Path<String>,
) -> Result<Markup, Unmade> {
    let view: ThreadView = call(&*web.app, api::SHOW, ThreadParams { thread: name }).await?;
    let frame = Frame {
        title: &view.thread.title,
        here: Here::Threads,
        needs: needs(&web, &by).await,
        viewer: web.viewer(&by),
        events: Some(urls::events(&view.thread.name, TAIL)),
    };
    let deletion = deletion::preview(&web, &view.thread).await;
    Ok(frame.around(&page(&view, deletion.as_ref())))
}

fn page(view: &ThreadView, deletion: Option<&DeletionPreview>) -> Markup {
    let name = &view.thread.name;
    html! {
        div.thread data-thread=(name) {
            main.talk #main {
                (head(view, deletion))
                div.flow #flow tabindex="0" role="log" aria-live="polite" aria-label="Conversation" {
                    button.button.earlier type="button" data-earlier hidden { "Earlier steps" }
                    div #turns data-live { (conversation(view)) }
                    button.button.newest type="button" data-newest hidden { "Newest ↓" }
                }
                div.composer #composer data-live { (composer(view)) }
            }
            aside.side #side aria-label="Files and details" data-live { (side::draw(view)) }
            dialog.sheet.wide #preview aria-label="File" {}
        }
    }
}

fn head(view: &ThreadView, deletion: Option<&DeletionPreview>) -> Markup {
    let record = &view.thread;
    let files = record.context_state.last_task_artifact_relative_paths.len() as u64;
    let left = record.context_state.last_omitted.len() as u64;
    html! {
        header.bar #head data-live {
            a.button.quiet.icon.up href="/threads" aria-label="All threads" { (icon::back()) }
            div.title {
                h1 title=(record.title) { (record.title) }
                p.muted.small {
                    (about(record))
                    span.jump { " · " a href="#side" { (jump(files, left)) } }
                }
            }
            div.acts {
                span role="status" { (words::state_of_view(view)) }
                @if is_going(record) { (cancel(record)) }
                (menu(record, deletion))
            }
        }
    }
}

/// What leads to the files, where they lie below the conversation.
fn jump(files: u64, left: u64) -> String {
    match (files, left) {
        (0, 0) => "Files".into(),
        (0, left) => format!("{} not taken", words::count(left, "file")),
        (files, _) => words::count(files, "file"),
    }
}

/// Where it runs, where it works, and how often it ran.
fn about(record: &TaskThread) -> String {
    let runs = turns::of(record).iter().filter(|t| t.run.is_some()).count();
    let place = record
        .execution_binding
        .runtime
        .as_ref()
        .map(words::runtime);
    let folder = match record.workspace_binding.working_directory {
        Some(_) => "works in your folder",
        None => "own folder",
    };
    let runs = match runs {
        0 if record.lifecycle_state.last_result_code.is_some() => "no run began".into(),
        0 => "no run yet".into(),
        n => words::count(n as u64, "run"),
    };
    let parts = [place.map(str::to_owned), Some(folder.into()), Some(runs)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn is_going(record: &TaskThread) -> bool {
    matches!(
        record.lifecycle_state.status,
        Lifecycle::Running | Lifecycle::Queued
    )
}

fn cancel(record: &TaskThread) -> Markup {
    let run = record.context_state.task_association.as_ref();
    let run = run.and_then(|run| run.run_id.as_ref());
    let waits = match record.context_state.queued_turns.len() {
        0 => "",
        1 => " The message that waits is dropped.",
        _ => " The messages that wait are dropped.",
    };
    let stays = match record.workspace_binding.working_directory {
        Some(_) => " What it changed in your folder until then stays.",
        None => "",
    };
    html! {
        form.act method="post" action="/do" data-rpc=(api::CANCEL) data-run=[run]
            data-sure="Cancel this run?" data-yes="Cancel the run" data-no="Let it run"
            data-about={ "It stops now and does not go on later. None of its files are brought here." (stays) (waits) } {
            input type="hidden" name="method" value=(api::CANCEL);
            input type="hidden" name="thread" value=(record.name);
            input type="hidden" name="back" value=(urls::thread(&record.name));
            button.button type="submit" data-cancel { "Cancel " kbd { "." } }
            p.error role="alert" data-own hidden {}
        }
    }
}

/// What is done seldom.
fn menu(record: &TaskThread, deletion: Option<&DeletionPreview>) -> Markup {
    let here = urls::thread(&record.name);
    let item = |method: &str, word: &str| act(method, &record.name, &here, "quiet", word);
    let going = is_going(record);
    let archived = record.lifecycle_state.status == Lifecycle::Archived;
    let began = record.context_state.task_association.is_some();
    html! {
        details.menu {
            summary.button.quiet.icon aria-label="More" { (icon::more()) }
            div.card {
                @if archived {
                    (item(api::RESTORE, "Restore"))
                    (deletion::draw(record, deletion))
                } @else {
                    @if began && !going { (item(api::RETRY, "Retry")) }
                    @if began { (item(api::SYNC, "Sync")) }
                    @if going { p.small.muted { "Cancel the run to archive the thread." } }
                    @else { (item(api::ARCHIVE, "Archive")) }
                }
            }
        }
    }
}

fn conversation(view: &ThreadView) -> Markup {
    let turns = turns::of(&view.thread);
    let last = turns.iter().rposition(turns::Turn::was_taken);
    let orphans = view
        .questions
        .iter()
        .filter(|q| !turns.iter().any(|t| t.run == Some(&q.run_id)));
    html! {
        @if turns.is_empty() { p.muted.center { "Nothing was said here yet." } }
        @for (n, turn) in turns.iter().enumerate() { (turns::draw(view, turn, last == Some(n))) }
        @for question in orphans { (turns::question(view, question)) }
        @if let Some(away) = &view.away {
            p.note {
                b { "Its bridge cannot be heard. " } (words::ticked(&away.message))
                " It is tried again until " (words::clock(away.gives_up_at_ms)) " at least."
            }
        }
        @if let Some(waits) = view.progress.as_ref().and_then(|progress| progress.message.as_deref()) {
            p.note { (words::ticked(waits)) }
        }
    }
}

fn composer(view: &ThreadView) -> Markup {
    let record = &view.thread;
    let here = urls::thread(&record.name);
    if record.lifecycle_state.status == Lifecycle::Archived {
        return html! {
            div.card.put-away {
                span { "This thread is archived." }
                (act(api::RESTORE, &record.name, &here, "button primary", "Restore"))
            }
        };
    }
    let unable = record.lifecycle_state.last_result_code
        == Some(ResultCode::Code(
            threadline_contract::Code::ContinuationUnavailable,
        ));
    let hint = if is_going(record) {
        "Follow up (waits its turn)"
    } else {
        "Follow up"
    };
    html! {
        form.card method="post" action="/do" data-rpc=(api::SEND) data-send data-draft=(record.name) {
            input type="hidden" name="method" value=(api::SEND);
            input type="hidden" name="thread" value=(record.name);
            input type="hidden" name="back" value=(here);
            @if unable { input type="hidden" name="newSession" value="1"; }
            textarea name="prompt" rows="1" required placeholder=(hint) aria-label="Message" data-write {}
            div.chips data-chips data-own {}
            p.error role="alert" data-own hidden {}
            div.bar {
                (attach())
                details.menu {
                    summary.button.quiet { "Permissions" }
                    div.card {
                        (permit::fields(record.context_state.permission_policy.as_ref()))
                        p.small.muted { "Holds from the message on that you send with it." }
                    }
                }
                @if unable {
                    span.muted.small { "Begins a new session: the agent has forgotten this one." }
                }
                button.button.primary type="submit" { "Send" }
            }
        }
    }
}

/// What an agent said, drawn.
fn said(text: &str) -> Markup {
    html! { div.said { (markdown::draw(text)) } }
}

pub(super) fn asked(question: &threadline_contract::Question, thread: &str) -> Markup {
    let id = format!("ask-{}", question.question_id);
    html! {
        div.card.ask #(format!("q-{}", question.question_id)) data-card tabindex="0" role="group" aria-labelledby=(id) {
            (ask::text(question, None, Some(&id)))
            p.muted.small {
                "Asked " (words::ago(question.asked_at)) " · "
                (ask::wanted(question)) ", also over a restart"
            }
            (ask::answers(question, ask::Lay::Column, &urls::thread(thread)))
        }
    }
}
