//! Deleting a thread: what goes, and what stays because it is the user's own.

use serde::{Deserialize, Serialize};
use threadline_contract::AppThreadKey;

/// Parameters of [`DELETE`](super::DELETE).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeleteParams {
    /// The thread: name, beginning of it, or key.
    pub thread: String,
    /// Remove the files too that the user made or edited in the thread's folder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_my_files: bool,
    /// What [`DeletionPreview::yours_digest`] was when the user chose to remove those files. If the files
    /// are others by now, nothing is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yours_digest: Option<String>,
}

/// Result of [`DELETE_PREVIEW`](super::DELETE_PREVIEW).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionPreview {
    /// The thread.
    pub thread_id: AppThreadKey,
    /// Its name.
    pub name: String,
    /// The folder that was made for it; absent when there is none, or it is not ours to touch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Files in it that runs delivered and nobody changed: they go.
    pub delivered: FileTotal,
    /// Files in it that the user made or edited: they stay, unless they shall go too. The first 200.
    pub yours: Vec<OwnFile>,
    /// How many there are of those.
    pub yours_total: FileTotal,
    /// Stands for all of them, with their sizes: other files have another one.
    pub yours_digest: String,
}

/// A file in a thread's folder that the user made or edited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnFile {
    /// Its path in the folder.
    pub path: String,
    /// How many bytes it has.
    pub size: u64,
    /// A run delivered it, and it was changed since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
}

/// How many files, and their bytes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileTotal {
    /// Files.
    pub files: u64,
    /// Bytes.
    pub bytes: u64,
}

impl FileTotal {
    /// Counts one more.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
    }
}

/// Result of [`DELETE`](super::DELETE).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deleted {
    /// The thread that is gone.
    pub thread_id: AppThreadKey,
    /// Its name.
    pub name: String,
    /// The folder that went with it; absent when it was not ours to remove, or stays with files of the
    /// user's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_folder: Option<String>,
    /// The folder that stays, with nothing in it but what the user made or edited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_folder: Option<String>,
    /// What stays in it. The first 200.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<OwnFile>,
    /// How many files stay.
    #[serde(default)]
    pub kept_total: FileTotal,
    /// What its bridge holds of it is not gone yet: why, in a sentence. It goes as soon as it can,
    /// also after a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<String>,
}
