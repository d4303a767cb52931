//! Starting a host.

use std::{
    ffi::OsString, fs::OpenOptions, os::unix::fs::OpenOptionsExt as _, path::PathBuf,
    process::Stdio, time::Duration,
};

use threadline_files::{Access, atomic};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::{HostError, Spec, StartCode, host::Report, place::Place};

/// How long a host may take until its agent runs.
const READY: Duration = Duration::from_secs(30);
/// A log of this size begins anew.
const LOG_BYTES: u64 = 256 * 1024;

/// What keeps a host small: one frame of many megabytes would otherwise teach the allocator to hold on to
/// as much for ever. Other allocators do not know these names. The agent does not get them.
const SMALL: [(&str, &str); 3] = [
    ("MALLOC_ARENA_MAX", "1"),
    ("MALLOC_MMAP_THRESHOLD_", "65536"),
    ("MALLOC_TRIM_THRESHOLD_", "131072"),
];

/// How a host's process is started: a program that hands the arguments after these to
/// [`main`](crate::main).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// What comes before the host's own arguments.
    pub args: Vec<OsString>,
}

impl Launch {
    /// Starts a host and waits until its agent runs.
    pub(super) async fn start(&self, place: &Place, spec: &Spec) -> Result<(), HostError> {
        let failed = |what: &str, e: std::io::Error| {
            HostError::not_started(StartCode::Failed, format!("{what}: {e}."))
        };
        // By its input, which unlike a command line nobody else can read.
        let text = serde_json::to_vec(spec).map_err(|e| {
            HostError::not_started(
                StartCode::BadSpec,
                format!("What to run cannot be written down ({e})."),
            )
        })?;
        atomic::create_dir_all(place.folder(), Access::Private)?;
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(place.log())
            .map_err(|e| failed("The host's log cannot be opened", e))?;
        if log.metadata().is_ok_and(|log| log.len() > LOG_BYTES) {
            log.set_len(0)
                .map_err(|e| failed("The host's log cannot be emptied", e))?;
        }
        let mut child = Command::new(&self.program)
            .args(&self.args)
            .arg("--state")
            .arg(place.folder())
            // The bridge's secrets are none of the host's business, and so not of its agent's.
            .env_clear()
            .envs(SMALL)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(false)
            .spawn()
            .map_err(|e| failed("The agent's host cannot be started", e))?;
        let reported = timeout(READY, report(&mut child, &text)).await;
        // It is ours to take away when it ends, for as long as we are there.
        let reported = match reported {
            Ok(reported) => reported,
            Err(_) => {
                let _ = child.start_kill();
                Err(std::io::Error::other("it took too long"))
            }
        };
        tokio::spawn(async move { child.wait().await });
        match reported {
            Ok(Report::Ready) => Ok(()),
            Ok(Report::Failed { code, message }) => Err(HostError::not_started(code, message)),
            Err(e) => Err(failed("The agent's host did not start", e)),
        }
    }
}

async fn report(child: &mut Child, spec: &[u8]) -> std::io::Result<Report> {
    let missing = || std::io::Error::other("a pipe is missing");
    let mut input = child.stdin.take().ok_or_else(missing)?;
    let output = child.stdout.take().ok_or_else(missing)?;
    // One that fails at once may not read all of it; its report says why.
    let _ = input.write_all(spec).await;
    drop(input);
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).await?;
    match line.is_empty() {
        true => Err(std::io::Error::other("it ended without a word")),
        false => serde_json::from_str(&line).map_err(std::io::Error::other),
    }
}
