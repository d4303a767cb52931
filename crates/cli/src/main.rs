//! The binary `threadline`: it reads the command line and the settings, does what was asked, and
//! says how it ended.

mod args;
mod client;
mod commands;
mod config;
mod exit;
mod owner;
mod screen;

use std::{process::ExitCode, sync::Arc};

use clap::Parser as _;
use rustix::process::{Resource, getrlimit, setrlimit};
use threadline_contract::{Code, Fault};

use crate::{
    args::{Cli, Command},
    client::Passed,
    commands::Context,
    exit::Exit,
    screen::{Terminal, ending},
};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let json = cli.everywhere.json;
    let is_background = matches!(cli.command, Command::Owner);
    match perform(cli) {
        Ok(exit) => exit.into(),
        Err(fault) if is_background => gave_up(&fault),
        Err(fault) => {
            let exit = Exit::of_code(fault.code);
            if json {
                commands::print_json(
                    &serde_json::json!({"error": fault, "exitCode": exit.number()}),
                );
            } else {
                eprint!("{}", ending::error(&fault, Terminal::stderr()));
            }
            exit.into()
        }
    }
}

fn perform(cli: Cli) -> Result<Exit, Fault> {
    let broken = |what: &str| Fault::new(Code::Internal, format!("{what}."));
    // Two providers, or none, make the first TLS connection panic.
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| broken("The TLS provider was installed twice"))?;
    let flags = cli.settings();
    let sources = config::gather(flags.clone())
        .map_err(|e| broken(&format!("The current folder cannot be found ({e})")))?;
    let config = config::load(&sources).map_err(|mistakes| config::fault(&mistakes))?;
    let serves = matches!(
        cli.command,
        Command::Owner | Command::Up(_) | Command::Serve(_)
    );
    let context = Context {
        config: Arc::new(config),
        passed: Passed(flags),
        json: cli.everywhere.json,
        home: sources.home().map(|home| home.display().to_string()),
        out: Terminal::stdout(),
        err: Terminal::stderr(),
    };
    let mut builder = if serves {
        allow_many_connections();
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(
            std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 8)),
        );
        builder
    } else {
        // A client waits for one owner.
        tokio::runtime::Builder::new_current_thread()
    };
    let runtime = builder
        .enable_all()
        .build()
        .map_err(|e| broken(&format!("The runtime could not be started ({e})")))?;
    let done = runtime.block_on(commands::perform(cli, context));
    // A read of standard input, or a name being looked up, is not worth waiting for.
    runtime.shutdown_background();
    done
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
        Ok(text) => eprintln!("fault: {text}"),
        Err(_) => eprintln!("{fault}"),
    }
    Exit::of_code(fault.code).into()
}
