//! Making room: what old runs left on this host.

use std::time::{Duration, Instant, SystemTime};

use threadline_artifacts::{Error, Removal, RemovalPlan, Retention, Workspace};
use threadline_contract::{Fault, Millis, Removed, RemovedFor, RunId, SessionKey};

use super::{LocalWorkspace, off_thread};
use crate::{Room, RoomRules, RunRef, Stands};

/// How long one request removes: whoever asked is waiting.
const AT_ONCE: Duration = Duration::from_secs(10);

impl LocalWorkspace {
    /// Keeps a run's files from being removed until then; tells when they are gone already.
    pub async fn hold(&self, run: &RunRef, until: i64) -> Result<Option<Removed>, Fault> {
        let (workspace, run) = (self.workspace.clone(), run.clone());
        off_thread(
            move || match workspace.hold(&run.session, &run.run, until) {
                // A folder that somebody took away by hand has nothing to be kept.
                Ok(()) | Err(Error::NotPrepared { .. }) => Ok(None),
                Err(Error::Removed { .. }) => Ok(Some(removed(&workspace, &run))),
                Err(other) => Err(other.into()),
            },
        )
        .await
    }

    /// Removes the files of old runs, or says which would go.
    pub async fn make_room(&self, rules: RoomRules) -> Result<Room, Fault> {
        let workspace = self.workspace.clone();
        off_thread(move || make_room(&workspace, &rules, SystemTime::now())).await
    }
}

/// A tombstone that cannot be read is still one.
fn removed(workspace: &Workspace, run: &RunRef) -> Removed {
    match workspace.tombstone(&run.session, &run.run) {
        Ok(Some(stone)) => Removed {
            at: Millis(stone.removed_at.saturating_mul(1000)),
            why: stone.why,
        },
        other => {
            tracing::warn!(run.id = %run.run, "What is left of the files of run {} cannot be read: {other:?}", run.run);
            Removed {
                at: Millis(0),
                why: RemovedFor::Unfinished,
            }
        }
    }
}

fn make_room(workspace: &Workspace, rules: &RoomRules, now: SystemTime) -> Result<Room, Fault> {
    let retention = Retention {
        max_age: rules.max_age,
        max_bytes: rules.max_bytes,
        ..Retention::default()
    };
    let stands = |session: &SessionKey, run: &RunId| {
        (rules.stands)(&RunRef {
            session: session.clone(),
            run: run.clone(),
        })
    };
    let is_live = |session: &SessionKey, run: &RunId| stands(session, run) == Stands::GoesOn;
    let is_wanted = |session: &SessionKey, run: &RunId| stands(session, run) != Stands::NotOurs;
    let plan = workspace.plan_removal_of(&retention, now, &is_live, &is_wanted)?;
    let mut room = Room {
        removed: Vec::new(),
        kept: plan.keep,
        bytes_after: plan.bytes_after,
        unknown: plan.unknown.len() as u64,
        more: false,
    };
    if rules.dry_run {
        room.removed = plan.remove;
        return Ok(room);
    }
    room.bytes_after = plan.bytes_before;
    let begun = Instant::now();
    for removal in plan.remove {
        if begun.elapsed() > AT_ONCE {
            room.more = true;
            break;
        }
        let one = RemovalPlan {
            remove: vec![removal],
            ..RemovalPlan::default()
        };
        let mut gone = |removal: &Removal| {
            let scope = &removal.scope;
            tracing::info!(run.id = %scope.run_id, scope = %scope.scope, bytes = scope.bytes, why = ?removal.why, "Removed the files of run {} to make room", scope.run_id);
            room.bytes_after = room.bytes_after.saturating_sub(scope.bytes);
            room.removed.push(removal.clone());
        };
        let spared = workspace.remove(&one, &retention, now, &is_live, &mut gone)?;
        room.kept.extend(spared);
    }
    Ok(room)
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;
