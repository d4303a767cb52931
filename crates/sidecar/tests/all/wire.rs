//! A host's folders, and a client at the other end of the pipes.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, PipeReader, PipeWriter, Read, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::{Value, json};
use threadline_artifacts::{OutputRoot, WorkspaceSources};
use threadline_files::{FolderGuard, Root};
use threadline_sidecar::{Ended, Limits, Settings, Sidecar, open};

pub(crate) const K: &str = "agent:main:draft:1";
pub(crate) const SCOPE: &str = "tasks/agent-main-draft-1/turn-1";

/// The folders of a gateway's host.
pub(crate) struct Host {
    temp: tempfile::TempDir,
}

impl Host {
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        for folder in ["home/.openclaw/workspace", "home/.openclaw/media", "tmp"] {
            fs::create_dir_all(temp.path().join(folder)).unwrap();
        }
        Self { temp }
    }

    pub(crate) fn path(&self) -> &Path {
        self.temp.path()
    }
    pub(crate) fn workspace(&self) -> PathBuf {
        self.path().join("home/.openclaw/workspace")
    }
    pub(crate) fn scope(&self) -> PathBuf {
        self.workspace().join(SCOPE)
    }
    pub(crate) fn media(&self) -> PathBuf {
        self.path().join("home/.openclaw/media")
    }
    pub(crate) fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    pub(crate) fn settings(&self) -> Settings {
        let root = |name: &str, folder: PathBuf| OutputRoot {
            name: name.to_owned(),
            folder,
        };
        Settings {
            state: self.state(),
            workspace: WorkspaceSources {
                home: self.path().join("home"),
                current_dir: self.path().to_owned(),
                ..WorkspaceSources::default()
            },
            output_roots: vec![
                root("media", self.media()),
                root("tmp-openclaw", self.path().join("tmp")),
            ],
            peer_secret: None,
        }
    }

    pub(crate) fn client(&self) -> Client {
        self.client_with(Limits::default())
    }

    pub(crate) fn client_with(&self, limits: Limits) -> Client {
        let (input, to) = io::pipe().unwrap();
        let (from, output) = io::pipe().unwrap();
        let taken = Arc::new(AtomicU64::new(0));
        let input = Counted {
            input,
            taken: Arc::clone(&taken),
        };
        let service = open(self.settings()).unwrap();
        Client {
            sidecar: Sidecar::start(input, output, service, limits).unwrap(),
            to: Some(to),
            from: BufReader::new(from),
            taken,
            last: 0,
        }
    }

    /// Holds the record of claimed files: whatever needs it, as preparing and collecting do, waits.
    pub(crate) fn hold_claims(&self) -> FolderGuard {
        Root::open(self.state()).unwrap().lock().unwrap()
    }
}

/// Counts what is taken from an input.
struct Counted {
    input: PipeReader,
    taken: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.input.read(buffer)?;
        self.taken.fetch_add(n as u64, Ordering::SeqCst);
        Ok(n)
    }
}

/// The other end.
pub(crate) struct Client {
    pub(crate) sidecar: Sidecar,
    pub(crate) to: Option<PipeWriter>,
    pub(crate) from: BufReader<PipeReader>,
    taken: Arc<AtomicU64>,
    last: u64,
}

impl Client {
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.to.as_mut().unwrap().write_all(bytes).unwrap();
    }
    pub(crate) fn send_line(&mut self, line: &str) {
        self.send_bytes(format!("{line}\n").as_bytes());
    }
    pub(crate) fn send(&mut self, id: u64, method: &str, params: &Value) {
        self.send_line(&request(id, method, params));
    }

    /// The next answer; `None` when there will be none.
    pub(crate) fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap())
    }
    #[track_caller]
    pub(crate) fn receive(&mut self) -> Value {
        self.next().expect("an answer")
    }

    /// Asks and waits for the answer: a result, or a code.
    #[track_caller]
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.last += 1;
        let id = 1_000_000 + self.last;
        self.send(id, method, &params);
        let mut answer = self.receive();
        assert_eq!(answer["id"], id, "{answer}");
        assert_eq!(answer["jsonrpc"], "2.0");
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(code(&answer)),
        }
    }
    #[track_caller]
    pub(crate) fn ok(&mut self, method: &str, params: Value) -> Value {
        self.call(method, params).unwrap()
    }

    pub(crate) fn prepare(&mut self) {
        self.ok(PREPARE, turn(json!({})));
    }

    /// How many bytes of requests were taken so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::SeqCst)
    }

    /// Ends the input, and gives what is still answered.
    pub(crate) fn finish(mut self) -> (Vec<Value>, Ended) {
        drop(self.to.take());
        let ended = self.sidecar.wait();
        drop(self.sidecar);
        // The reader holds the output until it has seen the end.
        (std::iter::from_fn(|| next(&mut self.from)).collect(), ended)
    }
}

fn next(from: &mut BufReader<PipeReader>) -> Option<Value> {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap())
}

pub(crate) const PREPARE: &str = "xworkmate.session.prepare";
pub(crate) const COLLECT: &str = "xworkmate.artifacts.collect-and-snapshot";
pub(crate) const EXPORT: &str = "xworkmate.artifacts.export";
pub(crate) const LIST: &str = "xworkmate.artifacts.list";
pub(crate) const READ: &str = "xworkmate.artifacts.read";
pub(crate) const GC: &str = "xworkmate.artifacts.gc";

pub(crate) fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// The parameters of a run of the usual session, enough for every method, with more.
pub(crate) fn run(run: &str, more: Value) -> Value {
    let mut params = json!({"appThreadKey": "draft:1", "openclawSessionKey": K, "runId": run});
    params
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    params
}
pub(crate) fn turn(more: Value) -> Value {
    run("turn-1", more)
}

pub(crate) fn code(answer: &Value) -> String {
    let code = answer["error"]["data"]["code"].as_str();
    code.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// Writes a file and the folders above it.
pub(crate) fn put(root: &Path, path: &str, content: impl AsRef<[u8]>) {
    let full = root.join(path);
    fs::create_dir_all(full.parent().unwrap()).unwrap();
    fs::write(full, content).unwrap();
}

/// A pause in which something would happen that must not.
pub(crate) fn a_while() {
    std::thread::sleep(std::time::Duration::from_millis(200));
}
