//! Makes events of bytes as they come. Every byte is looked at once, however long a line is and however it
//! is parted.

use super::{Frame, ReadError};

/// Makes events of bytes.
#[derive(Debug)]
pub(super) struct Parser {
    most: usize,
    line: Vec<u8>,
    /// The last byte was a carriage return: a line feed after it belongs to it.
    after_return: bool,
    event: Option<String>,
    id: Option<i64>,
    data: Option<String>,
    begun: bool,
}

impl Parser {
    /// A parser that takes events of at most so many bytes.
    pub(super) const fn new(most: usize) -> Self {
        Self {
            most,
            line: Vec::new(),
            after_return: false,
            event: None,
            id: None,
            data: None,
            begun: false,
        }
    }

    /// Takes the next bytes in and hands over the events that they complete.
    pub(super) fn feed<E>(
        &mut self,
        mut bytes: &[u8],
        out: &mut impl Extend<Frame>,
    ) -> Result<(), ReadError<E>> {
        if self.after_return && bytes.first() == Some(&b'\n') {
            bytes = bytes.get(1..).unwrap_or_default();
        }
        if !bytes.is_empty() {
            self.after_return = false;
        }
        while let Some(at) = bytes.iter().position(|b| matches!(b, b'\n' | b'\r')) {
            let (line, rest) = bytes.split_at(at);
            self.add(line)?;
            self.take_line(out);
            let returned = rest.first() == Some(&b'\r');
            bytes = rest.get(1..).unwrap_or_default();
            if returned && bytes.is_empty() {
                self.after_return = true;
            } else if returned && bytes.first() == Some(&b'\n') {
                bytes = bytes.get(1..).unwrap_or_default();
            }
        }
        self.add(bytes)
    }

    /// Hands over what the end of the stream leaves.
    pub(super) fn end(&mut self, out: &mut impl Extend<Frame>) {
        if !self.line.is_empty() {
            self.take_line(out);
        }
        self.dispatch(out);
    }

    fn add<E>(&mut self, bytes: &[u8]) -> Result<(), ReadError<E>> {
        let held = self.line.len() + self.data.as_ref().map_or(0, String::len);
        if held + bytes.len() > self.most {
            return Err(ReadError::TooLong(self.most));
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn take_line(&mut self, out: &mut impl Extend<Frame>) {
        let bytes = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&bytes);
        let mut line: &str = &text;
        if !self.begun {
            self.begun = true;
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(out);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                none => *none = Some(value.to_owned()),
            },
            "event" => self.event = Some(value.to_owned()),
            "id" => self.id = value.parse().ok(),
            _ => {}
        }
    }

    fn dispatch(&mut self, out: &mut impl Extend<Frame>) {
        // Unlike in a browser, the id belongs to its own event only: what is not logged has none.
        let (event, id) = (self.event.take(), self.id.take());
        if let Some(data) = self.data.take() {
            out.extend([Frame { event, id, data }]);
        }
    }
}
