//! The owner's log: to standard error, which is the log file of a background owner.

use threadline_contract::{Code, Fault};
use tracing_subscriber::{EnvFilter, fmt};

use super::Mode;
use crate::config::{Log, LogFormat};

/// Starts logging. Once per process.
pub(crate) fn start(log: &Log, mode: Mode) -> Result<(), Fault> {
    let wrong = |e: &dyn std::fmt::Display| {
        Fault::new(
            Code::ConfigInvalid,
            format!("`log.level` cannot be used: {e}."),
        )
    };
    let filter = EnvFilter::try_new(&log.filter).map_err(|e| wrong(&e))?;
    let colors = mode != Mode::Background && crate::screen::Terminal::stderr().color;
    let builder = fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colors);
    let started = match log.format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|e| wrong(&e))
}
