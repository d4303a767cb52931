//! Where bars are drawn: standard error, a little narrower than it is.
//!
//! A bar is padded to the whole width. What a terminal itself adds at the cursor (`^C`) would then
//! begin a line of its own, and the bar above it would stay there for ever.

use std::{
    io::{self, Write as _},
    sync::{Mutex, PoisonError},
};

use indicatif::TermLike;

/// Room for what the terminal adds.
const ROOM: usize = 6;

/// Standard error. What is drawn appears at once, when it is complete.
#[derive(Debug, Default)]
pub(super) struct Stderr {
    drawn: Mutex<String>,
}

impl Stderr {
    fn add(&self, text: &str) -> io::Result<()> {
        self.drawn
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_str(text);
        Ok(())
    }

    fn go(&self, n: usize, way: char) -> io::Result<()> {
        match n {
            0 => Ok(()),
            n => self.add(&format!("\x1b[{n}{way}")),
        }
    }
}

impl TermLike for Stderr {
    fn width(&self) -> u16 {
        let width = super::width(&io::stderr()).saturating_sub(ROOM);
        u16::try_from(width).unwrap_or(u16::MAX)
    }
    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.go(n, 'A')
    }
    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.go(n, 'B')
    }
    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.go(n, 'C')
    }
    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.go(n, 'D')
    }
    fn write_line(&self, text: &str) -> io::Result<()> {
        self.add(text)?;
        self.add("\n")
    }
    fn write_str(&self, text: &str) -> io::Result<()> {
        self.add(text)
    }
    fn clear_line(&self) -> io::Result<()> {
        self.add("\r\x1b[2K")
    }
    fn flush(&self) -> io::Result<()> {
        let drawn = std::mem::take(&mut *self.drawn.lock().unwrap_or_else(PoisonError::into_inner));
        let mut err = io::stderr().lock();
        err.write_all(drawn.as_bytes())?;
        err.flush()
    }
}
