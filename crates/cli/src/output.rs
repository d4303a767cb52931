//! Standard output, whose reader may go away at any moment, as `head` does.

use std::{
    io::{self, ErrorKind, Write},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use serde::Serialize;
use threadline_files::complain;

use crate::screen::words;

/// Nobody reads standard output any more.
static READER_GONE: AtomicBool = AtomicBool::new(false);

/// Why something could not be written, if it could not.
static FAILED: OnceLock<String> = OnceLock::new();

/// Why standard output is not whole, though somebody may want to read it.
pub(crate) fn failure() -> Option<&'static str> {
    FAILED.get().map(String::as_str)
}

/// Whether the reader of standard output has gone away.
pub(crate) fn reader_gone() -> bool {
    READER_GONE.load(Ordering::Relaxed)
}

/// Standard output. What is written after its reader went away is dropped.
pub(crate) struct StandardOutput;

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        noted(io::stdout().lock().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        noted(io::stdout().lock().flush())
    }
}

fn noted<T>(written: io::Result<T>) -> io::Result<T> {
    match &written {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => READER_GONE.store(true, Ordering::Relaxed),
        Err(e) if e.kind() != ErrorKind::Interrupted => _ = FAILED.set(e.to_string()),
        _ => {}
    }
    written
}

/// Writes to standard output.
pub(crate) fn print(text: &str) {
    let mut out = StandardOutput;
    // A reader that has gone away wants no more of it; of anything else the exit tells.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// One JSON object on one line, in which nothing can act on a terminal.
pub(crate) fn print_json(value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => print(&format!("{}\n", words::escaped_json(&text))),
        Err(e) => complain!("error: the answer could not be written as JSON: {e}"),
    }
}
