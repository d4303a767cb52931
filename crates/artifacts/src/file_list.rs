//! The files that a run delivers, as a list that need not be in memory: a few are, many lie on disk.

use std::{
    collections::HashSet,
    fmt,
    fs::File,
    io::{self, BufRead as _, BufReader, Read},
    os::unix::fs::FileExt as _,
    sync::Arc,
};

use threadline_contract::Artifact;
use threadline_files::{Root, Unnamed};

use crate::Error;

/// So many files are held in memory; a longer list is written to a file without a name.
const IN_MEMORY: usize = 4_096;
/// Lines are written in pieces of about so many bytes.
const PIECE_BYTES: usize = 128 * 1024;

/// Artifacts in the byte order of their paths. Cloning is cheap.
#[derive(Clone)]
pub struct FileList(Held);

#[derive(Clone)]
enum Held {
    Memory(Arc<[Artifact]>),
    /// One line of JSON for each.
    Disk {
        lines: Arc<File>,
        files: u64,
    },
}

impl FileList {
    /// How many there are.
    pub fn len(&self) -> u64 {
        match &self.0 {
            Held::Memory(files) => files.len() as u64,
            Held::Disk { files, .. } => *files,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, in order. Can be asked for any number of times.
    pub fn iter(&self) -> Files {
        Files(match &self.0 {
            Held::Memory(files) => Source::Memory(Arc::clone(files), 0),
            Held::Disk { lines, .. } => Source::Disk(BufReader::new(At {
                file: Arc::clone(lines),
                offset: 0,
            })),
        })
    }

    /// Which of these paths are on the list.
    pub fn find<'a>(&self, mut paths: HashSet<&'a str>) -> Result<HashSet<&'a str>, Error> {
        let mut found = HashSet::new();
        for file in self.iter() {
            if paths.is_empty() {
                break;
            }
            let file = file.map_err(|e| unreadable(&e))?;
            if let Some(path) = paths.take(file.path.as_str()) {
                found.insert(path);
            }
        }
        Ok(found)
    }
}

impl Default for FileList {
    fn default() -> Self {
        Self(Held::Memory(Arc::new([])))
    }
}

impl From<Vec<Artifact>> for FileList {
    fn from(mut files: Vec<Artifact>) -> Self {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self(Held::Memory(files.into()))
    }
}

impl fmt::Debug for FileList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths = self.iter().map_while(Result::ok).map(|file| file.path);
        f.debug_list().entries(paths.take(100)).finish()
    }
}

impl PartialEq for FileList {
    fn eq(&self, other: &Self) -> bool {
        let same = |(a, b): (io::Result<Artifact>, io::Result<Artifact>)| match (a, b) {
            (Ok(a), Ok(b)) => a == b,
            _ => false,
        };
        self.len() == other.len() && self.iter().zip(other.iter()).all(same)
    }
}

/// What a list on disk that cannot be read any more comes to.
pub(crate) fn unreadable(e: &io::Error) -> Error {
    Error::BadList { why: e.to_string() }
}

/// Artifacts one after the other.
pub struct Files(Source);

enum Source {
    Memory(Arc<[Artifact]>, usize),
    Disk(BufReader<At>),
}

impl Iterator for Files {
    type Item = io::Result<Artifact>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Source::Memory(files, at) => {
                let file = files.get(*at)?.clone();
                *at += 1;
                Some(Ok(file))
            }
            Source::Disk(lines) => {
                let mut line = Vec::new();
                match lines.read_until(b'\n', &mut line) {
                    Ok(0) => None,
                    Ok(_) => Some(serde_json::from_slice(&line).map_err(io::Error::from)),
                    Err(e) => Some(Err(e)),
                }
            }
        }
    }
}

/// A reader of a file that others read too.
struct At {
    file: Arc<File>,
    offset: u64,
}

impl Read for At {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let got = self.file.read_at(out, self.offset)?;
        self.offset += got as u64;
        Ok(got)
    }
}

/// A list being made. Files are added in the byte order of their paths.
pub(crate) struct ListWriter<'a> {
    /// Where a long list goes.
    folder: &'a Root,
    memory: Vec<Artifact>,
    disk: Option<Unnamed>,
    piece: Vec<u8>,
    files: u64,
}

impl<'a> ListWriter<'a> {
    pub(crate) fn new(folder: &'a Root) -> Self {
        Self {
            folder,
            memory: Vec::new(),
            disk: None,
            piece: Vec::new(),
            files: 0,
        }
    }

    pub(crate) fn push(&mut self, file: Artifact) -> Result<(), Error> {
        self.files += 1;
        if self.disk.is_none() && self.memory.len() < IN_MEMORY {
            self.memory.push(file);
            return Ok(());
        }
        for file in std::mem::take(&mut self.memory) {
            self.line(&file)?;
        }
        self.line(&file)
    }

    fn line(&mut self, file: &Artifact) -> Result<(), Error> {
        // Text and numbers only: this cannot fail.
        let _ = serde_json::to_writer(&mut self.piece, file);
        self.piece.push(b'\n');
        match self.piece.len() < PIECE_BYTES {
            true => Ok(()),
            false => self.flush(),
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        let disk = match self.disk.take() {
            Some(disk) => disk,
            None => self.folder.begin_unnamed()?,
        };
        self.disk.insert(disk).write(&self.piece)?;
        self.piece.clear();
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<FileList, Error> {
        if self.disk.is_none() && self.piece.is_empty() {
            return Ok(FileList(Held::Memory(self.memory.into())));
        }
        self.flush()?;
        let lines = match self.disk {
            Some(disk) => disk.into_file(),
            None => return Ok(FileList::default()),
        };
        Ok(FileList(Held::Disk {
            lines: Arc::new(lines),
            files: self.files,
        }))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use threadline_contract::{ArtifactPath, Sha256};

    use super::*;

    fn file(n: usize) -> Artifact {
        Artifact {
            path: ArtifactPath::new(format!("f{n:06}\n.txt")).unwrap(),
            size: n as u64,
            sha256: Sha256([n as u8; 32]),
            content_type: "text/plain".into(),
        }
    }

    #[test]
    fn a_list_is_the_same_in_memory_and_on_disk() {
        let t = tempfile::tempdir().unwrap();
        let root = Root::open(t.path()).unwrap();
        for many in [0, 1, IN_MEMORY, IN_MEMORY + 1, 3 * IN_MEMORY] {
            let all: Vec<Artifact> = (0..many).map(file).collect();
            let mut writer = ListWriter::new(&root);
            for file in all.clone() {
                writer.push(file).unwrap();
            }
            let list = writer.finish().unwrap();
            for _ in 0..2 {
                let read: io::Result<Vec<Artifact>> = list.iter().collect();
                assert_eq!(read.unwrap(), all);
            }
            assert_eq!(list.len(), many as u64);
            assert_eq!(list, FileList::from(all));
            let asked = ["f000000\n.txt", "none"].into();
            assert_eq!(list.find(asked).unwrap().len(), usize::from(many > 0));
            assert_eq!(
                std::fs::read_dir(t.path()).unwrap().count(),
                0,
                "no name is left"
            );
        }
    }
}
