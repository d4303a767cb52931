//! The last phase: what the ended run made is brought into its scope, listed and recorded.

use threadline_artifacts::deliverables;
use threadline_contract::{Code, Fault, Millis, Missing, RunStatus, UpdateKind};
use threadline_retry::table;
use threadline_runtimes::{End, EndStatus, Manifest, Registry};
use threadline_store::{ArtifactState, RunChange};
use tokio::time::Instant;
use tracing::{error, warn};

use super::{
    drive::{Driver, Halt},
    kept::Kept,
    phase::{Event, Verdict, verdict},
    update,
};

/// After so many failures the run is closed without its files, and says so.
const TRIES: u32 = 8;
/// With this one it is said that they are late.
const TOLD: u32 = 4;

impl Driver<'_> {
    pub(super) async fn collect(&mut self) -> Result<(), Halt> {
        let end = self.known_end().await?;
        let waits = self.verdict_waits(&end) && !self.run.status.is_terminal();
        let gathered = if waits {
            let limit = self.engine.0.config.verify_wait;
            match tokio::time::timeout(limit, self.gather(&end)).await {
                Ok(gathered) => gathered?,
                Err(_) => {
                    // The verdict may not wait for ever; the files still may come.
                    let all = self.all_missing();
                    let message = format!(
                        "Its deliverables could not be looked for within {} minutes.",
                        limit.as_secs() / 60
                    );
                    let verdict = Verdict {
                        message: Some(message),
                        ..verdict(&end, self.cancel_requested(), &all)
                    };
                    self.record_end(&end, verdict, None).await?;
                    self.gather(&end).await?
                }
            }
        } else {
            self.gather(&end).await?
        };
        let mut missing = vec![];
        let mut change = RunChange {
            closed_at: Some(Millis::now()),
            ..RunChange::default()
        };
        match &gathered {
            Ok(manifest) => {
                missing = deliverables::missing(&manifest.artifacts, &self.plan.deliverables)
                    .unwrap_or_else(|_| self.all_missing());
                self.engine
                    .store()
                    .put_manifest(
                        &self.lease,
                        manifest.artifacts.iter(),
                        &manifest.omitted,
                        manifest.empty_reason,
                    )
                    .await?;
                change.artifact_state = Some(ArtifactState::Done);
                change.usage = manifest.usage;
                let mut kept = Kept::read(self.engine.store(), self.id()).await?;
                kept.receipt = manifest.receipt;
                kept.artifacts_failed = None;
                change.turn = Some(kept.text()?);
            }
            Err(why) => {
                change.artifact_state = Some(ArtifactState::Failed);
                let mut kept = Kept::read(self.engine.store(), self.id()).await?;
                kept.artifacts_failed = Some(why.clone());
                change.turn = Some(kept.text()?);
                if waits {
                    missing = self.all_missing();
                }
            }
        }
        if waits && !self.run.status.is_terminal() {
            self.record_end(&end, verdict(&end, self.cancel_requested(), &missing), None)
                .await?;
        }
        if end.status == EndStatus::Completed {
            change.missing = Some(missing);
        }
        let mut update = self.update(UpdateKind::Status, "completed");
        update.status = Some(self.run.status);
        update.code = self.run.code;
        update.usage = change.usage;
        self.shift(
            Event::Collected,
            change,
            vec![update::logged(&update, None)?],
        )
        .await
    }

    /// How the run ended: from memory, else from its registry, else from our own record.
    async fn known_end(&self) -> Result<End, Halt> {
        if let Some(end) = &self.end {
            return Ok(end.clone());
        }
        if let Registry::Ended(end) = self.runtime.ask_registry(&self.plan.run_ref()).await? {
            return Ok(end);
        }
        warn!(run.id = %self.id(), "The registry has forgotten run {}; its files are collected without its evidence", self.id());
        let status = match self.run.status {
            RunStatus::Cancelled => EndStatus::Cancelled,
            RunStatus::Failed => EndStatus::Failed,
            _ => EndStatus::Completed,
        };
        Ok(End {
            status,
            code: self.run.code,
            message: self.run.message.clone(),
            text: self.run.text.clone(),
            usage: self.run.usage,
            wrote: vec![],
        })
    }

    /// Collects, trying again when the disk or the runtime fails. The inner error is final.
    async fn gather(&self, end: &End) -> Result<Result<Manifest, String>, Halt> {
        let mut pauses = table::COLLECT_FILES.pauses();
        let begun = Instant::now();
        // Somebody asked for them, and waits.
        let again = Kept::read(self.engine.store(), self.id()).await?;
        let again = again.artifacts_failed.is_some();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let fault = match self.runtime.collect(&self.plan, end).await {
                Ok(manifest) => return Ok(Ok(manifest)),
                Err(fault) => fault,
            };
            error!(run.id = %self.id(), code = %fault.code, attempt, "Files of run {} could not be collected: {}", self.id(), fault.message);
            let away = fault.code == Code::ProviderUnavailable;
            let enough = match (away, again) {
                (true, true) => true,
                (true, false) => begun.elapsed() >= self.engine.0.config.rules.files_wait,
                (false, _) => attempt == TRIES,
            };
            if enough {
                return Ok(Err(format!("{}: {}", fault.code, fault.message)));
            }
            if attempt == TOLD && away {
                self.tell_that_files_wait(&fault).await?;
            }
            self.engine.pause(&mut pauses).await?;
        }
    }

    async fn tell_that_files_wait(&self, fault: &Fault) -> Result<(), Halt> {
        let mut update = self.update(UpdateKind::Task, "task.note");
        update.message = Some(format!(
            "The run's files cannot be collected yet: {} It is tried again for {} minutes.",
            fault.message,
            self.engine.0.config.rules.files_wait.as_secs() / 60
        ));
        self.log(vec![update::logged(&update, None)?]).await
    }

    fn all_missing(&self) -> Vec<Missing> {
        self.plan
            .deliverables
            .iter()
            .map(|d| Missing {
                deliverable: d.clone(),
                found: 0,
            })
            .collect()
    }
}
