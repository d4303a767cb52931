//! Which version of an agent there is, before anybody has worked with it.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    time::{Duration, Instant},
};

use pretty_assertions::assert_eq;
use threadline_runtimes::{
    Availability, Readiness, RuntimeInfo as _,
    acp::{Acp, AgentConfig},
};

use super::world::World;

/// A program that says its version, takes a while to, and writes down that it was asked.
fn program(at: &Path, version: &str) {
    let asked = at.with_extension("asked");
    let text = format!(
        "#!/bin/sh\necho \"$*\" >> {}\nsleep 0.3\necho 'the agent {version} (stable)'\n",
        asked.display()
    );
    fs::write(at, text).unwrap();
    fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
}

fn ready(about: &str, program: &Path) -> Availability {
    let place = Some(program.display().to_string());
    Availability::new(Readiness::Ready, about, place)
}

async fn becomes(acp: &Acp, want: &str, program: &Path) {
    let begun = Instant::now();
    loop {
        let found = acp.probe().await;
        if found == ready(want, program) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(15), "{found:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_version_is_found_out_once_and_nobody_waits_for_it() {
    let mut world = World::new();
    let bin = tempfile::tempdir().unwrap();
    let path = bin.path().join("gemini");
    program(&path, "9.9.9");
    let gemini = |name: &AgentConfig| name.name == "gemini";
    let mut agent = AgentConfig::known().into_iter().find(gemini).unwrap();
    let search = format!("{}:/usr/bin:/bin", bin.path().display());
    agent.env.insert("PATH".into(), search);
    world.config.agent = agent;
    let acp = Acp::new(world.config.clone());
    let begun = Instant::now();
    for _ in 0..5 {
        assert_eq!(acp.probe().await, ready("installed", &path));
    }
    assert!(begun.elapsed() < Duration::from_millis(250));
    becomes(&acp, "version 9.9.9", &path).await;
    // It is kept, for another life too.
    let again = Acp::new(world.config.clone());
    assert_eq!(again.probe().await, ready("version 9.9.9", &path));
    let asked = path.with_extension("asked");
    assert_eq!(fs::read_to_string(&asked).unwrap(), "--version\n");
    // Another program in its place is asked anew.
    program(&path, "10.20.30");
    becomes(&acp, "version 10.20.30", &path).await;
    assert_eq!(
        fs::read_to_string(&asked).unwrap(),
        "--version\n--version\n"
    );
}

#[tokio::test]
async fn a_command_line_that_is_not_known_is_not_run_to_find_out() {
    let mut world = World::new();
    let bin = tempfile::tempdir().unwrap();
    let path = bin.path().join("my-agent");
    program(&path, "1.0.0");
    let command = vec![path.display().to_string()];
    world.config.agent = AgentConfig::new("mine", command);
    let acp = Acp::new(world.config.clone());
    assert_eq!(acp.probe().await, ready("installed", &path));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!path.with_extension("asked").exists());
}
