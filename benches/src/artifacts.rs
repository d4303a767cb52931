//! Files to artifacts: listing, hashing and reading, beside what the machine does without us.
//!
//! Each figure is taken in a process of its own, so that memory and caches of one do not show in
//! another; ours and its limit take turns, and the best of each counts: both are then as undisturbed
//! as this machine lets them be. All files are in the page cache.

mod limit;
mod ours;

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::process::mb;

const MANY: usize = 20_000;
const SMALL: usize = 8 * 1024;
const FEW: usize = 20;
const LARGE: usize = 16 * 1024 * 1024;
const TINY: usize = 64;
const ROUNDS: usize = 7;

/// What one process measured.
struct Taken {
    seconds: f64,
    peak: u64,
    /// Bytes of content that were read.
    read: u64,
}

pub(crate) fn measure() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let many = ours::world(&folder.path().join("many"), |scope| {
        fill(scope, MANY, SMALL)
    })?;
    let few = ours::world(&folder.path().join("few"), |scope| fill(scope, FEW, LARGE))?;
    settle();

    let (first, plain) = side_by_side(&many, "first", "limit-hash")?;
    row("20,000 x 8 KiB:", &first, &plain, Some(1.4));
    println!(
        "  peak memory:       {:>6.1} MB  (goal: under 64; with 20,000 signed references)",
        mb(first.peak)
    );
    let (first, plain) = side_by_side(&few, "first", "limit-hash")?;
    row("20 x 16 MiB:", &first, &plain, Some(1.2));
    // One that remembers.
    take("again", &many)?;
    let (again, stat) = side_by_side(&many, "again", "limit-stat")?;
    row("unchanged 20,000:", &again, &stat, Some(1.5));
    println!("  content read:      {:>6} bytes  (goal: 0)", again.read);
    let (signed, stat) = side_by_side(&many, "again-signed", "limit-stat")?;
    row("  and signed anew:", &signed, &stat, None);
    for (name, size) in [("64 MiB", 64_u64 << 20), ("8 GiB", 8 << 30)] {
        let place = folder.path().join("read");
        let world = ours::world(&place, |scope| sparse(scope, size))?;
        settle();
        let taken = take("read", &world)?;
        println!(
            "read {name:<8}        {:>6.0} MB/s verified, peak memory {:.1} MB  (goal: at least 250)",
            size as f64 / taken.seconds / 1e6,
            mb(taken.peak)
        );
        fs::remove_dir_all(&place)?;
    }
    memory_of_many(folder.path())
}

/// Memory must not grow with the number of files.
fn memory_of_many(folder: &Path) -> anyhow::Result<()> {
    let mut least: Option<[u64; 3]> = None;
    for files in [10_000, 100_000, 1_000_000] {
        let place = folder.join("memory");
        let world = ours::world(&place, |scope| fill(scope, files, TINY))?;
        settle();
        let peaks = [
            take("deliver", &world)?.peak,
            take("deliver", &world)?.peak,
            take("page", &world)?.peak,
        ];
        let least = least.get_or_insert(peaks);
        println!("{files:>9} files of {TINY} bytes, peak memory:");
        for ((name, peak), least) in ["delivered", "once more", "one page"]
            .into_iter()
            .zip(peaks)
            .zip(*least)
        {
            println!(
                "  {name:<12} {:>6.1} MB; {:.2} times that of 10,000",
                mb(peak),
                peak as f64 / least as f64
            );
        }
        fs::remove_dir_all(&place)?;
    }
    Ok(())
}

/// What runs inside such a process.
pub(crate) fn child(what: &str, place: &str) -> anyhow::Result<()> {
    let place = Path::new(place);
    let taken = match what {
        "first" => ours::first(place)?,
        "again" => ours::again(place, false)?,
        "again-signed" => ours::again(place, true)?,
        "read" => ours::read(place)?,
        "deliver" => ours::deliver(place)?,
        "page" => ours::page(place)?,
        "limit-hash" => limit::hash(&ours::scope(place))?,
        "limit-stat" => limit::stat(&ours::scope(place))?,
        other => bail!("`{other}` is not something to measure"),
    };
    println!(
        "{}",
        serde_json::json!({"seconds": taken.seconds, "peak": taken.peak, "read": taken.read})
    );
    Ok(())
}

/// A file that was just written is read twice, and not trusted by its stamp.
fn settle() {
    std::thread::sleep(std::time::Duration::from_millis(2_500));
}

fn take(what: &str, place: &Path) -> anyhow::Result<Taken> {
    let done = Command::new(std::env::current_exe()?)
        .args(["artifacts-child", what])
        .arg(place)
        .output()?;
    ensure!(
        done.status.success(),
        "{what}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    let said: Value = serde_json::from_slice(&done.stdout)?;
    Ok(Taken {
        seconds: said["seconds"].as_f64().context("seconds")?,
        peak: said["peak"].as_u64().context("peak")?,
        read: said["read"].as_u64().context("read")?,
    })
}

fn side_by_side(place: &Path, ours: &str, limit: &str) -> anyhow::Result<(Taken, Taken)> {
    let mut best: Option<(Taken, Taken)> = None;
    for _ in 0..ROUNDS {
        let (a, b) = (take(ours, place)?, take(limit, place)?);
        best = Some(match best {
            None => (a, b),
            Some((x, y)) => (better(x, a), better(y, b)),
        });
    }
    best.context("no round was run")
}

/// The faster of two; of memory and reading the worse, so that nothing hides.
fn better(a: Taken, b: Taken) -> Taken {
    Taken {
        seconds: a.seconds.min(b.seconds),
        peak: a.peak.max(b.peak),
        read: a.read.max(b.read),
    }
}

fn row(name: &str, ours: &Taken, limit: &Taken, goal: Option<f64>) {
    let goal = goal.map(|g| format!("  (goal: at most {g})"));
    println!(
        "{name:<20} {:>6.1} ms; limit {:.1} ms; ratio {:.2}{}",
        ours.seconds * 1e3,
        limit.seconds * 1e3,
        ours.seconds / limit.seconds,
        goal.unwrap_or_default()
    );
}

/// Files that look alike to no cache and no compressor, 50 to a folder.
fn fill(scope: &Path, files: usize, size: usize) -> anyhow::Result<()> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut bytes = Vec::with_capacity(size);
    for n in 0..files {
        let folder = scope.join(format!("part-{:02}/group-{:02}", n % 20, n / 20 % 20));
        fs::create_dir_all(&folder)?;
        bytes.clear();
        while bytes.len() < size {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        fs::write(folder.join(format!("file-{n:05}.bin")), &bytes)?;
    }
    Ok(())
}

fn sparse(scope: &Path, size: u64) -> anyhow::Result<()> {
    fs::create_dir_all(scope)?;
    Ok(fs::File::create(scope.join("large.bin"))?.set_len(size)?)
}
