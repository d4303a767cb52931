//! The bridge goes away and comes back: no event lost, none twice.

use std::time::Duration;

use pretty_assertions::assert_eq;
use threadline_runtimes::{EndStatus, Logged, Signal, Turns as _};

use crate::world::*;

/// Follows a run, and lets go of it again and again, for different times, until it ends.
async fn interrupted(rate: u32, count: u32, away: &[u64]) {
    let world = World::new();
    let plan = plan("r1", &format!("!emit {count} {rate}"));
    let mut acp = world.acp();
    let mut follow = begin(&acp, &plan).await;
    let mut frames = Vec::new();
    let mut away = away.iter().cycle();
    let mut cuts = 0;
    let host = loop {
        if let Some(host) = world.hosts().pop() {
            break host;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let end = loop {
        match tokio::time::timeout(Duration::from_millis(300), follow.recv()).await {
            Ok(Some(Signal::Frame(frame))) => {
                frames.push(frame);
                let due = (cuts + 1) * count as usize / 5;
                if frames.len() < due || cuts == 4 {
                    continue;
                }
            }
            Ok(Some(Signal::End(end))) => break end,
            Ok(None) => {}
            Err(_) => continue,
        }
        cuts += 1;
        acp.stop().await;
        drop((follow, acp));
        tokio::time::sleep(Duration::from_millis(*away.next().unwrap())).await;
        acp = world.acp();
        let last = frames.last().map_or(0, |f| f.no);
        follow = acp
            .follow(&plan.run_ref(), Logged::up_to(last))
            .await
            .unwrap();
    };
    in_order(&frames, 1);
    let want: String = (1..=count).map(|n| format!("{n} ")).collect();
    assert_eq!(texts(&updates(&frames)), want);
    assert_eq!(
        (end.status, end.text),
        (EndStatus::Completed, Some(want.trim().to_owned()))
    );
    assert!(cuts >= 3, "{cuts} cuts");
    assert_eq!(world.host().boot, host.boot, "the same agent all the time");
}

#[tokio::test]
async fn ten_events_a_second_survive_bridges() {
    interrupted(10, 30, &[300]).await;
}

#[tokio::test]
async fn sixty_six_events_a_second_survive_bridges() {
    interrupted(66, 200, &[50, 300, 1_000]).await;
}

#[tokio::test]
async fn five_hundred_events_a_second_survive_bridges() {
    interrupted(500, 2_000, &[0, 300, 1_000]).await;
}

#[tokio::test]
async fn an_agent_as_fast_as_it_can_survives_bridges() {
    interrupted(0, 20_000, &[0, 10]).await;
}

#[tokio::test]
async fn a_turn_that_ended_while_no_bridge_was_there_is_told_whole() {
    let world = World::new();
    let acp = world.acp();
    let plan = plan("r1", "!say one\n!sleep 200\n!say two");
    let mut follow = begin(&acp, &plan).await;
    assert_eq!(said(&mut follow).await, "one");
    acp.stop().await;
    drop((follow, acp));
    tokio::time::sleep(Duration::from_millis(600)).await;
    let acp = world.acp();
    let (frames, end) = rest(acp.follow(&plan.run_ref(), Logged::up_to(0)).await.unwrap()).await;
    in_order(&frames, 1);
    assert_eq!(end.unwrap(), completed("onetwo", &[]));
    // Its record is enough for ever after.
    world
        .bare_hosts()
        .stop(plan.session.as_str())
        .await
        .unwrap();
    let (again, _) = rest(
        world
            .acp()
            .follow(&plan.run_ref(), Logged::up_to(0))
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(again, frames);
}

#[tokio::test]
async fn a_run_that_is_begun_twice_is_one() {
    let world = World::new();
    let acp = world.acp();
    let plan = plan("r1", "!recall\n!sleep 300\n!say end");
    let places = acp.prepare(&plan).await.unwrap();
    acp.start(&plan, &places).await.unwrap();
    acp.start(&plan, &places).await.unwrap();
    acp.stop().await;
    let acp = world.acp();
    acp.start(&plan, &places).await.unwrap();
    let (frames, end) = rest(acp.follow(&plan.run_ref(), Logged::up_to(0)).await.unwrap()).await;
    assert_eq!(texts(&updates(&frames)), "0 beforeend");
    assert_eq!(end.unwrap().status, EndStatus::Completed);
}
