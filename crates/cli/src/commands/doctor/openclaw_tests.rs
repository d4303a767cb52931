use pretty_assertions::assert_eq;
use threadline_contract::Code;

use super::*;

#[test]
fn only_a_gateway_of_this_machine_is_mended() {
    for (url, here) in [
        ("ws://127.0.0.1:18789", true),
        ("ws://localhost:18789/", true),
        ("wss://localhost", true),
        ("ws://[::1]:18789", true),
        ("ws://[::1]", true),
        ("wss://claw.example", false),
        ("wss://claw.example/127.0.0.1", false),
        ("ws://127.0.0.1.example:1", false),
        ("ws://192.168.0.7:18789", false),
    ] {
        assert_eq!(is_here(url), here, "{url}");
    }
}

#[test]
fn what_was_done_is_said_and_what_was_not() {
    let bad = || Check::bad("OpenClaw plugin", "none", "Install it.");
    let offer = offered(bad()).advice.unwrap();
    assert_eq!(offer, "Install it. `threadline doctor --mend` does it.");
    let good = mended(bad(), Ok("it is there.".into()));
    assert_eq!(good.health, Health::Warn);
    let failed = mended(
        bad(),
        Err(Fault::new(Code::ProviderUnavailable, "No command.")),
    );
    assert_eq!(
        (failed.health, failed.advice.as_deref()),
        (Health::Bad, Some("Not mended: No command."))
    );
}

#[test]
fn that_nothing_can_be_mended_is_said() {
    let bad = || Check::bad("OpenClaw plugin", "none", "Install it.");
    let said = |checks: &[Check], url| nothing_to_mend(checks, url).map(|check| check.found);
    let here = Some("ws://127.0.0.1:18789");
    assert_eq!(said(&[mended(bad(), Ok("done.".into()))], here), None);
    let failed = mended(bad(), Err(Fault::new(Code::ProviderUnavailable, "No.")));
    assert_eq!(said(&[failed], here), None);
    assert_eq!(
        said(&[bad()], here).as_deref(),
        Some("nothing was found that this command can mend")
    );
    assert!(
        said(&[], Some("wss://claw.example"))
            .unwrap()
            .contains("not on this machine")
    );
    assert!(said(&[], None).unwrap().contains("`openclaw.url`"));
}
