//! Reading an event stream that another server wrote.

/// One frame of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The number of a logged update.
    pub(crate) id: Option<i64>,
    /// What it says.
    pub(crate) data: String,
}

/// Takes a stream apart as its bytes come.
#[derive(Default)]
pub(crate) struct Frames(Vec<u8>);

impl Frames {
    /// Adds what came.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next whole frame that has something to say.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        loop {
            let end = self.0.windows(2).position(|pair| pair == b"\n\n")?;
            let rest = self.0.split_off(end + 2);
            let frame = std::mem::replace(&mut self.0, rest);
            if let Some(frame) = read(&String::from_utf8_lossy(&frame)) {
                return Some(frame);
            }
        }
    }
}

fn read(text: &str) -> Option<Frame> {
    let mut id = None;
    let mut data: Option<String> = None;
    for line in text.lines() {
        if let Some(number) = line.strip_prefix("id: ") {
            id = number.parse().ok();
        } else if let Some(said) = line.strip_prefix("data: ") {
            match &mut data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(said);
                }
                None => data = Some(said.to_owned()),
            }
        }
    }
    data.map(|data| Frame { id, data })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn frames_are_read_however_they_are_cut() {
        let text = "retry: 1000\n\ndata: {\"a\":1}\n\nid: 7\ndata: two\ndata: lines\n\ndata: [DONE]\n\nid: 8\nda";
        let frame = |id: Option<i64>, data: &str| Frame {
            id,
            data: data.to_owned(),
        };
        let wanted = [
            frame(None, "{\"a\":1}"),
            frame(Some(7), "two\nlines"),
            frame(None, "[DONE]"),
        ];
        for size in [1, 2, 3, 7, text.len()] {
            let mut frames = Frames::default();
            let mut read = vec![];
            for piece in text.as_bytes().chunks(size) {
                frames.push(piece);
                while let Some(frame) = frames.next() {
                    read.push(frame);
                }
            }
            assert_eq!(read, wanted, "{size}");
        }
    }
}
