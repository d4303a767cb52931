//! Databases of their own on the PostgreSQL server that `./dev test` starts.

use std::process::Command;

/// Makes an empty database and gives its address.
pub fn fresh_database(server: &str) -> String {
    let name = format!(
        "e2e_{}_{}",
        std::process::id(),
        std::time::UNIX_EPOCH.elapsed().expect("a clock").as_nanos()
    );
    let made = Command::new("psql")
        .args([server, "-qc", &format!("create database {name}")])
        .output()
        .expect("psql is there");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let (base, _) = server
        .rsplit_once('/')
        .expect("an address with a database in it");
    format!("{base}/{name}")
}
