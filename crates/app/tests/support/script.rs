//! What a run shall do, and what its files shall do when somebody fetches them.

use std::collections::VecDeque;

use threadline_contract::{Code, RunStatus, Sha256};

use super::Content;

/// What a run does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// Text that it streams, one event each.
    pub(crate) deltas: Vec<String>,
    /// How it ends; a run without one goes on until the test ends it.
    pub(crate) end: Option<(RunStatus, Option<Code>)>,
    pub(crate) text: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) files: Vec<(String, Content, Download)>,
    /// The scope that the list of files claims, instead of the run's own.
    pub(crate) scope: Option<String>,
    /// The digest of the receipt that the list is said to come to.
    pub(crate) receipt: Option<Sha256>,
    /// The files are listed, but gone.
    pub(crate) removed: bool,
    /// How many looks at the run find its files still being collected.
    pub(crate) pending: usize,
    /// The registry's end is told at once, the result only when the test says so.
    pub(crate) hold_result: bool,
    /// It does not stop when it is asked to.
    pub(crate) deaf: bool,
}

impl Plan {
    pub(crate) fn done(text: &str) -> Self {
        Self {
            end: Some((RunStatus::Completed, None)),
            text: Some(text.into()),
            ..Self::default()
        }
    }

    pub(crate) fn ended(status: RunStatus, code: Option<Code>, message: &str) -> Self {
        Self {
            end: Some((status, code)),
            message: Some(message.into()),
            ..Self::default()
        }
    }

    pub(crate) fn hold() -> Self {
        Self::default()
    }

    pub(crate) fn deaf() -> Self {
        Self {
            deaf: true,
            ..Self::default()
        }
    }

    pub(crate) fn file(self, path: &str, content: impl Into<Content>) -> Self {
        self.file_that(path, content, Download::default())
    }

    pub(crate) fn file_that(
        mut self,
        path: &str,
        content: impl Into<Content>,
        how: Download,
    ) -> Self {
        self.files.push((path.into(), content.into(), how));
        self
    }
}

/// What happens when a file is fetched. The default is that it comes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Download {
    /// Answers before the file itself.
    pub(crate) statuses: VecDeque<u16>,
    /// Answers to everything, instead of the file.
    pub(crate) always: Option<u16>,
    /// The connection breaks when this byte would be sent, once each.
    pub(crate) cuts: VecDeque<u64>,
    /// Ranges are not understood.
    pub(crate) whole_only: bool,
    /// Other bytes than the list says.
    pub(crate) instead: Option<Content>,
    /// The list says another size.
    pub(crate) listed_size: Option<u64>,
    /// The link in the list, instead of ours.
    pub(crate) link: Option<String>,
    /// The connection stands still before the first byte.
    pub(crate) silent: bool,
}
