//! However it ends, the truth is told and nobody is left.

use std::{
    fs,
    io::Write as _,
    time::{Duration, Instant},
};

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::json;
use threadline_host::{
    Attached, EndCause, Ended, Entry, HostError, Spec, Standing, State, Stray, StrayReason, Swept,
    What,
};
use tokio::time::sleep;

use crate::support::*;

async fn grandchild(attached: &mut Attached) -> u32 {
    attached
        .control
        .send("g", &request("g", "grandchild", json!({})))
        .await
        .unwrap();
    let pid = answered(&mut attached.frames, "g").await;
    u32::try_from(pid.as_u64().unwrap()).unwrap()
}

/// Has the agent work on something that it never ends.
async fn hang(attached: &Attached) {
    let hang = request(1, "hang", json!({}));
    attached.control.send("k", &hang).await.unwrap();
}

fn end_of(entries: &[Entry]) -> Ended {
    match &entries.last().unwrap().what {
        What::Ended(ended) => ended.clone(),
        other => panic!("{other:?}"),
    }
}

async fn until_gone(state: &State) {
    until("the host is gone", async || !state.host.is_alive()).await;
}

#[tokio::test]
async fn an_agent_that_ends_in_its_turn_is_told_as_it_was() {
    let world = World::new();
    let (state, mut attached) = world.start(&world.spec()).await;
    let exit = request(1, "exit", json!({"code": 3}));
    attached.control.send("k", &exit).await.unwrap();
    let entries = all(&mut attached.frames).await;
    let whats: Vec<What> = entries.into_iter().map(|entry| entry.what).collect();
    let expected = [
        What::Sent {
            key: "k".into(),
            frame: None,
        },
        What::Stray(Stray {
            reason: StrayReason::CutOff,
            bytes: 15,
            head: "{\"method\":\"half".into(),
            meant: None,
        }),
        What::Ended(Ended {
            cause: EndCause::Exited,
            status: Some(3),
            signal: None,
            stderr: String::new(),
        }),
    ];
    assert_eq!(whats, expected);
    until_gone(&state).await;
    assert_eq!(world.standing().await, "ended");
    let mut rest = world.hosts.rest(SESSION, &state.boot, 1).await.unwrap();
    let rest: Vec<What> = all(&mut rest)
        .await
        .into_iter()
        .map(|entry| entry.what)
        .collect();
    assert_eq!(rest, expected[1..]);
    assert!(matches!(
        world
            .hosts
            .attach(SESSION, &state.boot, 1)
            .await
            .map(|_| ()),
        Err(HostError::Gone)
    ));
    // The folder is free for the next one.
    let (next, _attached) = world.start(&world.spec()).await;
    assert_ne!(next.boot, state.boot);
}

#[tokio::test]
async fn an_agent_that_is_killed_is_told_as_it_was_and_takes_its_children_along() {
    let world = World::new();
    let (state, mut attached) = world.start(&world.spec()).await;
    let child = grandchild(&mut attached).await;
    assert!(is_there(child));
    kill(state.agent.pid, Signal::KILL);
    let ended = end_of(&all(&mut attached.frames).await);
    assert_eq!(
        (ended.cause, ended.status, ended.signal),
        (EndCause::Exited, None, Some(9))
    );
    until_gone(&state).await;
    assert!(!is_there(child));
}

#[tokio::test]
async fn a_program_that_cannot_be_run_after_all_says_why() {
    let world = World::new();
    let mut spec = world.spec();
    let script = world.path("broken");
    fs::write(&script, "#!/nonexistent/interpreter\n").unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    spec.command = vec![script.to_str().unwrap().to_owned()];
    let state = world.hosts.start(&spec).await.unwrap();
    until("it has ended", async || world.standing().await == "ended").await;
    let mut rest = world.hosts.rest(SESSION, &state.boot, 0).await.unwrap();
    let ended = end_of(&all(&mut rest).await);
    assert_eq!((ended.cause, ended.status), (EndCause::Exited, Some(127)));
    assert!(
        ended.stderr.contains("cannot be run: No such file"),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn sigterm_ends_a_host_and_everything_below_it_within_two_seconds() {
    let world = World::new();
    let (state, mut attached) = world.start(&world.stubborn()).await;
    let child = grandchild(&mut attached).await;
    hang(&attached).await;
    let begun = Instant::now();
    kill(state.host.pid, Signal::TERM);
    until_gone(&state).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(!is_there(state.agent.pid) && !is_there(child));
    let ended = end_of(&all(&mut attached.frames).await);
    assert_eq!((ended.cause, ended.signal), (EndCause::Terminated, Some(9)));
    // What ended by itself has left nothing, and need not be looked at.
    assert_eq!(world.hosts.sweep().await.unwrap().swept, []);
}

#[tokio::test]
async fn an_agent_that_is_stopped_ends_too() {
    let world = World::new();
    let (state, mut attached) = world.start(&world.spec()).await;
    kill(state.agent.pid, Signal::STOP);
    attached.control.stop().await.unwrap();
    assert_eq!(
        end_of(&all(&mut attached.frames).await).cause,
        EndCause::Stopped
    );
    until_gone(&state).await;
    assert!(!is_there(state.agent.pid));
    // What has ended is ended.
    world.hosts.stop(SESSION).await.unwrap();
    assert!(matches!(
        attached.control.stop().await,
        Err(HostError::Gone)
    ));
}

#[tokio::test]
async fn a_host_that_does_not_answer_is_ended_for_certain() {
    let world = World::new();
    let (state, mut attached) = world.start(&world.stubborn()).await;
    let child = grandchild(&mut attached).await;
    kill(state.host.pid, Signal::STOP);
    world.hosts.stop(SESSION).await.unwrap();
    assert!(!is_there(state.host.pid) && !is_there(state.agent.pid) && !is_there(child));
    assert_eq!(world.standing().await, "lost");
}

#[tokio::test]
async fn a_killed_host_takes_its_agent_along_and_the_loss_is_told() {
    let world = World::new();
    let (state, mut attached) = world.start(&world.stubborn()).await;
    let child = grandchild(&mut attached).await;
    hang(&attached).await;
    kill(state.host.pid, Signal::KILL);
    // What was written down comes first, then the truth.
    let what = attached.frames.next().await.unwrap().unwrap().what;
    assert_eq!(
        what,
        What::Sent {
            key: "k".into(),
            frame: None
        }
    );
    assert!(matches!(attached.frames.next().await, Err(HostError::Lost)));
    until("the agent is gone", async || !is_there(state.agent.pid)).await;
    let frame = request(2, "echo", json!(1));
    assert!(matches!(
        attached.control.send("l", &frame).await,
        Err(HostError::Gone)
    ));
    assert_eq!(
        world.hosts.look(SESSION).await.unwrap(),
        Standing::Lost(state.clone())
    );
    let again = world
        .hosts
        .attach(SESSION, &state.boot, 0)
        .await
        .map(|_| ());
    assert!(matches!(again, Err(HostError::Gone)));

    // Its child had left the group and the session, and is found even so.
    assert!(is_there(child));
    let swept = |killed| {
        vec![Swept {
            session: SESSION.into(),
            killed,
            clean: true,
        }]
    };
    assert_eq!(world.hosts.sweep().await.unwrap().swept, swept(1));
    assert!(!is_there(child));
    // That nothing is left is known from now on, and what was ended is told.
    assert_eq!(world.hosts.sweep().await.unwrap().swept, []);
    let Standing::Lost(now) = world.hosts.look(SESSION).await.unwrap() else {
        panic!("it was killed");
    };
    assert_eq!(now.cleaned_up.map(|done| done.killed), Some(1));
    let was = State {
        cleaned_up: None,
        ..now
    };
    assert_eq!(was, state);
    world.hosts.forget(SESSION).await.unwrap();
    assert_eq!(world.standing().await, "absent");
}

/// Whether a host has noted a process as one of its family.
fn is_noted(world: &World, pid: u32) -> bool {
    let lists = fs::read_dir(&world.root).unwrap().flatten();
    let mut lists = lists.filter_map(|place| fs::read_to_string(place.path().join("family")).ok());
    lists.any(|list| {
        list.lines()
            .any(|line| line.starts_with(&format!("{pid} ")))
    })
}

#[tokio::test]
async fn what_hides_from_its_host_is_found_after_a_kill() {
    let world = World::new();
    let (state, mut attached) = world.start(&world.stubborn()).await;
    let asked = request("s", "runaway", json!({}));
    attached.control.send("s", &asked).await.unwrap();
    let pid = answered(&mut attached.frames, "s").await;
    let runaway = u32::try_from(pid.as_u64().unwrap()).unwrap();
    until("the runaway is noted", async || is_noted(&world, runaway)).await;
    kill(state.host.pid, Signal::KILL);
    until_gone(&state).await;
    assert!(is_there(runaway));
    assert_eq!(world.hosts.left().await.unwrap(), [(SESSION.to_owned(), 1)]);
    let swept = world.hosts.sweep().await.unwrap().swept;
    let ended = Swept {
        session: SESSION.into(),
        killed: 1,
        clean: true,
    };
    assert_eq!((swept, is_there(runaway)), (vec![ended], false));
    assert_eq!(world.hosts.left().await.unwrap(), []);
}

#[tokio::test]
async fn a_folder_that_cannot_be_read_stands_in_nobodys_way() {
    for text in ["{\"pid\":1", " "] {
        let world = World::new();
        let (state, mut attached) = world.start(&world.stubborn()).await;
        let child = grandchild(&mut attached).await;
        let folder = world.root.join("deadbeefdeadbeef");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("state.json"), text).unwrap();
        kill(state.host.pid, Signal::KILL);
        until_gone(&state).await;
        let lost = [Standing::Lost(state)];
        assert_eq!(world.hosts.present().await.unwrap(), lost);
        assert_eq!(world.hosts.left().await.unwrap(), [(SESSION.to_owned(), 1)]);
        // One that has its socket may have left something.
        fs::write(folder.join("socket"), "").unwrap();
        let sweep = world.hosts.sweep().await.unwrap();
        assert_eq!(sweep.swept.len(), 1);
        let folders: Vec<_> = sweep.unreadable.iter().map(|(folder, _)| folder).collect();
        assert_eq!(folders, [&folder]);
        assert!(!is_there(child));
        let unreadable = world.hosts.unreadable().await.unwrap();
        let folders: Vec<_> = unreadable.iter().map(|(folder, _)| folder).collect();
        assert_eq!(folders, [&folder]);
    }
}

/// Of many that were killed at once, whoever is asked about first ends everything.
#[tokio::test]
async fn what_many_killed_hosts_left_is_ended_together() {
    let world = World::new();
    let mut all = vec![];
    for name in ["one", "two", "three"] {
        let folder = world.path(name);
        fs::create_dir(&folder).unwrap();
        let spec = Spec {
            session: name.into(),
            folder,
            ..world.stubborn()
        };
        let (state, mut attached) = world.start(&spec).await;
        let child = grandchild(&mut attached).await;
        all.push((state, child));
    }
    for (state, _) in &all {
        kill(state.host.pid, Signal::KILL);
    }
    for (state, _) in &all {
        until_gone(state).await;
    }
    let swept = world.hosts.sweep_session("two").await.unwrap();
    let want = Swept {
        session: "two".into(),
        killed: 1,
        clean: true,
    };
    assert_eq!(swept, Some(want));
    assert!(all.iter().all(|(_, child)| !is_there(*child)));
    for name in ["one", "two", "three"] {
        let again = world.hosts.sweep_session(name).await.unwrap();
        assert_eq!(again, None, "{name}");
    }
}

#[tokio::test]
async fn the_last_words_of_an_agent_are_those_of_its_last_turn() {
    let world = World::new();
    let (_, mut attached) = world.start(&world.spec()).await;
    let errors = request(1, "errors", json!({"bytes": 3}));
    attached.control.send("k", &errors).await.unwrap();
    answered(&mut attached.frames, 1).await;
    let log = world.hosts.folder(SESSION).join("stderr.log");
    until("it is read", async || {
        fs::read_to_string(&log).unwrap_or_default() == "eeelast words\n"
    })
    .await;
    let exit = request(2, "exit", json!({"code": 1}));
    attached.control.send("l", &exit).await.unwrap();
    let ended = end_of(&all(&mut attached.frames).await);
    assert_eq!((ended.status, ended.stderr.as_str()), (Some(1), ""));
    // Of what it writes before it has answered anything, nothing is left out.
    let world = World::new();
    let (_, mut attached) = world.start(&world.spec()).await;
    let errors = request(1, "errors-only", json!({}));
    attached.control.send("k", &errors).await.unwrap();
    let log = world.hosts.folder(SESSION).join("stderr.log");
    until("it is read", async || {
        fs::read_to_string(&log).unwrap_or_default() == "early words\n"
    })
    .await;
    attached.control.send("l", &exit).await.unwrap();
    let ended = end_of(&all(&mut attached.frames).await);
    assert_eq!(ended.stderr, "early words\n");
}

/// However many there are: without a socket a host has left nothing, whatever else its folder holds.
#[tokio::test]
async fn nothing_is_read_of_hosts_that_have_ended() {
    let world = World::new();
    let (state, attached) = world.start(&world.spec()).await;
    attached.control.stop().await.unwrap();
    until_gone(&state).await;
    let folder = world.hosts.folder(SESSION);
    assert!(!folder.join("socket").exists());
    fs::write(folder.join("state.json"), "not read").unwrap();
    let sweep = world.hosts.sweep().await.unwrap();
    assert_eq!((sweep.swept, sweep.alive), (vec![], vec![]));
    assert_eq!(sweep.unreadable.len(), 0);
    assert_eq!(world.hosts.present().await.unwrap(), []);
    assert_eq!(world.hosts.left().await.unwrap(), []);
}

#[tokio::test]
async fn nothing_is_left_of_hosts_from_before_the_system_was_started() {
    let world = World::new();
    let (state, _attached) = world.start(&world.spec()).await;
    kill(state.host.pid, Signal::KILL);
    until_gone(&state).await;
    let path = world.hosts.folder(SESSION).join("state.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace(&state.host.system, "an earlier start")).unwrap();
    assert_eq!(world.hosts.present().await.unwrap().len(), 1);
    assert_eq!(world.hosts.sweep().await.unwrap().swept, []);
    assert_eq!(world.hosts.present().await.unwrap(), []);
    assert_eq!(world.standing().await, "lost");
}

#[tokio::test]
async fn a_new_host_ends_what_a_killed_one_left_before_it_begins() {
    let world = World::new();
    let (state, mut attached) = world.start(&world.stubborn()).await;
    let child = grandchild(&mut attached).await;
    kill(state.host.pid, Signal::KILL);
    until_gone(&state).await;
    let (next, _attached) = world.start(&world.spec()).await;
    assert!(!is_there(child) && !is_there(state.agent.pid));
    assert!(is_there(next.agent.pid));
}

#[tokio::test]
async fn a_journal_with_a_torn_tail_is_read_to_the_tear() {
    let world = World::new();
    let (state, mut attached) = world.start(&world.spec()).await;
    attached
        .control
        .send("k", &request(1, "echo", json!(1)))
        .await
        .unwrap();
    answered(&mut attached.frames, 1).await;
    kill(state.host.pid, Signal::KILL);
    until_gone(&state).await;
    let frames = world.hosts.folder(SESSION).join("frames");
    let piece = fs::read_dir(&frames)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mut piece = fs::OpenOptions::new().append(true).open(piece).unwrap();
    piece
        .write_all(b"0011223344556677 {\"no\":3,\"at\":1,\"wh")
        .unwrap();
    let mut rest = world.hosts.rest(SESSION, &state.boot, 0).await.unwrap();
    assert_eq!(rest.next().await.unwrap().unwrap().no, 1);
    assert_eq!(rest.next().await.unwrap().unwrap().no, 2);
    assert!(matches!(rest.next().await, Err(HostError::Lost)));
}

#[tokio::test]
async fn a_host_that_nobody_needs_ends_itself() {
    let world = World::new();
    let mut spec = world.spec();
    spec.idle = Duration::from_millis(400);
    let (state, mut attached) = world.start(&spec).await;
    // Not while a bridge is attached.
    sleep(Duration::from_millis(900)).await;
    assert!(state.host.is_alive());
    // Nor while the agent has something to do.
    attached
        .control
        .send("k", &request(1, "ask", json!({"id": "p"})))
        .await
        .unwrap();
    hear(&mut attached.frames).await;
    drop(attached);
    sleep(Duration::from_millis(900)).await;
    assert!(state.host.is_alive());
    let mut attached = world.hosts.attach(SESSION, &state.boot, 2).await.unwrap();
    attached
        .control
        .send("a", &answer("p", json!(1)))
        .await
        .unwrap();
    answered(&mut attached.frames, 1).await;
    drop(attached);
    until_gone(&state).await;
    assert!(!is_there(state.agent.pid));
    let mut rest = world.hosts.rest(SESSION, &state.boot, 4).await.unwrap();
    assert_eq!(end_of(&all(&mut rest).await).cause, EndCause::Idle);
}

#[tokio::test]
async fn a_question_that_nobody_can_answer_any_more_is_answered_and_keeps_no_host() {
    for after in [false, true] {
        let world = World::new();
        let mut spec = world.spec();
        spec.idle = Duration::from_millis(400);
        let result = json!({"outcome": {"outcome": "cancelled"}});
        let method = "session/request_permission".to_owned();
        spec.unattended.insert(method, result.clone());
        let (state, attached) = world.start(&spec).await;
        let id = "p";
        let ask = request(1, "ask-on", json!({"id": id, "after": after}));
        attached.control.send("k", &ask).await.unwrap();
        // Also with no bridge there.
        drop(attached);
        until("the agent has its answer", async || {
            world.received().iter().any(|heard| heard["id"] == id)
        })
        .await;
        let heard = world.received().pop().unwrap();
        let want = json!({"jsonrpc": "2.0", "id": id, "result": result});
        assert_eq!(heard, want, "after: {after}");
        until_gone(&state).await;
        let mut rest = world.hosts.rest(SESSION, &state.boot, 0).await.unwrap();
        assert_eq!(end_of(&all(&mut rest).await).cause, EndCause::Idle);
    }
}

#[tokio::test]
async fn a_host_whose_folder_is_gone_ends_itself() {
    let world = World::new();
    let mut spec = world.spec();
    spec.idle = Duration::from_secs(1);
    let (state, attached) = world.start(&spec).await;
    hang(&attached).await;
    fs::remove_dir_all(world.hosts.folder(SESSION)).unwrap();
    until_gone(&state).await;
    assert!(!is_there(state.agent.pid));
}
