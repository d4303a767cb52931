//! One live server for one name. Two on one database, with a data folder that was copied, would each take the
//! other's sessions and leases for their own.
//!
//! Every start has an id, which the data folder and the database both keep. A start whose folder has the id in
//! the database goes on where that one ended, however it ended; any other waits until nobody of that name was
//! there for a while. A folder is itself by its inode, so the ids in a copy do not count. Where even that was
//! copied, with the whole disk, the one that was there first notices that it was replaced, and stops.

use std::{os::unix::fs::MetadataExt as _, path::Path};

use serde::{Deserialize, Serialize};
use threadline_contract::{Code, Fault, Millis, TokenId};
use threadline_files::{Access, Reason, atomic};
use threadline_store::{NodeClaim, Store};
use tracing::error;

use crate::{Engine, EngineConfig, nodes::AWAY};

/// The file in the data folder that has the ids.
const FILE: &str = "node.start";
/// It is a short one.
const MAX_FILE_BYTES: u64 = 1024;

/// The ids of a data folder's starts.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Starts {
    /// The folder's inode: a copy has another.
    folder: u64,
    /// The one that had the name last.
    before: Option<String>,
    /// One that is about to get it, or has it already.
    this: String,
}

/// Gets the server its name, and gives the id of this start.
pub(crate) async fn claim(config: &EngineConfig, store: &Store) -> Result<String, Fault> {
    let starts = next(&config.data)?;
    let now = Millis::now();
    let claim = NodeClaim {
        node: config.node.clone(),
        url: config.advertise.clone(),
        incarnation: starts.this.clone(),
        before: starts.before.clone(),
        away_since: now.plus(-(AWAY.as_millis() as i64)),
        at: now,
    };
    if !store.claim_node(claim).await? {
        return Err(in_use(config, store).await?);
    }
    let this = starts.this;
    let confirmed = Starts {
        before: Some(this.clone()),
        this: this.clone(),
        ..starts
    };
    write(&config.data, &confirmed)?;
    Ok(this)
}

/// The ids, with that of this start noted before it is used: after a crash in between it is used again.
fn next(data: &Path) -> Result<Starts, Fault> {
    atomic::create_dir_all(data, Access::Private).map_err(threadline_artifacts::Error::from)?;
    let folder = std::fs::metadata(data).map_err(|e| {
        Fault::new(
            Code::Internal,
            format!("The data folder {} cannot be read: {e}.", data.display()),
        )
    })?;
    let kept = match atomic::read_limited(data.join(FILE), MAX_FILE_BYTES) {
        Ok(bytes) => serde_json::from_slice::<Starts>(&bytes).ok(),
        Err(e) if e.reason() == Reason::NotFound => None,
        Err(e) => return Err(threadline_artifacts::Error::from(e).into()),
    };
    let kept = kept.filter(|kept| kept.folder == folder.ino());
    let starts = match kept {
        Some(crashed) if crashed.before.as_ref() != Some(&crashed.this) => crashed,
        kept => Starts {
            folder: folder.ino(),
            before: kept.map(|kept| kept.this),
            this: TokenId::fresh().to_string(),
        },
    };
    write(data, &starts)?;
    Ok(starts)
}

fn write(data: &Path, starts: &Starts) -> Result<(), Fault> {
    let text = serde_json::to_vec(starts).map_err(|_| Fault::internal())?;
    let written = atomic::write(data.join(FILE), &text, Access::Private);
    Ok(written
        .map(drop)
        .map_err(threadline_artifacts::Error::from)?)
}

async fn in_use(config: &EngineConfig, store: &Store) -> Result<Fault, Fault> {
    let other = store.node(&config.node).await?;
    let place = other.and_then(|other| other.url);
    let place = place.map_or(String::new(), |url| format!(" at {url}"));
    Ok(Fault::new(
        Code::NodeNameInUse,
        format!(
            "A server named {} is on this database already{place}. If {} is a copy of its data folder, delete the file `node` in the copy, so that it becomes a server of its own. If that server is gone, start this one again in a minute.",
            config.node,
            config.data.display(),
        ),
    ))
}

impl Engine {
    /// Notes that this server is there, and where. One that was replaced stops all its work.
    pub(crate) async fn note_node(&self) -> Result<(), Fault> {
        let Some(incarnation) = self.0.incarnation.as_deref() else {
            return Ok(());
        };
        let (store, url) = (&self.0.store, self.0.config.advertise.as_deref());
        let noted = store.note_node(self.node_name(), incarnation, url, Millis::now());
        if !noted.await? {
            error!(
                "Another server has the name {} now; this one stops",
                self.node_name()
            );
            self.0.replaced.cancel();
            self.stopping().cancel();
        }
        Ok(())
    }

    /// Waits until another server has this one's name. This one has stopped its work by then.
    pub async fn replaced(&self) -> Fault {
        self.0.replaced.cancelled().await;
        Fault::new(
            Code::NodeNameInUse,
            format!(
                "Another server named {} is on the database since this one did not answer for a while, and has taken its place. {}",
                self.node_name(),
                Code::NodeNameInUse.advice()
            ),
        )
    }

    /// Gives the name back at the end, so that whoever comes next needs not wait.
    pub(crate) async fn leave(&self) {
        if let Some(incarnation) = self.0.incarnation.as_deref()
            && let Err(e) = self
                .0
                .store
                .release_node(self.node_name(), incarnation)
                .await
        {
            error!(error = %e, "The name of this server was not given back: {e}");
        }
    }
}
