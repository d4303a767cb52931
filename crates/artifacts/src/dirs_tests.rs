use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn dirs(named: &[&str]) -> Result<Vec<String>, String> {
    let named: Vec<String> = named.iter().map(|s| (*s).to_owned()).collect();
    ExpectedDirs::new(&named)
        .map(|d| d.names())
        .map_err(|e| e.to_string())
}

#[test]
fn folders_are_read_as_callers_write_them() {
    let named = [
        "artifacts/",
        "reports",
        "assets//images/",
        "a\\b",
        "reports/",
        "/".trim_start_matches('/'),
        "..x",
        "...",
    ];
    assert_eq!(
        dirs(&named),
        Ok([
            "artifacts/",
            "reports/",
            "assets/images/",
            "a/b/",
            "..x/",
            ".../"
        ]
        .map(str::to_owned)
        .to_vec())
    );
    let set = ExpectedDirs::new(&["tasks/s/r".into(), "owners".into(), "x".into()]).unwrap();
    let mut warnings = Vec::new();
    assert_eq!(
        set.usable(&mut warnings)
            .iter()
            .map(|d| d.as_str())
            .collect::<Vec<_>>(),
        ["x"]
    );
    assert_eq!(warnings.len(), 2);
}

/// P28, P29.
#[test]
fn p28_p29_folders_that_lead_out_are_refused() {
    for (bad, why) in [
        (
            "../outside",
            "it has a `.` or `..` part, or a NUL character",
        ),
        ("a/./b", "it has a `.` or `..` part, or a NUL character"),
        (".", "it has a `.` or `..` part, or a NUL character"),
        ("a\\..\\b", "it has a `.` or `..` part, or a NUL character"),
        ("a\0b", "it has a `.` or `..` part, or a NUL character"),
        ("/etc", "it is absolute"),
        ("\\\\host\\share", "it is absolute"),
        ("C:\\x", "it is absolute"),
        ("c:", "it is absolute"),
    ] {
        assert_eq!(
            dirs(&["fine", bad]),
            Err(format!("the expected folder `{bad}` cannot be used: {why}"))
        );
    }
}

proptest! {
    /// Whatever is accepted stays beneath the workspace.
    #[test]
    fn what_is_accepted_stays_inside(text in "[a-c./\\\\:~ \0]{0,16}") {
        if let Ok(set) = ExpectedDirs::new(&[text]) {
            for name in set.names() {
                let path = name.strip_suffix('/').unwrap_or_default();
                prop_assert!(ArtifactPath::new(path).is_ok());
            }
        }
    }
}
