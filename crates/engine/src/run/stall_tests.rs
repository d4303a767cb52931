use pretty_assertions::assert_eq;

use super::*;

#[test]
fn a_run_that_waits_for_room_says_for_how_long() {
    let told = |seconds: i64| sentence(Millis(1_000), Millis(1_000 + seconds * 1_000));
    let words = |waited: &str| {
        format!(
            "The disk is full: it waits for room, {waited}. Make room on the disk of the data folder; it goes on by itself."
        )
    };
    assert_eq!(told(0), words("just now"));
    assert_eq!(told(59), words("for less than a minute"));
    assert_eq!(told(61), words("for 1 minute"));
    assert_eq!(told(7_260), words("for 121 minutes"));
}

#[test]
fn only_a_full_disk_stalls_a_run_and_the_first_time_stands() {
    let stalls = Stalls::default();
    let run = RunId::new("turn-1").unwrap();
    stalls.failed(&run, &Fault::new(Code::Internal, "x"));
    assert_eq!(stalls.since(&run), None);
    stalls.failed(&run, &Fault::new(Code::StorageFull, "x"));
    let first = stalls.since(&run);
    assert!(first.is_some());
    stalls.failed(&run, &Fault::new(Code::StorageFull, "x"));
    assert_eq!(stalls.since(&run), first);
    stalls.wrote(&run);
    assert_eq!(stalls.since(&run), None);
}
