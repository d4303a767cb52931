//! Commands that wait for a run: `run`, `retry`, `watch` and `sync`.

use std::{
    io::{IsTerminal as _, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use threadline_app::api::{self, BridgeParams, RetryParams, SendParams, ThreadParams, ThreadView};
use threadline_contract::{
    Code, Deliverable, Fault, RequestId, RuntimeId,
    turn::{ATTACHMENT_BYTES, InlineAttachment},
};

use super::{
    Context,
    follow::{Follow, Interrupt, follow},
    out::Out,
    print_json,
};
use crate::{
    args::{OneThread, Retry, Run},
    client::Client,
    exit::Exit,
    screen::{story::Which, words},
};

/// A prompt that does not fit into a request is a file to attach.
const PROMPT_BYTES: u64 = 4 << 20;

pub(super) async fn run(context: &Context, args: Run) -> Result<Exit, Fault> {
    let out = args.out.as_deref().map(Out::open).transpose()?;
    let detach = args.detach;
    let params = parameters(context, args)?;
    let client = context.client().await?;
    let which = params.request_id.clone().map_or(Which::Current, Which::Of);
    let existing = params.thread.clone();
    // What was said before is not told again.
    let after = match existing {
        Some(thread) => last_event(&client.call(api::SHOW, ThreadParams { thread }).await?),
        None => 0,
    };
    let view: ThreadView = client.call(api::SEND, params).await?;
    if detach {
        return Ok(detached(context, &view));
    }
    follow(Follow {
        context,
        client,
        view,
        which,
        after,
        interrupt: Interrupt::Stops,
        out,
    })
    .await
}

pub(super) async fn retry(context: &Context, args: Retry) -> Result<Exit, Fault> {
    let client = context.client().await?;
    let before: ThreadView = client
        .call(
            api::SHOW,
            ThreadParams {
                thread: args.thread.clone(),
            },
        )
        .await?;
    let after = last_event(&before);
    let view: ThreadView = client
        .call(
            api::RETRY,
            RetryParams {
                thread: args.thread,
                new_session: args.new_session,
            },
        )
        .await?;
    if args.detach {
        return Ok(detached(context, &view));
    }
    let which = which(&view);
    follow(Follow {
        context,
        client,
        view,
        which,
        after,
        interrupt: Interrupt::Stops,
        out: None,
    })
    .await
}

pub(super) async fn watch(context: &Context, args: OneThread) -> Result<Exit, Fault> {
    let client = context.client().await?;
    let view: ThreadView = client
        .call(
            api::SHOW,
            ThreadParams {
                thread: args.thread,
            },
        )
        .await?;
    follow(Follow {
        context,
        client,
        view,
        which: Which::Current,
        after: 0,
        interrupt: Interrupt::Leaves,
        out: None,
    })
    .await
}

pub(super) async fn sync(context: &Context, args: OneThread) -> Result<Exit, Fault> {
    let client: Arc<Client> = context.client().await?;
    let view: ThreadView = client
        .call(
            api::SYNC,
            ThreadParams {
                thread: args.thread,
            },
        )
        .await?;
    let after = last_event(&view);
    follow(Follow {
        context,
        client,
        view,
        which: Which::Current,
        after,
        interrupt: Interrupt::Leaves,
        out: None,
    })
    .await
}

/// The turn that was just sent again: it runs, or it waits as the last of its thread.
fn which(view: &ThreadView) -> Which {
    let context = &view.thread.context_state;
    let request: Option<&RequestId> = match (context.queued_turns.last(), &context.task_association)
    {
        (Some(turn), _) => Some(&turn.request_id),
        (None, Some(task)) => Some(&task.request_id),
        (None, None) => None,
    };
    request.map_or(Which::Current, |request| Which::Of(request.clone()))
}

fn last_event(view: &ThreadView) -> i64 {
    view.thread
        .context_state
        .task_association
        .as_ref()
        .map_or(0, |task| task.last_event_id)
}

fn detached(context: &Context, view: &ThreadView) -> Exit {
    let name = &view.thread.name;
    context.print(view, || {
        format!("{name} runs in the background.\n  threadline watch {name}\n")
    });
    Exit::Done
}

fn parameters(context: &Context, args: Run) -> Result<SendParams, Fault> {
    if let Some(runtime) = &args.runtime {
        runtime.parse::<RuntimeId>()?;
    }
    let stdin_attached = args.attach.iter().any(|path| path == Path::new("-"));
    let prompt = prompt(args.prompt, stdin_attached)?;
    let mut params = SendParams {
        thread: args.thread,
        // However often the connection breaks while it is handed over, it is one turn.
        request_id: Some(RequestId::fresh()),
        prompt,
        runtime: args.runtime,
        expect: args
            .expect
            .into_iter()
            .map(deliverable)
            .collect::<Result<_, _>>()?,
        working_directory: args.work_in.map(|dir| folder(&dir)).transpose()?,
        new_session: args.new_session,
        ..SendParams::default()
    };
    for path in args.attach {
        match path == Path::new("-") {
            true => params.inline.push(stdin_file()?),
            false => params.attach.push(file(&path)?),
        }
    }
    if let (None, Some(bridge)) = (&params.thread, &context.config.bridge) {
        let token = context
            .config
            .bridge_token
            .as_ref()
            .map(|t| t.expose().to_owned());
        params.bridge = Some(BridgeParams {
            url: bridge.url.clone(),
            token,
        });
    }
    Ok(params)
}

/// From the command line, or from standard input where that is not a person who would wonder what
/// is being waited for.
fn prompt(typed: Option<String>, stdin_attached: bool) -> Result<String, Fault> {
    let needed = |why: &str| {
        Fault::new(
            Code::PromptRequired,
            format!("{why} Say what to do: threadline run \"…\""),
        )
    };
    let typed = match typed.as_deref() {
        Some("-") | None if stdin_attached => {
            return Err(needed(
                "Standard input is attached already, so it cannot be the prompt too.",
            ));
        }
        Some("-") => None,
        Some(text) => Some(text.to_owned()),
        None if std::io::stdin().is_terminal() => return Err(needed("There is no prompt.")),
        None => None,
    };
    let text = match typed {
        Some(text) => text,
        None => {
            let bytes = read_stdin(PROMPT_BYTES)?;
            String::from_utf8(bytes).map_err(|_| {
                needed("Standard input is not text. Attach it with --attach - instead.")
            })?
        }
    };
    match text.trim().is_empty() {
        true => Err(needed("The prompt is empty.")),
        false => Ok(text),
    }
}

fn read_stdin(most: u64) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    let failed =
        |e: std::io::Error| Fault::invalid(format!("Standard input could not be read: {e}."));
    std::io::stdin()
        .lock()
        .take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    match bytes.len() as u64 > most {
        true => Err(Fault::new(
            Code::AttachmentTooLarge,
            format!("Standard input has more than {}.", words::size(most)),
        )),
        false => Ok(bytes),
    }
}

fn stdin_file() -> Result<InlineAttachment, Fault> {
    let bytes = read_stdin(ATTACHMENT_BYTES as u64)?;
    let is_text = std::str::from_utf8(&bytes).is_ok();
    Ok(InlineAttachment {
        name: if is_text { "stdin.txt" } else { "stdin.bin" }.into(),
        mime_type: is_text.then(|| "text/plain".into()),
        size_bytes: Some(bytes.len() as u64),
        content: STANDARD.encode(&bytes),
        sha256: None,
    })
}

fn deliverable(glob: String) -> Result<Deliverable, Fault> {
    match glob.trim().is_empty() {
        true => Err(Fault::invalid(
            "--expect needs a path or a pattern, such as 'reports/*.pdf'.",
        )),
        false => Ok(Deliverable {
            glob,
            content_type: None,
            min_bytes: None,
            min_count: None,
        }),
    }
}

/// Looked at here, so that a mistake is said before anything runs.
fn file(path: &Path) -> Result<String, Fault> {
    let wrong = |why: &str| {
        Fault::new(
            Code::AttachmentInvalid,
            format!("{} cannot be attached: {why}.", path.display()),
        )
    };
    let meta = std::fs::metadata(path).map_err(|e| wrong(&e.to_string()))?;
    if !meta.is_file() {
        return Err(wrong("it is not a file"));
    }
    if meta.len() > ATTACHMENT_BYTES as u64 {
        let most = words::size(ATTACHMENT_BYTES as u64);
        return Err(Fault::new(
            Code::AttachmentTooLarge,
            format!(
                "{} has {}; at most {most} can be attached.",
                path.display(),
                words::size(meta.len())
            ),
        ));
    }
    text(absolute(path)?)
}

fn folder(path: &Path) -> Result<String, Fault> {
    let wrong = |why: &str| {
        Fault::new(
            Code::WorkdirNotAllowed,
            format!("{} cannot be worked in: {why}.", path.display()),
        )
    };
    let meta = std::fs::metadata(path).map_err(|e| wrong(&e.to_string()))?;
    match meta.is_dir() {
        true => text(absolute(path)?),
        false => Err(wrong("it is not a folder")),
    }
}

fn absolute(path: &Path) -> Result<PathBuf, Fault> {
    let failed = |e: std::io::Error| Fault::invalid(format!("{}: {e}.", path.display()));
    let path = std::path::absolute(path).map_err(failed)?;
    Ok(path.components().collect())
}

fn text(path: PathBuf) -> Result<String, Fault> {
    let shown = path.display().to_string();
    path.into_os_string()
        .into_string()
        .map_err(|_| Fault::invalid(format!("{shown}: the path is not text.")))
}

/// What a program hears when a run is over.
pub(super) fn tell_end(exit: Exit, view: &ThreadView) {
    let state = &view.thread.lifecycle_state;
    print_json(&serde_json::json!({
        "event": "end",
        "data": {
            "exitCode": exit.number(),
            "lastResultCode": state.last_result_code,
            "lastArtifactSyncStatus": view.thread.context_state.last_artifact_sync_status,
            "workspacePath": view.thread.workspace_binding.workspace_path,
            "files": view.thread.context_state.last_artifacts,
            "omitted": view.thread.context_state.last_omitted,
            "thread": view.thread,
        },
    }));
}
