//! Sending a turn, and sending one again.

use std::sync::Arc;

use threadline_contract::{
    AppThreadKey, Code, Fault, RequestId, RuntimeId,
    thread::{Lifecycle, Role},
};

use super::{App, Core, queue::Ask, which::busy};
use crate::{
    api::{RetryParams, SendParams, ThreadView},
    change,
};

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
        let runtime: Option<RuntimeId> = params.runtime.as_deref().map(str::parse).transpose()?;
        let request = RequestId::fresh();
        let attachments = {
            let (request, paths, inline) = (
                request.clone(),
                params.attach.clone(),
                params.inline.clone(),
            );
            core.outbox(move |outbox| outbox.attach(&request, &paths, &inline))
                .await?
        };
        let prepared = match &params.thread {
            Some(text) => core.existing(text, &params, runtime).await,
            None => core.create(&params, runtime).await.map(|key| (key, None)),
        };
        let ask = Ask {
            request: request.clone(),
            prompt: params.prompt,
            deliverables: params.expect,
            attachments,
        };
        let asked = match prepared {
            Ok((key, notice)) => core.ask(&key, ask).await.map(|()| (key, notice)),
            Err(fault) => Err(fault),
        };
        match asked {
            Ok((key, notice)) => {
                let mut view = core.view(&key).await?;
                view.notice = notice;
                Ok(view)
            }
            Err(fault) => {
                core.outbox(move |outbox| outbox.remove(&request)).await?;
                Err(fault)
            }
        }
    }

    /// Sends the last message of the user again, as a new turn, with its files and declarations.
    ///
    /// A request that perhaps never reached the bridge is sent again as it was, so that nothing can
    /// run twice.
    pub async fn retry(&self, params: RetryParams) -> Result<ThreadView, Fault> {
        let core = &self.core;
        let key = core.find(&params.thread)?;
        let record = core.records.read(&key).await?;
        change::not_archived(&record)?;
        if record.lifecycle_state.status != Lifecycle::Ready {
            return Err(busy());
        }
        let last = record.context_state.task_association.as_ref();
        if let Some(last) = last
            && !params.new_session
            && last.run_id.is_none()
            && !last.cancel_requested
            && core.send_again(&key, &last.request_id).await?
        {
            return core.view(&key).await;
        }
        let message = record
            .context_state
            .messages
            .iter()
            .rev()
            .find(|m| m.role == Role::User);
        let Some(message) = message else {
            return Err(Fault::invalid("The thread has no message to send again."));
        };
        let request = RequestId::fresh();
        let (attachments, deliverables) = match last.map(|a| a.request_id.clone()) {
            None => (Vec::new(), Vec::new()),
            Some(old) => {
                let new = request.clone();
                core.outbox(move |outbox| {
                    let files = outbox.reattach(&old, &new)?;
                    let contract = outbox.sealed(&old)?.and_then(|(sealed, _)| {
                        sealed.params.metadata?.xworkmate_task_artifact_contract
                    });
                    Ok((files, contract.map(|c| c.deliverables).unwrap_or_default()))
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
        };
        core.ask(&key, ask).await?;
        core.view(&key).await
    }
}

impl Core {
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
