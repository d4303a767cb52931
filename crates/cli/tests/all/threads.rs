//! Looking at threads, putting them away, and the doctor.

use std::{fs, os::unix::fs::PermissionsExt as _};

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::support::{World, name_of};

#[test]
fn a_thread_is_put_away_brought_back_and_removed() {
    let world = World::new();
    assert_eq!(
        world.run(&["threads"]).ended(0).out,
        "No threads yet. `threadline run \"…\"` starts one.\n"
    );
    let name = name_of(&world.run(&["run", "hello"]).ended(0));
    let line = world.run(&["threads"]).ended(0).out;
    assert!(
        line.starts_with(&format!("{name}  done  3 files, "))
            && line.ends_with("just now  hello\n"),
        "{line}"
    );

    for yes in [&[][..], &["--yes"]] {
        let said = world.run(&[&["delete", &name], yes].concat()).ended(8);
        assert_eq!(
            said.err,
            format!(
                "error: {name} is not archived, and only archived threads are deleted. Archive it first: threadline archive {name} [CONFLICT]\n"
            )
        );
    }
    for (words, found) in [
        (&["threads", "HELL", "ello"][..], line),
        (&["threads", "moon"], "No thread with moon.\n".to_owned()),
    ] {
        assert_eq!(world.run(words).ended(0).out, found);
    }
    let said = world.run(&["restore", &name]).ended(0).out;
    assert_eq!(
        said,
        format!("{name} is not archived, so there is nothing to restore.\n")
    );
    let said = world.run(&["archive", &name]).ended(0).out;
    assert_eq!(
        said,
        format!("{name} is archived. `threadline restore {name}` brings it back.\n")
    );
    let said = world.run(&["archive", &name]).ended(0).out;
    assert_eq!(
        said,
        format!("{name} is archived already. `threadline restore {name}` brings it back.\n")
    );
    let said = world.run(&["show", &name]).ended(0).out;
    assert!(
        said.starts_with(&format!("{name}  archived · done · builtin"))
            && said.ends_with(&format!("Restore threadline restore {name}\n")),
        "{said}"
    );
    let said = world.run(&["run", "--thread", &name, "more"]).ended(8);
    assert!(said.err.contains("[THREAD_ARCHIVED]"), "{said:?}");
    assert_eq!(
        world.run(&["threads", "--json"]).ended(0).json()["threads"],
        Value::Array(vec![])
    );
    assert!(
        world
            .run(&["threads", "--archived"])
            .ended(0)
            .out
            .starts_with(&name)
    );
    assert_eq!(
        world.run(&["restore", &name]).ended(0).out,
        format!("{name} is back among the threads.\n")
    );
    world.run(&["archive", &name]).ended(0);

    let folder = world.thread(&name)["thread"]["workspaceBinding"]["workspacePath"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(fs::exists(&folder).unwrap());
    let said = world.run(&["delete", &name]).ended(2);
    assert!(
        said.err
            .contains(&format!("threadline delete {name} --yes")),
        "{said:?}"
    );
    assert!(fs::exists(&folder).unwrap(), "nothing goes unasked");
    let said = world.run(&["delete", &name, "--yes"]).ended(0).out;
    assert_eq!(said, format!("{name} is gone, and with it {folder}.\n"));
    assert!(!fs::exists(&folder).unwrap());
    world.run(&["show", &name]).ended(7);
}

#[test]
fn a_deletion_keeps_and_names_files_that_the_user_made_or_edited() {
    let world = World::new();
    let touched = || {
        let name = name_of(&world.run(&["run", "hello"]).ended(0));
        let folder = world.thread(&name)["thread"]["workspaceBinding"]["workspacePath"]
            .as_str()
            .unwrap()
            .to_owned();
        fs::write(format!("{folder}/mine.txt"), "mine").unwrap();
        fs::write(format!("{folder}/notes.md"), "edited").unwrap();
        world.run(&["archive", &name]).ended(0);
        (name, folder)
    };
    let (name, folder) = touched();
    let asked = world.run(&["delete", &name]).ended(2).err;
    for part in [
        "2 files (10 B) that you made or edited stay there:",
        "  mine.txt  4 B\n",
        "  notes.md  6 B, edited\n",
    ] {
        assert!(asked.contains(part), "{asked}");
    }
    let said = world.run(&["delete", &name, "--yes"]).ended(0).out;
    assert_eq!(
        said,
        format!(
            "{name} is gone. 2 files (10 B) that you made or edited stay in {folder}:\n  mine.txt  4 B\n  notes.md  6 B, edited\n"
        )
    );
    let mut left: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["mine.txt", "notes.md"]);

    let (name, folder) = touched();
    let all = ["delete", &name, "--yes", "--with-my-files", "--json"];
    let said = world.run(&all).ended(0).json();
    assert_eq!(
        (&said["removedFolder"], &said["kept"]),
        (&Value::from(folder.as_str()), &Value::Null)
    );
    assert!(!fs::exists(&folder).unwrap());
}

#[test]
fn a_sync_of_a_cancelled_thread_says_so() {
    let world = World::new().with("THREADLINE_BUILTIN_DEMO_PAUSE_MS", "2000");
    let sent = world.run(&["run", "hello", "--detach", "--json"]).ended(0);
    let name = sent.lines()[1]["data"]["name"].as_str().unwrap().to_owned();
    world.run(&["cancel", &name]).ended(0);
    let said = world.run(&["sync", &name]).ended(4);
    let notice = "The last run was cancelled, so nothing of it is brought.";
    assert!(said.err.contains(notice), "{said:?}");
    let said = world.run(&["sync", &name, "--json"]).ended(4).lines();
    let end = said.last().unwrap();
    assert_eq!(
        (&end["event"], &end["data"]["exitCode"]),
        (&Value::from("end"), &Value::from(4))
    );
}

#[test]
fn a_thread_is_retried_and_synced() {
    let world = World::new();
    let name = name_of(
        &world
            .run(&["run", "hello", "--expect", "none.pdf"])
            .ended(3),
    );
    let said = world.run(&["retry", &name]).ended(3);
    assert!(
        said.err.contains("none.pdf"),
        "what must come back is asked for again: {said:?}"
    );
    let good = name_of(&world.run(&["run", "hello"]).ended(0));
    let folder = world.thread(&good)["thread"]["workspaceBinding"]["workspacePath"]
        .as_str()
        .unwrap()
        .to_owned();
    fs::remove_file(format!("{folder}/notes.md")).unwrap();
    world.run(&["sync", &good]).ended(0);
    assert!(fs::exists(format!("{folder}/notes.md")).unwrap());
    let said = world.run(&["cancel", &good]).ended(0);
    assert_eq!(said.out, format!("Nothing of {good} runs or waits.\n"));
}

#[test]
fn the_doctor_finds_what_is_not_in_order() {
    let world = World::new();
    let fresh = world.run(&["doctor"]).ended(0);
    assert!(fresh.out.contains("ok    data folder"), "{fresh:?}");
    assert!(
        fresh.out.contains("THREADLINE_MODEL_URL"),
        "what could be configured: {fresh:?}"
    );
    let name = name_of(&world.run(&["run", "hello"]).ended(0));
    let found = world.run(&["doctor", "--json"]).ended(0).json();
    assert_eq!(found["health"], "warn");
    let not_ok: Vec<&Value> = found["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|c| c["health"] != "ok")
        .map(|c| &c["what"])
        .collect();
    assert_eq!(not_ok, ["model"]);

    fs::set_permissions(
        world.data().join("token"),
        fs::Permissions::from_mode(0o644),
    )
    .unwrap();
    let said = world.run(&["doctor"]).ended(1);
    assert!(
        said.out
            .contains("bad   token file           others can read it (mode 644)"),
        "{said:?}"
    );
    fs::set_permissions(
        world.data().join("token"),
        fs::Permissions::from_mode(0o600),
    )
    .unwrap();

    world.run(&["stop"]).ended(0);
    let records = world.data().join("threads");
    let record = fs::read_dir(&records)
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| fs::read_to_string(p).is_ok_and(|t| t.contains("schemaVersion")))
        .unwrap();
    fs::write(&record, "{ torn").unwrap();
    fs::write(world.data().join("threadline.db"), vec![7u8; 8192]).unwrap();
    let _ = fs::remove_file(world.data().join("threadline.db-wal"));
    let said = world.run(&["doctor"]).ended(1);
    assert!(said.out.contains("bad   database"), "{said:?}");
    assert!(!name.is_empty());
}

#[test]
fn a_torn_record_costs_only_itself() {
    let world = World::new();
    let name = name_of(&world.run(&["run", "hello"]).ended(0));
    world.run(&["run", "other"]).ended(0);
    world.run(&["stop"]).ended(0);
    let records = world.data().join("threads");
    let holds = |p: &std::path::PathBuf| {
        fs::read_to_string(p).is_ok_and(|t| t.contains("schemaVersion") && t.contains(&name))
    };
    let record = fs::read_dir(&records)
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(holds)
        .unwrap();
    fs::write(&record, "{ torn").unwrap();
    let listed = world.run(&["threads"]).ended(0);
    assert_eq!(listed.out.lines().count(), 1, "{listed:?}");
    assert!(listed.err.contains("warning:"), "{listed:?}");
    let said = world.run(&["doctor"]).ended(0);
    assert!(said.out.contains("warn  threads"), "{said:?}");
}
