//! The tool calls of a run: recorded, executed once, and their results handed to the runtime.

use std::{collections::HashSet, panic::AssertUnwindSafe};

use futures_util::FutureExt as _;
use threadline_contract::{Fault, Millis, ToolCall, ToolResult};
use threadline_store::StoredToolCall;
use tokio::task::JoinSet;
use tracing::{Instrument as _, error, warn};

use super::drive::{Driver, Halt};
use crate::tools::CalledTool;

/// Tool calls that are being executed. Dropping it interrupts them, as a kill would.
#[derive(Default)]
pub(super) struct Executing {
    tasks: JoinSet<Executed>,
    ids: HashSet<String>,
}

/// What came of a try to execute a call.
pub(super) struct Executed {
    call: String,
    result: Result<ToolResult, Fault>,
}

impl Executing {
    /// The next that is over; never, while none is executed.
    pub(super) async fn next(&mut self) -> Executed {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(executed)) => {
                    self.ids.remove(&executed.call);
                    return executed;
                }
                // Only by the end of this process; a panic of an executor is caught.
                Some(Err(e)) => error!(error = %e, "A tool call was interrupted"),
                None => std::future::pending().await,
            }
        }
    }
}

impl Driver<'_> {
    /// Records a call that the runtime reports, and has it executed. One that was recorded before a crash is
    /// reported again.
    pub(super) async fn tool_called(
        &mut self,
        call: ToolCall,
        executing: &mut Executing,
    ) -> Result<(), Halt> {
        let store = self.engine.store();
        store
            .record_tool_call(&self.lease, &call, Millis::now())
            .await?;
        self.go_on_with_calls(executing).await
    }

    /// Has every recorded call executed that has no result, and hands those over that have one: the runtime
    /// may not have heard of them before a crash.
    pub(super) async fn go_on_with_calls(&mut self, executing: &mut Executing) -> Result<(), Halt> {
        if self.plan.tools.is_empty() {
            return Ok(());
        }
        for StoredToolCall { call, result } in self.engine.store().tool_calls(self.id()).await? {
            match result {
                Some(result) => self.hand_result(&call.id, &result).await,
                None if executing.ids.contains(&call.id) => {}
                None => self.execute(call, executing),
            }
        }
        Ok(())
    }

    fn execute(&self, call: ToolCall, executing: &mut Executing) {
        let id = call.id.clone();
        let offered = self.plan.tools.iter().any(|tool| tool.name == call.name);
        let executor = self.engine.0.tools.get(self.executor.as_deref());
        let called = CalledTool {
            account: self.run.account.clone(),
            owner: self.run.owner.clone(),
            runtime: self.run.runtime.clone(),
            session: self.run.session_key.clone(),
            run: self.run.id.clone(),
            lease: self.lease.clone(),
            call,
        };
        let work = async move {
            let name = &called.call.name;
            match executor {
                _ if !offered => Ok(ToolResult::failed(format!(
                    "There is no tool `{name}` in this turn."
                ))),
                Some(executor) => executor.execute(&called).await,
                None => Ok(ToolResult::failed(format!(
                    "Nobody at this server executes the tool `{name}`."
                ))),
            }
        };
        executing.ids.insert(id.clone());
        let task = async move {
            let result = AssertUnwindSafe(work).catch_unwind().await;
            let result = result.unwrap_or_else(|_| {
                error!(call = id, "A tool broke");
                Ok(ToolResult::failed(
                    "The tool broke. The server's log says where.",
                ))
            });
            Executed { call: id, result }
        };
        executing.tasks.spawn(task.in_current_span());
    }

    /// Records what came of a call and hands it to the runtime.
    pub(super) async fn tool_executed(&mut self, executed: Executed) -> Result<(), Halt> {
        let Executed { call, result } = executed;
        match result {
            Ok(result) => {
                let store = self.engine.store();
                let stands = store
                    .record_tool_result(&self.lease, &call, &result, Millis::now())
                    .await?;
                self.hand_result(&call, &stands).await;
            }
            Err(fault) => {
                warn!(run.id = %self.id(), code = %fault.code, "Tool call {call} of run {} is tried again: {}", self.id(), fault.message);
                self.owes = true;
            }
        }
        self.attend().await
    }

    async fn hand_result(&mut self, call: &str, result: &ToolResult) {
        let run = self.plan.run_ref();
        let known = self.owes;
        if let Err(fault) = self.runtime.tool_result(&run, call, result).await {
            self.not_heard("the result of a tool call", &fault, known);
        }
    }
}
