//! Commands that wait for a run: `run`, `retry`, `watch` and `sync`.

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::json;
use threadline_app::api::{
    self, NoParams, RetryParams, Runtimes, SendParams, ThreadParams, ThreadView, TurnView,
};
use threadline_contract::{Code, Fault, RequestId, ResultCode, RunId, thread::Lifecycle};
use tokio::time::Instant;

use super::{
    Context,
    follow::{Follow, Interrupt, follow},
    out::Out,
    print_json, task,
};
use crate::{
    args::{OneThread, Retry, Run},
    client::{Client, Matters},
    exit::Exit,
    screen::{ending::Given, story::Which, words},
};

pub(super) async fn run(context: &Context, args: Run) -> Result<Exit, Fault> {
    let out = args.out.as_deref().map(Out::open).transpose()?;
    let detach = args.detach;
    let given = given(&args);
    let params = task::parameters(context, args)?;
    let client = context.client_for(Matters::Runs).await?;
    offered(context, &client, &params).await?;
    let which = params.request_id.clone().map_or(Which::Current, Which::Of);
    // What was said before is not told again.
    let after = match &params.thread {
        Some(thread) => last_event(&show(&client, thread).await?),
        None => 0,
    };
    let begun = Instant::now();
    let refused = refusal(&params);
    let view: ThreadView = client.call(api::SEND, params).await.map_err(refused)?;
    let sent = Follow {
        which,
        after,
        interrupt: Interrupt::Cancels,
        out,
        given,
        begun,
        ..Follow::of(context, client, view)
    };
    waited_for(sent, detach).await
}

pub(super) async fn retry(context: &Context, args: Retry) -> Result<Exit, Fault> {
    let client = context.client_for(Matters::Runs).await?;
    let after = last_event(&show(&client, &args.thread).await?);
    let request = RequestId::fresh();
    let params = RetryParams {
        thread: args.thread,
        request_id: Some(request.clone()),
        new_session: args.new_session,
    };
    let view: ThreadView = client.call(api::RETRY, params).await?;
    let sent = Follow {
        which: which(&view, request),
        after,
        interrupt: Interrupt::Cancels,
        ..Follow::of(context, client, view)
    };
    waited_for(sent, args.detach).await
}

pub(super) async fn watch(context: &Context, args: OneThread) -> Result<Exit, Fault> {
    let client = context.client().await?;
    let view = show(&client, &args.thread).await?;
    follow(Follow {
        which: current(&view),
        ..Follow::of(context, client, view)
    })
    .await
}

pub(super) async fn sync(context: &Context, args: OneThread) -> Result<Exit, Fault> {
    let client = context.client().await?;
    let before = show(&client, &args.thread).await?;
    let thread = args.thread;
    let view: ThreadView = client.call(api::SYNC, ThreadParams { thread }).await?;
    let after = last_event(&view);
    follow(Follow {
        which: current(&view),
        after,
        before: Some(before),
        ..Follow::of(context, client, view)
    })
    .await
}

async fn show(client: &Client, thread: &str) -> Result<ThreadView, Fault> {
    let thread = thread.to_owned();
    client.call(api::SHOW, ThreadParams { thread }).await
}

/// Follows what was sent, unless nobody wants to wait for it.
async fn waited_for(sent: Follow<'_>, detach: bool) -> Result<Exit, Fault> {
    match detach {
        true => detached(sent).await,
        false => follow(sent).await,
    }
}

/// Looks whether this machine's bridge has the runtime; another one's is asked by sending.
async fn offered(
    context: &Context,
    client: &Arc<Client>,
    params: &SendParams,
) -> Result<(), Fault> {
    let Some(wanted) = &params.runtime else {
        return Ok(());
    };
    if params.bridge.is_some() || params.thread.is_some() {
        return Ok(());
    }
    let found: Runtimes = client.call(api::RUNTIMES, NoParams {}).await?;
    let names: Vec<String> = found
        .runtimes
        .iter()
        .map(|r| r.runtime.to_string())
        .collect();
    if names.contains(wanted) {
        return Ok(());
    }
    let agent = wanted.strip_prefix("acp:").unwrap_or_default();
    let known = context.config.agents.iter().find(|a| a.name == agent);
    let (code, why) = match known.and_then(|agent| agent.command.first()) {
        Some(program) => (
            Code::ProviderUnavailable,
            format!("the program of {wanted}, `{program}`, is not on the PATH"),
        ),
        None => (
            Code::ProviderNotFound,
            format!("there is no `{}` here", words::line(wanted)),
        ),
    };
    let choose = names.join(" or ");
    Err(Fault::new(
        code,
        format!("--runtime: {why}. Choose {choose}."),
    ))
}

/// A refusal of the app in words of the command line: the flag that it is about.
fn refusal(params: &SendParams) -> impl FnOnce(Fault) -> Fault + use<> {
    let with = |given: bool, flag: &'static str| given.then_some(flag);
    let runtime = with(params.runtime.is_some(), "--runtime");
    let folder = with(params.working_directory.is_some(), "--in");
    let bridge = with(params.bridge.is_some(), "--bridge");
    let files = with(
        !(params.attach.is_empty() && params.inline.is_empty()),
        "--attach",
    );
    let globs: Vec<String> = params.expect.iter().map(|d| d.glob.clone()).collect();
    move |fault| {
        let about = match fault.code {
            Code::ProviderNotFound
            | Code::ProviderUnavailable
            | Code::RoutingFailed
            | Code::RoutingRequired => runtime,
            Code::WorkdirNotAllowed => folder,
            Code::AttachmentInvalid | Code::AttachmentTooLarge => files,
            Code::ConnectFailed
            | Code::ConnectTimeout
            | Code::BadBridgeAnswer
            | Code::Unauthorized => bridge,
            Code::InvalidRequest => globs
                .iter()
                .any(|glob| fault.message.contains(glob))
                .then_some("--expect"),
            _ => None,
        };
        match about {
            Some(flag) if !fault.message.starts_with(flag) => Fault {
                message: format!("{flag}: {}", fault.message),
                ..fault
            },
            _ => fault,
        }
    }
}

/// What goes with the task, for its end.
fn given(args: &Run) -> Given {
    let name = |path: &std::path::PathBuf| match path == Path::new("-") {
        true => "standard input".to_owned(),
        false => path
            .file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy()
            .into_owned(),
    };
    Given {
        attached: args.attach.iter().map(name).collect(),
        copied: None,
    }
}

/// The turn that was just sent again: a new one, or the one that perhaps never arrived, as it was.
fn which(view: &ThreadView, request: RequestId) -> Which {
    let context = &view.thread.context_state;
    let current = context.task_association.as_ref().map(|t| &t.request_id);
    let mut waiting = context.queued_turns.iter().map(|turn| &turn.request_id);
    let known = current == Some(&request) || waiting.any(|waits| *waits == request);
    Which::Of(match (known, current) {
        (false, Some(current)) => current.clone(),
        _ => request,
    })
}

/// The turn that a thread is busy with, the next one that waits, or else the last.
fn current(view: &ThreadView) -> Which {
    let context = &view.thread.context_state;
    let next = context.queued_turns.first().map(|turn| &turn.request_id);
    let last = context.task_association.as_ref().map(|t| &t.request_id);
    let turn = match view.thread.lifecycle_state.status {
        Lifecycle::Queued => next.or(last),
        _ => last,
    };
    turn.cloned().map_or(Which::Current, Which::Of)
}

fn last_event(view: &ThreadView) -> i64 {
    view.thread
        .context_state
        .task_association
        .as_ref()
        .map_or(0, |task| task.last_event_id)
}

/// How long a turn that was sent is waited for until its bridge says which run it is.
const NAMED_WITHIN: Duration = Duration::from_secs(10);
/// How often that is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Leaves what was sent to itself. A program is told which run it is, or why that is not known yet.
async fn detached(sent: Follow<'_>) -> Result<Exit, Fault> {
    let Follow {
        context,
        client,
        mut view,
        which,
        ..
    } = sent;
    let name = view.thread.name.clone();
    if context.json {
        let until = Instant::now() + NAMED_WITHIN;
        while matches!(sent_as(&view, &which), Sent::Unnamed) && Instant::now() < until {
            tokio::time::sleep(LOOK_AGAIN).await;
            view = show(&client, view.thread.thread_id.as_str()).await?;
        }
        let (state, run) = match sent_as(&view, &which) {
            Sent::Waits => ("queued", None),
            Sent::Unnamed => ("unconfirmed", None),
            Sent::Named(run) => ("accepted", Some(run)),
            Sent::Over => ("ended", None),
        };
        let request = match &which {
            Which::Of(request) => Some(request),
            Which::Current => None,
        };
        print_json(&json!({"event": "accepted", "data": view}));
        print_json(&json!({"event": "detached", "data": {
            "exitCode": Exit::Done.number(),
            "threadId": view.thread.thread_id,
            "name": view.thread.name,
            "requestId": request,
            "runId": run,
            "state": state,
        }}));
        return Ok(Exit::Done);
    }
    let how = match sent_as(&view, &which) {
        Sent::Waits => "waits for its turn and starts by itself",
        _ => "runs in the background",
    };
    super::print(&format!(
        "{name} {how}.\n  threadline watch {}\n",
        words::quoted(&name)
    ));
    Ok(Exit::Done)
}

/// What is known of a turn that was sent.
enum Sent {
    /// It waits here.
    Waits,
    /// Its bridge has not said yet which run it is.
    Unnamed,
    /// It is this run.
    Named(RunId),
    /// The thread has nothing of it any more, or it could not be sent.
    Over,
}

fn sent_as(view: &ThreadView, which: &Which) -> Sent {
    let context = &view.thread.context_state;
    let own = |request: &RequestId| match which {
        Which::Of(own) => own == request,
        Which::Current => true,
    };
    if context
        .queued_turns
        .iter()
        .any(|turn| own(&turn.request_id))
    {
        return Sent::Waits;
    }
    let task = context.task_association.as_ref();
    let Some(task) = task.filter(|task| own(&task.request_id)) else {
        return Sent::Over;
    };
    match &task.run_id {
        Some(run) => Sent::Named(run.clone()),
        None if view.thread.lifecycle_state.status == Lifecycle::Running => Sent::Unnamed,
        None => Sent::Over,
    }
}

/// What a program hears when what it sent was dropped before it began.
pub(super) fn tell_dropped(exit: Exit, view: &ThreadView, request: Option<&RequestId>) {
    print_json(&json!({
        "event": "end",
        "data": {
            "exitCode": exit.number(),
            "dropped": true,
            "requestId": request,
            "lastResultCode": ResultCode::Aborted,
            "thread": view.thread,
        },
    }));
}

/// What a program hears when a run is over.
pub(super) fn tell_end(exit: Exit, view: &ThreadView, turn: &TurnView) {
    let result = &turn.result;
    print_json(&json!({
        "event": "end",
        "data": {
            "exitCode": exit.number(),
            "requestId": turn.request_id,
            "runId": turn.run_id,
            "lastResultCode": result.result_code,
            "lastArtifactSyncStatus": result.artifact_sync_status,
            "workspacePath": view.thread.workspace_binding.workspace_path,
            "files": result.artifacts,
            "omitted": result.omitted,
            "missing": result.missing,
            "thread": view.thread,
        },
    }));
}
