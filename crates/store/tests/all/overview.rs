//! An operator's lists: complete, in order, and of one account alone.

use pretty_assertions::assert_eq;
use threadline_contract::{
    Code, Millis, RunId, RunStatus, RuntimeId, SessionKey,
    operator::{OpenRuns, WhichRuns},
};
use threadline_store::{Deletion, NewEvent, NewSession, Phase, RunChange, RunEnd, RunOverview};

use crate::world::{World, account, end_with, new_run, on_both, other, thread, thread_named};

on_both![
    pages_are_complete_and_in_order_while_runs_come_and_go,
    open_and_failed_runs_have_lists_of_their_own,
    the_last_event_of_a_run_is_its_own,
    sessions_are_listed_newest_first,
    accounts_see_their_own,
];

fn ids(page: &[RunOverview]) -> Vec<RunId> {
    page.iter().map(|run| run.id.clone()).collect()
}

async fn all(world: &World, which: WhichRuns, limit: u32) -> Vec<RunId> {
    let (mut found, mut before) = (vec![], None);
    loop {
        let page = world
            .store
            .runs_of_account(&account(), which, before, limit)
            .await
            .unwrap();
        let Some(last) = page.last() else {
            return found;
        };
        before = Some(last.num);
        found.extend(ids(&page));
    }
}

async fn close(world: &World, run: &RunId) {
    let lease = world.take(run).await;
    let closed = RunChange {
        phase: Some(Phase::Closed),
        ..RunChange::default()
    };
    world
        .store
        .change_run(&lease, closed, vec![])
        .await
        .unwrap();
}

async fn pages_are_complete_and_in_order_while_runs_come_and_go(world: World) {
    let mut made = vec![];
    for n in 0..25 {
        made.push(
            world
                .run_of(&thread_named(&format!("draft:{}", n % 7)))
                .await
                .id,
        );
    }
    made.reverse();
    assert_eq!(all(&world, WhichRuns::All, 10).await, made);
    assert_eq!(all(&world, WhichRuns::All, 25).await, made);

    // A run that comes, and one that goes with its thread, do not disturb who reads on.
    let first = world
        .store
        .runs_of_account(&account(), WhichRuns::All, None, 10)
        .await
        .unwrap();
    world.run_of(&thread_named("draft:new")).await;
    let gone = first.last().unwrap();
    let deletion = Deletion {
        account: account(),
        owner: gone.owner.clone(),
        node: "n".to_owned(),
        asked_by: None,
    };
    world
        .store
        .ask_deletion(&deletion, Millis(1))
        .await
        .unwrap();
    for run in all(&world, WhichRuns::All, 100).await {
        close(&world, &run).await;
    }
    world.store.delete_owner(&deletion).await.unwrap();
    let rest = world
        .store
        .runs_of_account(&account(), WhichRuns::All, Some(gone.num), 100)
        .await;
    let rest = ids(&rest.unwrap());
    let left: Vec<RunId> = all(&world, WhichRuns::All, 100).await;
    let wanted: Vec<RunId> = made[10..]
        .iter()
        .filter(|id| left.contains(id))
        .cloned()
        .collect();
    assert_eq!(rest, wanted);
}

async fn open_and_failed_runs_have_lists_of_their_own(world: World) {
    let (failed, lease) = world.leased().await;
    let end = RunEnd {
        code: Some(Code::AgentLost),
        message: Some("The agent is gone.".to_owned()),
        phase: Some(Phase::Closed),
        ..end_with(RunStatus::Failed)
    };
    world.store.end_run(&lease, end, vec![]).await.unwrap();
    let (done, lease) = world.leased().await;
    let end = RunEnd {
        phase: Some(Phase::Closed),
        ..end_with(RunStatus::Completed)
    };
    world.store.end_run(&lease, end, vec![]).await.unwrap();
    let queued = world.run().await;
    let (running, lease) = world.leased().await;
    let runs = RunChange {
        phase: Some(Phase::Running),
        ..RunChange::default()
    };
    world.store.change_run(&lease, runs, vec![]).await.unwrap();

    let (failed, done, queued, running) = (failed.id, done.id, queued.id, running.id);
    let newest_first = vec![running.clone(), queued.clone(), done, failed.clone()];
    assert_eq!(all(&world, WhichRuns::All, 1).await, newest_first);
    assert_eq!(all(&world, WhichRuns::Open, 1).await, [running, queued]);
    let failures = all(&world, WhichRuns::Failed, 1).await;
    assert_eq!(failures, std::slice::from_ref(&failed));
    assert_eq!(
        world.store.open_runs_of_account(&account()).await.unwrap(),
        OpenRuns {
            queued: 1,
            running: 1,
            collecting: 0
        }
    );
    let last = world
        .store
        .last_failure(&account(), &RuntimeId::Builtin)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (last.id, last.code, last.message.as_deref()),
        (failed, Some(Code::AgentLost), Some("The agent is gone."))
    );
    assert_eq!(
        world
            .store
            .last_failure(&account(), &RuntimeId::OpenClaw)
            .await
            .unwrap(),
        None
    );
}

async fn the_last_event_of_a_run_is_its_own(world: World) {
    let (run, lease) = world.leased().await;
    let said = |kind: &str, run: &RunId, at: i64| NewEvent {
        run: Some(run.clone()),
        frame: None,
        kind: kind.into(),
        body: "{}".into(),
        at: Millis(at),
    };
    let events = vec![said("started", &run.id, 7), said("task.step", &run.id, 9)];
    world
        .store
        .change_run(&lease, RunChange::default(), events)
        .await
        .unwrap();
    let later = world.run().await;
    let (stream, queued) = (later.stream(), said("queued", &later.id, 11));
    world
        .store
        .append(&stream, None, vec![queued])
        .await
        .unwrap();
    let page = world
        .store
        .runs_of_account(&account(), WhichRuns::All, None, 10)
        .await
        .unwrap();
    let mut last = vec![];
    for run in &page {
        let event = world
            .store
            .last_event(&account(), run)
            .await
            .unwrap()
            .unwrap();
        last.push((event.seq, event.kind, event.at.0));
    }
    assert_eq!(
        last,
        [(3, "queued".to_owned(), 11), (2, "task.step".to_owned(), 9)]
    );
    assert_eq!(
        world.store.last_event(&other(), &page[0]).await.unwrap(),
        None
    );
}

async fn bind(world: &World, n: i64) -> String {
    let key = format!("agent:main:draft:{n}");
    let new = NewSession {
        account: account(),
        owner: thread_named(&format!("draft:{n}")),
        runtime: RuntimeId::OpenClaw,
        version: 1,
        session_key: SessionKey::new(&key).unwrap(),
        expected_dirs: vec![],
        working_directory: None,
        node: None,
        at: Millis(n),
    };
    world.store.bind_session(new).await.unwrap();
    key
}

async fn sessions_are_listed_newest_first(world: World) {
    let mut keys = vec![];
    for n in 1..=5 {
        keys.push(bind(&world, n).await);
    }
    keys.reverse();
    let (mut found, mut before) = (vec![], None);
    loop {
        let page = world
            .store
            .sessions_of_account(&account(), before, 2)
            .await
            .unwrap();
        let Some((num, _)) = page.last() else { break };
        before = Some(*num);
        found.extend(page.iter().map(|(_, s)| s.session_key.to_string()));
    }
    assert_eq!(found, keys);
    let (_, session) = &world
        .store
        .sessions_of_account(&account(), None, 1)
        .await
        .unwrap()[0];
    assert_eq!(
        world.store.latest_run_of_session(session).await.unwrap(),
        None
    );
    let new = threadline_store::NewRun {
        runtime: RuntimeId::OpenClaw,
        session_key: session.session_key.clone(),
        ..new_run(&account(), &session.owner, None)
    };
    let id = new.id.clone();
    world.store.admit(new, vec![]).await.unwrap();
    world.run_of(&session.owner).await;
    let latest = world
        .store
        .latest_run_of_session(session)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(latest.id, id);
}

async fn accounts_see_their_own(world: World) {
    world.run().await;
    bind(&world, 1).await;
    let runs = world
        .store
        .runs_of_account(&other(), WhichRuns::All, None, 10)
        .await;
    let sessions = world.store.sessions_of_account(&other(), None, 10).await;
    let open = world.store.open_runs_of_account(&other()).await;
    assert_eq!(
        (runs.unwrap(), sessions.unwrap(), open.unwrap()),
        (vec![], vec![], OpenRuns::default())
    );
    let own = world
        .store
        .runs_of_account(&account(), WhichRuns::All, None, 10)
        .await
        .unwrap();
    assert_eq!(
        own.iter().map(|r| &r.owner).collect::<Vec<_>>(),
        [&thread()]
    );
}
