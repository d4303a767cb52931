//! The end of what an agent wrote to its standard error.

use std::{collections::VecDeque, fs::File, io::Write as _, path::Path};

use threadline_files::{Access, Root};

/// A file of this size makes room for a new one.
const FILE_BYTES: u64 = 256 * 1024;
/// How much an entry in the journal shows.
const TAIL_BYTES: usize = 2 * 1024;

const NOW: &str = "stderr.log";
const BEFORE: &str = "stderr.old.log";

pub(super) struct Errors {
    root: Root,
    file: File,
    bytes: u64,
    tail: VecDeque<u8>,
}

impl Errors {
    pub(super) fn create(folder: &Path) -> threadline_files::Result<Self> {
        let root = Root::open(folder)?;
        Ok(Self {
            file: root.append_file(NOW, Access::Private)?,
            root,
            bytes: 0,
            tail: VecDeque::new(),
        })
    }

    /// It is for people who look for a reason: what cannot be kept is let go of.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.tail.extend(bytes);
        let over = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..over);
        if self.bytes >= FILE_BYTES {
            let renewed = self.root.rename(NOW, BEFORE);
            match renewed.and_then(|()| self.root.append_file(NOW, Access::Private)) {
                Ok(file) => (self.file, self.bytes) = (file, 0),
                Err(_) => return,
            }
        }
        self.bytes += bytes.len() as u64;
        let _ = self.file.write_all(bytes);
    }

    /// What was written before is of an earlier turn, and explains nothing of this one.
    pub(super) fn begin_turn(&mut self) {
        self.tail.clear();
    }

    pub(super) fn tail(&self) -> String {
        let bytes: Vec<u8> = self.tail.iter().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
