//! The task as it was typed: prompt, files, folder and what must come back, looked at here, so that a
//! mistake is said before anything is made.

use std::{
    io::{IsTerminal as _, Read as _},
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use threadline_app::api::{BridgeParams, SendParams};
use threadline_contract::{
    Code, Deliverable, Fault, RequestId, RuntimeId,
    turn::{ATTACHMENT_BYTES, InlineAttachment},
};
use threadline_runtimes::acp::AgentConfig;

use super::Context;
use crate::{args::Run, screen::words};

/// A prompt that does not fit into a request is a file to attach.
const PROMPT_BYTES: u64 = 4 << 20;

/// The runtime that was named: as it is listed, or an agent by its own name.
fn runtime(named: &str, agents: &[AgentConfig]) -> Result<RuntimeId, Fault> {
    if agents.iter().any(|agent| agent.name == named) {
        return Ok(RuntimeId::Acp(named.to_owned()));
    }
    named.parse().map_err(|_| {
        let named = words::line(named);
        Fault::new(
            Code::ProviderNotFound,
            format!("--runtime: `{named}` is not the name of a runtime."),
        )
    })
}

/// What to send.
pub(super) fn parameters(context: &Context, args: Run) -> Result<SendParams, Fault> {
    let runtime = match &args.runtime {
        Some(named) => Some(runtime(named, &context.config.agents)?.to_string()),
        None => None,
    };
    let stdin_attached = args.attach.iter().any(|path| path == Path::new("-"));
    let prompt = prompt(args.prompt, stdin_attached)?;
    let mut params = SendParams {
        thread: args.thread,
        // However often the connection breaks while it is handed over, it is one turn.
        request_id: Some(RequestId::fresh()),
        prompt,
        runtime,
        expect: args
            .expect
            .into_iter()
            .map(deliverable)
            .collect::<Result<_, _>>()?,
        working_directory: args.work_in.map(|dir| folder(context, &dir)).transpose()?,
        permissions: args.permissions,
        load_class: args.class.map(Into::into),
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
pub(super) fn prompt(typed: Option<String>, stdin_attached: bool) -> Result<String, Fault> {
    let needed = |why: &str| {
        Fault::new(
            Code::PromptRequired,
            format!("{why} Say what to do, in quotes."),
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
            format!("Standard input has more than {}.", words::limit(most)),
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
    let wanted = Deliverable {
        glob: glob.trim().to_owned(),
        content_type: None,
        min_bytes: None,
        min_count: None,
    };
    if let Some(folder) = wanted.glob.strip_suffix('/').filter(|f| !f.is_empty()) {
        return Err(Fault::invalid(format!(
            "--expect: `{}` names a folder, and files are delivered. Name those: {}",
            words::line(&wanted.glob),
            words::quoted(&format!("{folder}/**"))
        )));
    }
    match wanted.matcher() {
        Ok(_) => Ok(wanted),
        Err(bad) => Err(Fault::invalid(format!(
            "--expect: {bad}. Write it like 'reports/*.pdf'."
        ))),
    }
}

fn file(path: &Path) -> Result<String, Fault> {
    let wrong = |why: &str| {
        Fault::new(
            Code::AttachmentInvalid,
            format!("--attach: {} cannot be attached: {why}.", path.display()),
        )
    };
    let meta = std::fs::metadata(path).map_err(|e| wrong(&e.to_string()))?;
    if !meta.is_file() {
        return Err(wrong("it is not a file"));
    }
    if meta.len() > ATTACHMENT_BYTES as u64 {
        let most = words::limit(ATTACHMENT_BYTES as u64);
        return Err(Fault::new(
            Code::AttachmentTooLarge,
            format!(
                "--attach: {} has more than {most}. Put it where the agent can read it, and name it in the task.",
                path.display()
            ),
        ));
    }
    text(absolute(path)?)
}

fn folder(context: &Context, path: &Path) -> Result<String, Fault> {
    let wrong = |why: &str| {
        Fault::new(
            Code::WorkdirNotAllowed,
            format!("--in: {} cannot be worked in: {why}.", path.display()),
        )
    };
    let found = std::fs::canonicalize(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            wrong("it does not exist. Choose a folder that is there, or make it first")
        }
        _ => wrong(&format!("{e}. Choose a folder that you can enter")),
    })?;
    if !found.is_dir() {
        return Err(wrong(
            "it is a file. Choose a folder; --attach sends a file along",
        ));
    }
    // What another bridge allows, only that one knows.
    if context.config.bridge.is_none() && !beneath(&found, &context.config.work_roots) {
        let roots: Vec<String> = context
            .config
            .work_roots
            .iter()
            .map(|root| root.display().to_string())
            .collect();
        return Err(wrong(&match roots.is_empty() {
            true => "`work_roots` allows no folder".to_owned(),
            false => format!("`work_roots` allows only what lies in {}", roots.join(", ")),
        }));
    }
    text(absolute(path)?)
}

/// Whether a folder lies in one of these, whatever links lead there.
fn beneath(folder: &Path, roots: &[PathBuf]) -> bool {
    let real = |root: &PathBuf| std::fs::canonicalize(root).unwrap_or_else(|_| root.clone());
    roots.iter().any(|root| folder.starts_with(real(root)))
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
