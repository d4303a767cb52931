//! A command line that cannot be read: what is wrong, what was perhaps meant, and for a program the
//! same as any other error.

use std::{ffi::OsString, process::ExitCode};

use clap::{
    CommandFactory as _, Parser as _,
    builder::StyledStr,
    error::{ContextKind, ContextValue, Error, ErrorKind},
};
use threadline_contract::{Code, Fault};

use crate::{
    args::{self, Cli},
    commands::print_error,
    config::meant,
    exit::Exit,
    screen::words,
};

/// The command line of this process; where it cannot be read that was said already.
pub(crate) fn read() -> Result<Cli, ExitCode> {
    let typed: Vec<OsString> = std::env::args_os().collect();
    if let Some(cli) = args::plain_sidecar(&typed) {
        return Ok(cli);
    }
    let error = match parsed(&typed) {
        Ok(cli) => return Ok(cli),
        Err(error) => error,
    };
    // Help and the version were asked for, so they are no error.
    if error.use_stderr() && wants_json(&typed) {
        return Err(print_error(&fault(&error), true).into());
    }
    // Whoever would read it has gone away.
    let _ = error.print();
    Err(match error.use_stderr() {
        true => Exit::Usage.into(),
        false => ExitCode::SUCCESS,
    })
}

fn parsed(typed: &[OsString]) -> Result<Cli, Error> {
    // Help is for people, whatever else was asked for.
    let help = typed.get(1).is_some_and(|word| word == "help");
    let typed: Vec<&OsString> = typed
        .iter()
        .filter(|word| !(help && ["--json", "--help", "-h"].iter().any(|flag| *word == flag)))
        .collect();
    Cli::try_parse_from(&typed).map_err(|error| helped(error, &typed))
}

fn wants_json(typed: &[OsString]) -> bool {
    let mut flags = typed.iter().take_while(|word| *word != "--");
    flags.any(|word| word == "--json")
}

/// With what was perhaps meant, where clap itself has no idea.
fn helped(mut error: Error, typed: &[&OsString]) -> Error {
    let word = |error: &Error, kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.clone()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand if error.get(ContextKind::SuggestedSubcommand).is_none() => {
            let commands = Cli::command();
            let names = commands.get_subcommands().filter(|c| !c.is_hide_set());
            let named = word(&error, ContextKind::InvalidSubcommand);
            let found = named.and_then(|w| meant(&w, names.map(|c| c.get_name())));
            if let Some(found) = found {
                let found = ContextValue::Strings(vec![found.to_owned()]);
                error.insert(ContextKind::SuggestedSubcommand, found);
            }
        }
        ErrorKind::UnknownArgument => {
            let more = word(&error, ContextKind::InvalidArg).filter(|w| !w.starts_with('-'));
            if let Some(quoted) = more.and_then(|more| quoted(&more, typed)) {
                let tip = format!("a task of several words stands in quotes: {quoted}");
                let tip = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
                error.insert(ContextKind::Suggested, tip);
            }
        }
        _ => {}
    }
    error
}

/// `run hello world` as it was meant.
fn quoted(more: &str, typed: &[&OsString]) -> Option<String> {
    let words: Vec<&str> = typed.iter().map(|w| w.to_str()).collect::<Option<_>>()?;
    let run = words.iter().position(|w| *w == "run")?;
    let from = words.iter().position(|w| *w == more)?.checked_sub(1)?;
    // What stands right before it is the prompt; flags come before or after both.
    let prompt: Vec<&str> = words
        .get(from..)?
        .iter()
        .take_while(|w| !w.starts_with('-'))
        .copied()
        .collect();
    (from > run).then(|| format!("threadline run {:?}", words::line(&prompt.join(" "))))
}

/// The same as an error of ours: without how it is used, which `--help` says.
fn fault(error: &Error) -> Fault {
    let text = error.render().to_string();
    let parts = text
        .split("\n\n")
        .take_while(|p| !p.starts_with("Usage:") && !p.starts_with("For more information"));
    let message = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "There is no command. `threadline --help` lists them.".to_owned()
        }
        _ => words::line(&parts.collect::<Vec<_>>().join(" ")),
    };
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    Fault::new(Code::InvalidRequest, message)
}

#[cfg(test)]
#[path = "usage_tests.rs"]
mod tests;
