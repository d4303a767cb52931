//! What differs between runtimes is asked of them, or told by a bridge: no source of the engine or the app
//! names one, so that a new runtime needs no change in either.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where"
)]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Words that name one runtime. The wire's own field names and the path of downloads are spelled otherwise.
const NAMES: [&str; 6] = [
    "OpenClaw",
    "\"openclaw\"",
    "\"builtin\"",
    "RuntimeId::Acp",
    "RuntimeId::Builtin",
    "\"acp\"",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            sources(&path, found);
        } else if name.ends_with(".rs") && !name.ends_with("_tests.rs") {
            found.push(path);
        }
    }
}

#[test]
fn the_engine_and_the_app_name_no_runtime() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = vec![];
    for name in ["engine/src", "app/src"] {
        sources(&crates.join(name), &mut files);
    }
    assert!(files.len() > 50, "only {} sources were found", files.len());
    let named: Vec<String> = files
        .iter()
        .flat_map(|path| {
            let text = fs::read_to_string(path).unwrap();
            let lines = text.lines().enumerate().filter_map(|(index, line)| {
                let name = NAMES.iter().find(|name| line.contains(**name))?;
                Some(format!("{}:{}: {name}", path.display(), index + 1))
            });
            lines.collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(named, Vec::<String>::new());
}
