//! A home folder of its own for each test, and whatever runs in it.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_threadline");

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    home: TempDir,
    env: BTreeMap<String, String>,
}

/// How a command ended, and what it said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The output, if the command ended with this code.
    #[track_caller]
    pub(crate) fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:#?}"))
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        let line = |l: &str| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"));
        self.out.lines().map(line).collect()
    }
}

impl World {
    pub(crate) fn new() -> Self {
        let home = tempfile::Builder::new()
            .prefix("threadline-cli-")
            .tempdir()
            .unwrap();
        let env = [
            ("THREADLINE_BUILTIN_DEMO_PAUSE_MS", "20"),
            // Long enough not to end between two commands, short enough not to outlive a test by much.
            ("THREADLINE_IDLE_SECONDS", "30"),
        ];
        Self {
            home,
            env: env.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        }
    }

    /// The same with something set in the environment.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.set(name, value);
        self
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.env.insert(name.to_owned(), value.to_owned());
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        match self.env.get("THREADLINE_DATA") {
            Some(data) => data.into(),
            None => self.home().join(".local/share/threadline"),
        }
    }

    /// The program with nothing of this machine's environment.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(words)
            .env_clear()
            .env("HOME", self.home())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(&self.env)
            .current_dir(self.home())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn start(&self, words: &[&str]) -> Child {
        self.command(words).spawn().unwrap()
    }

    pub(crate) fn run(&self, words: &[&str]) -> Said {
        Said::of(self.command(words).output().unwrap())
    }

    pub(crate) fn run_with_input(&self, words: &[&str], input: &[u8]) -> Said {
        use std::io::Write as _;
        let mut child = self.command(words).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        Said::of(child.wait_with_output().unwrap())
    }

    /// What the owner says about itself, if there is one.
    pub(crate) fn owner(&self) -> Option<Value> {
        let text = fs::read_to_string(self.data().join("owner.json")).ok()?;
        serde_json::from_str(&text).ok()
    }

    pub(crate) fn owner_pid(&self) -> Option<u32> {
        self.owner()?["pid"].as_u64()?.try_into().ok()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.data().join("owner.log")).unwrap_or_default()
    }

    /// How often an owner got ready here.
    pub(crate) fn starts(&self) -> usize {
        self.log().matches("Ready at").count()
    }

    pub(crate) fn thread(&self, name: &str) -> Value {
        self.run(&["show", name, "--json"]).ended(0).json()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !self.data().exists() {
            return;
        }
        // Also one that is not ready yet; and one in the foreground, by the number that its lock
        // proves to be its own.
        let stopped = self.command(&["stop"]).output();
        if !stopped.is_ok_and(|o| o.status.success())
            && let Some(pid) = self.owner_pid()
        {
            signal(pid, Signal::KILL);
        }
    }
}

fn pid(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

/// Whether it runs; one that has ended and that nobody has waited for yet does not.
pub(crate) fn alive(number: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    let dead = stat
        .rsplit(')')
        .next()
        .is_some_and(|rest| rest.trim_start().starts_with('Z'));
    !dead && test_kill_process(pid(number)).is_ok()
}

pub(crate) fn signal(number: u32, signal: Signal) {
    let _ = kill_process(pid(number), signal);
}

/// Waits until something is true.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn mode(path: &Path) -> u32 {
    fs::metadata(path)
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        .permissions()
        .mode()
        & 0o777
}

/// The name of the thread that a run told of in its first line.
pub(crate) fn name_of(said: &Said) -> String {
    said.err
        .lines()
        .find_map(|l| l.strip_prefix("● "))
        .unwrap_or_else(|| panic!("{said:#?}"))
        .to_owned()
}
