//! What each command does.

mod agent_host;
mod answer;
mod doctor;
mod follow;
mod gc;
mod openclaw;
mod out;
mod owner;
mod queue;
mod run;
mod settings;
mod sidecar;
mod status;
mod task;
mod threads;
mod verify;

use std::sync::Arc;

use serde::Serialize;
use threadline_contract::Fault;
use threadline_files::complain;

use crate::{
    args::{ArtifactsCommand, Cli, Command, ConfigCommand, OpenclawCommand, TokenCommand},
    client::{Client, Matters, Passed},
    config::{Config, Mistake},
    exit::Exit,
    screen::{Terminal, ending},
};

pub(crate) use crate::output::{print, print_json};

pub(crate) use self::{agent_host::agent_host, sidecar::sidecar, status::Shown};

/// What every command has.
pub(crate) struct Context {
    pub(crate) config: Arc<Config>,
    /// What is wrong with the settings; only few commands go on then.
    pub(crate) mistakes: Vec<Mistake>,
    pub(crate) passed: Passed,
    /// Speak to a program.
    pub(crate) json: bool,
    pub(crate) home: Option<String>,
    pub(crate) out: Terminal,
    pub(crate) err: Terminal,
}

impl Context {
    /// A client for a command that only looks at threads.
    async fn client(&self) -> Result<Arc<Client>, Fault> {
        self.client_for(Matters::Nothing).await
    }

    async fn client_for(&self, matters: Matters) -> Result<Arc<Client>, Fault> {
        let client =
            Client::connect(Arc::clone(&self.config), self.passed.clone(), matters).await?;
        Ok(Arc::new(client))
    }

    /// Prints a result: as JSON for a program, or as it reads.
    fn print(&self, value: &impl Serialize, text: impl FnOnce() -> String) {
        match self.json {
            true => print_json(value),
            false => print(&text()),
        }
    }
}

/// Says why a command did not do what was asked.
pub(crate) fn print_error(fault: &Fault, json: bool) -> Exit {
    let exit = Exit::of_code(fault.code);
    print_error_as(fault, json, exit);
    exit
}

/// The same, where the command ends otherwise than its code says.
fn print_error_as(fault: &Fault, json: bool, exit: Exit) {
    match json {
        true => print_json(&serde_json::json!({"error": fault, "exitCode": exit.number()})),
        false => complain!("{}", ending::error(fault, Terminal::stderr()).trim_end()),
    }
}

/// Does what was asked.
pub(crate) async fn perform(cli: Cli, context: Context) -> Result<Exit, Fault> {
    match cli.command {
        Command::Run(args) => run::run(&context, args).await,
        Command::Retry(args) => run::retry(&context, args).await,
        Command::Watch(args) => run::watch(&context, args).await,
        Command::Sync(args) => run::sync(&context, args).await,
        Command::Threads(args) => threads::list(&context, args).await,
        Command::Show(args) => threads::show(&context, args).await,
        Command::Status(args) => status::show(&context, args).await,
        Command::Cancel(args) => threads::cancel(&context, args).await,
        Command::Queue(args) => queue::queue(&context, args).await,
        Command::Verify(args) => verify::verify(&context, args).await,
        Command::Artifacts(ArtifactsCommand::Gc(args)) => gc::gc(&context, args).await,
        Command::Archive(args) => threads::archive(&context, args).await,
        Command::Restore(args) => threads::restore(&context, args).await,
        Command::Delete(args) => threads::delete(&context, args).await,
        Command::Answer(args) => answer::answer(&context, args).await,
        Command::Up(args) => owner::up(&context, args).await,
        Command::Serve(args) => owner::serve(&context, args).await,
        Command::Owner => owner::background(&context).await,
        Command::Openclaw(OpenclawCommand::Install(args)) => {
            openclaw::install(&context, args).await
        }
        Command::OpenclawSidecar(args) => {
            sidecar(&context.config.data, &context.config.log, args).await
        }
        Command::Stop => owner::stop(&context).await,
        Command::Doctor(args) => doctor::doctor(&context, &args).await,
        Command::Config(ConfigCommand::Show { origin }) => settings::config(&context, origin),
        Command::Token(TokenCommand::Show) => settings::token(&context),
        Command::Version => settings::version(&context),
    }
}
