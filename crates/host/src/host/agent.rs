//! The agent's process, and the pipes to it.

use std::{
    ffi::OsString,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    rc::Rc,
};

use rustix::process::{Signal, WaitOptions, WaitStatus};
use threadline_files::lines::Lines;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::unix::pipe,
};

use super::shared::Shared;
use crate::{
    LONGEST_FRAME, ProcessId, Spec,
    procs::{self, MARK},
    wire::STRAY_HEAD,
};

const CHUNK: usize = 16 * 1024;

pub(super) struct Agent {
    pub(super) process: ProcessId,
    pub(super) pipes: Option<Pipes>,
    /// How it ended, once it has.
    pub(super) status: Option<WaitStatus>,
    /// Nothing that it started is left.
    pub(super) all_gone: bool,
}

pub(super) struct Pipes {
    pub(super) input: pipe::Sender,
    pub(super) output: pipe::Receiver,
    pub(super) errors: pipe::Receiver,
}

impl Agent {
    /// Starts the agent. It must be called by the thread that lives as long as the host, because it is
    /// that thread whose end the agent is killed with.
    pub(super) fn spawn(spec: &Spec, program: &Path, boot: &str) -> std::io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(itself())
            .arg("--exec")
            .arg(std::process::id().to_string())
            .arg(program)
            .args(spec.command.iter().skip(1))
            .env_clear()
            .envs(&spec.env)
            .env(MARK, boot)
            .current_dir(&spec.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let missing = || std::io::Error::other("a pipe is missing");
        let input = OwnedFd::from(child.stdin.take().ok_or_else(missing)?);
        let output = OwnedFd::from(child.stdout.take().ok_or_else(missing)?);
        let errors = OwnedFd::from(child.stderr.take().ok_or_else(missing)?);
        let pid = child.id();
        let process = ProcessId::of(pid).unwrap_or(ProcessId {
            pid,
            started: 0,
            system: String::new(),
        });
        Ok(Self {
            process,
            pipes: Some(Pipes {
                input: pipe::Sender::from_owned_fd(input)?,
                output: pipe::Receiver::from_owned_fd(output)?,
                errors: pipe::Receiver::from_owned_fd(errors)?,
            }),
            status: None,
            all_gone: false,
        })
    }

    /// Takes note of everybody who has ended.
    pub(super) fn reap(&mut self) {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if Some(pid) == procs::pid(self.process.pid) {
                        self.status = Some(status);
                    }
                }
                Ok(None) => return,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => {
                    self.all_gone = true;
                    return;
                }
            }
        }
    }

    /// Signals the agent's group, and everybody else who descends from it.
    pub(super) fn signal(&self, signal: Signal) {
        if self.status.is_none()
            && let Some(group) = procs::pid(self.process.pid)
        {
            let _ = rustix::process::kill_process_group(group, signal);
        }
        procs::signal_descendants(signal);
    }
}

/// How this program is told to be a host, before the arguments that [`main`](crate::main) was given.
fn itself() -> Vec<OsString> {
    let args = std::env::args_os().skip(1);
    args.take_while(|arg| arg != "--state").collect()
}

/// The program to run: as a path, or found on the agent's own `PATH`.
pub(super) fn find(spec: &Spec) -> Option<PathBuf> {
    let name = spec.command.first()?;
    let can_run = |path: &PathBuf| {
        path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    };
    if name.contains('/') {
        return Some(spec.folder.join(name)).filter(can_run);
    }
    let path = spec.env.get("PATH")?;
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(can_run)
}

/// Writes down what the agent says, as fast as the bridge keeps up.
pub(super) async fn listen(shared: Rc<Shared>, mut output: pipe::Receiver) {
    let mut lines = Lines::new(LONGEST_FRAME, STRAY_HEAD);
    let mut chunk = vec![0; CHUNK];
    loop {
        shared.room().await;
        match output.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(got) => lines.push(chunk.get(..got).unwrap_or_default()),
        }
        while let Some(line) = lines.next_line() {
            shared.heard(line).await;
        }
    }
    if let Some(line) = lines.finish() {
        shared.heard(line).await;
    }
    shared.mute.notify_one();
}

/// Hands over what there is for the agent.
pub(super) async fn speak(shared: Rc<Shared>, mut input: pipe::Sender) {
    loop {
        let frame = shared.next_for_agent().await;
        let mut line = Vec::with_capacity(frame.text().len() + 1);
        line.extend_from_slice(frame.text().as_bytes());
        line.push(b'\n');
        if input.write_all(&line).await.is_err() {
            shared.is_deaf();
            return;
        }
    }
}

/// Keeps the end of what the agent writes to its standard error.
pub(super) async fn keep_errors(shared: Rc<Shared>, mut errors: pipe::Receiver) {
    let mut chunk = vec![0; 4 * 1024];
    while let Ok(got) = errors.read(&mut chunk).await {
        if got == 0 {
            return;
        }
        shared
            .errors
            .borrow_mut()
            .write(chunk.get(..got).unwrap_or_default());
    }
}
