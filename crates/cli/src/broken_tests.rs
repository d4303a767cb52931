use super::*;

#[test]
fn what_breaks_ends_with_its_own_number() {
    let exit = |code: ExitCode| format!("{code:?}");
    let broken = guarded(false, || panic!("on purpose"));
    assert_eq!(exit(broken), exit(Exit::Broken.into()));
    let whole = guarded(false, || Exit::NotFound.into());
    assert_eq!(exit(whole), exit(Exit::NotFound.into()));
    // The hook is of the whole process; the other tests have their own again.
    let _ = panic::take_hook();
}
