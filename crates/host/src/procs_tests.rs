use pretty_assertions::assert_eq;

use super::*;

#[test]
fn a_name_full_of_parentheses_is_read_past() {
    let mut text = b"42 (a) R 1 (b) S 7 8 9 ".to_vec();
    text.extend((0..30).map(|n| format!("{n} ")).collect::<String>().bytes());
    let stat = parse(&text).unwrap();
    assert_eq!(
        (stat.state, stat.parent, stat.session, stat.started),
        (b'S', 7, 9, 15)
    );
    assert!(parse(b"42 (a").is_none());
}

#[test]
fn a_process_is_not_mistaken_for_a_later_one() {
    let me = ProcessId::of(std::process::id()).unwrap();
    assert!(me.is_alive());
    let earlier = ProcessId {
        started: me.started - 1,
        ..me.clone()
    };
    assert!(!earlier.is_alive());
    let before_reboot = ProcessId {
        system: "another".into(),
        ..me
    };
    assert!(!before_reboot.is_alive());
    assert!(!earlier.signal(Signal::KILL));
}
