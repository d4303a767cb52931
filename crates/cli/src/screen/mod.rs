//! What people see: words, sizes, times, colours and links. Pure, but for [`Terminal`].

pub(crate) mod area;
pub(crate) mod deletion;
pub(crate) mod ending;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod live;
pub(crate) mod proof;
pub(crate) mod queue;
pub(crate) mod status;
pub(crate) mod story;
pub(crate) mod tables;
pub(crate) mod words;
pub(crate) mod wrap;

use std::{io::IsTerminal, os::fd::AsFd};

use anstyle::{AnsiColor, Style};

/// What the receiving end can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terminal {
    /// A person looks at it.
    pub(crate) person: bool,
    /// It shows colours.
    pub(crate) color: bool,
    /// How many characters fit in a line.
    pub(crate) width: usize,
}

impl Terminal {
    /// A file or a pipe.
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self {
        person: false,
        color: false,
        width: 100,
    };

    pub(crate) fn stdout() -> Self {
        Self::of(&std::io::stdout())
    }

    pub(crate) fn stderr() -> Self {
        Self::of(&std::io::stderr())
    }

    fn of(stream: &(impl IsTerminal + AsFd)) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|t| t == "dumb");
        let person = stream.is_terminal() && !dumb;
        Self {
            person,
            color: person && !set("NO_COLOR"),
            width: width(stream),
        }
    }

    /// The same, as wide as the terminal is now.
    fn measured(self) -> Self {
        Self {
            width: width(&std::io::stderr()),
            ..self
        }
    }

    fn paint(self, style: Style, text: &str) -> String {
        match self.color {
            true => format!("{style}{text}{style:#}"),
            false => text.to_owned(),
        }
    }
    pub(crate) fn bold(self, text: &str) -> String {
        self.paint(Style::new().bold(), text)
    }
    pub(crate) fn dim(self, text: &str) -> String {
        self.paint(Style::new().dimmed(), text)
    }
    pub(crate) fn good(self, text: &str) -> String {
        self.paint(AnsiColor::Green.on_default(), text)
    }
    pub(crate) fn bad(self, text: &str) -> String {
        self.paint(AnsiColor::Red.on_default(), text)
    }
    pub(crate) fn warn(self, text: &str) -> String {
        self.paint(AnsiColor::Yellow.on_default(), text)
    }

    /// A path that can be clicked where that works.
    pub(crate) fn path(self, path: &str, home: Option<&str>) -> String {
        let shown = words::clean(&words::short_path(path, home));
        match self.person {
            true => format!(
                "\x1b]8;;file://{}\x1b\\{shown}\x1b]8;;\x1b\\",
                words::url_path(path)
            ),
            false => words::clean(path),
        }
    }
}

/// The width of the terminal; what is not one gets room enough.
fn width(stream: &impl AsFd) -> usize {
    match rustix::termios::tcgetwinsize(stream) {
        Ok(size) if size.ws_col >= 20 => usize::from(size.ws_col),
        _ => 100,
    }
}
