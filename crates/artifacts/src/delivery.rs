//! What a run delivers, for the record: everything in its scope, in the byte order of paths, gone through
//! once. Files are read a batch at a time, and the list of them goes to disk when it grows long, so that a
//! run with a million files needs no more memory than one with ten thousand; but for a few bytes of each
//! (see [`Twins`]) and the names of the largest folder.

use threadline_contract::{Artifact, EmptyReason, RunId, SessionKey, Sha256, Twins};
use threadline_files::walk::{Found, walk};

use crate::{
    Error, ExportOptions, FileList, MAX_DEPTH, MAX_FILE_BYTES, Omissions, ScopeStyle, Workspace,
    cache::Digests,
    export::{Reading, Rules, left_out, why_empty},
    file_list::ListWriter,
    page::Candidate,
    skip::exports_folder,
};

/// Files that are read together.
const BATCH_FILES: usize = 2_048;

/// What a run delivers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delivery {
    /// The files.
    pub files: FileList,
    /// What was seen and not taken.
    pub omitted: Omissions,
    /// Why there are none.
    pub empty_reason: Option<EmptyReason>,
    /// The digest of the receipt that was written; none if there are more files than a receipt can name.
    pub receipt: Option<Sha256>,
    /// What a person should know.
    pub warnings: Vec<String>,
}

impl Workspace {
    /// Lists all that a run delivers, and writes its receipt. Can be repeated at any time; writing the
    /// same receipt again changes nothing.
    pub fn deliver(&self, session: &SessionKey, run: &RunId) -> Result<Delivery, Error> {
        let (_, Some(scope)) = self.scope_in(ScopeStyle::Own, session, run)? else {
            let removed = self.is_removed(session, run)?;
            let why = match removed {
                true => EmptyReason::ScopeRemoved,
                false => EmptyReason::ScopeMissing,
            };
            return Ok(Delivery {
                empty_reason: Some(why),
                ..Delivery::default()
            });
        };
        let notes = self.make_notes(session, run)?;
        let options = ExportOptions::default();
        let mut rules = Rules::new(&scope, &options, None)?;
        let digests = Digests::load(self, session, run);
        let reading = Reading {
            scope: &scope,
            max_file_bytes: MAX_FILE_BYTES,
            verified: &self.verified,
            digests: &digests,
        };
        let mut delivery = Delivery::default();
        let mut list = ListWriter::new(&notes);
        let mut twins = Twins::default();
        let mut read = |batch: Vec<Candidate>, omitted: &mut Omissions| -> Result<(), Error> {
            for artifact in reading.all(batch, omitted) {
                twins.see(artifact.path.as_str());
                list.push(artifact)?;
            }
            Ok(())
        };
        let mut batch = Vec::new();
        for found in walk(&scope, MAX_DEPTH).enter_if(exports_folder) {
            let (path, stamp) = match found {
                Found::File { path, stamp } => (path, stamp),
                other => {
                    if let Some((path, reason)) = left_out(other) {
                        delivery.omitted.add(path, reason);
                    }
                    continue;
                }
            };
            match rules.judge(path, stamp) {
                Ok(candidate) => batch.push(candidate),
                Err((path, reason)) => delivery.omitted.add(path, reason),
            }
            if batch.len() == BATCH_FILES {
                read(std::mem::take(&mut batch), &mut delivery.omitted)?;
            }
        }
        read(batch, &mut delivery.omitted)?;
        digests.keep(self, session, run);
        delivery.files = list.finish()?;
        delivery.omitted.named.sort_unstable();
        if delivery.files.is_empty() {
            delivery.empty_reason = Some(why_empty(&delivery.omitted));
        }
        delivery.warnings.append(&mut rules.ignore.warnings);
        let path = |file: std::io::Result<Artifact>| file.ok().map(|file| file.path.to_string());
        let twins = twins.warnings(delivery.files.iter().filter_map(path));
        delivery.warnings.extend(twins);
        delivery.receipt = match self.write_receipt(session, run, &delivery.files) {
            Ok(digest) => Some(digest),
            Err(Error::BadReceipt(why)) => {
                delivery
                    .warnings
                    .push(format!("There is no receipt: {why}."));
                None
            }
            Err(other) => return Err(other),
        };
        Ok(delivery)
    }
}
