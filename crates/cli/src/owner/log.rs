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
use tracing_subscriber::{EnvFilter, fmt};

use super::{Mode, Places};
use crate::config::{Log, LogFormat};

/// A log over this size begins anew; one older part is kept.
const LARGEST: u64 = 8 << 20;

/// Starts logging. Once per process.
pub(crate) fn start(log: &Log, mode: Mode, places: &Places) -> Result<(), Fault> {
    let wrong = |e: &dyn std::fmt::Display| {
        Fault::new(
            Code::ConfigInvalid,
            format!("The log cannot be written: {e}."),
        )
    };
    let filter = EnvFilter::try_new(&log.filter).map_err(|e| wrong(&e))?;
    let colors = mode == Mode::Serve && crate::screen::Terminal::stderr().color;
    let builder = fmt().with_env_filter(filter).with_ansi(colors);
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
    // Only `up` has a file.
    start(log, Mode::Serve, &Places::new(Path::new("")))
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
