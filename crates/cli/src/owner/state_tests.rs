use std::{collections::BTreeMap, os::unix::fs::PermissionsExt as _, path::Path};

use pretty_assertions::assert_eq;
use threadline_contract::Millis;
use threadline_files::Lock;

use super::*;
use crate::config::{Sources, load};

fn state(pid: u32) -> State {
    State {
        pid,
        url: "http://127.0.0.1:8787".into(),
        version: VERSION.into(),
        started_at: Millis(1),
        mode: Mode::Background,
        settings: BTreeMap::new(),
    }
}

fn config(pairs: &[(&str, &str)]) -> Config {
    let mut env = BTreeMap::from([("HOME".to_owned(), "/h".to_owned())]);
    env.extend(
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned())),
    );
    load(&Sources {
        env,
        ..Sources::default()
    })
    .unwrap()
}

#[test]
fn only_the_holder_of_the_lock_is_the_owner() {
    let folder = tempfile::tempdir().unwrap();
    let places = Places::new(&folder.path().join("data"));
    assert_eq!(look(&places).unwrap(), Owner::Nobody, "not even a folder");
    places.make().unwrap();
    assert_eq!(look(&places).unwrap(), Owner::Nobody);

    // Left over by a process that was killed: its pid may be somebody else's by now.
    state(1).write(&places).unwrap();
    assert_eq!(look(&places).unwrap(), Owner::Nobody);
    assert!(
        !places.state().exists(),
        "what a dead owner said is taken away"
    );

    let me = std::process::id();
    let lock = Lock::try_acquire(places.lock()).unwrap();
    assert_eq!(look(&places).unwrap(), Owner::Busy { pid: Some(me) });
    state(1).write(&places).unwrap();
    assert_eq!(
        look(&places).unwrap(),
        Owner::Busy { pid: Some(me) },
        "the file of an owner before"
    );
    std::fs::write(places.state(), "{").unwrap();
    assert_eq!(
        look(&places).unwrap(),
        Owner::Busy { pid: Some(me) },
        "no file of ours"
    );
    state(me).write(&places).unwrap();
    assert_eq!(look(&places).unwrap(), Owner::Ready(Box::new(state(me))));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (
            mode(places.data()),
            mode(&places.state()),
            mode(&places.lock())
        ),
        (0o700, 0o600, 0o600)
    );
    drop(lock);
    assert_eq!(look(&places).unwrap(), Owner::Nobody);
}

#[test]
fn an_owner_with_other_settings_is_told_by_their_names() {
    let token = "t";
    let plain = config(&[]);
    let running = State {
        settings: settings(&plain, token),
        ..state(1)
    };
    assert_eq!(running.differs(&plain, token), Vec::<String>::new());
    let other = config(&[
        ("THREADLINE_MODEL_URL", "http://m/v1"),
        ("THREADLINE_MODEL", "m"),
        ("THREADLINE_MODEL_KEY", "k"),
    ]);
    assert_eq!(
        running.differs(&other, token),
        ["model.key", "model.model", "model.url"]
    );
    assert_eq!(
        running.differs(&config(&[("THREADLINE_BRIDGE", "http://b")]), token),
        Vec::<String>::new()
    );
    let text = serde_json::to_string(&State {
        settings: settings(&other, token),
        ..state(1)
    })
    .unwrap();
    assert!(!text.contains("http://m"), "{text}");
}
