use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

fn export(value: Value) -> Result<ExportParams, String> {
    serde_json::from_value(value).map_err(|e| e.to_string())
}

#[test]
fn sloppy_parameters_are_read_with_patience() {
    let read = export(json!({
        "openclawSessionKey": "  agent:main:x ", "runId": 7, "artifactScope": null, "workspaceDir": "<nil>",
        "maxFiles": "12", "maxInlineBytes": 10.9, "includeContent": "false", "sinceUnixMs": null,
        "untilUnixMs": " ", "expectedArtifactDirs": ["reports", " ", 4, null, " a "], "writtenFiles": "x",
        "requiredArtifactExtensions": {"a": 1},
        "expectedFileCountByExtension": {"pdf": "2", "md": 0, "csv": -1, "txt": [], "png": 3.7},
        "unknown": {"is": "fine"},
    }));
    let want = ExportParams {
        whose: Whose {
            openclaw_session_key: Some("agent:main:x".into()),
            ..Whose::default()
        },
        max_files: Some(12),
        max_inline_bytes: Some(10),
        include_content: Some(false),
        expected_artifact_dirs: vec!["reports".into(), "a".into()],
        expected_file_count_by_extension: [("pdf".into(), 2), ("png".into(), 3)].into(),
        ..ExportParams::default()
    };
    assert_eq!(read, Ok(want));
    assert_eq!(export(json!({})), Ok(ExportParams::default()));
}

#[test]
fn numbers_that_are_none_are_said() {
    for bad in [
        json!("NaN"),
        json!("inf"),
        json!("12x"),
        json!(1e300),
        json!("1e300"),
        json!(u64::MAX),
    ] {
        let refused = export(json!({"maxFiles": bad})).unwrap_err();
        assert!(
            refused.contains("is not a number that can be used"),
            "{refused}"
        );
    }
    for (odd, want) in [
        (json!(-3), Some(-3)),
        (json!("-3.5"), Some(-4)),
        (json!(true), None),
        (json!([]), None),
        (json!("1780000000000"), Some(1_780_000_000_000)),
    ] {
        assert_eq!(
            export(json!({"maxFiles": odd})).map(|p| p.max_files),
            Ok(want)
        );
    }
}

#[test]
fn a_path_is_not_trimmed_and_no_list_is_not_an_empty_one() {
    let read: ReadParams = serde_json::from_value(json!({"relativePath": " a "})).unwrap();
    assert_eq!(read.relative_path.as_deref(), Some(" a "));
    let collect = |value| {
        serde_json::from_value::<CollectParams>(value)
            .unwrap()
            .source_files
    };
    assert_eq!(collect(json!({})), None);
    assert_eq!(collect(json!({"sourceFiles": "x"})), None);
    assert_eq!(collect(json!({"sourceFiles": []})), Some(vec![]));
}

#[test]
fn a_dry_run_is_not_taken_for_a_real_one() {
    let asked = |value| serde_json::from_value::<GcParams>(json!({"dryRun": value}));
    assert_eq!(asked(json!(true)).unwrap().dry_run, Some(true));
    assert_eq!(asked(json!(" false ")).unwrap().dry_run, Some(false));
    assert_eq!(asked(json!(null)).unwrap().dry_run, None);
    for unclear in [json!("yes"), json!(1), json!([true])] {
        let refused = asked(unclear.clone()).unwrap_err().to_string();
        assert_eq!(refused, format!("`{unclear}` is neither true nor false"));
    }
}
