//! Who works in a folder that a run could not have. The runtime knows only that somebody does; whose
//! work may be named to whom is known here.

use std::path::{Path, PathBuf};

use threadline_contract::{Code, Owner, operator::WhichRuns};

use super::{
    drive::{Driver, Halt},
    phase::Verdict,
};

/// Open runs that are looked through: more are not at work at once.
const OPEN: u32 = 200;

impl Driver<'_> {
    /// The same verdict, naming who of this account works in the folder.
    pub(super) async fn with_neighbour(&self, verdict: Verdict) -> Result<Verdict, Halt> {
        let Some(folder) = &self.plan.working_directory else {
            return Ok(verdict);
        };
        if verdict.code != Some(Code::Conflict) {
            return Ok(verdict);
        }
        let (store, account) = (self.engine.store(), &self.run.account);
        let open = store
            .runs_of_account(account, WhichRuns::Open, None, OPEN)
            .await?;
        for run in open.iter().filter(|run| run.id != self.run.id) {
            let session = store.session_by_key(account, &run.session_key).await?;
            let there = session.working_directory.as_deref().map(Path::new);
            if run.started_at.is_none() || there.is_none_or(|there| real(there) != real(folder)) {
                continue;
            }
            let asks = !store.open_questions(&run.id).await?.is_empty();
            return Ok(Verdict {
                message: Some(said(folder, &run.owner, asks)),
                ..verdict
            });
        }
        Ok(verdict)
    }
}

fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn said(folder: &Path, owner: &Owner, asks: bool) -> String {
    let folder = folder.display();
    let Some(thread) = owner.thread() else {
        let how = if asks {
            "waits for an answer"
        } else {
            "works there"
        };
        return format!(
            "The folder {folder} is taken: another turn {how}. Wait for its end, or stop it, and send this again."
        );
    };
    let (how, first) = match asks {
        true => (
            "waits for an answer",
            format!("Answer it (`threadline answer {thread}`)"),
        ),
        false => (
            "works there",
            format!("Wait for its end (`threadline watch {thread}`)"),
        ),
    };
    format!(
        "The folder {folder} is taken: the thread `{thread}` {how}. {first} or cancel it (`threadline cancel {thread}`), and send this again."
    )
}
