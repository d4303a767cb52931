//! The files under `docs/` that are made from the code must say what the code says.
//! `UPDATE_DOCS=1 cargo test -p threadline-contract --test exported` writes them anew.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where"
)]

use std::{fs, path::PathBuf};

fn docs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn check(name: &str, want: &str) -> Result<(), String> {
    let path = docs().join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, want).unwrap();
    }
    match fs::read_to_string(&path) {
        Ok(have) if have == want => Ok(()),
        Ok(_) => Err(format!("docs/{name} has drifted")),
        Err(e) => Err(format!("docs/{name}: {e}")),
    }
}

#[test]
fn exported_files_have_not_drifted() {
    let mut drift: Vec<String> = threadline_contract::schema::all()
        .into_iter()
        .filter_map(|(name, schema)| {
            let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
            check(&format!("schema/{name}"), &text).err()
        })
        .collect();
    drift.extend(check("codes.md", &threadline_contract::schema::codes_page()).err());
    assert!(
        drift.is_empty(),
        "{drift:#?}\nrun UPDATE_DOCS=1 cargo test -p threadline-contract --test exported"
    );
}

#[test]
fn the_documentation_names_every_update() {
    let bridge = std::fs::read_to_string(docs().join("bridge.md")).unwrap();
    let schema = docs().join("schema/session-update.json");
    let schema = std::fs::read_to_string(schema).unwrap();
    for event in threadline_contract::EVENTS {
        assert!(bridge.contains(&format!("\n| `{event}` |")), "{event}");
        assert!(schema.contains(&format!("`{event}`")), "{event}");
    }
}

#[test]
fn the_page_about_openclaw_has_the_same_words_for_files_that_were_not_taken() {
    let page = fs::read_to_string(docs().join("openclaw.md")).unwrap();
    for reason in threadline_contract::OmitReason::ALL {
        assert!(page.contains(reason.in_words()), "{reason:?}");
    }
}
