//! What can be seen on this machine without asking anybody.

use std::{
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
    time::Duration,
};

use threadline_contract::{Fault, Millis};
use threadline_files::{Lock, Reason, atomic};
use threadline_store::{Store, StoreConfig};

use super::Check;
use crate::{
    client::answers,
    commands::Context,
    config::Config,
    owner::{Mode, Owner, Places, is_stopped, stopped, token},
    screen::words,
};

/// Free bytes below which something will soon not fit, and below which nothing does.
const SCARCE: u64 = 1 << 30;
const NONE_LEFT: u64 = 100 << 20;

/// How long a database may take to be looked into; one that an owner holds on to may not answer.
const LOOKED_INTO: Duration = Duration::from_secs(20);

pub(super) fn settings(context: &Context) -> Check {
    if !context.mistakes.is_empty() {
        let fault = crate::config::fault(&context.mistakes);
        let list: Vec<&str> = fault.message.lines().map(str::trim).collect();
        return Check::bad(
            "settings",
            words::clean(&list.join("\n")),
            "Mend them; until then no task can run.",
        );
    }
    let set = context
        .config
        .shown
        .iter()
        .filter(|s| s.origin != crate::config::Origin::Default)
        .count() as u64;
    Check::ok(
        "settings",
        format!(
            "{} set; `threadline config show --origin` shows where",
            words::count(set, "value")
        ),
    )
}

pub(super) fn data_folder(path: &Path) -> Check {
    let what = "data folder";
    let shown = words::clean(&path.display().to_string());
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Check::ok(what, format!("{shown} (made at the first run)"));
        }
        Err(e) => {
            return Check::bad(
                what,
                format!("{shown}: {e}"),
                "Mend its permissions, or choose another with THREADLINE_DATA.",
            );
        }
    };
    let mode = meta.permissions().mode() & 0o777;
    if !meta.is_dir() {
        return Check::bad(
            what,
            format!("{shown} is not a folder"),
            "Choose another with THREADLINE_DATA.",
        );
    }
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Check::bad(
            what,
            format!("{shown} belongs to another user"),
            "Run as that user, or choose another with THREADLINE_DATA.",
        );
    }
    if mode & 0o077 != 0 {
        return Check::warn(
            what,
            format!("{shown} can be entered by others (mode {mode:o})"),
            format!("chmod 700 {}", words::quoted(&shown)),
        );
    }
    match atomic::write(path.join(".doctor"), b"", threadline_files::Access::Private) {
        Ok(_) => {
            let _ = std::fs::remove_file(path.join(".doctor"));
            Check::ok(what, shown)
        }
        Err(e) if e.reason() == Reason::NoSpace => {
            Check::bad(what, format!("{shown}: {e}"), "Make room.")
        }
        Err(e) => Check::bad(
            what,
            format!("{shown}: {e}"),
            "Mend its permissions, or choose another with THREADLINE_DATA.",
        ),
    }
}

pub(super) fn disk(what: &'static str, path: &Path) -> Option<Check> {
    // What is not there yet will be made on the disk of the folder above it.
    let there = path.ancestors().find(|p| p.exists())?;
    let stat = rustix::fs::statvfs(there).ok()?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let found = format!("{} free", words::size(free));
    Some(match free {
        0..NONE_LEFT => Check::bad(what, found, "Make room: runs cannot store what they do."),
        NONE_LEFT..SCARCE => Check::warn(what, found, "Make room soon."),
        SCARCE.. => Check::ok(what, found),
    })
}

pub(super) fn token_file(places: &Places) -> Check {
    let what = "token file";
    match (token::read(places), std::fs::metadata(places.token())) {
        (Ok(None), _) => Check::ok(what, "made at the first start"),
        (Ok(Some(_)), Ok(meta)) if meta.permissions().mode() & 0o077 != 0 => {
            let path = places.token().display().to_string();
            Check::bad(
                what,
                format!(
                    "others can read it (mode {:o})",
                    meta.permissions().mode() & 0o777
                ),
                format!(
                    "chmod 600 {}, and if somebody did read it, remove it: the next start makes a new one.",
                    words::quoted(&path)
                ),
            )
        }
        (Ok(Some(_)), _) => Check::ok(what, "there, and private"),
        (Err(fault), _) => Check::fault(what, &fault),
    }
}

/// Looks into the database. One that an owner has open is looked at through the owner.
pub(super) async fn database(
    config: &Config,
    places: &Places,
    owner: &Result<Owner, Fault>,
) -> Check {
    let what = "database";
    let url = config.database.expose();
    let local = url.strip_prefix("sqlite:");
    if local.is_some_and(|path| !Path::new(path).exists()) {
        return Check::ok(what, "made at the first start");
    }
    let nobody = matches!(owner, Ok(Owner::Nobody));
    // So that nobody starts meanwhile; an owner that is there holds it, and shares the file.
    let _lock = nobody.then(|| Lock::try_acquire(places.lock()));
    let opened = tokio::time::timeout(LOOKED_INTO, Store::open(StoreConfig::new(url))).await;
    let Ok(opened) = opened else {
        return Check::bad(
            what,
            format!("it does not answer in {} seconds", LOOKED_INTO.as_secs()),
            "Look whether another process holds on to it.",
        );
    };
    let store = match opened {
        Ok(store) => store,
        Err(e) => {
            let cause = std::error::Error::source(&e).map(ToString::to_string);
            let fault = Fault::from(e);
            let message = cause.map_or(fault.message.clone(), |c| {
                format!("{} ({c})", fault.message)
            });
            return Check::fault(what, &Fault { message, ..fault });
        }
    };
    let damage = store.damage().await;
    let closed = store.close().await;
    match (damage, closed) {
        (Ok(damage), Ok(())) if damage.is_empty() => match local {
            Some(path) => {
                let size = on_disk(path);
                Check::ok(what, format!("SQLite, {}, sound", words::size(size)))
            }
            None => Check::ok(what, "PostgreSQL, answers"),
        },
        (Ok(damage), Ok(())) => Check::bad(
            what,
            damage.join("\n"),
            "Put the data folder aside and restore it from a copy.",
        ),
        (Err(e), _) | (_, Err(e)) => Check::fault(what, &Fault::from(e)),
    }
}

/// What SQLite keeps lies in several files: what was written last is in the log beside the database.
fn on_disk(path: &str) -> u64 {
    let parts = ["", "-wal"].map(|part| std::fs::metadata(format!("{path}{part}")));
    parts.iter().flatten().map(std::fs::Metadata::len).sum()
}

pub(super) async fn owner_state(
    owner: &Result<Owner, Fault>,
    places: &Places,
    config: &Config,
) -> Check {
    let what = "background process";
    let silent = match owner {
        Ok(Owner::Ready(state)) if is_stopped(state.pid) => Some(stopped(state.pid)),
        Ok(Owner::Busy { pid: Some(pid) }) if is_stopped(*pid) => Some(stopped(*pid)),
        Ok(Owner::Ready(state)) => answers(state, places).await.err(),
        _ => None,
    };
    if let Some(fault) = silent {
        return Check::fault(what, &fault);
    }
    match owner {
        Ok(Owner::Nobody) => Check::ok(what, "none; the next command starts one"),
        Ok(Owner::Busy { pid }) => {
            let who = pid.map_or(String::new(), |pid| format!(" (process {pid})"));
            Check::warn(
                what,
                format!("starting, or ending{who}"),
                "Look again in a moment.",
            )
        }
        Ok(Owner::Ready(state)) => {
            let how = match state.mode {
                Mode::Background => "in the background",
                Mode::Up => "threadline up",
                Mode::Serve => "threadline serve",
            };
            let started = words::ago(
                Millis::now(),
                state.started_at,
                &jiff::tz::TimeZone::system(),
            );
            let found = format!(
                "process {} ({how}), at {}, started {started}",
                state.pid, state.url
            );
            let token = token::read(places).ok().flatten().unwrap_or_default();
            let other = state.outdated(config, &token);
            if other.is_empty() {
                return Check::ok(what, found);
            }
            let found = format!("{found}, with another {}", other.join(", "));
            match state.mode {
                // Settings of one terminal alone (`export`) are the usual reason.
                Mode::Background => Check {
                    advice: Some("That is no error: the next task starts it anew with what is set here, as soon as it has nothing to do. At once: threadline stop".into()),
                    ..Check::ok(what, found)
                },
                Mode::Up | Mode::Serve => Check::warn(
                    what,
                    found,
                    "What is set here takes effect when it is started again.",
                ),
            }
        }
        Err(fault) => Check::fault(what, fault),
    }
}

/// Background processes of this folder that do not own it: they should have ended.
pub(super) fn leftovers(places: &Places, owner: &Result<Owner, Fault>) -> Option<Check> {
    let known = match owner {
        Ok(Owner::Ready(state)) => Some(state.pid),
        Ok(Owner::Busy { pid }) => *pid,
        _ => None,
    };
    let mut found: Vec<u32> = Vec::new();
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|b| *b == 0).collect();
        let data = places.data().as_os_str().as_encoded_bytes();
        let ours = matches!(words.as_slice(), [_, command, flag, folder, ..] if *command == b"owner" && *flag == b"--data" && *folder == data);
        if ours && Some(pid) != known && pid != std::process::id() {
            found.push(pid);
        }
    }
    if found.is_empty() {
        return None;
    }
    let list: Vec<String> = found.iter().map(ToString::to_string).collect();
    Some(Check::warn(
        "left over",
        format!(
            "processes {} were started for this folder and do not own it",
            list.join(", ")
        ),
        "They end by themselves in a moment. If not, end them with kill.",
    ))
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
