use pretty_assertions::assert_eq;

use super::*;

#[test]
fn codes_of_both_databases_are_read() {
    for (code, kind) in [
        ("13", Kind::Full),
        ("53100", Kind::Full),
        ("8", Kind::ReadOnly),
        ("264", Kind::ReadOnly),
        ("1544", Kind::ReadOnly),
        ("25006", Kind::ReadOnly),
        ("11", Kind::Damaged),
        ("267", Kind::Damaged),
        ("26", Kind::Damaged),
        ("522", Kind::Damaged),
        ("10", Kind::Other),
        ("14", Kind::Unreachable),
        ("08006", Kind::Unreachable),
        ("57P03", Kind::Unreachable),
        ("22021", Kind::NotText),
        ("54000", Kind::TooLarge),
        ("18", Kind::TooLarge),
        ("1", Kind::Other),
        ("40P01", Kind::Contended),
        ("40001", Kind::Contended),
        ("5", Kind::Contended),
        ("517", Kind::Contended),
        ("6", Kind::Contended),
    ] {
        assert_eq!(kind_of(code), kind, "{code}");
    }
}
