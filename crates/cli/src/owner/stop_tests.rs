use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use super::*;

#[tokio::test]
async fn work_and_open_answers_keep_an_owner_alive() {
    let idle = Duration::from_millis(200);
    let activity = Activity::new();
    let working = AtomicBool::new(true);
    let answer = activity.open();
    let over = unneeded(Some(idle), &activity, || working.load(Ordering::Relaxed));
    let mut over = std::pin::pin!(over);
    let waited = |at: Instant| at.elapsed() >= idle;

    let begun = Instant::now();
    assert!(
        tokio::time::timeout(idle * 2, over.as_mut()).await.is_err(),
        "a run goes on"
    );
    working.store(false, Ordering::Relaxed);
    assert!(
        tokio::time::timeout(idle * 2, over.as_mut()).await.is_err(),
        "somebody reads an answer"
    );
    drop(answer);
    let free = Instant::now();
    over.await;
    assert!(waited(begun) && waited(free));
}

#[tokio::test]
async fn an_owner_without_a_limit_stays() {
    let activity = Activity::new();
    let stays = unneeded(None, &activity, || false);
    assert!(
        tokio::time::timeout(Duration::from_millis(100), stays)
            .await
            .is_err()
    );
}
