//! Tools that doors offer with their turns, and who executes calls of them.

use std::{collections::BTreeMap, sync::Arc};

use threadline_contract::{
    AccountId, Code, Fault, Owner, RunId, RuntimeId, SessionKey, ToolCall, ToolDefinition,
    ToolResult,
};
use threadline_runtimes::{Pending, RuntimeInfo};
use threadline_store::Lease;

/// What a door gives to a turn beside the user's words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnExtras {
    /// Text that stands above the user's prompt. It never reaches a transcript.
    pub instructions: Option<String>,
    /// Tools that the agent may call.
    pub tools: Vec<ToolDefinition>,
    /// Who executes calls of them: a name in [`ToolExecutors`].
    pub executor: Option<String>,
}

impl TurnExtras {
    /// Refuses what the runtime does not take.
    pub(crate) fn check(&self, runtime: &dyn RuntimeInfo) -> Result<(), Fault> {
        let refused = |what: &str| {
            let label = runtime.label();
            Err(Fault::new(
                Code::UnsupportedByRuntime,
                format!("{label} takes no {what} with a turn. Choose another runtime."),
            ))
        };
        if self.instructions.is_some() && !runtime.takes_instructions() {
            return refused("instructions");
        }
        if !self.tools.is_empty() && !runtime.takes_tools() {
            return refused("tools");
        }
        Ok(())
    }
}

/// Executes calls of the tools that a door offers.
///
/// Nobody else executes a call of a run meanwhile, and none that has a result. A server that is killed before
/// the result is recorded asks again, with the same run and call: whatever must not happen twice commits its
/// effect and the result in one transaction, under [`CalledTool::lease`] (`Tx::record_tool_result`).
pub trait ToolExecutor: Send + Sync + 'static {
    /// Executes a call. What the agent should read about a failure is a result; an error means that nothing
    /// was done, and that the call is tried again later.
    fn execute<'a>(&'a self, called: &'a CalledTool) -> Pending<'a, Result<ToolResult, Fault>>;
}

/// A tool call and the run that made it.
#[derive(Clone, Debug, PartialEq)]
pub struct CalledTool {
    /// The account.
    pub account: AccountId,
    /// Whose session it is.
    pub owner: Owner,
    /// The runtime.
    pub runtime: RuntimeId,
    /// The session.
    pub session: SessionKey,
    /// The run.
    pub run: RunId,
    /// The lease of the run: by it a write is refused once another server drives the run.
    pub lease: Lease,
    /// The call.
    pub call: ToolCall,
}

/// Who executes tool calls, by the names that doors give with their turns.
#[derive(Clone, Default)]
pub struct ToolExecutors(BTreeMap<String, Arc<dyn ToolExecutor>>);

impl ToolExecutors {
    /// Adds one.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, executor: Arc<dyn ToolExecutor>) -> Self {
        self.0.insert(name.into(), executor);
        self
    }

    pub(crate) fn get(&self, name: Option<&str>) -> Option<Arc<dyn ToolExecutor>> {
        self.0.get(name?).cloned()
    }
}
