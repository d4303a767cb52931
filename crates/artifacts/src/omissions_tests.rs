use pretty_assertions::assert_eq;

use super::*;

fn of(all: &[(&str, OmitReason)]) -> Omissions {
    let mut out = Omissions::default();
    for (path, reason) in all {
        out.add(*path, *reason);
    }
    out
}

#[test]
fn each_name_has_one_fate() {
    let is_delivered = |path: &str| [".env", "report.md"].contains(&path);
    let mut work = of(&[
        (".env", OmitReason::Skipped),
        ("link", OmitReason::Symlink),
        ("node_modules", OmitReason::Skipped),
        ("report.md", OmitReason::NameTaken),
        ("x\\y", OmitReason::UnsafeName),
    ]);
    // More than are named are still counted.
    *work.counts.get_mut(&OmitReason::Skipped).unwrap() += 5;
    let scope = of(&[
        ("link", OmitReason::SpecialFile),
        ("pipe", OmitReason::SpecialFile),
    ]);
    let both = work.with(scope, is_delivered);
    let mut want = of(&[
        ("link", OmitReason::SpecialFile),
        ("node_modules", OmitReason::Skipped),
        ("pipe", OmitReason::SpecialFile),
        ("report.md", OmitReason::NameTaken),
        ("x\\y", OmitReason::UnsafeName),
    ]);
    *want.counts.get_mut(&OmitReason::Skipped).unwrap() += 5;
    assert_eq!(both, want);
}

/// As if they had come in order, but for those of which only a few are named.
#[test]
fn those_with_the_first_paths_are_named() {
    let mut unordered = Unordered::default();
    for n in 0..3_000_u32 {
        let n = n * 1_999 % 3_000;
        let reason = match n % 2 {
            0 => OmitReason::Symlink,
            _ => OmitReason::ChangedOutsideRun,
        };
        unordered.add(&format!("{n:04}"), reason);
    }
    let omitted = unordered.ordered();
    let named = |reason| {
        let named = omitted.named.iter().filter(move |o| o.reason == reason);
        named.map(|o| o.path.clone()).collect::<Vec<_>>()
    };
    let all = |from: usize, many: usize| -> Vec<String> {
        (0..many).map(|n| format!("{:04}", from + 2 * n)).collect()
    };
    assert_eq!(named(OmitReason::ChangedOutsideRun), all(1, 20));
    assert_eq!(named(OmitReason::Symlink), all(0, NAMED - 20));
    assert_eq!(omitted.total(), 3_000);
}
