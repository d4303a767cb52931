//! One host per session, one agent per folder, and nobody else's eyes.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::Path,
    process::{Command, Stdio},
};

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::{Value, json};
use threadline_host::{HostError, Spec, Standing, StartCode};

use crate::support::*;

async fn refused(world: &World, spec: &Spec) -> StartCode {
    match world.hosts.start(spec).await {
        Err(HostError::NotStarted { code, .. }) => code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_session_has_one_host() {
    let world = World::new();
    let (state, _attached) = world.start(&world.spec()).await;
    let second = world.hosts.start(&world.spec()).await;
    assert!(matches!(second, Err(HostError::InUse { session }) if session == SESSION));
    assert!(matches!(
        world.hosts.forget(SESSION).await,
        Err(HostError::InUse { .. })
    ));
    // Also for a bridge that does not look first.
    let mut child = Command::new(fixture())
        .args(["agent-host", "--state"])
        .arg(world.hosts.folder(SESSION))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let spec = serde_json::to_vec(&world.spec()).unwrap();
    child.stdin.take().unwrap().write_all(&spec).unwrap();
    let mut said = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(!child.wait().unwrap().success());
    let said: Value = serde_json::from_str(&said).unwrap();
    let message = format!(
        "The session has a host already (process {}).",
        state.host.pid
    );
    assert_eq!(
        said,
        json!({"failed": {"code": "HOST_RUNNING", "message": message}})
    );
    assert_eq!(
        world.hosts.look(SESSION).await.unwrap(),
        Standing::Alive(state)
    );
}

#[tokio::test]
async fn of_many_that_start_a_host_at_once_one_does() {
    let world = World::new();
    let spec = world.spec();
    let all: Vec<_> = (0..4)
        .map(|_| {
            let (hosts, spec) = (world.hosts.clone(), spec.clone());
            tokio::spawn(async move { hosts.start(&spec).await })
        })
        .collect();
    let mut started = 0;
    for one in all {
        match one.await.unwrap() {
            Ok(_) => started += 1,
            Err(HostError::InUse { .. })
            | Err(HostError::NotStarted {
                code: StartCode::HostRunning,
                ..
            }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(started, 1);
}

#[tokio::test]
async fn a_folder_has_one_agent() {
    let world = World::new();
    let (state, mut attached) = world.start(&world.stubborn()).await;
    let other = Spec {
        session: "acp:scripted:draft:2".into(),
        ..world.spec()
    };
    assert_eq!(refused(&world, &other).await, StartCode::FolderBusy);
    // By another name it is the same folder.
    let link = world.path("link");
    std::os::unix::fs::symlink(&world.work, &link).unwrap();
    let linked = Spec {
        folder: link,
        ..other.clone()
    };
    assert_eq!(refused(&world, &linked).await, StartCode::FolderBusy);
    // What a killed host left there is ended before another one begins.
    attached
        .control
        .send("g", &request("g", "grandchild", json!({})))
        .await
        .unwrap();
    let child = answered(&mut attached.frames, "g").await.as_u64().unwrap();
    kill(state.host.pid, Signal::KILL);
    let next = world.hosts.start(&other).await.unwrap();
    assert!(!is_there(u32::try_from(child).unwrap()) && !is_there(state.agent.pid));
    assert!(is_there(next.agent.pid));
}

#[tokio::test]
async fn nobody_else_can_read_what_a_host_writes() {
    let world = World::new();
    let (_, mut attached) = world.start(&world.spec()).await;
    attached
        .control
        .send("k", &request(1, "errors", json!({"bytes": 10})))
        .await
        .unwrap();
    answered(&mut attached.frames, 1).await;
    let mut modes = BTreeMap::new();
    collect(&world.root, &world.root, &mut modes);
    let folder = world.hosts.folder(SESSION);
    let name = |rest: &str| format!("{}{rest}", folder.file_name().unwrap().display());
    let lock = modes
        .keys()
        .find(|path| path.starts_with("folders/"))
        .unwrap()
        .clone();
    let expected = [
        (String::new(), 0o700),
        (name(""), 0o700),
        (name("/family"), 0o600),
        (name("/frames"), 0o700),
        (name("/frames/00000000000000000001.journal"), 0o600),
        (name("/host.log"), 0o600),
        (name("/lock"), 0o600),
        (name("/socket"), 0o600),
        (name("/state.json"), 0o600),
        (name("/stderr.log"), 0o600),
        ("folders".into(), 0o700),
        (lock, 0o600),
    ];
    assert_eq!(modes, BTreeMap::from(expected));
    let state = fs::read_to_string(folder.join("state.json")).unwrap();
    assert!(
        !state.contains("env"),
        "what is in the environment may be secret"
    );
}

fn collect(root: &Path, path: &Path, modes: &mut BTreeMap<String, u32>) {
    let data = fs::symlink_metadata(path).unwrap();
    let name = path
        .strip_prefix(root)
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    modes.insert(name, data.permissions().mode() & 0o777);
    if data.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            collect(root, &entry.unwrap().path(), modes);
        }
    }
}

#[tokio::test]
async fn a_path_longer_than_a_socket_may_have_does_not_matter() {
    let long = format!("{}/{}", "a".repeat(120), "b".repeat(120));
    let world = World::below(&long);
    let (_, mut attached) = world.start(&world.spec()).await;
    attached
        .control
        .send("k", &request(1, "echo", json!("far")))
        .await
        .unwrap();
    assert_eq!(answered(&mut attached.frames, 1).await, json!("far"));
}

#[tokio::test]
async fn what_cannot_be_started_is_refused_with_a_reason() {
    let world = World::new();
    let spec = world.spec();
    let command = |words: &[&str]| Spec {
        command: words.iter().map(|word| (*word).to_owned()).collect(),
        ..spec.clone()
    };
    assert_eq!(refused(&world, &command(&[])).await, StartCode::BadSpec);
    assert_eq!(
        refused(&world, &command(&["no-such-program"])).await,
        StartCode::NoProgram
    );
    assert_eq!(
        refused(&world, &command(&["/etc/passwd"])).await,
        StartCode::NoProgram
    );
    let gone = Spec {
        folder: world.path("gone"),
        ..spec.clone()
    };
    assert_eq!(refused(&world, &gone).await, StartCode::NoFolder);
    assert_eq!(world.standing().await, "absent");
    // By the agent's own PATH.
    let mut found = command(&["cat"]);
    found
        .env
        .insert("PATH".into(), "/nowhere:/usr/bin:/bin".into());
    world.hosts.start(&found).await.unwrap();
}

#[tokio::test]
async fn hosts_that_are_there_are_listed_and_those_that_ended_are_not() {
    let world = World::new();
    assert_eq!(world.hosts.present().await.unwrap(), []);
    let (first, _attached) = world.start(&world.spec()).await;
    let work = world.path("other");
    fs::create_dir(&work).unwrap();
    let other = Spec {
        session: "other".into(),
        folder: work,
        ..world.spec()
    };
    let second = world.hosts.start(&other).await.unwrap();
    let mut listed = world.hosts.present().await.unwrap();
    listed.sort_by_key(|found| matches!(found, Standing::Alive(state) if *state == second));
    assert_eq!(
        listed,
        [Standing::Alive(first.clone()), Standing::Alive(second)]
    );
    world.hosts.stop("other").await.unwrap();
    let listed = world.hosts.present().await.unwrap();
    assert_eq!(listed, [Standing::Alive(first)]);
}

#[tokio::test]
async fn a_host_survives_what_is_said_to_it() {
    let world = World::new();
    let (_, mut attached) = world.start(&world.spec()).await;
    let socket = world.hosts.folder(SESSION).join("socket");
    let talk = |lines: &[&[u8]]| -> Vec<Value> {
        let mut stream = UnixStream::connect(&socket).unwrap();
        for line in lines {
            // It may have heard enough before this.
            let _ = stream.write_all(line);
        }
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let heard = BufReader::new(stream).lines();
        heard
            .map_while(Result::ok)
            .map(|line| serde_json::from_str(&line).unwrap())
            .collect()
    };
    let code = |said: &Value| said["refused"]["code"].clone();
    assert!(talk(&[b"GET / HTTP/1.1\r\n\r\n"]).is_empty());
    assert!(talk(&[b"\xff\xff\n"]).is_empty());
    let other = talk(&[b"{\"hello\":{\"version\":99}}\n"]);
    assert_eq!(other[0]["hello"]["version"], json!(1));
    assert_eq!(code(&other[1]), json!("VERSION"));
    let hello: &[u8] = b"{\"hello\":{\"version\":1}}\n";
    let control: &[u8] = b"{\"control\":{\"lease\":1}}\n";
    assert_eq!(
        code(&talk(&[hello, b"{\"hello\":{\"version\":1}}\n"])[1]),
        json!("BAD_MESSAGE")
    );
    assert_eq!(
        code(&talk(&[hello, control, b"nonsense\n"])[1]),
        json!("BAD_MESSAGE")
    );
    let array = b"{\"send\":{\"key\":\"k\",\"frame\":[]}}\n";
    assert_eq!(
        code(&talk(&[hello, control, array])[1]),
        json!("BAD_MESSAGE")
    );
    // Whoever acknowledges what was never written is not listened to any longer.
    let stop = b"\"stop\"\n";
    assert_eq!(
        talk(&[hello, control, b"{\"ack\":{\"no\":99}}\n", stop]).len(),
        1
    );
    // Nobody hears from who has no lease.
    let send = b"{\"send\":{\"key\":\"k\",\"frame\":{}}}\n";
    assert_eq!(
        code(&talk(&[hello, b"{\"control\":{\"lease\":null}}\n", send])[1]),
        json!("REPLACED")
    );
    attached
        .control
        .send("k", &request(1, "echo", json!("well")))
        .await
        .unwrap();
    assert_eq!(answered(&mut attached.frames, 1).await, json!("well"));
}
