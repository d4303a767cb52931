//! A large file from the bridge, beside nginx that copies the same file without `sendfile`. The receiver
//! only counts, so that the servers are measured and not the one who hashes.

use std::{
    fs,
    io::Read as _,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use sha2::{Digest as _, Sha256};
use threadline_e2e::{scripted_model::Model, world::World};

use crate::turns::{LARGE, delivering, write_large};

const ROUNDS: usize = 3;
const THREAD: &str = "draft:large";

pub(crate) async fn measure(program: &Path) -> anyhow::Result<()> {
    let model = Model::start().await;
    let mut world = World::of(program.to_owned());
    world.set("THREADLINE_MODEL_URL", &model.v1());
    world.set("THREADLINE_MODEL", "scripted");
    let mut world = world.running().await;
    let turn = World::turn(THREAD, "[[sleep 6000]] [[say done]]");
    let run = delivering(&world, turn, |scope| write_large(scope, 0)).await?;
    let scope = run["artifactDirectory"].as_str().context("a folder")?;
    let Some(nginx) = Nginx::start(Path::new(scope)).await? else {
        println!("nginx is not installed: there is nothing to hold the bridge against");
        return Ok(());
    };
    let (mut first, mut again, mut limit) = (0.0_f64, 0.0_f64, 0.0_f64);
    for _ in 0..ROUNDS {
        // One that has not seen the file yet.
        world.kill();
        world.start().await;
        let run = world.ended(THREAD).await;
        let url = run["artifacts"]["items"][0]["url"].as_str();
        let url = format!("{}{}", world.url, url.context("a link")?);
        first = first.max(fetch(&world, &url).await?);
        again = again.max(fetch(&world, &url).await?);
        limit = limit.max(fetch(&world, &nginx.url).await?);
    }
    println!("nginx, no sendfile:  {limit:>6.0} MB/s, 1 GiB, best of {ROUNDS}");
    // What a first read cannot be faster than, whoever sends it.
    let large = Path::new(scope).join("large.bin");
    let (mut plain, mut hashed) = (0.0_f64, 0.0_f64);
    for _ in 0..ROUNDS {
        plain = plain.max(through(&large, |_| {})?);
        let mut hasher = Sha256::new();
        hashed = hashed.max(through(&large, |bytes| hasher.update(bytes))?);
    }
    println!("reading it:          {plain:>6.0} MB/s, one thread; with SHA-256 {hashed:.0} MB/s");
    for (name, speed, goal) in [
        ("first read:", first, 0.4),
        ("verified before:", again, 0.7),
    ] {
        println!(
            "{name:<21}{speed:>6.0} MB/s; ratio {:.2}  (goal: at least {goal})",
            speed / limit
        );
    }
    Ok(())
}

/// Megabytes of a file read in a second, and shown to somebody.
fn through(file: &Path, mut show: impl FnMut(&[u8])) -> anyhow::Result<f64> {
    let mut file = fs::File::open(file)?;
    let mut buffer = vec![0; 256 << 10];
    let (begun, mut size) = (Instant::now(), 0);
    loop {
        let got = file.read(&mut buffer)?;
        if got == 0 {
            return Ok(size as f64 / begun.elapsed().as_secs_f64() / 1e6);
        }
        show(&buffer[..got]);
        size += got;
    }
}

/// Megabytes fetched in a second.
async fn fetch(world: &World, url: &str) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let asked = world.http.get(url).bearer_auth(&world.token).send().await?;
    let mut answer = asked.error_for_status()?;
    let mut size = 0;
    while let Some(bytes) = answer.chunk().await? {
        size += bytes.len() as u64;
    }
    ensure!(size == LARGE, "{size} bytes came");
    Ok(size as f64 / begun.elapsed().as_secs_f64() / 1e6)
}

/// An nginx that serves a folder, ended when this is dropped.
struct Nginx {
    process: Child,
    url: String,
    _folder: tempfile::TempDir,
}

impl Nginx {
    /// `None`: it is not installed.
    async fn start(served: &Path) -> anyhow::Result<Option<Self>> {
        let folder = tempfile::tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let place = served.display();
        let own = folder.path().display();
        // As root its worker would be somebody who may not read the file.
        let user = match rustix::process::geteuid().is_root() {
            true => "user root;",
            false => "",
        };
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {own}/{name};"))
            .concat();
        let config = format!(
            "{user} daemon off; pid {own}/pid; error_log {own}/errors; worker_processes 1; events {{}}\n\
             http {{ access_log off; sendfile off; {temporary}\n\
             server {{ listen 127.0.0.1:{port}; root {place}; }} }}\n"
        );
        let file = folder.path().join("nginx.conf");
        fs::write(&file, config)?;
        let mut command = Command::new("nginx");
        command.arg("-c").arg(&file).arg("-p").arg(folder.path());
        let started = command.stderr(Stdio::null()).spawn();
        let process = match started {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            started => started?,
        };
        let nginx = Self {
            process,
            url: format!("http://127.0.0.1:{port}/large.bin"),
            _folder: folder,
        };
        for _ in 0..100 {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(Some(nginx));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::bail!("nginx does not listen")
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // TERM, so that it ends its worker too.
        if let Some(pid) = rustix::process::Pid::from_raw(self.process.id().cast_signed()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.process.wait();
    }
}
