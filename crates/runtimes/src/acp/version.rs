//! Which version of an agent there is: as it said when it last ran, or as its program says when it is
//! asked. Asking costs a process, so the answer is kept for as long as the program is the same.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use threadline_files::{Access, atomic};
use tokio::{io::AsyncReadExt as _, process::Command, time::timeout};

use super::{Shared, wire::AgentFacts};

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of what it says that are looked at.
const MOST: u64 = 4096;

/// An agent's program, and which version it said it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Seen {
    stamp: Option<Stamp>,
    /// Empty where it does not say.
    version: String,
}

/// What tells one program from another that takes its place: where it is, its length and its age.
type Stamp = (PathBuf, u64, i64);

fn stamp(program: &Path) -> Option<Stamp> {
    use std::os::unix::fs::MetadataExt as _;
    let meta = std::fs::metadata(program).ok()?;
    Some((program.to_owned(), meta.len(), meta.mtime()))
}

impl Shared {
    /// Remembers what the agent said about itself.
    pub(super) async fn saw(&self, agent: &AgentFacts) {
        if let Some(program) = self.program() {
            self.keep_version(stamp(&program), agent.version.clone())
                .await;
        }
    }

    /// The version of the program that is there now, as far as it is known. Where nobody knows, it is
    /// found out meanwhile, for the next who asks.
    pub(super) async fn version(self: &Arc<Self>) -> Option<String> {
        let program = self.program()?;
        let now = stamp(&program);
        match self.seen().await.filter(|seen| seen.stamp == now) {
            Some(seen) => (!seen.version.is_empty()).then_some(seen.version),
            None => {
                self.find_out(program, now);
                None
            }
        }
    }

    /// Asks the program once, in the background.
    fn find_out(self: &Arc<Self>, program: PathBuf, now: Option<Stamp>) {
        let Ok(asking) = Arc::clone(&self.asking).try_lock_owned() else {
            return;
        };
        if !self.config.agent.tells_version() {
            return;
        }
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            let said = shared.ask(&program).await.unwrap_or_default();
            shared
                .keep_version(now, version_in(&said).unwrap_or_default())
                .await;
            drop(asking);
        });
    }

    async fn ask(&self, program: &Path) -> Option<String> {
        let mut child = Command::new(program)
            .arg("--version")
            .env_clear()
            .envs(&self.environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .ok()?;
        let mut said = Vec::new();
        let out = child.stdout.take()?;
        let talk = async {
            let read = out.take(MOST).read_to_end(&mut said).await;
            read.and(child.wait().await)
        };
        let ended = timeout(PATIENCE, talk).await.ok()?.ok()?;
        ended
            .success()
            .then(|| String::from_utf8_lossy(&said).into_owned())
    }

    async fn keep_version(&self, stamp: Option<Stamp>, version: String) {
        let seen = Seen { stamp, version };
        if self.seen().await.as_ref() == Some(&seen) {
            return;
        }
        let (path, text) = (self.seen_path(), serde_json::to_vec(&seen));
        let Ok(text) = text else { return };
        let written = tokio::task::spawn_blocking(move || {
            if let Some(folder) = path.parent() {
                atomic::create_dir_all(folder, Access::Private)?;
            }
            atomic::write(path, &text, Access::Private)
        });
        if !matches!(written.await, Ok(Ok(_))) {
            tracing::warn!("the version of an agent could not be kept");
        }
    }

    fn seen_path(&self) -> PathBuf {
        let name = format!("{}.json", self.config.agent.name);
        self.config.records.join("agents").join(name)
    }

    async fn seen(&self) -> Option<Seen> {
        let text = tokio::fs::read(self.seen_path()).await.ok()?;
        serde_json::from_slice(&text).ok()
    }
}

/// The first word that looks like a version: digits, a dot, digits.
fn version_in(said: &str) -> Option<String> {
    let looks = |word: &&str| {
        let mut parts = word.splitn(3, '.');
        let is_number =
            |part: Option<&str>| part.is_some_and(|p| p.starts_with(|c: char| c.is_ascii_digit()));
        is_number(parts.next()) && is_number(parts.next())
    };
    let bare = |word: &'_ str| word.trim_matches(|c: char| "(),v".contains(c)).to_owned();
    let words: Vec<String> = said.split_whitespace().map(bare).collect();
    words
        .iter()
        .map(String::as_str)
        .find(looks)
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::version_in;

    #[test]
    fn a_version_is_found_among_other_words() {
        for (said, version) in [
            ("0.61.0\n", Some("0.61.0")),
            ("codex-acp 2.6.0", Some("2.6.0")),
            ("opencode v1.18.33 (abc)", Some("1.18.33")),
            ("hermes, version (1.2-beta.3)", Some("1.2-beta.3")),
            ("usage: x [--acp]", None),
            ("", None),
        ] {
            assert_eq!(version_in(said).as_deref(), version, "{said}");
        }
    }
}
