//! The receipt of a run: its final manifest, in one form, beside its scope.

use threadline_contract::{Artifact, MAX_RECEIPT_BYTES, Receipt, RunId, SessionKey};
use threadline_files::Access;

use crate::{Error, Workspace, notes};

/// The name of a receipt, among a run's notes here and in a synced folder.
pub const RECEIPT: &str = "receipt.json";

impl Workspace {
    /// Writes what a run delivered, all of it, as its receipt. After a crash there is the old one, the
    /// new one or none; writing the same again changes nothing.
    pub fn write_receipt(
        &self,
        session: &SessionKey,
        run: &RunId,
        files: Vec<Artifact>,
    ) -> Result<Receipt, Error> {
        let (scope, _) = self.prepared(session, run)?;
        let receipt = Receipt::new(session.clone(), run.clone(), scope, files)?;
        let bytes = receipt.to_bytes()?;
        let notes = self.make_notes(session, run)?;
        if notes::read(&notes, RECEIPT, MAX_RECEIPT_BYTES)?.as_deref() != Some(&*bytes) {
            notes.write_atomic(RECEIPT, &bytes, Access::Shared)?;
        }
        Ok(receipt)
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
