//! Opening the folder of records: what is there, what the index still knows, what cannot be read.

use std::{collections::HashMap, path::Path, sync::Mutex};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use threadline_contract::{
    AppThreadKey, Millis,
    thread::{SCHEMA_VERSION, TaskThread},
};
use threadline_files::{Access, Error, FileKind, Reason, Result, Root, atomic};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use super::{Entry, INDEX, Index, RECORD_BYTES, Records, file_name, index::IndexFile};
use crate::{api::Problem, change::result::take_over};

/// Why a record cannot be had.
pub(super) enum Unread {
    /// Its bytes are not a record.
    Corrupt(String),
    /// A newer version wrote it.
    Newer(String),
    /// The disk.
    Files(Error),
}

impl Records {
    /// Opens the folder, making it if needed. Blocks.
    pub(crate) fn open(folder: &Path, tasks: TaskTracker) -> Result<Self> {
        let root = atomic::create_dir_all(folder, Access::Private)?;
        let mut index = Index::default();
        let mut stored: Vec<(AppThreadKey, String)> = Vec::new();
        for entry in root.entries("")? {
            let Some(name) = entry.name.to_str() else {
                continue;
            };
            if entry.kind != FileKind::File {
                continue;
            }
            if name.starts_with(".threadline-") && name.ends_with(".tmp") {
                // What a write that was cut short left; the record itself is whole.
                root.remove_file(name)?;
            } else if name.ends_with(".bak") {
                index.problems.push(earlier_problem(&root, name));
            } else if name != INDEX
                && let Some(key) = key_of(name)
            {
                stored.push((key, name.to_owned()));
            }
        }

        let cached = read_index(&root, &mut index.problems);
        let place: HashMap<AppThreadKey, usize> = cached
            .iter()
            .enumerate()
            .map(|(at, e)| (e.summary.thread_id.clone(), at))
            .collect();
        // Indexed ones in their order, then the others by key.
        stored.sort_unstable_by_key(|(key, _)| {
            (place.get(key).copied().unwrap_or(usize::MAX), key.clone())
        });

        for (key, file) in stored {
            let stamp = root.stat(&file)?.stamp;
            let known = place.get(&key).and_then(|at| cached.get(*at));
            if let Some(entry) = known.filter(|e| e.stamp == stamp) {
                index.put(entry.clone());
                continue;
            }
            match read_record(&root, &file) {
                Ok(record) => {
                    index.put(Entry::of(&record, stamp));
                }
                Err(Unread::Corrupt(why)) => {
                    let problem = set_aside(&root, &file, why)?;
                    tracing::warn!("Record {file} was set aside: {}", problem.message);
                    index.problems.push(problem);
                }
                Err(Unread::Newer(message)) => index.problems.push(Problem {
                    file: shown(&root, &file),
                    message,
                    kept: None,
                    at_ms: Millis::now(),
                }),
                Err(Unread::Files(e)) => return Err(e),
            }
        }
        Ok(Self {
            root,
            bell: watch::Sender::new(index.revision()),
            index: Mutex::new(index),
            writers: Mutex::default(),
            tasks,
        })
    }
}

/// A corrupt index costs only the reading of all records.
fn read_index(root: &Root, problems: &mut Vec<Problem>) -> Vec<Entry> {
    let bytes = match read_limited(root, INDEX) {
        Ok(bytes) => bytes,
        Err(e) if e.reason() == Reason::NotFound => return Vec::new(),
        Err(e) => {
            problems.push(index_problem(root, e.to_string()));
            return Vec::new();
        }
    };
    match serde_json::from_slice::<IndexFile>(&bytes) {
        Ok(file) if file.known() => file.threads,
        Ok(_) => Vec::new(),
        Err(e) => {
            tracing::warn!(
                "The index of threads is corrupt ({e}); it is made again from the records"
            );
            problems.push(index_problem(
                root,
                format!("It was corrupt ({e}) and was made again from the records."),
            ));
            Vec::new()
        }
    }
}

fn index_problem(root: &Root, message: String) -> Problem {
    Problem {
        file: shown(root, INDEX),
        message,
        kept: None,
        at_ms: Millis::now(),
    }
}

pub(super) fn read_record(root: &Root, file: &str) -> Result<TaskThread, Unread> {
    let bytes = match read_limited(root, file) {
        Ok(bytes) => bytes,
        Err(e) if e.reason() == Reason::TooLarge => return Err(Unread::Corrupt(e.to_string())),
        Err(e) => return Err(Unread::Files(e)),
    };
    let corrupt = |e: serde_json::Error| Unread::Corrupt(format!("It is not a record: {e}."));
    let mut record: TaskThread = match serde_json::from_slice(&bytes) {
        Ok(record) => record,
        Err(e) => {
            // What a newer version wrote may not parse; it must not be mistaken for damage.
            let version = serde_json::from_slice::<serde_json::Value>(&bytes)
                .ok()
                .and_then(|v| v.get("schemaVersion")?.as_u64());
            return Err(match version.filter(|v| *v > u64::from(SCHEMA_VERSION)) {
                Some(v) => newer(v),
                None => corrupt(e),
            });
        }
    };
    if record.schema_version > SCHEMA_VERSION {
        return Err(newer(record.schema_version.into()));
    }
    if file_name(&record.thread_id) != file {
        return Err(Unread::Corrupt(format!(
            "It holds the record of another thread, {}.",
            record.thread_id
        )));
    }
    take_over(&mut record);
    Ok(record)
}

fn newer(version: u64) -> Unread {
    Unread::Newer(format!(
        "A newer version wrote it (schema {version}). It was left as it is."
    ))
}

/// Keeps the bytes of a record that cannot be read under another name.
pub(super) fn set_aside(root: &Root, file: &str, why: String) -> Result<Problem> {
    let now = Millis::now();
    let kept = format!("{file}.invalid-{}.bak", now.0);
    root.rename(file, &kept)?;
    Ok(Problem {
        file: shown(root, file),
        message: why,
        kept: Some(shown(root, &kept)),
        at_ms: now,
    })
}

fn earlier_problem(root: &Root, kept: &str) -> Problem {
    let (file, at) = kept
        .strip_suffix(".bak")
        .and_then(|rest| rest.rsplit_once(".invalid-"))
        .unwrap_or((kept, ""));
    Problem {
        file: shown(root, file),
        message: "It could not be read earlier; its bytes were kept.".into(),
        kept: Some(shown(root, kept)),
        at_ms: Millis(at.parse().unwrap_or_default()),
    }
}

fn read_limited(root: &Root, file: &str) -> Result<Vec<u8>> {
    atomic::read_limited(root.path().join(file), RECORD_BYTES)
}

fn key_of(file: &str) -> Option<AppThreadKey> {
    let bytes = URL_SAFE_NO_PAD.decode(file.strip_suffix(".json")?).ok()?;
    AppThreadKey::new(String::from_utf8(bytes).ok()?).ok()
}

fn shown(root: &Root, file: &str) -> String {
    root.path().join(file).display().to_string()
}
