use pretty_assertions::assert_eq;
use threadline_contract::{ArtifactPath, Sha256};

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
    let delivered = [".env", "report.md"].map(|path| Artifact {
        path: ArtifactPath::new(path).unwrap(),
        size: 1,
        sha256: Sha256([0; 32]),
        content_type: "text/plain".into(),
    });
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
    let both = work.with(scope, &delivered);
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
