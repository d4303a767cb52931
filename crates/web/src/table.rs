//! Rows and columns of a text with separators, as far as a person looks at them.

/// Rows that are shown at most.
pub(crate) const ROWS: usize = 500;
/// Columns that are shown at most.
pub(crate) const COLUMNS: usize = 60;

/// A table, cut where it becomes too much.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// The first row.
    pub(crate) head: Vec<String>,
    /// The rows after it.
    pub(crate) rows: Vec<Vec<String>>,
    /// There is more than is shown.
    pub(crate) more: bool,
}

/// Reads a table as RFC 4180 has it. Anything can be read so; what is no table becomes an odd one.
pub(crate) fn read(text: &str, separator: char) -> Table {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader {
        chars: text.chars().peekable(),
        separator,
        more: false,
    };
    let head = reader.row().unwrap_or_default();
    let mut rows = Vec::new();
    while rows.len() < ROWS {
        match reader.row() {
            Some(row) => rows.push(row),
            None => break,
        }
    }
    let more = reader.more || reader.chars.peek().is_some();
    Table { head, rows, more }
}

struct Reader<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
    separator: char,
    more: bool,
}

impl Reader<'_> {
    /// The next row that is not empty.
    fn row(&mut self) -> Option<Vec<String>> {
        loop {
            self.chars.peek()?;
            let row = self.line();
            if row.iter().any(|cell| !cell.is_empty()) {
                return Some(row);
            }
        }
    }

    fn line(&mut self) -> Vec<String> {
        let mut row = Vec::new();
        loop {
            let (cell, ended) = self.cell();
            match row.len() {
                COLUMNS => self.more = true,
                _ => row.push(cell),
            }
            if ended {
                return row;
            }
        }
    }

    /// A cell, and whether it ended its row.
    fn cell(&mut self) -> (String, bool) {
        let mut cell = String::new();
        let mut quoted = self.chars.next_if_eq(&'"').is_some();
        while let Some(c) = self.chars.next() {
            match c {
                '"' if quoted => match self.chars.next_if_eq(&'"') {
                    Some(quote) => cell.push(quote),
                    None => quoted = false,
                },
                c if c == self.separator && !quoted => return (cell, false),
                '\r' if !quoted && self.chars.peek() == Some(&'\n') => {}
                '\n' if !quoted => return (cell, true),
                c => cell.push(c),
            }
        }
        (cell, true)
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
