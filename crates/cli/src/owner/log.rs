//! The owner's log. A server's goes to standard error, where its supervisor collects it; that of an
//! owner which a person started goes to the log file, for nobody wants to read it in between.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::Mutex,
};

use threadline_contract::{Code, Fault};
use tracing_subscriber::{EnvFilter, filter::LevelFilter, fmt};

use super::{Mode, Places};
use crate::config::{Log, LogFormat};

/// A log over this size begins anew; one older part is kept.
const LARGEST: u64 = 8 << 20;

/// Starts logging. Once per process.
pub(crate) fn start(log: &Log, mode: Mode, places: &Places) -> Result<(), Fault> {
    let filter = EnvFilter::try_new(&log.filter).map_err(|e| wrong(&e))?;
    let colors = mode == Mode::Serve && crate::screen::Terminal::stderr().color;
    let builder = fmt().with_env_filter(filter).with_ansi(colors);
    // A full disk takes the log's lines, too. Complaining about that on standard error would panic
    // where that is the same file, and whoever wanted to log would end in the middle of its work.
    let builder = builder.log_internal_errors(false);
    let started = match (mode, log.format) {
        // Whoever started a background owner has given it the log file.
        (Mode::Serve | Mode::Background, LogFormat::Text) => {
            builder.with_writer(io::stderr).try_init()
        }
        (Mode::Serve | Mode::Background, LogFormat::Json) => builder
            .with_writer(io::stderr)
            .json()
            .flatten_event(true)
            .try_init(),
        (Mode::Up, format) => {
            let builder =
                builder.with_writer(Mutex::new(open(&places.log()).map_err(|e| wrong(&e))?));
            match format {
                LogFormat::Text => builder.try_init(),
                LogFormat::Json => builder.json().flatten_event(true).try_init(),
            }
        }
    };
    started.map_err(|e| wrong(&e))
}

/// Starts logging for a process that is not an owner.
pub(crate) fn to_stderr(log: &Log) -> Result<(), Fault> {
    if let (Ok(level), LogFormat::Text) = (log.filter.parse::<LevelFilter>(), log.format) {
        // What most have set takes far less memory than a filter for each part.
        let plain = fmt().with_max_level(level).with_ansi(false);
        let plain = plain.log_internal_errors(false);
        let plain = plain.with_writer(io::stderr).try_init();
        return plain.map_err(|e| wrong(&e));
    }
    // Only `up` has a file.
    start(log, Mode::Serve, &Places::new(Path::new("")))
}

fn wrong(e: &dyn std::fmt::Display) -> Fault {
    Fault::new(
        Code::ConfigInvalid,
        format!("The log cannot be written: {e}."),
    )
}

/// Opens the log file, to add to it.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    if std::fs::metadata(path).is_ok_and(|m| m.len() > LARGEST) {
        std::fs::rename(path, path.with_extension("log.1"))?;
    }
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
}
