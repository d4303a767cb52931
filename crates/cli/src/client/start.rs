//! Finding the owner of the data folder, or starting one in the background.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use threadline_app::api::{self, Home, NoParams};
use threadline_contract::{Code, Fault};
use threadline_files::complain;

use super::{Client, Found};
use crate::{
    config::{AGENTS, Config, SourceFlag, agents_as_variable, key_named},
    owner::{Mode, OUTRUN, Owner, Places, State, is_stopped, look, open_log, stopped},
};

/// How long an owner may take until it is ready.
const READY: Duration = Duration::from_secs(60);
/// How many owners that we started may be killed before it is an error.
const KILLED_MOST: u32 = 3;
/// From when on a person is told what is being waited for.
const TOLD: Duration = Duration::from_secs(1);
/// How often the folder is looked at.
const PAUSE: Duration = Duration::from_millis(15);
/// Lines of the log that an error shows.
const LAST_LINES: usize = 8;

/// What an owner that we start must be told: the flags that set something.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passed(pub(crate) Vec<SourceFlag>);

/// The owner that is there, or a new one.
pub(super) async fn ensure(
    config: &Config,
    places: &Places,
    passed: &Passed,
) -> Result<Box<State>, Fault> {
    let begun = Instant::now();
    let mut child: Option<Child> = None;
    let mut told = false;
    let mut killed = 0;
    loop {
        match look(places)? {
            Owner::Ready(state) if is_stopped(state.pid) => return Err(stopped(state.pid)),
            Owner::Ready(state) => return Ok(state),
            Owner::Busy { pid: Some(pid) } if is_stopped(pid) => return Err(stopped(pid)),
            Owner::Busy { .. } => {}
            Owner::Nobody => match child.as_mut().map(Child::try_wait) {
                None => child = Some(start(config, places, passed)?),
                Some(Ok(None)) => {}
                Some(Ok(Some(status))) => match status.code() {
                    // Another one was quicker and has gone again since.
                    Some(code) if code == i32::from(OUTRUN) => child = None,
                    // Killed by somebody: that is no reason of its own not to start.
                    None if killed < KILLED_MOST => {
                        killed += 1;
                        child = None;
                    }
                    _ => return Err(died(places)),
                },
                Some(Err(e)) => return Err(unreachable(places, &e.to_string())),
            },
        }
        if begun.elapsed() > READY {
            return Err(unreachable(places, "it is not ready after a minute"));
        }
        if begun.elapsed() > TOLD && !told {
            told = true;
            complain!("Starting Threadline in the background …");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn start(config: &Config, places: &Places, passed: &Passed) -> Result<Child, Fault> {
    places.make()?;
    let failed = |e: std::io::Error| {
        Fault::new(
            Code::OwnerUnreachable,
            format!("The background process could not be started: {e}."),
        )
    };
    let program = std::env::current_exe().map_err(failed)?;
    let log = open_log(&places.log()).map_err(failed)?;
    let mut command = Command::new(program);
    // First, so that one sees in a list of processes whose owner it is.
    command.arg("owner").arg("--data").arg(&config.data);
    // By the environment, which unlike the command line nobody else can read: it may be a key.
    for (key, value) in passed
        .0
        .iter()
        .filter_map(|flag| Some((key_named(&flag.key)?, flag.value.as_ref()?)))
    {
        for (at, variable) in key.env.iter().enumerate() {
            match at {
                0 => command.env(variable, value),
                _ => command.env_remove(variable),
            };
        }
    }
    let agents: Vec<SourceFlag> = passed
        .0
        .iter()
        .filter(|flag| flag.key.starts_with("agents."))
        .cloned()
        .collect();
    if !agents.is_empty() {
        let before = std::env::var(AGENTS).ok();
        command.envs(agents_as_variable(before.as_deref(), &agents).map(|text| (AGENTS, text)));
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    command.spawn().map_err(failed)
}

/// The owner said why: its last line is an error of ours.
fn died(places: &Places) -> Fault {
    let lines = last_lines(&places.log());
    let said = lines.last().and_then(|line| line.strip_prefix("fault: "));
    if let Some(fault) = said.and_then(|json| serde_json::from_str::<Fault>(json).ok()) {
        return fault;
    }
    unreachable(places, "it ended at once")
}

fn unreachable(places: &Places, why: &str) -> Fault {
    let mut message = format!("The background process does not answer: {why}.");
    for line in last_lines(&places.log()) {
        message.push_str("\n  ");
        message.push_str(&line);
    }
    message.push_str(&format!("\n  The whole log: {}", places.log().display()));
    Fault::new(Code::OwnerUnreachable, message)
}

fn last_lines(path: &Path) -> Vec<String> {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(LAST_LINES);
    lines.into_iter().skip(from).map(str::to_owned).collect()
}

/// An owner in the background that was started with other settings, or is another version, would
/// answer this command wrongly. If it has nothing to do it makes room for a new one; otherwise the
/// person is told. True when it was ended.
pub(super) async fn replace_if_outdated(
    config: &Config,
    places: &Places,
    state: &State,
    token: &str,
    client: &Client,
) -> Result<bool, Fault> {
    let other = state.outdated(config, token);
    if other.is_empty() {
        return Ok(false);
    }
    let found = Found {
        state: state.clone(),
        token: token.to_owned(),
    };
    let params = serde_json::json!(NoParams {});
    let home = client.send(&found, api::HOME, &params).await.ok();
    let idle = home
        .and_then(|home| serde_json::from_value::<Home>(home).ok())
        .is_some_and(|home| home.working.is_empty());
    if state.mode == Mode::Background && idle {
        end(places, state).await?;
        return Ok(true);
    }
    let told: Vec<String> = other
        .into_iter()
        .filter(|o| client.matters.has(o))
        .collect();
    if !told.is_empty() {
        complain!("{}", state.note(&told));
    }
    Ok(false)
}

/// Asks an owner to end, and waits until it has.
pub(crate) async fn end(places: &Places, state: &State) -> Result<(), Fault> {
    let failed = |why: String| {
        Fault::new(
            Code::OwnerUnreachable,
            format!("Process {} could not be ended: {why}.", state.pid),
        )
    };
    let pid = i32::try_from(state.pid).ok().and_then(Pid::from_raw);
    let Some(pid) = pid else {
        return Err(failed("its number is not one".into()));
    };
    // Only now, while the lock proves that this number is its own.
    kill_process(pid, Signal::TERM).map_err(|e| failed(e.to_string()))?;
    // One that is stopped hears it only when it goes on; to any other this means nothing.
    kill_process(pid, Signal::CONT).map_err(|e| failed(e.to_string()))?;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        match look(places)? {
            Owner::Busy { pid } if pid == Some(state.pid) => {}
            Owner::Ready(now) if now.pid == state.pid => {}
            _ => return Ok(()),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(failed(format!(
        "it is still there after 20 seconds. `kill -9 {}` ends it for sure",
        state.pid
    )))
}
