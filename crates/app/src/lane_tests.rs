use pretty_assertions::assert_eq;

use super::*;

fn key(n: u32) -> AppThreadKey {
    AppThreadKey::new(format!("t{n}")).unwrap()
}
fn req(n: u32) -> RequestId {
    RequestId::new(format!("r{n}")).unwrap()
}
fn lane(active: usize, queued: usize) -> Lane {
    Lane::new(LaneSize { active, queued })
}

#[test]
fn a11_five_run_twenty_wait_and_the_next_is_turned_away() {
    let mut lane = lane(5, 20);
    for n in 0..5 {
        assert_eq!(lane.offer(&key(n), &req(n)), Ok(Place::Start));
    }
    for n in 5..25 {
        assert_eq!(lane.offer(&key(n), &req(n)), Ok(Place::Wait));
    }
    assert_eq!(lane.offer(&key(25), &req(25)), Err(Full));
    assert_eq!(
        lane.place(&key(5)),
        Some(QueuePlace {
            position: 1,
            queued: 20
        })
    );
    lane.finish(&key(3));
    assert_eq!(lane.start_next(), Some((key(5), req(5))));
    assert_eq!(lane.start_next(), None);
    assert_eq!(
        lane.place(&key(6)),
        Some(QueuePlace {
            position: 1,
            queued: 19
        })
    );
}

#[test]
fn a_thread_has_one_turn_and_lets_others_pass() {
    let mut lane = lane(2, 9);
    assert_eq!(lane.offer(&key(1), &req(1)), Ok(Place::Start));
    assert_eq!(lane.offer(&key(1), &req(2)), Ok(Place::Wait));
    assert_eq!(lane.offer(&key(2), &req(3)), Ok(Place::Start));
    lane.finish(&key(2));
    assert_eq!(lane.start_next(), None);
    lane.finish(&key(1));
    assert_eq!(lane.start_next(), Some((key(1), req(2))));
}

#[test]
fn the_bridge_can_only_make_the_lane_smaller() {
    let id = LaneId::Gateway("b".into());
    let mut lanes = Lanes::new(LaneSize {
        active: 5,
        queued: 20,
    });
    lanes.resize(
        "b",
        LaneSize {
            active: 9,
            queued: 3,
        },
    );
    assert_eq!(
        lanes.lane(&id).size,
        LaneSize {
            active: 5,
            queued: 3
        }
    );
    lanes.resize(
        "b",
        LaneSize {
            active: 0,
            queued: 0,
        },
    );
    assert_eq!(
        lanes.lane(&id).size,
        LaneSize {
            active: 1,
            queued: 0
        }
    );
    assert_eq!(lanes.lane(&LaneId::Agents).size.active, usize::MAX);
}
