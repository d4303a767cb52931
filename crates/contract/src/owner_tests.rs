use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn owner(text: &str) -> Owner {
    text.parse().unwrap()
}

fn key(head: &str, account: &str, text: &str, version: u32) -> String {
    let new = NewKey {
        account: &AccountId::new(account).unwrap(),
        owner: &owner(text),
        version,
        agent: None,
        twin: 1,
    };
    SessionKey::for_owner(head, &new).to_string()
}

#[test]
fn each_kind_has_its_text() {
    let (task, agent) = (TaskId::new("t1").unwrap(), AgentId::new("a1").unwrap());
    let build = BuildId::new("b1").unwrap();
    let thread = |key: &str| Owner::Thread(AppThreadKey::new(key).unwrap());
    for (owner, text) in [
        (thread("draft:1"), "thread:draft:1"),
        (thread("thread:x"), "thread:thread:x"),
        // One that was there before the name was reserved.
        (thread("build:b1"), "thread:build:b1"),
        (
            Owner::TaskAgent {
                task,
                agent: agent.clone(),
                generation: 12,
            },
            "board:t1:a1:v12",
        ),
        (
            Owner::TaskAgent {
                task: TaskId::new("base").unwrap(),
                agent: agent.clone(),
                generation: 1,
            },
            "board:base:a1:v1",
        ),
        (Owner::Base { agent }, "board:base:a1"),
        (Owner::Build { build }, "build:b1"),
    ] {
        assert_eq!(owner.to_string(), text);
        assert_eq!(text.parse(), Ok(owner.clone()));
        let json = serde_json::to_value(&owner).unwrap();
        assert_eq!(json, serde_json::json!(text));
        assert_eq!(serde_json::from_value::<Owner>(json).unwrap(), owner);
    }
}

#[test]
fn anything_else_is_refused() {
    for text in [
        "",
        "thread",
        "thread:",
        "thread: draft:1",
        "thread:draft:1 ",
        "thread:acp:1",
        "Thread:x",
        "board:",
        "board:t1",
        "board:t1:a1",
        "board:t1:a1:1",
        "board:t1:a1:v",
        "board:t1:a1:v01",
        "board:t1:a1:v+1",
        "board:t1:a1:v4294967296",
        "board:t1:a1:v1:x",
        "board:T1:a1:v1",
        "board: t1:a1:v1",
        "board:t1234567890ab:a1:v1",
        "board::a1:v1",
        "board:acp:a1:v1",
        "board:base:",
        "build:",
        "build:b-1",
        "build:b1:b2",
        "draft:1",
    ] {
        assert!(text.parse::<Owner>().is_err(), "{text:?}");
    }
}

#[test]
fn only_builds_leave_their_questions_open() {
    let outlive = ["thread:x", "board:t1:a1:v1", "board:base:a1", "build:b1"]
        .map(|text| owner(text).questions_outlive_runs());
    assert_eq!(outlive, [false, false, false, true]);
}

#[test]
fn where_only_threads_have_names_an_owner_has_its_text() {
    for (text, name) in [
        ("thread:draft:1", "draft:1"),
        ("board:t1:a1:v1", "board:t1:a1:v1"),
        ("board:base:a1", "board:base:a1"),
        ("build:b1", "build:b1"),
    ] {
        let key = owner(text).app_thread_key();
        assert_eq!(key, AppThreadKey::new(name).unwrap());
        assert_eq!(is_reserved_thread(&key), text != "thread:draft:1");
    }
}

#[test]
fn a_thread_may_not_begin_with_the_name_of_another_owner() {
    let reserved = |key: &str| is_reserved_thread(&AppThreadKey::new(key).unwrap());
    for key in ["board:x", "Build:x", "mc:local:build:b1", "agent:main:mc:x"] {
        assert!(reserved(key), "{key}");
    }
    for key in ["boards:x", "board", "draft:board:1", "agent:board:x", "mc"] {
        assert!(!reserved(key), "{key}");
    }
}

#[test]
fn a_session_key_has_the_runtimes_head_and_the_owners_tail() {
    for (head, text, version, made) in [
        (
            "agent:writer",
            "board:t1:a1:v3",
            1,
            "agent:writer:mc:local:task:t1:a1:v3",
        ),
        (
            "acp:codex",
            "board:base:a1",
            2,
            "acp:codex:mc:local:base:a1:v2",
        ),
        (
            "builtin:main",
            "build:b1",
            1,
            "builtin:main:mc:local:build:b1",
        ),
        ("builtin:main", "thread:Draft:1", 1, "builtin:main:Draft:1"),
    ] {
        assert_eq!(key(head, "local", text, version), made);
    }
}

#[test]
fn accounts_never_share_a_key_whatever_a_gateway_does_to_it() {
    let names = ["team", "Team", "TEAM", "te:am", "te am", "Äpfel", "äpfel"];
    let mut keys: Vec<String> = names
        .iter()
        .map(|name| key("agent:main", name, "build:b1", 1).to_lowercase())
        .collect();
    assert_eq!(keys[0], "agent:main:mc:team:build:b1");
    assert!(
        keys.iter().all(|key| key.split(':').count() == 6),
        "{keys:?}"
    );
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), names.len());
}

fn any_owner() -> impl Strategy<Value = Owner> {
    let id = || {
        let reserved = |id: &String| !["acp", "cron", "subagent"].contains(&id.as_str());
        "[a-z0-9]{1,12}".prop_filter("reserved", reserved)
    };
    let thread = "\\PC{1,60}".prop_filter_map("not a key", |key| AppThreadKey::new(key).ok());
    prop_oneof![
        thread.prop_map(Owner::Thread),
        (id(), id(), any::<u32>()).prop_map(|(task, agent, generation)| Owner::TaskAgent {
            task: task.parse().unwrap(),
            agent: agent.parse().unwrap(),
            generation,
        }),
        id().prop_map(|agent| Owner::Base {
            agent: agent.parse().unwrap()
        }),
        id().prop_map(|build| Owner::Build {
            build: build.parse().unwrap()
        }),
    ]
}

proptest! {
    #[test]
    fn an_owner_is_read_back_from_its_text(owner in any_owner()) {
        prop_assert_eq!(owner.to_string().parse(), Ok(owner.clone()));
        let json = serde_json::to_string(&owner).unwrap();
        prop_assert_eq!(serde_json::from_str::<Owner>(&json).unwrap(), owner);
    }

    #[test]
    fn a_text_that_is_read_is_the_owners_own(text in "(thread|board|build|base|x):?[a-z0-9:v ]{0,24}") {
        if let Ok(owner) = text.parse::<Owner>() {
            prop_assert_eq!(owner.to_string(), text);
        }
    }
}
