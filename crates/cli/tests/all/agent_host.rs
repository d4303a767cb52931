//! The program as an agent's host. What a host does in every way is told in the tests of its crate.

use pretty_assertions::assert_eq;
use threadline_host::{Frame, Hosts, Launch, Spec, Standing, What};

fn hosts(folder: &std::path::Path) -> Hosts {
    let launch = Launch {
        program: env!("CARGO_BIN_EXE_threadline").into(),
        args: vec!["agent-host".into()],
    };
    Hosts::new(folder, launch)
}

#[tokio::test]
async fn an_agent_is_started_heard_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = hosts(folder.path());
    // What stands after its name is the agent's, even where it looks like ours.
    let script = "echo \"{\\\"method\\\":\\\"$*\\\"}\"; exec cat";
    let command = ["/bin/sh", "-c", script, "sh", "--json", "--help", "--state"];
    let command = command.map(str::to_owned).to_vec();
    let mut spec = Spec::new("s", command, folder.path().to_owned());
    spec.env.insert("PATH".into(), "/usr/bin:/bin".into());
    let (state, mut attached) = hosts.start_or_attach(&spec, None).await.unwrap();
    let frame = |text: &str| Frame::parse(text.as_bytes()).unwrap();
    let first = attached.frames.next().await.unwrap().unwrap();
    assert_eq!(
        first.what,
        What::Said(frame(r#"{"method":"--json --help --state"}"#))
    );
    let echo = frame(r#"{"method":"x","params":[1.0,"ü"]}"#);
    attached.control.send("k", &echo).await.unwrap();
    attached.frames.next().await.unwrap();
    let heard = attached.frames.next().await.unwrap().unwrap();
    assert_eq!(heard.what, What::Said(echo));
    hosts.stop("s").await.unwrap();
    assert!(!state.host.is_alive() && !state.agent.is_alive());
    assert!(matches!(hosts.look("s").await.unwrap(), Standing::Ended(_)));
}

#[test]
fn a_person_who_calls_it_is_told_that_it_is_not_for_them() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_threadline"))
        .arg("agent-host")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("part of Threadline itself"), "{said}");
}
