//! One process owns a data folder, whoever starts it and however it ends.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    process::Child,
};

use pretty_assertions::assert_eq;
use rustix::process::Signal;
use serde_json::json;

use crate::support::{PROGRAM, Said, World, alive, signal, until};

/// Waits until the owner of this kind is ready.
fn ready(world: &World, mode: &str) -> u32 {
    until(mode, || {
        world.owner().filter(|o| o["mode"] == mode)?["pid"].as_u64()
    })
    .try_into()
    .unwrap()
}

fn ended(child: Child) -> Said {
    Said::of(child.wait_with_output().unwrap())
}

#[test]
fn commands_that_start_at_the_same_moment_share_one_owner() {
    let world = World::new();
    let runs: Vec<Child> = (0..4)
        .map(|n| world.start(&["run", &format!("task number {n}")]))
        .collect();
    let names: BTreeSet<String> = runs
        .into_iter()
        .map(|run| crate::support::name_of(&ended(run).ended(0)))
        .collect();
    assert_eq!(names.len(), 4, "each has its own thread");
    assert_eq!(world.starts(), 1, "{}", world.log());
}

#[test]
fn a_second_server_on_the_same_data_is_refused() {
    let world = World::new();
    let first = world.start(&["serve", "--listen", "127.0.0.1:0"]);
    let pid = ready(&world, "serve");
    let said = world.run(&["serve", "--listen", "127.0.0.1:0"]).ended(9);
    assert!(
        said.err.contains("[DATA_FOLDER_IN_USE]") && said.err.contains(&format!("process {pid}")),
        "{said:?}"
    );
    let said = world
        .run(&["serve", "--listen", "127.0.0.1:0", "--json"])
        .ended(9);
    assert_eq!(said.json()["error"]["code"], "DATA_FOLDER_IN_USE");

    // It is an owner like any other.
    world.run(&["run", "hello"]).ended(0);
    assert_eq!(world.owner_pid(), Some(pid));
    let said = world.run(&["stop"]).ended(9);
    assert!(
        said.err.contains("threadline serve")
            && said
                .err
                .contains(&format!("To end it: Ctrl-C in its terminal, or kill {pid}")),
        "{said:?}"
    );

    signal(pid, Signal::TERM);
    let said = ended(first).ended(0);
    assert!(
        said.out.starts_with("Threadline serves http://127.0.0.1:"),
        "{said:?}"
    );
    assert_eq!(world.owner(), None, "it takes its address away with it");
}

#[test]
fn a_server_takes_over_from_the_background() {
    let world = World::new();
    world.run(&["run", "hello"]).ended(0);
    let background = ready(&world, "background");
    let server = world.start(&["serve", "--listen", "127.0.0.1:0"]);
    let pid = ready(&world, "serve");
    until("the end of the one in the background", || {
        (!alive(background)).then_some(())
    });
    let threads = world.run(&["threads", "--json"]).ended(0).json();
    assert_eq!(threads["threads"].as_array().unwrap().len(), 1);
    signal(pid, Signal::INT);
    ended(server).ended(0);
}

#[test]
fn a_server_says_where_the_pages_are() {
    let world = World::new();
    let server = world.start(&["serve", "--listen", "127.0.0.1:0"]);
    let pid = ready(&world, "serve");
    let url = world.owner().unwrap()["url"].as_str().unwrap().to_owned();
    let address = url.strip_prefix("http://").unwrap();
    for (path, accept, status, words) in [
        ("/", "text/html", "404", "run <code>threadline up</code>"),
        ("/", "*/*", "404", "run `threadline up`"),
        (
            "/threads",
            "text/html",
            "401",
            "run <code>threadline up</code>",
        ),
        ("/threads", "*/*", "401", "UNAUTHORIZED"),
    ] {
        let mut socket = TcpStream::connect(address).unwrap();
        write!(
            socket,
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(words),
            "{path} {accept}: {answer}"
        );
    }
    signal(pid, Signal::INT);
    ended(server).ended(0);
}

#[test]
fn a_port_in_use_is_said_at_once() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let world = World::new();
    for words in [
        &["serve", "--listen", &address][..],
        &["up", "--no-open", "--listen", &address],
    ] {
        let said = world.run(words).ended(9);
        assert_eq!(
            said.err,
            format!(
                "error: {address} is taken. [PORT_IN_USE]\n  Choose another address with --listen.\n"
            )
        );
    }
    // Whoever names an address for the background means that one.
    let said = world
        .run(&["run", "hello", "--set", &format!("server.listen={address}")])
        .ended(9);
    assert!(said.err.contains("[PORT_IN_USE]"), "{said:?}");
    assert!(
        !world.data().join("threadline.db").exists(),
        "nothing was begun"
    );
}

#[test]
fn beyond_this_machine_needs_a_flag_and_a_token() {
    let mut world = World::new();
    let said = world.run(&["serve", "--listen", "0.0.0.0:0"]).ended(2);
    assert!(said.err.contains("[LISTEN_NOT_ALLOWED]"), "{said:?}"); // B16
    let said = world
        .run(&["serve", "--listen", "0.0.0.0:0", "--allow-remote"])
        .ended(2);
    assert!(said.err.contains("THREADLINE_TOKEN is not set"), "{said:?}");
    world.set("THREADLINE_TOKEN", "a-token-of-my-own-0123");
    let server = world.start(&["serve", "--listen", "0.0.0.0:0", "--allow-remote"]);
    let pid = ready(&world, "serve");
    world.run(&["threads"]).ended(0);
    signal(pid, Signal::TERM);
    let said = ended(server).ended(0);
    assert!(!said.err.contains("a-token-of-my-own"), "{said:?}");
}

#[test]
fn up_gives_a_link_and_a_second_up_another() {
    let world = World::new();
    let first = world.start(&["up", "--no-open", "--json", "--listen", "127.0.0.1:0"]);
    let pid = ready(&world, "up");
    let second = world.run(&["up", "--no-open", "--json"]).ended(0).json();
    assert_eq!(second["pid"], json!(pid));
    signal(pid, Signal::TERM);
    let first = ended(first).ended(0).json();
    assert_eq!(first["url"], second["url"]);
    let link = first["link"].as_str().unwrap();
    assert!(
        link.starts_with(&format!("{}/enter?key=", first["url"].as_str().unwrap())),
        "{link}"
    );
    assert_ne!(
        first["link"], second["link"],
        "a link lets one browser in, once"
    );
}

#[test]
fn an_idle_owner_ends_by_itself() {
    let world = World::new()
        .with("THREADLINE_IDLE_SECONDS", "1")
        .with("THREADLINE_BUILTIN_DEMO_PAUSE_MS", "400");
    // Longer than it may be idle: a run that nobody watches keeps it alive.
    let said = world
        .run(&["run", "hello", "--detach", "--json"])
        .ended(0)
        .lines()
        .remove(0);
    let pid = world.owner_pid().unwrap();
    until("its end", || (!alive(pid)).then_some(()));
    assert_eq!(world.owner(), None);
    assert!(world.log().contains("nobody needed it"), "{}", world.log());
    let view = world.thread(said["data"]["thread"]["name"].as_str().unwrap());
    assert_eq!(
        view["thread"]["contextState"]["lastArtifactSyncStatus"],
        "synced"
    );
    assert_eq!(world.starts(), 2, "one more, to be asked");
}

#[test]
fn what_a_dead_owner_left_is_taken_away() {
    let world = World::new();
    fs::create_dir_all(world.data()).unwrap();
    // A process that certainly is not ours, and a port where nobody of ours listens.
    let foreign = TcpListener::bind("127.0.0.1:0").unwrap();
    let left = json!({
        "pid": 1, "url": format!("http://{}", foreign.local_addr().unwrap()), "version": "0.0.1",
        "startedAt": 0, "mode": "background", "settings": {},
    });
    fs::write(world.data().join("owner.json"), left.to_string()).unwrap();
    fs::write(world.data().join("owner.lock"), "1\n").unwrap();
    world.run(&["run", "hello"]).ended(0);
    assert_ne!(world.owner_pid(), Some(1));
    foreign.set_nonblocking(true).unwrap();
    assert!(foreign.accept().is_err(), "nobody was sent our token");
}

#[test]
fn an_owner_whose_address_is_lost_says_it_anew() {
    let world = World::new();
    world.run(&["run", "hello"]).ended(0);
    let owner = world.owner().unwrap();
    for damage in [None, Some("{")] {
        let file = world.data().join("owner.json");
        match damage {
            None => fs::remove_file(&file).unwrap(),
            Some(text) => fs::write(&file, text).unwrap(),
        }
        world.run(&["threads"]).ended(0);
        assert_eq!(world.owner().as_ref(), Some(&owner));
    }
    assert_eq!(world.starts(), 1, "the same one");
}

#[test]
fn a_data_folder_that_cannot_be_written_is_said() {
    let world = World::new();
    let data = world.home().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o555)).unwrap();
    // Root may write everywhere, so somebody else must try; who may not enter our build folder.
    let program = world.home().join("threadline");
    fs::copy(PROGRAM, &program).unwrap();
    fs::set_permissions(world.home(), fs::Permissions::from_mode(0o755)).unwrap();
    let root = rustix::process::geteuid().is_root();
    for words in [
        &["run", "hello"][..],
        &["serve", "--listen", "127.0.0.1:0"],
        &["threads"],
    ] {
        let mut command = match root {
            true => {
                let mut command = std::process::Command::new("setpriv");
                command
                    .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
                    .arg(&program);
                command
            }
            false => std::process::Command::new(&program),
        };
        command
            .args(words)
            .env_clear()
            .env("HOME", world.home())
            .env("THREADLINE_DATA", &data)
            .current_dir("/");
        let said = Said::of(command.output().unwrap()).ended(9);
        assert!(
            said.err.contains("[STORAGE_READ_ONLY]"),
            "{words:?}: {said:?}"
        );
        assert!(
            said.err.contains(data.to_str().unwrap()),
            "{words:?}: {said:?}"
        );
    }
    assert_eq!(
        fs::read_dir(&data).unwrap().count(),
        0,
        "nothing half-written stays"
    );
}

#[test]
fn stopping_what_does_not_run_is_fine() {
    let world = World::new();
    assert_eq!(
        world.run(&["stop"]).ended(0).out,
        format!(
            "Nothing runs in the background for {}.\n",
            world.data().display()
        )
    );
    world.run(&["threads"]).ended(0);
    let pid = world.owner_pid().unwrap();
    world.run(&["stop"]).ended(0);
    until("its end", || (!alive(pid)).then_some(()));
}

#[test]
fn a_server_that_gets_no_address_leaves_the_background_alone() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let world = World::new();
    world.run(&["run", "hello"]).ended(0);
    let background = ready(&world, "background");
    for command in ["serve", "up"] {
        let said = world.run(&[command, "--listen", &address]).ended(9);
        assert!(said.err.contains("[PORT_IN_USE]"), "{said:?}");
        assert!(!said.err.contains("Taking over"), "{said:?}");
    }
    assert_eq!(world.owner_pid(), Some(background));
    assert!(alive(background));
}

#[test]
fn a_server_can_have_the_address_of_the_one_in_the_background() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let world = World::new().with("THREADLINE_LISTEN", &address);
    world.run(&["threads"]).ended(0);
    ready(&world, "background");
    let server = world.start(&["serve"]);
    let pid = ready(&world, "serve");
    assert_eq!(
        world.owner().unwrap()["url"],
        json!(format!("http://{address}"))
    );
    signal(pid, Signal::TERM);
    ended(server).ended(0);
}

#[test]
fn an_owner_that_is_stopped_is_told_at_once() {
    let world = World::new();
    world.run(&["run", "hello"]).ended(0);
    let pid = ready(&world, "background");
    signal(pid, Signal::STOP);
    let begun = std::time::Instant::now();
    let said = world.run(&["threads"]).ended(5);
    assert!(
        said.err.contains(&format!("kill -CONT {pid}")) && said.err.contains("it is stopped"),
        "{said:?}"
    );
    let found = world.run(&["doctor"]).ended(1);
    assert!(found.out.contains("bad   background process"), "{found:?}");
    assert!(begun.elapsed().as_secs() < 15, "{:?}", begun.elapsed());
    // It can be ended all the same.
    world.run(&["stop"]).ended(0);
    until("its end", || (!alive(pid)).then_some(()));
}

#[test]
fn an_owner_that_falls_silent_while_it_is_asked_is_told() {
    let world = World::new().with("THREADLINE_BUILTIN_DEMO_PAUSE_MS", "3000");
    let run = world.start(&["run", "hello"]);
    let pid = ready(&world, "background");
    until("the run", || {
        let threads = world.run(&["threads", "--json"]).ended(0).json();
        (threads["threads"][0]["lifecycleStatus"] == "running").then_some(())
    });
    signal(pid, Signal::STOP);
    std::thread::sleep(std::time::Duration::from_secs(6));
    signal(pid, Signal::CONT);
    let said = ended(run).ended(0);
    assert!(
        said.err.contains(&format!("({pid}) does not answer")),
        "{said:?}"
    );
}

#[test]
fn up_says_only_what_a_person_wants_to_read() {
    let world = World::new();
    let up = world.start(&["up", "--no-open", "--listen", "127.0.0.1:0"]);
    let pid = ready(&world, "up");
    signal(pid, Signal::TERM);
    let said = ended(up).ended(0);
    assert_eq!(said.err, "", "the log is in its file");
    assert!(world.log().contains("Ready at"));
}
