//! The receipt of a run: its final manifest, in one form, beside its scope.

use std::{
    fs::File,
    io::{self, Read},
};

use sha2::{Digest as _, Sha256 as Hasher};
use threadline_contract::{
    Artifact, ArtifactScope, BadReceipt, MAX_RECEIPT_BYTES, Receipt, ReceiptText, RunId,
    SessionKey, Sha256,
};
use threadline_files::{Access, Reason, Root};

use crate::{
    Error, FileList, Workspace,
    file_list::{Files, unreadable},
    notes,
};

/// The name of a receipt, among a run's notes here and in a synced folder.
pub const RECEIPT: &str = "receipt.json";

impl Workspace {
    /// Writes what a run delivered, all of it, as its receipt, and gives back its digest. After a crash
    /// there is the old one, the new one or none; writing the same again changes nothing.
    pub fn write_receipt(
        &self,
        session: &SessionKey,
        run: &RunId,
        files: &FileList,
    ) -> Result<Sha256, Error> {
        let (scope, _) = self.prepared(session, run)?;
        let pieces = || Pieces::new(session, run, &scope, files);
        let mut hasher = Hasher::new();
        let mut bytes = 0;
        for piece in pieces() {
            let piece = piece.map_err(|e| unreadable(&e))?;
            bytes += piece.len() as u64;
            hasher.update(&piece);
        }
        let digest = Sha256(hasher.finalize().into());
        let before = ReceiptText::before(digest);
        if bytes + (before.len() + ReceiptText::AFTER.len()) as u64 > MAX_RECEIPT_BYTES {
            return Err(Error::BadReceipt(BadReceipt::TooLarge));
        }
        let text = || Text {
            pieces: pieces(),
            piece: before.clone(),
            at: 0,
            ended: false,
        };
        let notes = self.make_notes(session, run)?;
        if !is_there(&notes, text())? {
            notes.copy_in(RECEIPT, &mut text(), Access::Shared)?;
        }
        Ok(digest)
    }

    /// The receipt of a run, also after its files were removed; `None` if none was written.
    pub fn receipt(&self, session: &SessionKey, run: &RunId) -> Result<Option<Receipt>, Error> {
        let Some(notes) = self.notes(session, run)? else {
            return Ok(None);
        };
        let bytes = notes::read(&notes, RECEIPT, MAX_RECEIPT_BYTES)?;
        let receipt = bytes.as_deref().map(Receipt::from_bytes).transpose()?;
        match receipt {
            Some(r) if (&r.session_key, &r.run_id) != (session, run) => Err(Error::Conflict {
                folder: notes::folder(session, run),
                why: "its receipt is another run's",
            }),
            receipt => Ok(receipt),
        }
    }
}

/// Whether the receipt that lies there is this text, to the byte.
fn is_there(notes: &Root, mut text: impl Read) -> Result<bool, Error> {
    let there = match notes.open_file(RECEIPT) {
        Ok(there) => there,
        Err(e) if e.reason() == Reason::NotFound => return Ok(false),
        Err(e) => return Err(e.into()),
    };
    same(&there, &mut text).map_err(|e| unreadable(&e))
}

fn same(mut there: &File, text: &mut impl Read) -> io::Result<bool> {
    let (mut a, mut b) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    loop {
        let (n, m) = (fill(&mut there, &mut a)?, fill(text, &mut b)?);
        if n != m || a.get(..n) != b.get(..m) {
            return Ok(false);
        }
        if n == 0 {
            return Ok(true);
        }
    }
}

/// Reads until the buffer is full or nothing more comes.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while let Some(rest) = buffer.get_mut(got..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}

/// The inner text of a receipt, piece by piece.
struct Pieces {
    text: ReceiptText,
    files: Files,
    at: At,
}

#[derive(Clone, Copy)]
enum At {
    Opening,
    Files,
    End,
}

impl Pieces {
    fn new(session: &SessionKey, run: &RunId, scope: &ArtifactScope, files: &FileList) -> Self {
        Self {
            text: ReceiptText::new(session, run, scope),
            files: files.iter(),
            at: At::Opening,
        }
    }
}

impl Iterator for Pieces {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.at {
            At::Opening => {
                self.at = At::Files;
                Some(Ok(self.text.opening().to_vec()))
            }
            At::Files => match self.files.next() {
                Some(Ok(file)) => {
                    let mut piece = Vec::new();
                    let file: Artifact = file;
                    self.text.file(&file, &mut piece);
                    Some(Ok(piece))
                }
                Some(Err(e)) => Some(Err(e)),
                None => {
                    self.at = At::End;
                    Some(Ok(self.text.closing().to_vec()))
                }
            },
            At::End => None,
        }
    }
}

/// The whole text, made while it is read.
struct Text {
    pieces: Pieces,
    piece: Vec<u8>,
    at: usize,
    ended: bool,
}

impl Read for Text {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() && !self.ended {
            self.at = 0;
            self.piece = match self.pieces.next().transpose()? {
                Some(piece) => piece,
                None => {
                    self.ended = true;
                    ReceiptText::AFTER.to_vec()
                }
            };
        }
        let left = self.piece.get(self.at..).unwrap_or_default();
        let n = left.len().min(out.len());
        if let (Some(to), Some(from)) = (out.get_mut(..n), left.get(..n)) {
            to.copy_from_slice(from);
        }
        self.at += n;
        Ok(n)
    }
}
