//! A run on the screen: bars and spinners for a person, plain lines for a log, JSON for a program.

use std::{
    collections::HashMap,
    fmt,
    io::{self, Write as _},
    time::{Duration, Instant},
};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use threadline_app::api::FileProgress;
use threadline_contract::{Question, QuestionState, Step, StepState};

use super::{
    Terminal,
    story::Say,
    tables,
    term::Stderr,
    words::{clean, line, short, size, took, wrapped},
};

/// A step that was quick needs no number.
const WORTH_TELLING: i64 = 1000;
/// After so many milliseconds a person wonders how long it has been.
const PATIENT: i64 = 3000;
/// Downloads that get a bar of their own.
const BARS: usize = 6;

/// Where a run is told.
pub(crate) struct Screen {
    out: Terminal,
    err: Terminal,
    bars: MultiProgress,
    spinner: Option<ProgressBar>,
    files: HashMap<String, ProgressBar>,
    /// The answer stands in the middle of a line.
    mid_line: bool,
    /// Something of the answer was written.
    answered: bool,
    begun: Instant,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let (out, err) = (Terminal::stdout(), Terminal::stderr());
        let target = match err.person {
            true => ProgressDrawTarget::term_like_with_hz(Box::new(Stderr::default()), 20),
            false => ProgressDrawTarget::hidden(),
        };
        let bars = MultiProgress::with_draw_target(target);
        Self {
            out,
            err,
            bars,
            spinner: None,
            files: HashMap::new(),
            mid_line: false,
            answered: false,
            begun: Instant::now(),
        }
    }

    /// Says one thing.
    pub(crate) fn say(&mut self, say: Say) {
        match say {
            Say::Doing(what) => self.doing(&what),
            Say::Step(step) => self.line(&ended(&step, self.err)),
            Say::Text(text) => self.text(&text),
            Say::Note(note) => self.note(&note),
            Say::Asked(question) => self.asked(&question),
            Say::Closed(question) => self.closed(&question),
            Say::File(file) => self.file(&file),
        }
    }

    /// Which thread it is.
    pub(crate) fn begin(&mut self, name: &str) {
        let head = format!("{} {}", self.err.good("●"), self.err.bold(name));
        self.line(&head);
    }

    /// A line about what happens.
    pub(crate) fn line(&mut self, text: &str) {
        self.end_line();
        match self.err.person {
            // Above the bars; when that fails the terminal is gone, and with it whoever would read.
            true => _ = self.bars.println(text),
            false => eprintln!("{text}"),
        }
    }

    fn note(&mut self, note: &str) {
        for part in wrapped(&line(note), self.err.width.saturating_sub(4)) {
            self.line(&format!("  {}", self.err.dim(&part)));
        }
    }

    fn doing(&mut self, what: &str) {
        let what = short(what, self.err.width.saturating_sub(24));
        if !self.err.person || what.is_empty() {
            return self.quiet();
        }
        // While words of the answer come, they are the progress.
        if self.mid_line {
            return;
        }
        let spinner = self
            .spinner
            .get_or_insert_with(|| self.bars.add(spinning(self.begun, self.err)));
        spinner.set_message(what);
    }

    /// Takes the spinner away.
    fn quiet(&mut self) {
        if let Some(spinner) = self.spinner.take() {
            spinner.finish_and_clear();
        }
    }

    /// Words of the answer: they go to standard output as they come.
    fn text(&mut self, text: &str) {
        self.quiet();
        let mut text = clean(text);
        if !self.answered {
            text = text.trim_start_matches('\n').to_owned();
            if text.is_empty() {
                return;
            }
            self.answered = true;
            if self.err.person && self.out.person {
                text.insert(0, '\n');
            }
        }
        self.mid_line = !text.ends_with('\n');
        self.write(&text);
    }

    /// Writes to standard output, whatever is drawn on the screen.
    pub(crate) fn write(&mut self, text: &str) {
        // A reader that has gone away wants no more; the run goes on without it.
        let write = || {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes()).and_then(|()| out.flush())
        };
        let _ = match self.out.person {
            true => self.bars.suspend(write),
            false => write(),
        };
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.mid_line) {
            self.quiet();
            self.write("\n");
        }
    }

    fn asked(&mut self, question: &Question) {
        self.quiet();
        let text = tables::ask(question, self.err);
        self.line("");
        self.line(text.trim_end());
    }

    fn closed(&mut self, question: &Question) {
        let text = match (question.state, question.answer_text()) {
            (QuestionState::Answered, Some(answer)) => {
                format!("  {} {}", self.err.good("✓"), line(answer))
            }
            (QuestionState::Declined, _) => "  The question was declined.".into(),
            (QuestionState::Expired, _) => "  The question's time ran out.".into(),
            _ => "  The question was withdrawn.".into(),
        };
        self.line(&text);
    }

    fn file(&mut self, file: &FileProgress) {
        if file.verified {
            if let Some(bar) = self.files.remove(&file.path) {
                bar.finish_and_clear();
            }
            return;
        }
        // A file that is here in an instant needs no bar.
        let worth = self.err.person && file.total >= 256 * 1024;
        if !worth || (self.files.len() >= BARS && !self.files.contains_key(&file.path)) {
            return;
        }
        self.quiet();
        self.end_line();
        let bar = self.files.entry(file.path.clone()).or_insert_with(|| {
            let bar = self.bars.add(ProgressBar::new(file.total));
            let style = ProgressStyle::with_template("  {prefix} {bar:24} {msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            bar.set_style(style.progress_chars("━╸─"));
            bar.set_prefix(format!("{:30}", short(&file.path, 30)));
            bar
        });
        bar.set_position(file.done);
        bar.set_message(format!("{} of {}", size(file.done), size(file.total)));
    }

    /// The screen is a person's again: nothing moves any more.
    pub(crate) fn finish(&mut self) {
        self.quiet();
        for (_, bar) in self.files.drain() {
            bar.finish_and_clear();
        }
        self.end_line();
        if self.out.person {
            self.write("\n");
        }
    }

    /// Lets a person type: the cursor stands behind the sign.
    pub(crate) fn prompt(&mut self) {
        self.quiet();
        let sign = self.err.bold("  › ");
        let mut err = io::stderr().lock();
        let _ = write!(err, "{sign}").and_then(|()| err.flush());
    }
}

/// Something moves, and from the fourth second on it says since when.
fn spinning(begun: Instant, to: Terminal) -> ProgressBar {
    let since = move |_: &ProgressState, out: &mut dyn fmt::Write| {
        let ms = i64::try_from(begun.elapsed().as_millis()).unwrap_or(i64::MAX);
        if ms >= PATIENT {
            // The template's own memory: it takes everything.
            let _ = write!(out, "{}", to.dim(&took(ms / 1000 * 1000)));
        }
    };
    let spinner = ProgressBar::new_spinner();
    let frames = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏", " "];
    let style = ProgressStyle::with_template("  {spinner} {msg}  {since}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    spinner.set_style(style.with_key("since", since).tick_strings(&frames));
    spinner.enable_steady_tick(Duration::from_millis(80));
    spinner
}

fn ended(step: &Step, to: Terminal) -> String {
    let title = short(&step.title, to.width.saturating_sub(16));
    let time = step
        .duration_ms
        .filter(|ms| *ms >= WORTH_TELLING)
        .map(|ms| format!("  {}", to.dim(&took(ms))));
    let time = time.unwrap_or_default();
    match step.state {
        StepState::Failed => {
            let why = step
                .detail
                .as_ref()
                .map(|d| format!(": {}", short(d, 200)))
                .unwrap_or_default();
            format!("  {} {title}{time}{why}", to.bad("✗"))
        }
        StepState::Running | StepState::Done => format!("  {} {title}{time}", to.good("✓")),
    }
}
