//! Commands that look at threads or change them, and do not wait for a run.

use jiff::tz::TimeZone;
use threadline_app::api::{self, Deleted, List, ListParams, Summary, ThreadParams, ThreadView};
use threadline_contract::{Code, Fault, Millis, thread::Lifecycle};

use super::Context;
use crate::{
    args::{Delete, OneThread, Threads},
    exit::Exit,
    screen::{tables, words},
};

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
        };
        let page: List = client.call(api::LIST, params).await?;
        found.threads.extend(page.threads);
        (found.next, found.problems) = (page.next, page.problems);
        if found.next.is_none() || found.threads.len() >= limit {
            break;
        }
    }
    for problem in &found.problems {
        eprintln!(
            "{} {}: {}",
            context.err.warn("warning:"),
            words::line(&problem.file),
            words::line(&problem.message)
        );
    }
    context.print(&found, || listing(&found.threads, args.archived, context));
    if found.next.is_some() && !context.json {
        eprintln!("{}", context.err.dim("There are more: --limit shows them."));
    }
    Ok(Exit::Done)
}

fn listing(threads: &[Summary], archived: bool, context: &Context) -> String {
    if threads.is_empty() {
        return match archived {
            true => "No archived threads.\n".into(),
            false => "No threads yet. `threadline run \"…\"` starts one.\n".into(),
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
    let view: ThreadView = client.call(api::SHOW, params.clone()).await?;
    let thread = &view.thread;
    let working = matches!(
        thread.lifecycle_state.status,
        Lifecycle::Running | Lifecycle::Queued
    );
    if !working && thread.context_state.queued_turns.is_empty() {
        context.print(&view, || {
            format!("Nothing of {} runs or waits.\n", thread.name)
        });
        return Ok(Exit::Done);
    }
    let view: ThreadView = client.call(api::CANCEL, params).await?;
    context.print(&view, || tables::stands(&view, context.out));
    Ok(Exit::Done)
}

pub(super) async fn archive(context: &Context, args: OneThread) -> Result<Exit, Fault> {
    let view = ask(context, api::ARCHIVE, args).await?;
    let name = &view.thread.name;
    context.print(&view, || {
        format!("{name} is archived. `threadline restore {name}` brings it back.\n")
    });
    Ok(Exit::Done)
}

pub(super) async fn restore(context: &Context, args: OneThread) -> Result<Exit, Fault> {
    changed(context, api::RESTORE, args).await
}

pub(super) async fn delete(context: &Context, args: Delete) -> Result<Exit, Fault> {
    let thread = args.thread;
    if !args.yes {
        let typed = words::quoted(&thread);
        return Err(Fault::new(
            Code::InvalidRequest,
            format!(
                "This removes the thread and the folder that was made for it, for good. To do so: threadline delete {typed} --yes"
            ),
        ));
    }
    let client = context.client().await?;
    let gone: Deleted = client.call(api::DELETE, ThreadParams { thread }).await?;
    context.print(&gone, || {
        let folder = gone
            .removed_folder
            .as_deref()
            .map(|f| format!(", and with it {}", words::line(f)));
        format!("{} is gone{}.\n", gone.name, folder.unwrap_or_default())
    });
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

async fn changed(context: &Context, method: &str, args: OneThread) -> Result<Exit, Fault> {
    let view = ask(context, method, args).await?;
    context.print(&view, || {
        let notice = view
            .notice
            .as_deref()
            .map(|n| format!("{}\n", words::line(n)));
        format!(
            "{}{}",
            tables::stands(&view, context.out),
            notice.unwrap_or_default()
        )
    });
    Ok(Exit::Done)
}
