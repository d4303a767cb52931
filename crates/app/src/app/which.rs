//! Which thread a turn belongs to: a new one, or one that is gone on with.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use threadline_contract::{
    AppThreadKey, Code, Fault, Millis, RuntimeId,
    thread::{
        ContextState, ExecutionBinding, ExecutionMode, Lifecycle, LifecycleState, SCHEMA_VERSION,
        TaskThread, WorkspaceBinding,
    },
    turn::AttachmentOutline,
};

use super::{Core, offers::folder};
use crate::{
    api::SendParams, bridge::base_url, change, endpoints::LOCAL, fault::storage, records::lock,
    workspace,
};

/// How long after a run's end its result may still be on its way.
const RESULT: Duration = Duration::from_secs(15);

impl Core {
    /// Makes a thread, with its workspace and its name.
    pub(super) async fn create(
        self: &Arc<Self>,
        params: &SendParams,
        runtime: Option<RuntimeId>,
        files: &[AttachmentOutline],
    ) -> Result<AppThreadKey, Fault> {
        let endpoint = match &params.bridge {
            None => LOCAL.to_owned(),
            Some(bridge) => {
                let (core, bridge) = (self.clone(), bridge.clone());
                self.blocking(move || core.endpoints.remember(&bridge))
                    .await??
            }
        };
        let working_directory = folder(params);
        if let Some(folder) = working_directory.clone() {
            let own = [self.config.data.clone(), self.config.workspaces.clone()];
            let own = (endpoint == LOCAL).then_some(own);
            self.blocking(move || work_folder(&folder, own.as_ref().map(|own| own.as_slice())))
                .await??;
        }
        let told = self
            .would_take(&endpoint, runtime.as_ref(), params, files)
            .await?;
        let target = runtime.clone().or(told);
        let execution_mode = match target.as_ref().map(RuntimeId::target) {
            Some("gateway") => ExecutionMode::Gateway,
            _ => ExecutionMode::Agent,
        };
        let now = Millis::now();
        let key = loop {
            let n = self.serial.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            let key = AppThreadKey::draft(now, n);
            if self.records.index(|i| i.get(&key).is_none()) {
                break key;
            }
        };
        let path = {
            let (base, key) = (self.config.workspaces.clone(), key.clone());
            self.blocking(move || workspace::claim(&base, &key))
                .await?
                .map_err(storage)?
        };
        let record = self
            .records
            .create(|name| TaskThread {
                schema_version: SCHEMA_VERSION,
                thread_id: key,
                name,
                title: change::title(&params.prompt),
                workspace_binding: WorkspaceBinding {
                    workspace_kind: "localFs".into(),
                    workspace_path: path.display().to_string(),
                    working_directory,
                },
                execution_binding: ExecutionBinding {
                    execution_mode,
                    runtime,
                    endpoint_id: endpoint,
                },
                context_state: ContextState {
                    permission_policy: params.permissions.clone(),
                    ..ContextState::default()
                },
                lifecycle_state: LifecycleState {
                    status: Lifecycle::Ready,
                    last_run_at_ms: None,
                    last_result_code: None,
                },
                created_at_ms: now,
                updated_at_ms: now,
            })
            .await?;
        Ok(record.thread_id)
    }

    /// Finds a thread that the user goes on with, and says what they should know about it.
    pub(super) async fn existing(
        self: &Arc<Self>,
        text: &str,
        params: &SendParams,
        runtime: Option<RuntimeId>,
        files: &[AttachmentOutline],
    ) -> Result<(AppThreadKey, Option<String>), Fault> {
        let key = self.find(text)?;
        let record = self.records.read(&key).await?;
        change::not_archived(&record)?;
        let folder = record.workspace_binding.working_directory.as_deref();
        if let Some(other) = params.working_directory.as_deref()
            && folder != Some(other)
        {
            return Err(Fault::invalid(
                "A thread's working directory is fixed when it is made. Begin a new thread.",
            ));
        }
        if let Some(bridge) = &params.bridge {
            let url = base_url(&bridge.url)?.to_string();
            if url.trim_end_matches('/') != record.execution_binding.endpoint_id {
                return Err(Fault::invalid(
                    "A thread's bridge is fixed when it is made. Begin a new thread.",
                ));
            }
        }
        let known = record.execution_binding.runtime.clone();
        let moved = runtime.filter(|wanted| known.as_ref() != Some(wanted));
        if moved.is_some() || !params.expect.is_empty() || !files.is_empty() {
            let endpoint = &record.execution_binding.endpoint_id;
            let runtime = moved.as_ref().or(known.as_ref());
            self.would_take(endpoint, runtime, params, files).await?;
        }
        if let Some(policy) = &params.permissions {
            self.records
                .update(&key, |record| {
                    record.context_state.permission_policy = Some(policy.clone());
                    Ok(())
                })
                .await?;
        }
        if let Some(wanted) = moved {
            return self
                .switch(&key, &record, wanted)
                .await
                .map(|notice| (key, notice));
        }
        if params.new_session {
            self.new_session(&key).await?;
        }
        Ok((key, None))
    }

    /// Moves a thread to another runtime, where a new session begins.
    async fn switch(
        &self,
        key: &AppThreadKey,
        record: &TaskThread,
        wanted: RuntimeId,
    ) -> Result<Option<String>, Fault> {
        let begun = record.context_state.task_association.is_some();
        self.idle(key).await?;
        let notice = begun.then(|| {
            format!("The thread runs on {wanted} from here on. Its session there is new and does not know what was said before.")
        });
        self.records
            .update(key, |record| {
                if record.lifecycle_state.status != Lifecycle::Ready {
                    return Err(busy());
                }
                record.execution_binding.execution_mode = match wanted.target() {
                    "gateway" => ExecutionMode::Gateway,
                    _ => ExecutionMode::Agent,
                };
                record.execution_binding.runtime = Some(wanted);
                change::forget_session(record);
                Ok(())
            })
            .await?;
        Ok(notice)
    }

    /// The next turn begins a new session on the runtime.
    pub(super) async fn new_session(&self, key: &AppThreadKey) -> Result<(), Fault> {
        self.idle(key).await?;
        self.records
            .update(key, |record| {
                if record.lifecycle_state.status != Lifecycle::Ready {
                    return Err(busy());
                }
                change::forget_session(record);
                Ok(())
            })
            .await?;
        Ok(())
    }

    /// Waits until nothing of the thread is in its lane. A thread that is ready may still have the
    /// result of its last run on its way.
    pub(crate) async fn idle(&self, key: &AppThreadKey) -> Result<(), Fault> {
        let begun = Instant::now();
        loop {
            let record = self.records.read(key).await?;
            let ready = record.lifecycle_state.status == Lifecycle::Ready;
            if ready && !lock(&self.lanes).busy(key) {
                return Ok(());
            }
            if !ready || begun.elapsed() > RESULT {
                return Err(busy());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Refuses a folder that no turn could work in. On another machine's bridge only its form can be
/// judged from here; the bridge judges the rest. Blocks.
fn work_folder(folder: &str, own: Option<&[PathBuf]>) -> Result<(), Fault> {
    let refused = |why: &str| {
        Err(Fault::new(
            Code::WorkdirNotAllowed,
            format!("The working directory `{folder}` {why}."),
        ))
    };
    let path = Path::new(folder);
    if !path.is_absolute() {
        return refused("must be named by its absolute path");
    }
    let Some(own) = own else { return Ok(()) };
    let beneath = |real: &Path| {
        let mut own = own.iter().filter_map(|own| own.canonicalize().ok());
        own.any(|own| real.starts_with(own))
    };
    match path.canonicalize() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            refused("does not exist. Make it, or name another")
        }
        Err(e) => refused(&format!("cannot be used ({e})")),
        Ok(real) if !real.is_dir() => refused("is not a folder"),
        Ok(real) if beneath(&real) => {
            refused("lies in a folder of Threadline's own. Name another, or copy the files there")
        }
        Ok(_) => Ok(()),
    }
}

pub(crate) fn busy() -> Fault {
    Fault::new(
        Code::ThreadBusy,
        "The thread has a run. Wait for its end or cancel it first.",
    )
}
