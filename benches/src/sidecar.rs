//! Files through the sidecar's pipe, as a gateway's plugin reads them: in parts, a few requests under
//! way, hashed by the one who receives them. And what the sidecar takes when nobody asks anything.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256 as Hasher};

use crate::process::{cpu, mb, peak_of, pss};

/// What a plugin would ask for at a time, and how many such requests it keeps under way.
const PART: u64 = 1024 * 1024;
const UNDER_WAY: u64 = 4;

pub(crate) fn measure(program: &Path) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let mut idle = Sidecar::start(program, folder.path())?;
    idle.call("initialize", json!({}))?;
    std::thread::sleep(Duration::from_secs(1));
    println!(
        "idle memory (PSS):   {:>6.1} MB  (goal: under 10)",
        mb(pss(idle.child.id())?)
    );
    idle.end()?;
    for (name, size, rounds) in [("64 MiB", 64_u64 << 20, 5), ("8 GiB", 8 << 30, 2)] {
        let run = name.replace(' ', "-");
        let mut best: Option<Taken> = None;
        for _ in 0..rounds {
            let taken = read(program, folder.path(), &run, size)?;
            best = Some(match best {
                None => taken,
                Some(other) => other.better(taken),
            });
        }
        let best = best.context("no round was run")?;
        let speed = |seconds: f64| size as f64 / seconds / 1e6;
        println!(
            "read {name:<8}        {:>6.0} MB/s verified, best of {rounds}  (goal: at least 250)",
            speed(best.seconds)
        );
        println!(
            "  of the sidecar:    {:>6.0} MB for a second of processor time, peak memory {:.1} MB",
            speed(best.cpu),
            mb(best.peak)
        );
    }
    Ok(())
}

/// What reading took.
struct Taken {
    seconds: f64,
    /// Processor time of the sidecar, which a busy machine does not change.
    cpu: f64,
    peak: u64,
}

impl Taken {
    /// The faster of two; of memory the worse, so that nothing hides.
    fn better(self, other: Self) -> Self {
        Self {
            seconds: self.seconds.min(other.seconds),
            cpu: self.cpu.min(other.cpu),
            peak: self.peak.max(other.peak),
        }
    }
}

/// Reads a file of a run from beginning to end, in a process that has never seen it.
fn read(program: &Path, folder: &Path, run: &str, size: u64) -> anyhow::Result<Taken> {
    let whose = |more: Value| {
        let mut all =
            json!({"appThreadKey": "b", "openclawSessionKey": "agent:main:b", "runId": run});
        if let (Some(all), Value::Object(more)) = (all.as_object_mut(), more) {
            all.extend(more);
        }
        all
    };
    let mut lists = Sidecar::start(program, folder)?;
    let made = lists.call("xworkmate.session.prepare", whose(json!({})))?;
    let scope = made["artifactDirectory"].as_str().context("folder")?;
    fs::File::create(Path::new(scope).join("large.bin"))?.set_len(size)?;
    // A file that was just written is not trusted by its stamp.
    std::thread::sleep(Duration::from_millis(2_500));
    let list = lists.call("xworkmate.artifacts.list", whose(json!({})))?;
    lists.end()?;
    let item = &list["artifacts"][0];
    let reference = item["artifactRef"].as_str().context("reference")?;

    let mut sidecar = Sidecar::start(program, folder)?;
    let ask = |sidecar: &mut Sidecar, n: u64| {
        let part = json!({"artifactRef": reference, "offset": n * PART, "length": PART});
        sidecar.send(n, "xworkmate.artifacts.read", &whose(part))
    };
    let parts = size.div_ceil(PART);
    let begun = Instant::now();
    let (mut asked, mut next, mut hashed) = (0, 0, 0);
    let mut hasher = Hasher::new();
    let mut early: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut line = Vec::new();
    while next < parts {
        // The first alone: the file is checked with it, once.
        let most = if next == 0 { 1 } else { next + UNDER_WAY };
        while asked < parts.min(most) {
            ask(&mut sidecar, asked)?;
            asked += 1;
        }
        line.clear();
        sidecar.from.read_until(b'\n', &mut line)?;
        let answer: Answer<'_> = serde_json::from_slice(&line)?;
        let [item] = answer.result.artifacts;
        early.insert(answer.id, STANDARD.decode(item.content)?);
        while let Some(bytes) = early.remove(&next) {
            hasher.update(&bytes);
            hashed += bytes.len() as u64;
            next += 1;
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let digest = threadline_contract::Sha256(hasher.finalize().into()).to_hex();
    ensure!(
        hashed == size && item["sha256"] == digest,
        "the bytes are others"
    );
    let taken = Taken {
        seconds,
        cpu: cpu(sidecar.child.id())?.as_secs_f64(),
        peak: peak_of(sidecar.child.id())?,
    };
    sidecar.end()?;
    Ok(taken)
}

#[derive(Deserialize)]
struct Answer<'a> {
    id: u64,
    #[serde(borrow)]
    result: Part<'a>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    artifacts: [Item<'a>; 1],
}

#[derive(Deserialize)]
struct Item<'a> {
    content: &'a str,
}

struct Sidecar {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Sidecar {
    fn start(program: &Path, folder: &Path) -> anyhow::Result<Self> {
        let workspace = folder.join("workspace");
        fs::create_dir_all(&workspace)?;
        let mut child = Command::new(program)
            .arg("openclaw-sidecar")
            .arg("--data")
            .arg(folder.join("data"))
            .arg("--workspace")
            .arg(workspace)
            .current_dir(folder)
            .env_clear()
            .env("HOME", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(Self {
            to: child.stdin.take().context("input")?,
            from: BufReader::with_capacity(1024 * 1024, child.stdout.take().context("output")?),
            child,
        })
    }

    fn send(&mut self, id: u64, method: &str, params: &Value) -> anyhow::Result<()> {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        Ok(self.to.write_all(format!("{request}\n").as_bytes())?)
    }

    fn call(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        self.send(0, method, &params)?;
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        let mut answer: Value = serde_json::from_str(&line)?;
        ensure!(answer["result"].is_object(), "{method}: {line}");
        Ok(answer["result"].take())
    }

    fn end(mut self) -> anyhow::Result<()> {
        drop(self.to);
        ensure!(self.child.wait()?.success(), "the sidecar failed");
        Ok(())
    }
}
