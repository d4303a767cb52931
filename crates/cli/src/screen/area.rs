//! The lines at the bottom of the terminal that change: drawn, erased and drawn again.
//!
//! Everything that goes to the terminal while they are there goes through here, so that nothing is
//! written into the middle of them. A line leaves room at its end for what the terminal itself adds
//! at the cursor (`^C`).

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

use super::{
    Terminal,
    words::{columns, duration, fit, size},
};

/// Nothing moves faster than the eye.
const TICK: Duration = Duration::from_millis(80);
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// After so many milliseconds a person wonders how long it has been.
const PATIENT: i64 = 3000;
/// Room for what the terminal adds.
const ROOM: usize = 4;
/// Downloads that get a bar of their own.
const BARS: usize = 6;
const BAR: usize = 24;

/// The moving part of the screen. Without a person in front of it, nothing moves.
pub(crate) struct Area {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    to: Terminal,
    doing: String,
    bars: Vec<Bar>,
    /// The columns of each line that stands on the screen now.
    drawn: Vec<usize>,
    /// Somebody is asked to type behind this sign, and nothing moves.
    prompt: Option<String>,
    /// The sign stands on the screen, and what was typed behind it.
    prompted: bool,
    begun: Instant,
}

/// A file on its way.
struct Bar {
    name: String,
    done: u64,
    total: u64,
}

impl Area {
    pub(crate) fn new(to: Terminal) -> Self {
        let inner = Inner {
            to,
            doing: String::new(),
            bars: vec![],
            drawn: vec![],
            prompt: None,
            prompted: false,
            begun: Instant::now(),
        };
        let inner = Arc::new(Mutex::new(inner));
        if to.person {
            let weak = Arc::downgrade(&inner);
            thread::spawn(move || tick(&weak));
        }
        Self { inner }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What goes on; nothing, when it is empty.
    pub(super) fn doing(&self, what: &str) {
        let mut inner = self.lock();
        what.clone_into(&mut inner.doing);
        inner.redraw();
    }

    /// A file came closer.
    pub(crate) fn file(&self, name: &str, done: u64, total: u64) {
        let mut inner = self.lock();
        match inner.bars.iter_mut().find(|bar| bar.name == name) {
            Some(bar) => bar.done = done,
            None => inner.bars.push(Bar {
                name: name.to_owned(),
                done,
                total,
            }),
        }
    }

    /// A file is here.
    pub(super) fn arrived(&self, name: &str) {
        let mut inner = self.lock();
        inner.bars.retain(|bar| bar.name != name);
        inner.redraw();
    }

    /// Writes something that stays, above what moves.
    pub(super) fn print(&self, mut out: impl Write, text: &str) {
        let mut inner = self.lock();
        let erasing = inner.erasing();
        inner.write(&erasing);
        // Whoever would read it has gone away; the run goes on without.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        drop(out);
        if text.ends_with('\n') {
            let drawing = inner.drawing();
            inner.write(&drawing);
        }
    }

    /// Lets somebody type behind a sign. Until they have, nothing is written over it.
    pub(super) fn prompt(&self, sign: &str) {
        let mut inner = self.lock();
        let text = inner.prompt(sign);
        inner.write(&text);
    }

    /// Somebody has typed a line, which ended with it.
    pub(super) fn typed(&self) {
        let mut inner = self.lock();
        inner.typed();
        inner.redraw();
    }

    /// Nobody is asked any more.
    pub(super) fn unprompt(&self) {
        let mut inner = self.lock();
        let text = inner.unprompt();
        inner.write(&text);
    }

    /// Nothing moves any more.
    pub(crate) fn still(&self) {
        let mut inner = self.lock();
        inner.doing.clear();
        inner.bars.clear();
        let text = inner.unprompt();
        inner.write(&text);
    }
}

fn tick(inner: &Weak<Mutex<Inner>>) {
    loop {
        thread::sleep(TICK);
        let Some(inner) = inner.upgrade() else { return };
        inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .redraw();
    }
}

impl Inner {
    fn redraw(&mut self) {
        let text = self.redrawing();
        self.write(&text);
    }

    /// What moves, drawn anew; while somebody types, nothing.
    fn redrawing(&mut self) -> String {
        match self.prompt {
            Some(_) => String::new(),
            None => self.erasing() + &self.drawing(),
        }
    }

    fn prompt(&mut self, sign: &str) -> String {
        if self.prompted {
            return String::new();
        }
        let erased = self.erasing();
        self.prompt = Some(sign.to_owned());
        erased + &self.drawing()
    }

    fn typed(&mut self) {
        (self.prompt, self.prompted) = (None, false);
    }

    fn unprompt(&mut self) -> String {
        self.prompt = None;
        self.erasing()
    }

    /// Makes room for something that stays. What somebody has typed stays where it is.
    fn erasing(&mut self) -> String {
        if std::mem::take(&mut self.prompted) {
            return "\n".into();
        }
        if !self.drawn.is_empty() {
            self.to = self.to.measured();
        }
        let drawn = std::mem::take(&mut self.drawn);
        let up = match rows(&drawn, self.to.width) {
            0 => return String::new(),
            1 => String::new(),
            n => format!("\x1b[{}A", n - 1),
        };
        format!("\r{up}\x1b[J")
    }

    fn drawing(&mut self) -> String {
        if let Some(sign) = &self.prompt {
            self.prompted = true;
            return sign.clone();
        }
        if !self.to.person {
            return String::new();
        }
        let lines = self.lines(self.begun.elapsed());
        self.drawn = lines.iter().map(|line| columns(line)).collect();
        lines.join("\n")
    }

    fn write(&self, text: &str) {
        if !text.is_empty() {
            let mut err = io::stderr().lock();
            let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
        }
    }

    fn lines(&self, since: Duration) -> Vec<String> {
        let width = self.to.width.saturating_sub(ROOM);
        let ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        let mut out = Vec::new();
        for bar in self.bars.iter().take(BARS) {
            let amount = format!("{} of {}", size(bar.done), size(bar.total));
            // Where there is little room, the name is worth more than the bar.
            let long = BAR.min(width.saturating_sub(columns(&amount) + 16));
            let name = fit(&bar.name, width.saturating_sub(long + columns(&amount) + 4));
            out.push(format!(
                "  {} {name} {}",
                filled(bar.done, bar.total, long),
                self.to.dim(&amount)
            ));
        }
        if !self.doing.is_empty() {
            let frame = FRAMES[(ms / 80 % 10) as usize];
            let time = match ms >= PATIENT {
                true => running_for(ms / 1000),
                false => String::new(),
            };
            let doing = fit(&self.doing, width.saturating_sub(columns(&time) + 6));
            let time = match time.as_str() {
                "" => String::new(),
                time => format!("  {}", self.to.dim(time)),
            };
            out.push(format!("  {frame} {doing}{time}"));
        }
        out
    }
}

/// The rows that lines take: a terminal that was made narrower has broken those that do not fit.
fn rows(lines: &[usize], width: usize) -> usize {
    let rows = lines.iter().map(|line| line.div_ceil(width.max(1)).max(1));
    rows.sum()
}

/// Whole seconds: tenths would flicker.
fn running_for(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds} s"),
        _ => duration(seconds * 1000),
    }
}

fn filled(done: u64, total: u64, long: usize) -> String {
    let part = (done.min(total) as f64 / total.max(1) as f64 * long as f64) as usize;
    format!("{}{}", "━".repeat(part), "─".repeat(long - part))
}

#[cfg(test)]
#[path = "area_tests.rs"]
mod tests;
