//! The journal as registry: one run, one record, however many ask.

use std::os::unix::fs::PermissionsExt as _;

use pretty_assertions::assert_eq;
use threadline_contract::{AccountId, AppThreadKey, Code, NewKey, SessionKey};
use threadline_runtimes::{EndStatus, Logged, Registry, RunRef, Sessions as _, Turns as _};

use crate::world::{World, begin, completed, finish, plan, plan_of, rest};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_started_again_and_again_runs_once() {
    let world = World::with_model("no-usage").await;
    let builtin = std::sync::Arc::new(world.builtin());
    let plan = plan("run-1", "[[write a.md = x]] [[sleep 100]] [[say done]]");
    let places = builtin.prepare(&plan).await.unwrap();
    let starts = (0..8).map(|_| {
        let (builtin, plan, places) = (builtin.clone(), plan.clone(), places.clone());
        tokio::spawn(async move {
            builtin.start(&plan, &places).await.unwrap();
            rest(
                builtin
                    .follow(&plan.run_ref(), Logged::up_to(0))
                    .await
                    .unwrap(),
            )
            .await
        })
    });
    let starts: Vec<_> = starts.collect();
    let mut seen = Vec::new();
    for start in starts {
        seen.push(start.await.unwrap());
    }
    seen.dedup();
    assert_eq!(seen.len(), 1);
    let (frames, end) = seen.remove(0);
    assert_eq!((frames.len(), end), (3, Some(completed("done", &["a.md"]))));
    // Also after its end, and in another life.
    for builtin in [&*builtin, &world.builtin()] {
        builtin.start(&plan, &places).await.unwrap();
        let again = rest(
            builtin
                .follow(&plan.run_ref(), Logged::up_to(1))
                .await
                .unwrap(),
        )
        .await;
        assert_eq!(again.0, frames[1..]);
    }
    assert_eq!(world.seen.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_registry_knows_what_runs_what_ended_and_what_never_was() {
    let world = World::with_model("no-usage").await;
    let builtin = world.builtin();
    let plan = plan("run-1", "[[sleep 300]] [[say done]]");
    let run = plan.run_ref();
    assert_eq!(builtin.ask_registry(&run).await, Ok(Registry::NoRecord));
    assert_eq!(
        builtin
            .follow(&run, Logged::up_to(0))
            .await
            .unwrap_err()
            .code,
        Code::RunLost
    );
    let follow = begin(&builtin, &plan).await;
    assert_eq!(builtin.ask_registry(&run).await, Ok(Registry::Running));
    drop(builtin);
    // Interrupted is not ended.
    assert_eq!(rest(follow).await.1, None);
    let builtin = world.builtin();
    assert_eq!(builtin.ask_registry(&run).await, Ok(Registry::Running));
    let (_, end) = rest(builtin.follow(&run, Logged::up_to(0)).await.unwrap()).await;
    assert_eq!(
        builtin.ask_registry(&run).await,
        Ok(Registry::Ended(end.unwrap()))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_does_not_read_holds_nobody_up() {
    let world = World::with_model("no-usage").await;
    let builtin = world.builtin();
    let many = "[[also list]]".repeat(199);
    let plan = plan("run-1", &format!("[[list]] {many} [[say done]]"));
    let slow = begin(&builtin, &plan).await;
    let quick = builtin
        .follow(&plan.run_ref(), Logged::up_to(0))
        .await
        .unwrap();
    let (frames, end) = rest(quick).await;
    assert_eq!(frames.len(), 401);
    assert_eq!(end, Some(completed("done", &[])));
    let (late, end) = rest(slow).await;
    assert_eq!(
        (late, end.map(|e| e.status)),
        (frames, Some(EndStatus::Completed))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_are_private() {
    let world = World::new();
    let plan = plan("run-1", "hello");
    finish(&world.builtin(), &plan).await;
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let journal = world.journal(&plan);
    assert_eq!(mode(&journal), 0o600);
    assert_eq!(mode(journal.parent().unwrap()), 0o700);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_would_share_a_folder_are_told_apart() {
    let world = World::new();
    let builtin = world.builtin();
    let first = plan_of("a:b", "run-1", "mine");
    finish(&builtin, &first).await;
    let second = plan_of("a-b", "run-1", "theirs");
    assert_eq!(
        builtin.prepare(&second).await.unwrap_err().code,
        Code::Conflict
    );
    // Even if somebody skipped preparing.
    let places = builtin.prepare(&first).await.unwrap();
    assert_eq!(
        builtin.start(&second, &places).await.unwrap_err().code,
        Code::Conflict
    );
    let asked = builtin.ask_registry(&second.run_ref()).await;
    assert_eq!(asked.unwrap_err().code, Code::Conflict);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_keys_are_made_once_and_twins_get_a_number() {
    let builtin = World::new().builtin();
    let owner = AppThreadKey::new("draft:1").unwrap().into();
    let key = |twin| {
        let new = NewKey {
            account: &AccountId::local(),
            owner: &owner,
            version: 1,
            agent: None,
            twin,
        };
        builtin.new_session_key(&new).to_string()
    };
    assert_eq!(
        [key(1), key(2), key(3)],
        [
            "builtin:main:draft:1",
            "builtin:main:draft:1-2",
            "builtin:main:draft:1-3"
        ]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_record_is_an_end_and_not_a_hang() {
    let world = World::new();
    let plan = plan("run-1", "hello");
    finish(&world.builtin(), &plan).await;
    let journal = world.journal(&plan);
    let mut bytes = std::fs::read(&journal).unwrap();
    bytes[40] ^= 1;
    std::fs::write(&journal, bytes).unwrap();
    let builtin = world.builtin();
    let Registry::Ended(end) = builtin.ask_registry(&plan.run_ref()).await.unwrap() else {
        panic!("a damaged record says that the run ended");
    };
    assert_eq!(
        (end.status, end.code),
        (EndStatus::Failed, Some(Code::RunLost))
    );
    let followed = rest(
        builtin
            .follow(&plan.run_ref(), Logged::up_to(0))
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(followed, (vec![], Some(end)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_an_unknown_session_is_not_there() {
    let builtin = World::new().builtin();
    let run = RunRef {
        session: SessionKey::new("builtin:main:nobody").unwrap(),
        run: plan("run-1", "x").run,
    };
    assert_eq!(builtin.ask_registry(&run).await, Ok(Registry::NoRecord));
}

#[tokio::test]
async fn a_record_that_is_not_a_file_any_more_is_an_end_and_not_a_hang() {
    for link in [false, true] {
        let world = World::with_model("no-usage").await;
        let plan = plan("run-1", "[[ask Which?]] [[say x]]");
        let builtin = world.builtin();
        drop(begin(&builtin, &plan).await);
        builtin.stop().await;
        let journal = world.journal(&plan);
        let aside = world.path().join("aside");
        std::fs::rename(&journal, &aside).unwrap();
        if link {
            std::os::unix::fs::symlink(&aside, &journal).unwrap();
        } else {
            std::fs::create_dir(&journal).unwrap();
        }
        let builtin = world.builtin();
        let Registry::Ended(end) = builtin.ask_registry(&plan.run_ref()).await.unwrap() else {
            panic!("such a record says that the run ended");
        };
        assert_eq!(
            (end.status, end.code),
            (EndStatus::Failed, Some(Code::RunLost))
        );
        let (frames, told) = rest(
            builtin
                .follow(&plan.run_ref(), Logged::up_to(0))
                .await
                .unwrap(),
        )
        .await;
        assert_eq!((frames, told), (vec![], Some(end)));
        // It does not stand in the way of the session's deletion either.
        let runs = [plan.run.clone()];
        builtin.forget(&plan.session, &runs).await.unwrap();
        assert!(!journal.parent().unwrap().exists());
        assert!(aside.exists(), "what a link leads to is not touched");
    }
}
