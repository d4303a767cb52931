//! The binary `threadline`: it reads the command line and the settings, does what was asked, and
//! says how it ended.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "they panic when the reader has gone away: `output::print` and `complain!` do not"
)]

mod args;
mod broken;
mod client;
mod commands;
mod config;
mod exit;
mod output;
mod owner;
mod programs;
mod screen;
mod usage;

use std::{process::ExitCode, sync::Arc};

use rustix::process::{Resource, getrlimit, setrlimit};
use threadline_contract::{Code, Fault};
use threadline_files::complain;

use crate::{
    args::{Cli, Command},
    client::Passed,
    commands::Context,
    config::{Loaded, Log},
    exit::Exit,
    screen::Terminal,
};

fn main() -> ExitCode {
    let json = std::env::args_os().any(|word| word == "--json");
    broken::guarded(json, started)
}

fn started() -> ExitCode {
    if let Some(exit) = commands::agent_host() {
        return exit;
    }
    let cli = match usage::read() {
        Ok(cli) => cli,
        Err(exit) => return exit,
    };
    // The output of a sidecar is for answers alone.
    let is_sidecar = matches!(cli.command, Command::OpenclawSidecar(_));
    let json = cli.everywhere.json && !is_sidecar;
    let is_background = matches!(cli.command, Command::Owner);
    match perform(cli).and_then(written) {
        Ok(exit) => exit.into(),
        Err(fault) if is_background => gave_up(&fault),
        // Where standard output takes nothing, a program reads nothing there either.
        Err(fault) => commands::print_error(&fault, json && output::failure().is_none()).into(),
    }
}

/// What was printed must have arrived.
fn written(exit: Exit) -> Result<Exit, Fault> {
    match output::failure() {
        None => Ok(exit),
        Some(why) => Err(Fault::new(
            Code::StorageFull,
            format!("What was to be printed could not be written ({why})."),
        )),
    }
}

fn perform(cli: Cli) -> Result<Exit, Fault> {
    let flags = cli.settings();
    let sources = config::gather(flags.clone())
        .map_err(|e| broken(&format!("The current folder cannot be found ({e})")))?;
    let cli = match (sources.only_data(), cli) {
        // One runs beside every gateway for as long as that does, so it takes no more memory than it
        // needs: where nothing is set, nothing is loaded to read it with.
        (
            Some(data),
            Cli {
                command: Command::OpenclawSidecar(args),
                ..
            },
        ) => {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            return block_on(
                &mut runtime,
                commands::sidecar(&data, &Log::default(), args),
            );
        }
        (_, cli) => cli,
    };
    // Two providers, or none, make the first TLS connection panic.
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| broken("The TLS provider was installed twice"))?;
    let Loaded { config, mistakes } = Loaded::of(&sources);
    if !mistakes.is_empty() && !goes_on(&cli.command) {
        return Err(config::fault(&mistakes));
    }
    let serves = matches!(
        cli.command,
        Command::Owner | Command::Up(_) | Command::Serve(_)
    );
    let context = Context {
        config: Arc::new(config),
        mistakes,
        passed: Passed(flags),
        json: cli.everywhere.json,
        home: sources.home().map(|home| home.display().to_string()),
        out: Terminal::stdout(),
        err: Terminal::stderr(),
    };
    let mut builder = if serves {
        allow_many_connections();
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        // Half of the processors: what takes long (hashing, the database) has threads of its own,
        // and workers that have little to do cost more in waking each other than they save.
        builder.worker_threads(
            std::thread::available_parallelism().map_or(1, |n| (n.get() / 2).clamp(1, 8)),
        );
        builder
    } else {
        // A client waits for one owner.
        tokio::runtime::Builder::new_current_thread()
    };
    block_on(&mut builder, commands::perform(cli, context))
}

fn block_on(
    builder: &mut tokio::runtime::Builder,
    work: impl Future<Output = Result<Exit, Fault>>,
) -> Result<Exit, Fault> {
    let runtime = builder
        .enable_all()
        .build()
        .map_err(|e| broken(&format!("The runtime could not be started ({e})")))?;
    let done = runtime.block_on(work);
    // A read of standard input, or a name being looked up, is not worth waiting for.
    runtime.shutdown_background();
    done
}

fn broken(what: &str) -> Fault {
    Fault::new(Code::Internal, format!("{what}."))
}

/// Whether a command is of use although settings are wrong: those that say what is wrong, and the
/// one that needs nothing but the data folder.
fn goes_on(command: &Command) -> bool {
    matches!(
        command,
        Command::Config(_) | Command::Doctor(_) | Command::Stop | Command::Version
    )
}

/// Each connection is an open file; the soft limit of many systems is made for programs of another
/// age, which break on more. Where it cannot be raised, there are fewer connections.
fn allow_many_connections() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

/// The background process leaves its error as the last line of its log.
fn gave_up(fault: &Fault) -> ExitCode {
    if fault.code == Code::DataFolderInUse {
        return owner::OUTRUN.into();
    }
    match serde_json::to_string(fault) {
        Ok(text) => complain!("fault: {text}"),
        Err(_) => complain!("{fault}"),
    }
    Exit::of_code(fault.code).into()
}
