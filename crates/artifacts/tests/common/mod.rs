//! A workspace to try things in.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

pub(crate) mod host;

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use threadline_artifacts::{
    ArtifactIdentity, CollectOptions, Collected, Error, Evidence, Export, ExportOptions,
    WorkFolder, Workspace,
};
use threadline_contract::{
    ArtifactPath, Deliverable, OmitReason, Omitted, RunId, SessionKey, Sha256,
};

pub(crate) struct World {
    pub temp: tempfile::TempDir,
    pub ws: Workspace,
    pub session: SessionKey,
    pub run: RunId,
}

impl World {
    /// A workspace with one prepared run.
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("ws")).unwrap();
        let ws = Workspace::open(temp.path().join("ws")).unwrap();
        let world = Self {
            temp,
            ws,
            session: session("agent:main:draft:1"),
            run: run("turn-1"),
        };
        world.prepare(&world.run);
        world
    }

    pub(crate) fn prepare(&self, run: &RunId) {
        self.ws.prepare(&self.session, run).unwrap();
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.temp.path().join("ws")
    }
    pub(crate) fn scope(&self) -> PathBuf {
        self.scope_of(&self.run)
    }
    pub(crate) fn scope_of(&self, run: &RunId) -> PathBuf {
        self.root()
            .join("tasks/agent-main-draft-1")
            .join(run.as_str())
    }
    pub(crate) fn work(&self) -> PathBuf {
        self.root().join("tasks/agent-main-draft-1/work")
    }

    pub(crate) fn list(&self) {
        self.ws
            .list_before(&self.session, &self.run, &WorkFolder::Session)
            .unwrap();
    }
    pub(crate) fn collect(&self, named: &[&str]) -> Collected {
        self.collect_from(&WorkFolder::Session, named, &[]).unwrap()
    }
    pub(crate) fn collect_from(
        &self,
        folder: &WorkFolder,
        named: &[&str],
        globs: &[&str],
    ) -> Result<Collected, Error> {
        let evidence = Evidence {
            written: named.iter().map(|s| (*s).to_owned()).collect(),
            deliverables: globs.iter().map(|glob| deliverable(glob)).collect(),
        };
        let options = CollectOptions::default();
        self.ws
            .collect(&self.session, &self.run, folder, &evidence, &options)
    }

    pub(crate) fn export(&self) -> Export {
        self.ws
            .export(&self.session, &self.run, &ExportOptions::default())
            .unwrap()
    }
    pub(crate) fn identity(&self, path: &str, content: &[u8]) -> ArtifactIdentity {
        ArtifactIdentity {
            session: self.session.clone(),
            run: self.run.clone(),
            path: ArtifactPath::new(path).unwrap(),
            size: content.len() as u64,
            sha256: sha(content),
        }
    }
}

pub(crate) fn session(key: &str) -> SessionKey {
    SessionKey::new(key).unwrap()
}
pub(crate) fn run(id: &str) -> RunId {
    RunId::new(id).unwrap()
}
pub(crate) fn sha(bytes: &[u8]) -> Sha256 {
    use sha2::Digest as _;
    Sha256(sha2::Sha256::digest(bytes).into())
}
pub(crate) fn deliverable(glob: &str) -> Deliverable {
    Deliverable {
        glob: glob.to_owned(),
        content_type: None,
        min_bytes: None,
        min_count: None,
    }
}
pub(crate) fn omit(path: &str, reason: OmitReason) -> Omitted {
    Omitted {
        path: path.to_owned(),
        reason,
    }
}

/// Writes a file and the folders above it.
pub(crate) fn put(root: &Path, path: &str, content: impl AsRef<[u8]>) {
    let full = root.join(path);
    fs::create_dir_all(full.parent().unwrap()).unwrap();
    fs::write(full, content).unwrap();
}

/// Makes a file look as if it had been written so many seconds ago.
pub(crate) fn age(root: &Path, path: &str, seconds: u64) {
    let time = SystemTime::now() - Duration::from_secs(seconds);
    fs::File::options()
        .write(true)
        .open(root.join(path))
        .unwrap()
        .set_modified(time)
        .unwrap();
}

/// Waits until a stamp of now would show a later change.
pub(crate) fn settle() {
    std::thread::sleep(Duration::from_millis(2_100));
}

pub(crate) fn paths(export: &Export) -> Vec<&str> {
    export.artifacts.iter().map(|a| a.path.as_str()).collect()
}
pub(crate) fn copied(collected: &Collected) -> Vec<&str> {
    collected.copied.iter().map(|c| c.path.as_str()).collect()
}

/// Everything in a folder with its content, our notes left out.
pub(crate) fn tree(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut out = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && entry.file_name() != ".xworkmate" {
                folders.push(path);
            } else if kind.is_file() {
                out.push((
                    path.to_str().unwrap().to_owned(),
                    fs::read(entry.path()).unwrap(),
                ));
            }
        }
    }
    out.sort();
    out
}
