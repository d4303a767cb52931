//! Commands that look at threads or change them, and do not wait for a run.

use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use threadline_app::api::{
    self, DeleteParams, Deleted, DeletionPreview, List, ListParams, Summary, ThreadParams,
    ThreadView,
};
use threadline_contract::{
    Code, Fault, Millis, ResultCode,
    thread::{Lifecycle, SyncStatus, TaskThread},
};
use threadline_files::complain;

use super::Context;
use crate::{
    args::{Delete, OneThread, Threads},
    exit::Exit,
    screen::{deletion, ending, tables, words},
};

/// How long a run that was asked to stop is waited for.
const CONFIRMS: Duration = Duration::from_secs(5);

pub(super) async fn list(context: &Context, args: Threads) -> Result<Exit, Fault> {
    let client = context.client().await?;
    let mut found = List {
        threads: vec![],
        next: None,
        problems: vec![],
    };
    let limit = usize::from(args.limit);
    loop {
        let params = ListParams {
            archived: args.archived,
            limit: Some((limit - found.threads.len()).min(500)),
            before: found.next.take(),
            text: (!args.words.is_empty()).then(|| args.words.join(" ")),
        };
        let page: List = client.call(api::LIST, params).await?;
        found.threads.extend(page.threads);
        (found.next, found.problems) = (page.next, page.problems);
        if found.next.is_none() || found.threads.len() >= limit {
            break;
        }
    }
    for problem in &found.problems {
        complain!(
            "{} {}: {}",
            context.err.warn("warning:"),
            words::line(&problem.file),
            words::line(&problem.message)
        );
    }
    context.print(&found, || listing(&found.threads, &args, context));
    if found.next.is_some() && !context.json {
        complain!("{}", context.err.dim("There are more: --limit shows them."));
    }
    Ok(Exit::Done)
}

fn listing(threads: &[Summary], args: &Threads, context: &Context) -> String {
    if threads.is_empty() {
        return match (args.archived, args.words.as_slice()) {
            (_, [_, ..]) => format!(
                "No {}thread with {}.\n",
                if args.archived { "archived " } else { "" },
                words::line(&args.words.join(" "))
            ),
            (true, []) => "No archived threads.\n".into(),
            (false, []) => "No threads yet. `threadline run \"…\"` starts one.\n".into(),
        };
    }
    tables::threads(threads, Millis::now(), &TimeZone::system(), context.out)
}

pub(super) async fn show(context: &Context, args: OneThread) -> Result<Exit, Fault> {
    let view = ask(context, api::SHOW, args).await?;
    context.print(&view, || {
        tables::thread(
            &view,
            Millis::now(),
            &TimeZone::system(),
            context.out,
            context.home.as_deref(),
        )
    });
    Ok(Exit::Done)
}

pub(super) async fn cancel(context: &Context, args: OneThread) -> Result<Exit, Fault> {
    let client = context.client().await?;
    let params = ThreadParams {
        thread: args.thread,
    };
    let before: ThreadView = client.call(api::SHOW, params.clone()).await?;
    let cancelled = cancelled(&before);
    let mut view: ThreadView = match &cancelled {
        Some(_) => client.call(api::CANCEL, params.clone()).await?,
        None => before,
    };
    // It is cancelled when its bridge says so, which mostly takes no longer than a look.
    let until = Instant::now() + CONFIRMS;
    while (stops(&view) || looked_for(&view)) && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(100)).await;
        view = client.call(api::SHOW, params.clone()).await?;
    }
    context.print(&view, || {
        let name = &view.thread.name;
        let quoted = words::quoted(name);
        match cancelled {
            Some(_) if stops(&view) => format!(
                "{name}: the run is asked to stop, and has not yet. To see its end: threadline watch {quoted}\n"
            ),
            Some(what) => {
                let left = &view.thread.context_state.last_omitted;
                let left = ending::not_taken(left, context.out);
                format!("{name}: {what}.\n{left}")
            }
            None => format!("Nothing of {name} runs or waits.\n"),
        }
    });
    Ok(Exit::Done)
}

/// Whether the run was asked to stop and goes on.
fn stops(view: &ThreadView) -> bool {
    let task = view.thread.context_state.task_association.as_ref();
    view.thread.lifecycle_state.status == Lifecycle::Running
        && task.is_some_and(|task| task.cancel_requested)
}

/// Whether the run was cancelled, and what it left is not known yet.
fn looked_for(view: &ThreadView) -> bool {
    let sync = view.thread.context_state.last_artifact_sync_status;
    let result = view.thread.lifecycle_state.last_result_code;
    result.is_some_and(ResultCode::is_cancelled) && sync == Some(SyncStatus::Syncing)
}

/// What there is to cancel, as it reads when that is done.
fn cancelled(view: &ThreadView) -> Option<String> {
    let thread = &view.thread;
    let context = &thread.context_state;
    let dropped = match context.queued_turns.len() as u64 {
        0 => None,
        1 => Some("the message that waited is dropped".to_owned()),
        n => Some(format!("{n} messages that waited are dropped")),
    };
    let ended = match (
        thread.lifecycle_state.status,
        context.last_artifact_sync_status,
    ) {
        (Lifecycle::Running, _) => {
            Some(ending::given_up(view).unwrap_or_else(|| "the run is cancelled".to_owned()))
        }
        (Lifecycle::Ready, Some(SyncStatus::Syncing)) => {
            let name = words::quoted(&thread.name);
            Some(format!(
                "the sync is cancelled; `threadline sync {name}` goes on with it"
            ))
        }
        _ => None,
    };
    let parts: Vec<String> = ended.into_iter().chain(dropped).collect();
    (!parts.is_empty()).then(|| parts.join(", and "))
}

/// Where a thread is already where it shall go, there is nothing to do, and that is said.
pub(super) async fn archive(context: &Context, args: OneThread) -> Result<Exit, Fault> {
    moved(context, args, api::ARCHIVE, |thread, was| {
        let name = &thread.name;
        let already = if was == Lifecycle::Archived {
            " already"
        } else {
            ""
        };
        format!(
            "{name} is archived{already}. `threadline restore {}` brings it back.\n",
            words::quoted(name)
        )
    })
    .await
}

pub(super) async fn restore(context: &Context, args: OneThread) -> Result<Exit, Fault> {
    moved(context, args, api::RESTORE, |thread, was| {
        let name = &thread.name;
        match was {
            Lifecycle::Archived => format!("{name} is back among the threads.\n"),
            _ => format!("{name} is not archived, so there is nothing to restore.\n"),
        }
    })
    .await
}

/// Puts a thread away or brings it back, unless it is there already.
async fn moved(
    context: &Context,
    args: OneThread,
    method: &str,
    says: impl FnOnce(&TaskThread, Lifecycle) -> String,
) -> Result<Exit, Fault> {
    let client = context.client().await?;
    let params = ThreadParams {
        thread: args.thread,
    };
    let before: ThreadView = client.call(api::SHOW, params.clone()).await?;
    let was = before.thread.lifecycle_state.status;
    let view = match (was == Lifecycle::Archived) == (method == api::ARCHIVE) {
        true => before,
        false => client.call(method, params).await?,
    };
    context.print(&view, || {
        let notice = view.notice.as_deref().map(words::line);
        let notice = notice.map(|n| format!("{n}\n")).unwrap_or_default();
        format!("{}{notice}", says(&view.thread, was))
    });
    Ok(Exit::Done)
}

pub(super) async fn delete(context: &Context, args: Delete) -> Result<Exit, Fault> {
    let client = context.client().await?;
    let params = ThreadParams {
        thread: args.thread,
    };
    let view: ThreadView = client.call(api::SHOW, params.clone()).await?;
    let name = &view.thread.name;
    if view.thread.lifecycle_state.status != Lifecycle::Archived {
        return Err(Fault::new(
            Code::Conflict,
            format!(
                "{name} is not archived, and only archived threads are deleted. Archive it first: threadline archive {}",
                words::quoted(name)
            ),
        ));
    }
    if !args.yes {
        let would: DeletionPreview = client.call(api::DELETE_PREVIEW, params).await?;
        return Err(
            Fault::invalid(deletion::before(&would, args.with_my_files, context.err))
                .with("preview", serde_json::json!(would)),
        );
    }
    let params = DeleteParams {
        thread: params.thread,
        with_my_files: args.with_my_files,
        yours_digest: None,
    };
    let gone: Deleted = client.call(api::DELETE, params).await?;
    let folder = &view.thread.workspace_binding.workspace_path;
    context.print(&gone, || deletion::after(&gone, folder, context.out));
    Ok(Exit::Done)
}

async fn ask(context: &Context, method: &str, args: OneThread) -> Result<ThreadView, Fault> {
    let client = context.client().await?;
    client
        .call(
            method,
            ThreadParams {
                thread: args.thread,
            },
        )
        .await
}
