//! A run on the screen: what goes on moves, what has happened stays; in a log all of it stays.

use std::io;

use jiff::tz::TimeZone;
use threadline_app::api::FileProgress;
use threadline_contract::{Question, Step, StepState};

use super::{
    Terminal,
    area::Area,
    story::Say,
    tables,
    words::{clean, duration, fit, line, short},
    wrap::{Wrap, hanging, wrap},
};
use crate::output::StandardOutput;

/// A step that was quick needs no number.
const WORTH_TELLING: i64 = 1000;
/// A file that is here in an instant needs no bar.
const WORTH_A_BAR: u64 = 256 << 10;

/// Where a run is told.
pub(crate) struct Screen {
    out: Terminal,
    err: Terminal,
    area: Area,
    /// Breaks the answer between words, where a person reads it.
    wrap: Option<Wrap>,
    /// The answer stands in the middle of a line.
    mid_line: bool,
    /// Something of the answer was written.
    answered: bool,
    /// What was said last is not part of the answer.
    apart: bool,
}

impl Screen {
    pub(crate) fn new(out: Terminal, err: Terminal) -> Self {
        Self {
            out,
            err,
            area: Area::new(err),
            wrap: out.person.then(|| Wrap::new(out.width)),
            mid_line: false,
            answered: false,
            apart: true,
        }
    }

    /// Says one thing.
    pub(crate) fn say(&mut self, say: Say) {
        match say {
            Say::Doing(what) => self.doing(&what),
            Say::Step(step) => self.line(&ended(&step, self.err)),
            Say::Text(text) => self.text(&text),
            Say::Withdrawn => {
                self.note("The answer was interrupted. Its last words are said anew:")
            }
            Say::Note(note) => self.note(&note),
            Say::Away(away) => self.note(&tables::trying(&away, &TimeZone::system())),
            Say::Asked(question) => self.asked(&question),
            Say::Closed(question) => self.closed(&question),
            Say::Answered(question) => {
                self.line(tables::answered(&question, self.err).trim_matches('\n'))
            }
            Say::File(file) => self.file(&file),
        }
    }

    /// Which thread it is.
    pub(crate) fn begin(&mut self, name: &str) {
        self.line(&format!("{} {}", self.err.good("●"), self.err.bold(name)));
    }

    /// A line about what happens.
    pub(crate) fn line(&mut self, text: &str) {
        self.end_line();
        self.apart = true;
        self.area.print(io::stderr(), &format!("{text}\n"));
    }

    fn note(&mut self, note: &str) {
        for part in wrap(&line(note), self.err.width.saturating_sub(4)).lines() {
            self.line(&format!("  {}", self.err.dim(part)));
        }
    }

    /// While words of the answer come, they are the progress; something new ends them.
    fn doing(&mut self, what: &str) {
        if !what.is_empty() {
            self.end_line();
        }
        self.area.doing(what);
    }

    /// Words of the answer: they go to standard output as they come.
    fn text(&mut self, text: &str) {
        let mut text = clean(text);
        // Where something else was said in between, one empty line sets them apart, not several.
        if self.apart {
            text = text.trim_start_matches('\n').to_owned();
            if text.is_empty() {
                return;
            }
            if self.answered || (self.err.person && self.out.person) {
                text.insert(0, '\n');
            }
            (self.apart, self.answered) = (false, true);
        }
        self.mid_line = !text.ends_with('\n');
        let text = match &mut self.wrap {
            Some(wrap) => wrap.feed(&text),
            None => text,
        };
        if !text.is_empty() {
            self.write(&text);
        }
    }

    /// Writes to standard output, whatever moves on the screen.
    pub(crate) fn write(&mut self, text: &str) {
        if self.mid_line {
            self.area.doing("");
        }
        self.area.print(StandardOutput, text);
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.mid_line) {
            let rest = self.wrap.as_mut().map(Wrap::rest).unwrap_or_default();
            self.write(&format!("{rest}\n"));
        }
    }

    fn asked(&mut self, question: &Question) {
        self.area.still();
        let text = tables::ask(question, self.err);
        if self.err.person {
            self.line("");
        }
        self.line(text.trim_end());
    }

    fn closed(&mut self, question: &Question) {
        self.area.unprompt();
        self.line(&format!("  {}", tables::ended(question, self.err)));
    }

    fn file(&mut self, file: &FileProgress) {
        if file.verified {
            self.area.arrived(&file.path);
        } else if file.total >= WORTH_A_BAR {
            self.end_line();
            self.area.file(&file.path, file.done, file.total);
        }
    }

    /// The screen is a person's again: nothing moves any more.
    pub(crate) fn finish(&mut self) {
        self.area.still();
        self.end_line();
        if self.out.person {
            self.write("\n");
        }
    }

    /// Lets a person type: the cursor stands behind the sign, and nothing moves there.
    pub(crate) fn prompt(&mut self) {
        self.area.prompt(&self.err.bold("  › "));
    }

    /// Nobody types here any more.
    pub(crate) fn unprompt(&mut self) {
        self.area.unprompt();
    }

    /// A person has typed a line: what goes on moves again.
    pub(crate) fn typed(&mut self) {
        self.area.typed();
    }
}

fn ended(step: &Step, to: Terminal) -> String {
    let title = fit(&step.title, to.width.saturating_sub(16));
    let time = step.duration_ms.filter(|ms| *ms >= WORTH_TELLING);
    let time = time
        .map(|ms| format!("  {}", to.dim(&duration(ms))))
        .unwrap_or_default();
    match step.state {
        StepState::Failed => {
            let why = step
                .detail
                .as_ref()
                .map(|d| format!(": {}", short(d, 200)))
                .unwrap_or_default();
            let text = format!("{title}{time}{why}");
            let text = match to.person {
                true => hanging(&text, to.width, 4),
                false => text,
            };
            format!("  {} {text}", to.bad("✗"))
        }
        StepState::Running | StepState::Done => format!("  {} {title}{time}", to.good("✓")),
    }
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
