//! Databases of their own on the PostgreSQL server that `./dev test` starts, and a server of its own for a test
//! that ends it.

use std::{
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// How long a server may take to start on a busy machine.
const STARTED: Duration = Duration::from_secs(30);

/// Makes an empty database and gives its address.
pub fn fresh_database(server: &str) -> String {
    let name = format!(
        "e2e_{}_{}",
        std::process::id(),
        std::time::UNIX_EPOCH.elapsed().expect("a clock").as_nanos()
    );
    run_on(server, &format!("create database {name}"));
    let (base, _) = server
        .rsplit_once('/')
        .expect("an address with a database in it");
    format!("{base}/{name}")
}

/// Runs a statement on a database.
pub fn run_on(database: &str, statement: &str) {
    let done = Command::new("psql")
        .args([database, "-qc", statement])
        .output()
        .expect("psql is there");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// A server that one test owns, on a port of its own.
pub struct Postgres {
    folder: tempfile::TempDir,
    port: u16,
    server: Child,
}

impl Postgres {
    /// Starts one.
    pub async fn start() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("threadline-postgres-")
            .tempdir()
            .expect("a temporary folder");
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777))
            .expect("a folder for all");
        let made = command(folder.path(), "initdb")
            .args([
                "-D",
                "data",
                "-U",
                "postgres",
                "-E",
                "UTF8",
                "--locale=C",
                "--no-sync",
            ])
            .args(["--auth=trust"])
            .output()
            .expect("initdb is there");
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let port = free_port();
        let server = serve(folder.path(), port);
        let started = Self {
            folder,
            port,
            server,
        };
        started.ready().await;
        started
    }

    /// The address of its own database.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Ends it without a word, as a power cut would, and starts it again after a pause.
    pub async fn cut(&mut self, pause: Duration) {
        self.end();
        tokio::time::sleep(pause).await;
        self.server = serve(self.folder.path(), self.port);
        self.ready().await;
    }

    /// Ends at once: every process of it leaves when the first has left so.
    fn end(&mut self) {
        let first = rustix::process::Pid::from_child(&self.server);
        let sent = rustix::process::kill_process(first, rustix::process::Signal::QUIT);
        sent.expect("the server can be ended");
        self.server.wait().expect("the server is gone");
    }

    async fn ready(&self) {
        let begun = Instant::now();
        loop {
            let asked = Command::new("psql")
                .args([&self.url(), "-qc", "select 1"])
                .output();
            if asked.expect("psql is there").status.success() {
                return;
            }
            assert!(begun.elapsed() < STARTED, "PostgreSQL does not start");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.end();
    }
}

/// A port that nobody has just now.
pub fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    free.local_addr().expect("an address").port()
}

fn serve(folder: &Path, port: u16) -> Child {
    command(folder, "postgres")
        .args([
            "-D",
            "data",
            "-h",
            "127.0.0.1",
            "-p",
            &port.to_string(),
            "-k",
            "",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("PostgreSQL starts")
}

/// A program of PostgreSQL's, in a folder, as somebody who is not root: it refuses to run as root. It ends with the
/// test.
fn command(folder: &Path, name: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "INT"]);
    if rustix::process::geteuid().is_root() {
        command.args(["--reuid=nobody", "--regid=65534", "--clear-groups"]);
    }
    command.arg(programs().join(name)).current_dir(folder);
    command
}

/// Where PostgreSQL's programs lie: where Debian hides them, or on the PATH.
fn programs() -> PathBuf {
    let found = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    let mut found: Vec<PathBuf> = found
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|bin| bin.join("initdb").exists())
        .collect();
    found.sort();
    found.pop().unwrap_or_default()
}
