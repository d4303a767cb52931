//! The command line, as it is typed.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};
use threadline_contract::{LoadClass, PermissionPolicy, amounts};

use crate::{config::SourceFlag, exit};

/// Run agent tasks, each in its own session, and bring home only files that are proven to be theirs.
#[derive(Debug, Parser)]
#[command(
    name = "threadline",
    version,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = concat!(
        "Try it, with nothing configured:\n",
        "  threadline run \"Write a short report about rivers, with a table and a picture\"\n",
        "  threadline up          the same in a browser\n",
        "  threadline doctor      what is configured, and what is not in order\n",
    ),
    after_long_help = exit::HELP,
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) everywhere: Everywhere,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
pub(crate) struct Everywhere {
    /// Print JSON: one object, or one per line for run, watch, retry and sync
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,
    /// The data folder
    #[arg(long, global = true, value_name = "DIR", help_heading = "Everywhere")]
    pub(crate) data: Option<String>,
    /// Set anything that threadline.toml can set, above files and environment
    #[arg(
        long,
        global = true,
        value_name = "KEY=VALUE",
        help_heading = "Everywhere"
    )]
    pub(crate) set: Vec<String>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a task and sync its files here
    #[command(after_help = RUN)]
    Run(Run),
    /// List the threads, last changed first
    Threads(Threads),
    /// Show one thread: what was said, what came of it
    Show(OneThread),
    /// Follow a thread's run until it ends; Ctrl-C leaves it running
    Watch(OneThread),
    /// Answer a question
    #[command(after_help = ANSWER)]
    Answer(Answer),
    /// Cancel a thread's run, and drop the messages that wait
    Cancel(OneThread),
    /// List the messages that wait here for their thread or for a place; drop or edit one of them
    #[command(after_help = QUEUE)]
    Queue(Queue),
    /// Send the last message of a thread that ran again, as a new run
    Retry(Retry),
    /// Sync a result or files that are still missing here
    Sync(OneThread),
    /// Check that a folder still holds what was delivered, byte for byte
    #[command(after_help = VERIFY)]
    Verify(Verify),
    /// Put a thread away
    Archive(OneThread),
    /// Bring an archived thread back
    Restore(OneThread),
    /// Remove an archived thread, and the files that were delivered to it
    #[command(after_help = DELETE)]
    Delete(Delete),
    /// Use Threadline in a browser: serve the pages from here and open them
    #[command(after_help = UP)]
    Up(Up),
    /// Run Threadline as a server that other programs and machines call; with --pages, people too
    #[command(after_help = SERVE)]
    Serve(Serve),
    /// The plugin for OpenClaw gateways
    #[command(subcommand)]
    Openclaw(OpenclawCommand),
    /// Serve the files of runs to the OpenClaw plugin, over standard input and output
    #[command(after_help = SIDECAR)]
    OpenclawSidecar(Sidecar),
    /// The files that runs left in the data folder
    #[command(subcommand)]
    Artifacts(ArtifactsCommand),
    /// Show how everything stands and why: runs, questions, runtimes, agents' processes
    #[command(after_help = STATUS)]
    Status(Status),
    /// Check that everything is in order, and say what to do where it is not
    Doctor(Doctor),
    /// End the background process
    Stop,
    /// Look at the settings
    #[command(subcommand)]
    Config(ConfigCommand),
    /// The token of this machine
    #[command(subcommand)]
    Token(TokenCommand),
    /// Print the version
    Version,
    /// The background process itself
    #[command(hide = true)]
    Owner,
}

const RUN: &str = "\
Examples:
  threadline run \"Compare the three longest rivers of Europe\"
  threadline run --thread river-report \"Add a table of their lengths\"
  threadline run --attach data.csv --out charts \"Draw this\"
  threadline run --expect 'reports/*.pdf' \"Write the report as PDF\"
  git diff | threadline run --attach - \"Review this\"
  threadline run - < task.txt

Ctrl-C cancels the run; pressed again it leaves without waiting for its end.
Leaving never cancels a run: `threadline watch` goes on watching it.";

const ANSWER: &str = "\
Examples:
  threadline answer                        what waits for an answer
  threadline answer river-report           show the question and ask
  threadline answer river-report 2         the second option
  threadline answer river-report \"in blue\"

A number is always the number of an option. To answer a question that has options with a number of
your own, say it in words: \"7 pieces\".";

const QUEUE: &str = "\
Examples:
  threadline queue                                   everything that waits
  threadline queue drop river-report                 the one message of it that waits
  threadline queue drop river-report --turn 2        the second of several
  threadline queue edit river-report \"Add a map\"    what it shall say instead

It lists the messages that wait here: behind the run of their own thread, or for a free place of the
OpenClaw gateway. A turn that its bridge has taken and that waits there for a free place is not among
them: `threadline threads` calls it queued, `threadline status` says its place, and
`threadline cancel` stops it. Dropping one touches neither the run before it nor the messages beside it; `threadline cancel` ends all of them. An
edited message keeps its place, its attachments and what it has to deliver (--expect).";

const DELETE: &str = "\
Files in the thread's folder that you made or edited stay there, and are named, unless --with-my-files
says that they go too. Without --yes nothing is removed: what would go and what would stay is said.";

const STATUS: &str = "\
Examples:
  threadline status                      what runs, what waits, and why
  threadline status --runs failed        what failed, and why
  threadline status --sessions --json    every mapping of a thread to its session

It shows the bridge of this machine, also what other apps run there. `threadline up` shows the same on
its page Operator.";

const VERIFY: &str = "\
Examples:
  threadline verify river-report                     the folder of a thread
  threadline verify ~/.xworkmate/threads/draft-1     any synced folder, or a copy of one
  threadline verify charts --receipt receipt.json    by a receipt that lies elsewhere

Every sync leaves a receipt in the thread's folder: .xworkmate/runs/<run>/receipt.json. A folder is
checked without a server. Every file that differs, is missing or is extra is named. The exit code is 0
when everything that was delivered is there, byte for byte, and 6 when it is not; extra files do no
harm.";

const GC: &str = "\
Examples:
  threadline artifacts gc --older-than 30d --dry-run
  threadline artifacts gc --older-than 30d --keep-bytes 10GB

Only what runs left in the data folder goes; the folders of threads, with the files that were synced,
and the folders that agents work in stay as they are. Files of a run that goes on, files that links
lead to, and files of the last day always stay. Each run's receipt stays for ever.

To have it done by itself, set artifacts.keep_days or artifacts.keep_bytes; without the flags these
count here too.";

const UP: &str = "\
For a person on this machine: the same threads as on the command line, in a browser. It runs until
Ctrl-C; runs go on at the next start. For a server, see `threadline serve`.";

const SERVE: &str = "\
For a server: it answers /acp/rpc and the commands on this machine, logs to standard error, and runs
until it is told to end. With --pages (or server.pages) it serves pages, too: people sign in with a token, and
see what its account has. For pages on a machine of your own, see `threadline up`.

The address is 127.0.0.1:8787 unless --listen, THREADLINE_LISTEN or server.listen says otherwise.
Beyond this machine it takes --allow-remote and a token of your own in THREADLINE_TOKEN. There is no
TLS here: put a proxy that has it in front.

With --stdio the same methods are answered to a parent process: one JSON-RPC message per line. It ends
when its input does; runs go on at the next start.";

const INSTALL: &str = "\
Examples:
  threadline openclaw install                     into the gateway on this machine
  threadline openclaw install --pack              for another machine: one file, two commands

The plugin lies in `openclaw/plugin` in the data folder, and the gateway's own command links it; so run
this as the user that runs the gateway. Run it again after an update of Threadline. docs/openclaw.md
describes the whole way.";

const SIDECAR: &str = "\
For the plugin of an OpenClaw gateway, which starts it and keeps it running: JSON-RPC 2.0, one object
per line. It ends with its input. docs/sidecar.md describes the methods.

Its signing keys, and the record of which run took which shared file, lie in `openclaw` in the data
folder. The secret of the earlier plugin is read from XWORKMATE_ARTIFACT_REF_SIGNING_SECRET, and the
gateway's profile from OPENCLAW_WORKSPACE_DIR, OPENCLAW_STATE_DIR and OPENCLAW_PROFILE.";

/// `run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// What to do; `-`, or nothing at all, reads it from standard input
    pub(crate) prompt: Option<String>,
    /// Go on with a thread: its name, or the beginning of it
    #[arg(long, short, value_name = "NAME")]
    pub(crate) thread: Option<String>,
    /// Where to run; `threadline doctor` lists the runtimes there are
    #[arg(long, short, value_name = "RUNTIME")]
    pub(crate) runtime: Option<String>,
    /// A file that goes with it, up to 10 MiB; `-` is standard input
    #[arg(long, short, value_name = "FILE")]
    pub(crate) attach: Vec<PathBuf>,
    /// Copy the verified files there as well
    #[arg(long, short, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// What must come back, as a path or pattern; else the run is not delivered (exit code 3)
    #[arg(long, value_name = "GLOB")]
    pub(crate) expect: Vec<String>,
    /// Let the agent work in this folder of yours (new threads only)
    #[arg(long = "in", value_name = "DIR")]
    pub(crate) work_in: Option<PathBuf>,
    /// What becomes of permissions that the thread's agents ask for: ask, allow, or by kind such as
    /// ask,read=allow,execute=reject
    #[arg(long, value_name = "POLICY")]
    pub(crate) permissions: Option<PermissionPolicy>,
    /// How long it may take: short (10 minutes), long (30, and what holds when none is said) or complex (60), or as
    /// `budgets` sets them; a run past its time says so and goes on
    #[arg(long, value_name = "CLASS", value_enum)]
    pub(crate) class: Option<TaskClass>,
    /// Start a new session under the thread, which knows nothing of what was said before
    #[arg(long, requires = "thread")]
    pub(crate) new_session: bool,
    /// Do not wait: the run goes on in the background
    #[arg(long, short, conflicts_with = "out")]
    pub(crate) detach: bool,
    /// Use another bridge (new threads only); its token is in THREADLINE_BRIDGE_TOKEN
    #[arg(long, value_name = "URL", conflicts_with = "thread")]
    pub(crate) bridge: Option<String>,
}

/// The class of a task, which says how long it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TaskClass {
    /// A short one
    Short,
    /// A long one
    Long,
    /// Many steps that build on each other
    Complex,
}

impl From<TaskClass> for LoadClass {
    fn from(class: TaskClass) -> Self {
        match class {
            TaskClass::Short => Self::ShortTask,
            TaskClass::Long => Self::LongTask,
            TaskClass::Complex => Self::ComplexChainTask,
        }
    }
}

/// `threads`.
#[derive(Debug, Args)]
pub(crate) struct Threads {
    /// Only those in which each of these words occurs: in the name, the title or what you asked for
    #[arg(value_name = "WORD")]
    pub(crate) words: Vec<String>,
    /// The archived ones instead
    #[arg(long)]
    pub(crate) archived: bool,
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 50, allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) limit: u16,
}

/// `status`.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Which runs
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = StatusRuns::Open)]
    pub(crate) runs: StatusRuns,
    /// The sessions too, with the threads that they belong to
    #[arg(long)]
    pub(crate) sessions: bool,
    /// How many runs, or sessions, at most
    #[arg(long, value_name = "N", default_value_t = 20, allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..=200))]
    pub(crate) limit: u16,
    /// Go on where a list ended
    #[arg(long, value_name = "CURSOR")]
    pub(crate) before: Option<String>,
}

/// Which runs `status` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum StatusRuns {
    /// Those that have not ended
    Open,
    /// Those that failed
    Failed,
    /// Every one, newest first
    All,
}

/// A command about one thread.
#[derive(Debug, Args)]
pub(crate) struct OneThread {
    /// Its name, the beginning of it, or its key
    pub(crate) thread: String,
}

/// `answer`.
#[derive(Debug, Args)]
pub(crate) struct Answer {
    /// The thread that asks, or the question's id
    pub(crate) question: Option<String>,
    /// An option's number or its label, or an answer in your own words
    pub(crate) answer: Option<String>,
}

/// `retry`.
#[derive(Debug, Args)]
pub(crate) struct Retry {
    /// Its name, the beginning of it, or its key
    pub(crate) thread: String,
    /// Start a new session, which knows nothing of what was said before
    #[arg(long)]
    pub(crate) new_session: bool,
    /// Do not wait: the run goes on in the background
    #[arg(long, short)]
    pub(crate) detach: bool,
}

/// `delete`.
#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// Its name, the beginning of it, or its key
    pub(crate) thread: String,
    /// Yes, remove it and the files that were delivered to it for good
    #[arg(long)]
    pub(crate) yes: bool,
    /// Remove the files too that you made or edited in its folder
    #[arg(long)]
    pub(crate) with_my_files: bool,
}

/// `queue`.
#[derive(Debug, Args)]
pub(crate) struct Queue {
    #[command(subcommand)]
    pub(crate) command: Option<QueueCommand>,
}

/// What is done with messages that wait.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// List them, in the order in which they were sent
    List {
        /// Only those of this thread
        thread: Option<String>,
    },
    /// Drop one: it never runs
    Drop(QueueTurn),
    /// Give one other words
    Edit(QueueEdit),
}

/// Which message.
#[derive(Debug, Args)]
pub(crate) struct QueueTurn {
    /// Its thread: the name, the beginning of it, or the key
    pub(crate) thread: String,
    /// Which one of the thread, by its number in the list or its id; needed where several wait
    #[arg(long, value_name = "N")]
    pub(crate) turn: Option<String>,
}

/// `queue edit`.
#[derive(Debug, Args)]
pub(crate) struct QueueEdit {
    #[command(flatten)]
    pub(crate) which: QueueTurn,
    /// What to do instead; `-`, or nothing at all, reads it from standard input
    pub(crate) prompt: Option<String>,
}

/// What the two servers take.
#[derive(Debug, Args)]
pub(crate) struct Listen {
    /// The address to listen on
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,
    /// Allow an address beyond this machine
    #[arg(long)]
    pub(crate) allow_remote: bool,
}

/// `up`.
#[derive(Debug, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    pub(crate) listen: Listen,
    /// Only print the link
    #[arg(long)]
    pub(crate) no_open: bool,
}

/// `serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) listen: Listen,
    /// Serve pages, where people sign in with a token
    #[arg(long)]
    pub(crate) pages: bool,
    /// Also answer the process that started it, over standard input and output, and end with it
    #[arg(long)]
    pub(crate) stdio: bool,
}

/// `doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Mend what can be mended in an OpenClaw gateway on this machine
    #[arg(long)]
    pub(crate) mend: bool,
    /// The gateway's own command, for --mend
    #[arg(
        long,
        value_name = "PROGRAM",
        default_value = "openclaw",
        requires = "mend"
    )]
    pub(crate) openclaw: String,
}

/// `openclaw`.
#[derive(Debug, Subcommand)]
pub(crate) enum OpenclawCommand {
    /// Put the plugin into a gateway
    #[command(after_help = INSTALL)]
    Install(OpenclawInstall),
}

/// `openclaw install`.
#[derive(Debug, Args)]
pub(crate) struct OpenclawInstall {
    /// Pack plugin and program into a file, for a gateway on another machine
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        default_missing_value = "openclaw-multi-session-plugins.tgz"
    )]
    pub(crate) pack: Option<PathBuf>,
    /// The gateway's own command
    #[arg(long, value_name = "PROGRAM", default_value = "openclaw")]
    pub(crate) openclaw: String,
}

/// `openclaw-sidecar`.
#[derive(Debug, Args)]
pub(crate) struct Sidecar {
    /// The workspace, when a request names none
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<String>,
    /// Where the gateway's tools put media [default: ~/.openclaw/media]
    #[arg(long, value_name = "DIR")]
    pub(crate) media: Option<PathBuf>,
    /// Where they put everything else [default: /tmp/openclaw]
    #[arg(long, value_name = "DIR")]
    pub(crate) tmp: Option<PathBuf>,
}

/// `verify`.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// A folder, or a thread: its name, the beginning of it, or its key
    #[arg(value_name = "FOLDER|THREAD")]
    pub(crate) what: String,
    /// Go by this receipt instead of those in the folder
    #[arg(long, value_name = "FILE")]
    pub(crate) receipt: Vec<PathBuf>,
    /// Only what this run delivered
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
}

/// `artifacts`.
#[derive(Debug, Subcommand)]
pub(crate) enum ArtifactsCommand {
    /// Make room: remove the files of old runs
    #[command(after_help = GC)]
    Gc(Gc),
}

/// `artifacts gc`.
#[derive(Debug, Args)]
pub(crate) struct Gc {
    /// Files that did not change for so long, such as 30d, 12h or 2w
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) older_than: Option<Duration>,
    /// The oldest, while all together have more, such as 10GB
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) keep_bytes: Option<u64>,
    /// Only say what would go
    #[arg(long)]
    pub(crate) dry_run: bool,
}

fn age(text: &str) -> Result<Duration, String> {
    amounts::read_age(text).map_err(|wanted| format!("it must be {wanted}"))
}

fn bytes(text: &str) -> Result<u64, String> {
    amounts::read_bytes(text).map_err(|wanted| format!("it must be {wanted}"))
}

/// `config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Every setting with its value
    Show {
        /// And where it was set
        #[arg(long)]
        origin: bool,
    },
}

/// `token`.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Print it
    Show,
}

/// A sidecar's command line as a plugin writes it, read without what reads those of people: that
/// would stay in memory for as long as the sidecar lives. Anything else is not for here.
pub(crate) fn plain_sidecar(typed: &[OsString]) -> Option<Cli> {
    let words: Vec<&str> = typed.iter().map(|w| w.to_str()).collect::<Option<_>>()?;
    let [_, "openclaw-sidecar", flags @ ..] = words.as_slice() else {
        return None;
    };
    let mut data = None;
    let mut sidecar = Sidecar {
        workspace: None,
        media: None,
        tmp: None,
    };
    for pair in flags.chunks(2) {
        let [flag, value] = pair else { return None };
        if value.is_empty() || value.starts_with('-') {
            return None;
        }
        let twice = match *flag {
            "--data" => data.replace((*value).to_owned()).is_some(),
            "--workspace" => sidecar.workspace.replace((*value).to_owned()).is_some(),
            "--media" => sidecar.media.replace(value.into()).is_some(),
            "--tmp" => sidecar.tmp.replace(value.into()).is_some(),
            _ => return None,
        };
        if twice {
            return None;
        }
    }
    Some(Cli {
        everywhere: Everywhere {
            json: false,
            data,
            set: Vec::new(),
        },
        command: Command::OpenclawSidecar(sidecar),
    })
}

impl Cli {
    /// The flags that set something.
    pub(crate) fn settings(&self) -> Vec<SourceFlag> {
        let flag = |flag: &str, key: &str, value: &str| SourceFlag {
            flag: flag.into(),
            key: key.into(),
            value: Some(value.into()),
        };
        let mut out = Vec::new();
        for pair in &self.everywhere.set {
            out.push(match pair.split_once('=') {
                Some((key, value)) => flag("--set", key.trim(), value),
                None => SourceFlag {
                    value: None,
                    ..flag("--set", pair.trim(), "")
                },
            });
        }
        out.extend(
            self.everywhere
                .data
                .iter()
                .map(|d| flag("--data", "data", d)),
        );
        let listen = match &self.command {
            Command::Up(up) => Some(&up.listen),
            Command::Serve(serve) => Some(&serve.listen),
            _ => None,
        };
        if let Some(Listen {
            listen,
            allow_remote,
        }) = listen
        {
            out.extend(listen.iter().map(|l| flag("--listen", "server.listen", l)));
            if *allow_remote {
                out.push(flag("--allow-remote", "server.allow_remote", "true"));
            }
        }
        if matches!(&self.command, Command::Serve(Serve { pages: true, .. })) {
            out.push(flag("--pages", "server.pages", "true"));
        }
        if let Command::Run(Run {
            bridge: Some(url), ..
        }) = &self.command
        {
            out.push(flag("--bridge", "bridge.url", url));
        }
        out
    }
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
