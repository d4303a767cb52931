use pretty_assertions::assert_eq;
use threadline_contract::Omitted;

use super::*;

fn named(written: &[&str]) -> (Vec<String>, Vec<Omitted>) {
    let evidence = Evidence {
        written: written.iter().map(|s| (*s).to_owned()).collect(),
        deliverables: vec![],
    };
    let mut omitted = Omissions::default();
    let work = [PathBuf::from("/ws/work"), PathBuf::from("/real/ws/work")];
    let named =
        Named::resolve(&evidence, &work, &[PathBuf::from("/ws/run")], &mut omitted).unwrap();
    (named.files.into_iter().collect(), omitted.named)
}

#[test]
fn evidence_is_sorted_by_where_it_points() {
    let (files, omitted) = named(&[
        "a.md",
        "./b/../c.md",
        "/ws/work/d.md",
        "/real/ws/work/e/f.md",
        "/ws/run/g.md",
        "../up",
        "/etc/x",
        "/ws/worker/h",
        "/ws/work",
        "",
        "back\\slash",
        "/ws/work/../../etc/y",
        "a.md",
    ]);
    assert_eq!(files, ["a.md", "back\\slash", "c.md", "d.md", "e/f.md"]);
    let omit = |path: &str, reason| Omitted {
        path: path.to_owned(),
        reason,
    };
    assert_eq!(
        omitted,
        [
            omit("../up", OmitReason::OutsideScope),
            omit("/etc/x", OmitReason::OutsideScope),
            omit("/ws/worker/h", OmitReason::OutsideScope),
            omit("/ws/work", OmitReason::OutsideScope),
            omit("", OmitReason::OutsideScope),
            omit("/ws/work/../../etc/y", OmitReason::OutsideScope),
        ]
    );
}

#[test]
fn a_declared_path_is_named_and_a_pattern_is_not() {
    let declared = |glob: &str| Deliverable {
        glob: glob.to_owned(),
        content_type: None,
        min_bytes: None,
        min_count: None,
    };
    let evidence = Evidence {
        written: vec![],
        deliverables: vec![declared(".github/ci.yml"), declared("**/*.pdf")],
    };
    let mut omitted = Omissions::default();
    let named = Named::resolve(&evidence, &[], &[], &mut omitted).unwrap();
    assert_eq!(
        named.files.into_iter().collect::<Vec<_>>(),
        [".github/ci.yml"]
    );
    assert!(named.patterns.matches("a/b.pdf") && !named.patterns.matches("a/b.md"));
    assert_eq!(omitted, Omissions::default());
}
