//! Sending a turn, and sending one again.

use std::{sync::Arc, time::Duration};

use threadline_contract::{
    AppThreadKey, Code, Fault, Millis, RequestId, ResultCode, RuntimeId,
    thread::{Lifecycle, Role, TurnState},
};

use super::{App, Core, queue::Ask, resume::refers, which::busy};
use crate::{
    api::{RetryParams, SendParams, ThreadView},
    change,
    records::lock,
};

/// How often it is looked whether a request has been taken.
const ASKING_PAUSE: Duration = Duration::from_millis(10);
/// How long ago a request may have been taken that is sent again, in milliseconds.
const SENT_AGAIN_WITHIN: i64 = 10 * 60 * 1000;

/// Requests to try again that are remembered at most.
const RETRIES: usize = 1_000;

impl App {
    /// Sends a turn; makes the thread when none is named.
    pub async fn send(&self, params: SendParams) -> Result<ThreadView, Fault> {
        let core = &self.core;
        if params.prompt.trim().is_empty() {
            return Err(Fault::new(
                Code::PromptRequired,
                "The turn has no prompt. Say what to do.",
            ));
        }
        for expected in &params.expect {
            expected.matcher()?;
        }
        let runtime: Option<RuntimeId> = params.runtime.as_deref().map(str::parse).transpose()?;
        let request = match &params.request_id {
            Some(request) => plain(request)?,
            None => RequestId::fresh(),
        };
        // The same request may come again while the first is still being taken.
        let _asking = core.asking(&request).await;
        if params.request_id.is_some()
            && let Some(key) = core.asked_before(&request).await?
        {
            return core.view(&key).await;
        }
        let aside = {
            let (request, paths, inline) = (
                request.clone(),
                params.attach.clone(),
                params.inline.clone(),
            );
            core.outbox(move |outbox| outbox.attach(&request, &paths, &inline))
                .await?
        };
        let prepared = match &params.thread {
            Some(text) => core.existing(text, &params, runtime, &aside.outlines).await,
            None => core
                .create(&params, runtime, &aside.outlines)
                .await
                .map(|key| (key, None)),
        };
        let ask = Ask {
            request: request.clone(),
            prompt: params.prompt,
            deliverables: params.expect,
            attachments: aside.places,
            load_class: params.load_class,
        };
        let (key, notice) = match prepared {
            Ok(prepared) => prepared,
            Err(fault) => {
                core.outbox(move |outbox| outbox.remove(&request)).await?;
                return Err(fault);
            }
        };
        core.ask(&key, ask).await?;
        let mut view = core.view(&key).await?;
        view.notice = notice;
        Ok(view)
    }

    /// Sends the last turn again, with its files and declarations, as a new one. Turns that were
    /// dropped while they waited do not count: they never ran.
    ///
    /// A request that perhaps never reached the bridge is sent again as it was, so that nothing can
    /// run twice.
    pub async fn retry(&self, params: RetryParams) -> Result<ThreadView, Fault> {
        let core = &self.core;
        let key = core.find(&params.thread)?;
        let request = match &params.request_id {
            Some(request) => plain(request)?,
            None => RequestId::fresh(),
        };
        let _asking = core.asking(&request).await;
        let before = lock(&core.retried).contains_key(&request);
        if params.request_id.is_some() && (before || core.asked_before(&request).await?.is_some()) {
            return core.view(&key).await;
        }
        let record = core.records.read(&key).await?;
        change::not_archived(&record)?;
        if record.lifecycle_state.status != Lifecycle::Ready {
            return Err(busy());
        }
        let last = record.context_state.task_association.as_ref();
        // It was never sent; it goes through the lane like a new one.
        let turned_away =
            record.lifecycle_state.last_result_code == Some(ResultCode::Code(Code::QueueFull));
        if let Some(last) = last
            && !params.new_session
            && last.run_id.is_none()
            && !last.cancel_requested
            && !turned_away
            && core.send_again(&key, &last.request_id).await?
        {
            core.remember_retry(&request, &key);
            return core.view(&key).await;
        }
        let messages = record.context_state.messages.iter().rev();
        let mut ran =
            messages.filter(|m| m.role == Role::User && m.state != Some(TurnState::Dropped));
        let Some(message) = ran.next() else {
            return Err(Fault::invalid("The thread has no turn to send again."));
        };
        let (attachments, deliverables, load_class) = match last.map(|a| a.request_id.clone()) {
            None => (Vec::new(), Vec::new(), None),
            Some(old) => {
                let (new, asked_at) = (request.clone(), message.timestamp_ms);
                core.outbox(move |outbox| {
                    // What another turn brought is not this one's.
                    let sealed = outbox.sealed(&old)?.map(|(sealed, _)| sealed);
                    let Some(sealed) = sealed.filter(|s| s.asked_at_ms == asked_at) else {
                        return Ok((Vec::new(), Vec::new(), None));
                    };
                    let files = outbox.reattach(&old, &new)?;
                    let metadata = sealed.params.metadata.unwrap_or_default();
                    let contract = metadata.xworkmate_task_artifact_contract;
                    let deliverables = contract.map(|c| c.deliverables).unwrap_or_default();
                    Ok((files, deliverables, metadata.task_load_class))
                })
                .await?
            }
        };
        let prompt = message.text.clone();
        if params.new_session {
            core.new_session(&key).await?;
        }
        let ask = Ask {
            request,
            prompt,
            deliverables,
            attachments,
            load_class,
        };
        core.ask(&key, ask).await?;
        core.view(&key).await
    }
}

impl Core {
    fn remember_retry(&self, request: &RequestId, key: &AppThreadKey) {
        let mut retried = lock(&self.retried);
        if retried.len() >= RETRIES {
            retried.clear();
        }
        retried.insert(request.clone(), key.clone());
    }

    /// Sends a request again that perhaps never arrived. `false`: it is not there any more.
    async fn send_again(
        self: &Arc<Self>,
        key: &AppThreadKey,
        request: &RequestId,
    ) -> Result<bool, Fault> {
        let sealed = {
            let request = request.clone();
            self.outbox(move |outbox| outbox.sealed(&request)).await?
        };
        if sealed.is_none() {
            return Ok(false);
        }
        self.reattach(key, request).await?;
        Ok(true)
    }
}

/// A request that is being taken.
struct Asking<'a> {
    core: &'a Core,
    request: RequestId,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        lock(&self.core.asking).remove(&self.request);
    }
}

impl Core {
    /// Waits until nobody else takes the same request.
    async fn asking(&self, request: &RequestId) -> Asking<'_> {
        while !lock(&self.asking).insert(request.clone()) {
            tokio::time::sleep(ASKING_PAUSE).await;
        }
        Asking {
            core: self,
            request: request.clone(),
        }
    }

    /// The thread that has this request already. Whoever sends one again does so at once, so only
    /// threads that changed lately are read.
    async fn asked_before(&self, request: &RequestId) -> Result<Option<AppThreadKey>, Fault> {
        let since = Millis::now().plus(-SENT_AGAIN_WITHIN);
        let lately: Vec<AppThreadKey> = self.records.index(|index| {
            let all = index.entries().map(|e| &e.summary);
            let lately = all.filter(|s| s.updated_at_ms >= since);
            lately.map(|s| s.thread_id.clone()).collect()
        });
        for key in lately {
            // A record that cannot be read holds nothing that could be asked for again.
            if let Ok(record) = self.records.read(&key).await
                && refers(&record, request)
            {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }
}

/// The id becomes the name of a folder.
fn plain(request: &RequestId) -> Result<RequestId, Fault> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    match request.as_str().bytes().all(fits) {
        true => Ok(request.clone()),
        false => Err(Fault::invalid(
            "`requestId` may hold letters, digits, `-` and `_` only.",
        )),
    }
}
