//! `xworkmate.tasks.get` and `xworkmate.tasks.cancel`.

use std::time::Duration;

use threadline_contract::{
    ArtifactScope, ArtifactSet, Code, Fault, Millis, Owner, Principal, RunId, Sha256, Snapshot,
    method::{Receipt, TaskParams},
};
use threadline_runtimes::{Registry, RunRef};
use threadline_store::{ArtifactState, Phase, Run, StoreError};

use super::sessions::stopped;
use crate::{
    Engine,
    run::{
        kept::Kept,
        time,
        view::{self, Around, Asked},
    },
};

/// Files of one page, when nothing else is asked for.
const PAGE: u32 = 200;
/// Files of one page at most.
const MOST: u32 = 1000;
/// How long the registry may take to answer before the stored answer is served.
const REGISTRY_TIME: Duration = Duration::from_secs(10);

impl Engine {
    /// The snapshot of a run: its registry's word, or what it last said.
    pub async fn task(&self, caller: &Principal, params: &TaskParams) -> Result<Snapshot, Fault> {
        let run = self.find_run(caller, params).await?;
        if let Some(scope) = &params.artifact_scope {
            ArtifactScope::check(scope.as_str(), &run.session_key, &run.id)?;
        }
        let away = self.run_elsewhere(&run).await?.is_some();
        if !away {
            self.collect_again(&run).await?;
        }
        let asked = match run.phase {
            // The runtime has not got it yet, or has said all that it will.
            Phase::Queued | Phase::Preparing | Phase::Closed => Asked::No,
            _ if run.status.is_terminal() => Asked::No,
            _ if away => Asked::InVain(Code::NodeUnavailable, self.last_heard(&run).await?),
            Phase::Starting | Phase::Running | Phase::Collecting => self.ask(&run).await?,
        };
        // Read again: the registry may just have ended it.
        let run = self.0.store.run(&caller.account, &run.id).await?;
        self.snapshot(&run, asked, params).await
    }

    /// Has the files of a closed run collected after all, if they could not be before: whoever asks for
    /// them has it tried again, now and then.
    async fn collect_again(&self, run: &Run) -> Result<(), Fault> {
        let lane = self.lane(&run.runtime);
        let later = lane.is_some_and(|lane| lane.runtime.collects_later());
        let rest = self.0.config.rules.files_rest.as_millis() as i64;
        let rested = |at: Millis| Millis::now().since(at) >= rest;
        if run.artifact_state != ArtifactState::Failed
            || !later
            || !run.closed_at.is_some_and(rested)
        {
            return Ok(());
        }
        let (node, ttl) = (&self.0.config.node, self.0.config.lease_ttl.as_millis());
        let now = Millis::now();
        let lease = self.0.store.reopen_files(&run.id, node, now, ttl as i64);
        if let Some(lease) = lease.await? {
            self.drive_again(run, lease);
        }
        Ok(())
    }

    /// The snapshot as it stands, for the end of a stream.
    pub async fn result(&self, caller: &Principal, run: &RunId) -> Result<Snapshot, Fault> {
        let run = self.0.store.run(&caller.account, run).await?;
        self.snapshot(&run, Asked::No, &TaskParams::default()).await
    }

    async fn snapshot(
        &self,
        run: &Run,
        asked: Asked,
        params: &TaskParams,
    ) -> Result<Snapshot, Fault> {
        let kept = Kept::read(&self.0.store, &run.id).await?;
        let listed = run.status.is_terminal() && params.include_artifacts.unwrap_or(true);
        let artifacts = if listed {
            self.artifacts(run, kept.receipt, params).await?
        } else {
            None
        };
        view::snapshot(
            run,
            kept,
            Around {
                queue: self.queue_place(run).await?,
                questions: self.0.store.questions_of_run(&run.id).await?,
                artifacts,
                asked,
                no_room_since: self.waits_for_room(&run.runtime, &run.session_key, &run.id),
            },
        )
    }

    /// One page of a run's files, each with a fresh link. `None` until they are collected. They are
    /// read from the record: asking again costs the disk nothing.
    async fn artifacts(
        &self,
        run: &Run,
        receipt: Option<Sha256>,
        params: &TaskParams,
    ) -> Result<Option<ArtifactSet>, Fault> {
        if run.artifact_state != ArtifactState::Done {
            return Ok(None);
        }
        let limit = params.max_files.unwrap_or(PAGE).clamp(1, MOST);
        let after = match &params.cursor {
            None => 0,
            Some(text) => text
                .parse::<u64>()
                .map_err(|_| Fault::invalid("`cursor` is not one that this server gave."))?,
        };
        let page = self
            .0
            .store
            .artifacts(&run.account, &run.id, after, limit)
            .await?;
        let total = self.0.store.artifact_count(&run.account, &run.id).await?;
        let seen = after + page.len() as u64;
        let expires = self.expiry();
        // Without files there are no links that a scope would have to outlive.
        let removed = match total {
            0 => None,
            // Only the server that has the files can keep them.
            _ if self.run_elsewhere(run).await?.is_some() => None,
            _ => self.hold(run, expires).await,
        };
        let items = page
            .into_iter()
            .map(|artifact| self.item(&run.session_key, &run.id, artifact, expires))
            .collect::<Result<_, _>>()?;
        Ok(Some(ArtifactSet {
            scope: ArtifactScope::of(&run.session_key, &run.id)?,
            items,
            total,
            next_cursor: (seen < total).then(|| seen.to_string()),
            omitted: run.omitted.clone(),
            empty_reason: run.empty_reason,
            receipt,
            removed,
        }))
    }

    /// Asks the registry about a run; where that cannot be, says why and when something was last heard
    /// of it.
    async fn ask(&self, run: &Run) -> Result<Asked, Fault> {
        let why = match self.lane(&run.runtime) {
            None => Code::ProviderNotFound,
            Some(lane) => {
                let name = RunRef {
                    session: run.session_key.clone(),
                    run: run.id.clone(),
                };
                let asked = lane.runtime.ask_registry(&name);
                match tokio::time::timeout(REGISTRY_TIME, asked).await {
                    Ok(Ok(Registry::Running | Registry::Ended(_) | Registry::NoRecord)) => {
                        return Ok(Asked::Now);
                    }
                    Ok(Err(fault)) => fault.code,
                    Err(_) => Code::WaitFailed,
                }
            }
        };
        self.0.counters.unconfirmed();
        let heard = self.last_heard(run).await?;
        if !run.runtime.is_gateway() {
            let why = if why == Code::WaitFailed {
                Code::ProviderUnavailable
            } else {
                why
            };
            return Ok(Asked::InVain(why, heard));
        }
        let now = Millis::now();
        let questions = self.0.store.questions_of_run(&run.id).await?;
        let silent = now.since(heard) - time::waited(&questions, heard, now);
        let limit = self.0.config.rules.silence.as_millis() as i64;
        let why = match why {
            Code::ProviderUnavailable if silent >= limit => Code::GatewayLost,
            Code::ProviderUnavailable | Code::ProviderNotFound => why,
            // It is there, and its answer is none.
            _ => Code::WaitFailed,
        };
        Ok(Asked::InVain(why, heard))
    }

    /// When something was last heard of a run.
    async fn last_heard(&self, run: &Run) -> Result<Millis, Fault> {
        let heard = self.0.store.last_frame(run).await?.map(|(_, at)| at);
        Ok(heard.or(run.started_at).unwrap_or(run.created_at))
    }

    pub(crate) async fn find_run(
        &self,
        caller: &Principal,
        params: &TaskParams,
    ) -> Result<Run, Fault> {
        let account = &caller.account;
        let thread = match (&params.app_thread_key, &params.openclaw_session_key) {
            (Some(thread), key) => {
                if let Some(key) = key {
                    let session = self
                        .0
                        .store
                        .session_by_key(account, key)
                        .await
                        .map_err(not_mapped)?;
                    if session.owner.thread() != Some(thread) {
                        return Err(Fault::new(
                            Code::Conflict,
                            format!("Session `{key}` does not belong to thread `{thread}`."),
                        ));
                    }
                }
                thread.clone()
            }
            (None, Some(key)) => {
                let found = self.0.store.session_by_key(account, key).await;
                let session = found.map_err(not_mapped)?;
                let thread = session.owner.thread().cloned();
                thread.ok_or_else(|| not_mapped(StoreError::NotFound))?
            }
            (None, None) => {
                return Err(Fault::new(
                    Code::InvalidLookup,
                    "Name the run by appThreadKey (or openclawSessionKey) and runId.",
                ));
            }
        };
        let owner = Owner::Thread(thread.clone());
        self.known_owner(caller, &owner).await?;
        match &params.run_id {
            Some(id) => match self.0.store.run(account, id).await {
                Ok(run) if run.owner == owner => Ok(run),
                Ok(_) | Err(StoreError::NotFound) => Err(Fault::new(
                    Code::NoNativeRecord,
                    format!("Thread `{thread}` has no run `{id}`."),
                )),
                Err(other) => Err(other.into()),
            },
            None => match self.0.store.latest_run(account, &owner).await? {
                Some(run) => Ok(run),
                None => Err(Fault::new(
                    Code::TaskNotFound,
                    format!("Thread `{thread}` has no run yet."),
                )),
            },
        }
    }

    /// Asks a run to stop. A request until the registry confirms; asking again changes nothing.
    pub async fn cancel_task(
        &self,
        caller: &Principal,
        params: &TaskParams,
    ) -> Result<Receipt, Fault> {
        match self.find_run(caller, params).await {
            Ok(run) => {
                let stop = self.cancel_run(caller, &run.id).await?;
                Ok(stopped(run.id, stop))
            }
            Err(fault)
                if matches!(
                    fault.code,
                    Code::NoNativeRecord | Code::TaskNotFound | Code::MappingNotFound
                ) =>
            {
                Ok(Receipt {
                    accepted: false,
                    run_id: params.run_id.clone(),
                    closed: None,
                    cancelled: false,
                    code: Some(Code::ScopeNotOwned),
                    message: Some(Code::ScopeNotOwned.advice().to_owned()),
                })
            }
            Err(other) => Err(other),
        }
    }
}

fn not_mapped(e: StoreError) -> Fault {
    match e {
        StoreError::NotFound => Fault::new(Code::MappingNotFound, Code::MappingNotFound.advice()),
        other => other.into(),
    }
}
