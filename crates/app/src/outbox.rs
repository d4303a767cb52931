//! What is not done yet: one folder per request, from the moment a turn is asked for.
//!
//! | file | is there |
//! | --- | --- |
//! | `attachments.json`, `a0`, `a1`, … | files that go with the turn, copied when it was asked for |
//! | `request.json` | the request as it was first sent, so that it can be sent again unchanged |
//! | `open` | the request was sent, or is about to be, and its result was not applied yet |
//! | `cancel` | the user stopped the run and the bridge has not confirmed that it heard so |
//! | `sync.json` | the run ended and its files are not all here yet |
//!
//! After a crash these folders say what to go on with. A request that ended well, or was cancelled, is
//! removed unless trying it again would need more than its words; one that failed or was lost stays until the
//! thread's next turn, so that it can be tried again with its files.

mod attach;

use std::path::{Path, PathBuf};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use threadline_contract::{
    AppThreadKey, ArtifactScope, Fault, Millis, RequestId, RunId, Sha256,
    turn::{ATTACHMENTS_BYTES, AttachmentOutline, InlineAttachment, TurnParams},
};
use threadline_files::{Access, FileKind, Reason, Root, atomic};

use self::attach::{decode, read_file, too_large};
use crate::fault::{internal, storage};

const REQUEST: &str = "request.json";
const ATTACHMENTS: &str = "attachments.json";
const OPEN: &str = "open";
const CANCEL: &str = "cancel";
const SYNC: &str = "sync.json";
const MOST_BYTES: u64 = 64 << 20;

/// A turn's request, sealed: sent again, it is the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sealed {
    /// When the user asked for it: finds the message in the transcript.
    pub(crate) asked_at_ms: Millis,
    /// `session.start` or `session.message`.
    pub(crate) method: String,
    /// The parameters without attachments, which lie beside it.
    pub(crate) params: TurnParams,
}

/// A run whose files are to be brought.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToSync {
    pub(crate) thread_id: AppThreadKey,
    pub(crate) request_id: RequestId,
    pub(crate) run_id: RunId,
    /// The run's scope, where the bridge named it or its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scope: Option<ArtifactScope>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attached {
    name: String,
    mime_type: Option<String>,
    file: String,
    size_bytes: u64,
    sha256: Sha256,
}

/// The files of a turn, put aside.
#[derive(Debug, Default)]
pub(crate) struct PutAside {
    /// Where each lies now.
    pub(crate) places: Vec<String>,
    /// What each is, for whoever decides whether to take it.
    pub(crate) outlines: Vec<AttachmentOutline>,
}

/// The folder of unfinished requests. Everything here blocks.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    root: Root,
}

/// What was found at start.
#[derive(Debug)]
pub(crate) struct Unfinished {
    pub(crate) request: RequestId,
    /// The thread of a request whose result was not applied.
    pub(crate) open: Option<AppThreadKey>,
    pub(crate) cancel: Option<TaskToCancel>,
    pub(crate) sync: Option<ToSync>,
}

/// A run that the bridge must still be told to stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskToCancel {
    pub(crate) thread_id: AppThreadKey,
    pub(crate) run_id: Option<RunId>,
    /// Only this run is stopped; the thread's waiting turns go on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) keeps_waiting: bool,
}

impl Outbox {
    pub(crate) fn open(folder: &Path) -> Result<Self, Fault> {
        let root = atomic::create_dir_all(folder, Access::Private).map_err(storage)?;
        Ok(Self { root })
    }

    /// Copies the files of a turn aside.
    pub(crate) fn attach(
        &self,
        request: &RequestId,
        paths: &[String],
        inline: &[InlineAttachment],
    ) -> Result<PutAside, Fault> {
        let mut files = Vec::new();
        for path in paths {
            files.push(read_file(path)?);
        }
        for attachment in inline {
            files.push(decode(attachment)?);
        }
        if files.is_empty() {
            return Ok(PutAside::default());
        }
        let all: usize = files.iter().map(|f| f.bytes.len()).sum();
        if all > ATTACHMENTS_BYTES {
            let mib = all as f64 / f64::from(1 << 20);
            return Err(too_large(&format!(
                "The attachments have {mib:.1} MiB together"
            )));
        }
        let folder = self.folder(request)?;
        let mut list = Vec::new();
        let mut aside = PutAside::default();
        for (n, file) in files.into_iter().enumerate() {
            let name = format!("a{n}");
            let written = folder
                .write_atomic(&name, &file.bytes, Access::Private)
                .map_err(storage)?;
            let outline = AttachmentOutline::of(&file.name, &file.bytes);
            aside.outlines.push(outline);
            aside
                .places
                .push(folder.path().join(&name).display().to_string());
            list.push(Attached {
                name: file.name,
                mime_type: file.mime_type,
                file: name,
                size_bytes: written.size,
                sha256: Sha256(written.sha256),
            });
        }
        write(&folder, ATTACHMENTS, &list)?;
        Ok(aside)
    }

    /// Hands the files of an ended request over to a new one.
    pub(crate) fn reattach(&self, from: &RequestId, to: &RequestId) -> Result<Vec<String>, Fault> {
        let inline = self.attachments(from)?;
        Ok(self.attach(to, &[], &inline)?.places)
    }

    /// Keeps the request as it will be sent.
    pub(crate) fn seal(&self, request: &RequestId, sealed: &Sealed) -> Result<(), Fault> {
        self.keep(request, sealed)?;
        self.note_open(request)
    }

    /// Keeps a request that is not sent, so that it can be tried again with its files.
    pub(crate) fn keep(&self, request: &RequestId, sealed: &Sealed) -> Result<(), Fault> {
        write(&self.folder(request)?, REQUEST, sealed)
    }

    /// Notes that the request's result is waited for (again).
    pub(crate) fn note_open(&self, request: &RequestId) -> Result<(), Fault> {
        write(&self.folder(request)?, OPEN, &true)
    }

    /// Its result was applied, or is not waited for any more.
    pub(crate) fn closed(&self, request: &RequestId) -> Result<(), Fault> {
        self.drop_file(request, OPEN)
    }

    /// The request as it was sealed, and its body with the attachments inside.
    pub(crate) fn sealed(&self, request: &RequestId) -> Result<Option<(Sealed, Bytes)>, Fault> {
        let Some(sealed) = self.read::<Sealed>(request, REQUEST)? else {
            return Ok(None);
        };
        let mut params = sealed.params.clone();
        params.inline_attachments = self.attachments(request)?;
        let body = serde_json::json!({
            "jsonrpc": "2.0", "id": request, "method": sealed.method, "params": params,
        });
        Ok(Some((sealed, body.to_string().into())))
    }

    /// Notes that the bridge must be told to stop the run.
    pub(crate) fn note_cancel(
        &self,
        request: &RequestId,
        task: &TaskToCancel,
    ) -> Result<(), Fault> {
        write(&self.folder(request)?, CANCEL, task)
    }

    /// Notes that the run's files must be brought.
    pub(crate) fn note_sync(&self, task: &ToSync) -> Result<(), Fault> {
        write(&self.folder(&task.request_id)?, SYNC, task)
    }

    /// The bridge has heard it.
    pub(crate) fn cancelled(&self, request: &RequestId) -> Result<(), Fault> {
        self.drop_file(request, CANCEL)
    }

    /// The files are here, or will not come.
    pub(crate) fn synced(&self, request: &RequestId) -> Result<(), Fault> {
        self.drop_file(request, SYNC)
    }

    /// Nothing is left to do for the request.
    pub(crate) fn remove(&self, request: &RequestId) -> Result<(), Fault> {
        match self.root.remove_dir_all(folder_name(request)) {
            Err(e) if e.reason() != Reason::NotFound => Err(storage(e)),
            _ => Ok(()),
        }
    }

    /// Removes a request whose end is known, unless something is left to do for it, or trying it again
    /// would need more than its words.
    pub(crate) fn tidy(&self, request: &RequestId) -> Result<(), Fault> {
        for file in [OPEN, CANCEL, SYNC] {
            if self.read::<serde_json::Value>(request, file)?.is_some() {
                return Ok(());
            }
        }
        match self.worth_keeping(request)? {
            true => Ok(()),
            false => self.remove(request),
        }
    }

    /// Whether a request holds more than its words, which trying it again would need.
    fn worth_keeping(&self, request: &RequestId) -> Result<bool, Fault> {
        let sealed: Option<Sealed> = self.read(request, REQUEST)?;
        let metadata = sealed.and_then(|s| s.params.metadata).unwrap_or_default();
        let contract = metadata.xworkmate_task_artifact_contract;
        let declared = contract.is_some_and(|c| !c.deliverables.is_empty());
        let files: Option<Vec<Attached>> = self.read(request, ATTACHMENTS)?;
        Ok(declared || metadata.task_load_class.is_some() || files.is_some())
    }

    /// Everything that is there, oldest first: request ids sort by time.
    pub(crate) fn unfinished(&self) -> Result<Vec<Unfinished>, Fault> {
        let mut found = Vec::new();
        for entry in self.root.entries("").map_err(storage)? {
            let request = entry
                .name
                .to_str()
                .filter(|_| entry.kind == FileKind::Dir)
                .and_then(request_of);
            let Some(request) = request else { continue };
            let open: Option<bool> = self.read(&request, OPEN)?;
            let sealed: Option<Sealed> = match open {
                Some(_) => self.read(&request, REQUEST)?,
                None => None,
            };
            found.push(Unfinished {
                open: sealed.map(|s| s.params.session_id),
                cancel: self.read(&request, CANCEL)?,
                sync: self.read(&request, SYNC)?,
                request,
            });
        }
        found.sort_by(|a, b| a.request.cmp(&b.request));
        Ok(found)
    }

    fn attachments(&self, request: &RequestId) -> Result<Vec<InlineAttachment>, Fault> {
        let list: Vec<Attached> = self.read(request, ATTACHMENTS)?.unwrap_or_default();
        list.into_iter()
            .map(|a| {
                let path = self.place(request, &a.file);
                let bytes = atomic::read_limited(path, MOST_BYTES).map_err(storage)?;
                Ok(InlineAttachment {
                    name: a.name,
                    mime_type: a.mime_type,
                    content: STANDARD.encode(bytes),
                    size_bytes: Some(a.size_bytes),
                    sha256: Some(a.sha256),
                })
            })
            .collect()
    }

    fn folder(&self, request: &RequestId) -> Result<Root, Fault> {
        self.root
            .create_dir_all(folder_name(request), Access::Private)
            .map_err(storage)
    }

    fn place(&self, request: &RequestId, file: &str) -> PathBuf {
        self.root.path().join(folder_name(request)).join(file)
    }

    fn read<T: DeserializeOwned>(
        &self,
        request: &RequestId,
        file: &str,
    ) -> Result<Option<T>, Fault> {
        let path = self.place(request, file);
        match atomic::read_limited(&path, MOST_BYTES) {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(value) => Ok(Some(value)),
                Err(e) => {
                    tracing::error!("{} cannot be read and is left aside: {e}", path.display());
                    Ok(None)
                }
            },
            Err(e) if e.reason() == Reason::NotFound => Ok(None),
            Err(e) => Err(storage(e)),
        }
    }

    fn drop_file(&self, request: &RequestId, file: &str) -> Result<(), Fault> {
        let path = Path::new(&folder_name(request)).join(file);
        match self.root.remove_file(path) {
            Err(e) if e.reason() != Reason::NotFound => Err(storage(e)),
            _ => Ok(()),
        }
    }
}

fn write(folder: &Root, file: &str, value: &impl Serialize) -> Result<(), Fault> {
    let bytes = serde_json::to_vec(value).map_err(internal)?;
    folder
        .write_atomic(file, &bytes, Access::Private)
        .map_err(storage)?;
    Ok(())
}

/// Ours are plain words; one from elsewhere could hold anything.
fn folder_name(request: &RequestId) -> String {
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    URL_SAFE_NO_PAD.encode(request.as_str())
}

fn request_of(folder: &str) -> Option<RequestId> {
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    RequestId::new(String::from_utf8(URL_SAFE_NO_PAD.decode(folder).ok()?).ok()?).ok()
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
