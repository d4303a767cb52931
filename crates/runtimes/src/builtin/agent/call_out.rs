//! Calls of tools that came with the turn: reported, and waited for until somebody has executed them.

use std::time::Instant;

use serde_json::Value;
use threadline_contract::{StepState, ToolCall, ToolResult};
use threadline_files::Durability;

use super::{Agent, step};
use crate::{
    Update,
    builtin::{
        past::Call,
        tools::one_line,
        work::{Stop, unless},
    },
};

impl Agent<'_> {
    /// Reports a call and waits for its result. After a restart the same call waits on: it is reported once.
    pub(super) async fn call_out(&mut self, call: &Call) -> Result<(), Stop> {
        let since = Instant::now();
        let name = one_line(&call.tool, 40);
        let arguments = match input(&call.arguments) {
            Ok(arguments) => arguments,
            Err(sentence) => {
                let title = format!("Called {name}");
                let step = step(call, title, StepState::Failed, Some(&sentence), Some(since));
                return self.ran(call, step, sentence, None).await;
            }
        };
        let look = |past: &super::Past| {
            let started = past.started.contains(&call.step);
            (started, past.called.contains(&call.step))
        };
        let (started, called) = self.record.look(look);
        if !started {
            let running = step(
                call,
                format!("Calling {name}"),
                StepState::Running,
                None,
                None,
            );
            let update = Update::Step(running);
            self.record.frame(update, None, Durability::Later).await?;
        }
        if !called {
            let update = Update::ToolCall(ToolCall {
                id: call.step.clone(),
                name: call.tool.clone(),
                arguments,
            });
            self.record.frame(update, None, Durability::Now).await?;
        }
        let Some(result) = unless(self.cancel, self.result_of(&call.step)).await? else {
            return Err(Stop::Cancelled);
        };
        let (state, detail) = match result.is_error {
            true => (StepState::Failed, Some(one_line(&result.text, 200))),
            false => (StepState::Done, None),
        };
        let title = format!("Called {name}");
        let step = step(call, title, state, detail.as_deref(), Some(since));
        self.ran(call, step, result.text, None).await
    }

    async fn result_of(&self, call: &str) -> Option<ToolResult> {
        let mut bell = self.record.bell();
        loop {
            let result = self.record.look(|past| past.results.get(call).cloned());
            if result.is_some() {
                return result;
            }
            // The record rings its own bell, so it cannot close while we hold the record.
            if bell.changed().await.is_err() {
                return None;
            }
        }
    }
}

/// The input of a call. The error is a sentence for the model.
fn input(arguments: &str) -> Result<Value, String> {
    // A call without arguments comes as nothing at all from some models.
    let text = match arguments.trim() {
        "" => "{}",
        text => text,
    };
    match serde_json::from_str(text) {
        Ok(input @ Value::Object(_)) => Ok(input),
        Ok(_) => Err("The arguments are not right: they must be a JSON object.".to_owned()),
        Err(e) => Err(format!("The arguments are not right: {e}.")),
    }
}
