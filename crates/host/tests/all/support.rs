//! A world of hosts in a folder of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use threadline_host::{Attached, Entry, Frame, Frames, Hosts, Launch, Spec, Standing, State, What};

pub(crate) const SESSION: &str = "acp:scripted:draft:1";

pub(crate) struct World {
    dir: TempDir,
    pub(crate) root: PathBuf,
    pub(crate) work: PathBuf,
    pub(crate) hosts: Hosts,
}

pub(crate) fn fixture() -> PathBuf {
    env!("CARGO_BIN_EXE_threadline-host-fixture").into()
}

impl World {
    pub(crate) fn new() -> Self {
        Self::below("hosts")
    }

    pub(crate) fn below(folder: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join(folder);
        let work = dir.path().join("work");
        fs::create_dir_all(&work).unwrap();
        let launch = Launch {
            program: fixture(),
            args: vec!["agent-host".into()],
        };
        let hosts = Hosts::new(&root, launch);
        Self {
            dir,
            root,
            work,
            hosts,
        }
    }

    pub(crate) fn spec(&self) -> Spec {
        let command = vec![fixture().to_str().unwrap().to_owned(), "agent".to_owned()];
        Spec::new(SESSION, command, self.work.clone())
    }

    /// An agent that hears neither SIGTERM nor the end of its input.
    pub(crate) fn stubborn(&self) -> Spec {
        let mut spec = self.spec();
        let program = spec.command.remove(0);
        let script = "trap '' TERM; exec \"$0\" agent --stay";
        spec.command = vec!["/bin/sh".into(), "-c".into(), script.into(), program];
        spec
    }

    /// A folder beside the others.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) async fn start(&self, spec: &Spec) -> (State, Attached) {
        self.hosts.start_or_attach(spec, None).await.unwrap()
    }

    /// What the agent has read so far.
    pub(crate) fn received(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.work.join("received.log")).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    pub(crate) async fn standing(&self) -> &'static str {
        match self.hosts.look(SESSION).await.unwrap() {
            Standing::Absent => "absent",
            Standing::Alive(_) => "alive",
            Standing::Ended(_) => "ended",
            Standing::Lost(_) => "lost",
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let folders = fs::read_dir(&self.root).into_iter().flatten().flatten();
        for folder in folders {
            let text = fs::read(folder.path().join("state.json")).unwrap_or_default();
            if let Ok(state) = serde_json::from_slice::<State>(&text)
                && state.host.is_alive()
            {
                kill(state.host.pid, Signal::TERM);
            }
        }
    }
}

pub(crate) fn kill(pid: u32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal);
}

pub(crate) fn is_there(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.trim_start().to_owned());
    state.is_some_and(|state| !state.starts_with(['Z', 'X']))
}

pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "not so after 30 s: {what}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn request(id: impl Into<Value>, method: &str, params: Value) -> Frame {
    let id: Value = id.into();
    Frame::of(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).unwrap()
}

pub(crate) fn answer(id: impl Into<Value>, result: Value) -> Frame {
    let id: Value = id.into();
    Frame::of(&json!({"jsonrpc": "2.0", "id": id, "result": result})).unwrap()
}

pub(crate) fn value(frame: &Frame) -> Value {
    serde_json::from_str(frame.text()).unwrap()
}

/// The next thing that the agent says.
pub(crate) async fn hear(frames: &mut Frames) -> Value {
    loop {
        match frames.next().await.unwrap().unwrap().what {
            What::Said(frame) => return value(&frame),
            What::Sent { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

/// The answer to a request, past everything else.
pub(crate) async fn answered(frames: &mut Frames, id: impl Into<Value>) -> Value {
    let id = id.into();
    loop {
        let said = hear(frames).await;
        if said["id"] == id && said.get("method").is_none() {
            return said["result"].clone();
        }
    }
}

/// Everything to the end.
pub(crate) async fn all(frames: &mut Frames) -> Vec<Entry> {
    let mut entries = vec![];
    while let Some(entry) = frames.next().await.unwrap() {
        entries.push(entry);
    }
    entries
}

/// How many bytes lie in a folder.
pub(crate) fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => bytes_in(&entry.path()),
            Ok(data) => data.len(),
            Err(_) => 0,
        })
        .sum()
}
