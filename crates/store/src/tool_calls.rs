//! Calls of tools that came with a turn: each recorded once under its run's lease, with one result.

use threadline_contract::{Millis, RunId, ToolCall, ToolResult};

use crate::{Lease, Result, Store, Tx, json, open::read, sql, tx::on};

/// A call as it is recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredToolCall {
    /// The call.
    pub call: ToolCall,
    /// What came of it, once that is known.
    pub result: Option<ToolResult>,
}

#[derive(sqlx::FromRow)]
struct ToolCallRow {
    call: String,
    name: String,
    arguments: String,
    result: Option<String>,
}

impl TryFrom<ToolCallRow> for StoredToolCall {
    type Error = crate::StoreError;
    fn try_from(row: ToolCallRow) -> Result<Self> {
        Ok(Self {
            call: ToolCall {
                id: json::from_text("tool_calls.call", &row.call)?,
                name: json::from_text("tool_calls.name", &row.name)?,
                arguments: json::from_text("tool_calls.arguments", &row.arguments)?,
            },
            result: json::maybe_from_text("tool_calls.result", row.result.as_deref())?,
        })
    }
}

impl Tx<'_> {
    /// Records what came of a call, under the lease of its run: in the transaction in which it took effect, where it
    /// must not happen twice. The first result stands; gives the one that does.
    pub async fn record_tool_result(
        &mut self,
        lease: &Lease,
        call: &str,
        result: &ToolResult,
        at: Millis,
    ) -> Result<ToolResult> {
        self.fence(lease).await?;
        let id = json::to_text("call", call)?;
        let result = json::to_text("result", result)?;
        let stands: String = on!(self, |c| sqlx::query_scalar(sql::END_TOOL_CALL)
            .bind(lease.run.as_str())
            .bind(id.as_str())
            .bind(result.as_str())
            .bind(at.0)
            .fetch_one(c)
            .await)?;
        json::from_text("tool_calls.result", &stands)
    }
}

impl Store {
    /// Records a call under the lease of its run. One that is recorded already stays as it is.
    pub async fn record_tool_call(&self, lease: &Lease, call: &ToolCall, at: Millis) -> Result<()> {
        let id = json::to_text("call", &call.id)?;
        let name = json::to_text("tool", &call.name)?;
        let arguments = json::to_text("arguments", &call.arguments)?;
        let lease = lease.clone();
        self.transact(move |mut tx| {
            Box::pin(async move {
                tx.fence(&lease).await?;
                on!(tx, |c| sqlx::query(sql::ADD_TOOL_CALL)
                    .bind(lease.run.as_str())
                    .bind(id.as_str())
                    .bind(name.as_str())
                    .bind(arguments.as_str())
                    .bind(at.0)
                    .execute(c)
                    .await
                    .map(drop))
            })
        })
        .await
    }

    /// Records what came of a call, as [`Tx::record_tool_result`] does.
    pub async fn record_tool_result(
        &self,
        lease: &Lease,
        call: &str,
        result: &ToolResult,
        at: Millis,
    ) -> Result<ToolResult> {
        let (lease, call, result) = (lease.clone(), call.to_owned(), result.clone());
        self.transact(move |mut tx| {
            Box::pin(async move { tx.record_tool_result(&lease, &call, &result, at).await })
        })
        .await
    }

    /// The calls of a run, in the order in which they came.
    pub async fn tool_calls(&self, run: &RunId) -> Result<Vec<StoredToolCall>> {
        let rows: Vec<ToolCallRow> = read!(self, |db| sqlx::query_as(sql::TOOL_CALLS)
            .bind(run.as_str())
            .fetch_all(db)
            .await)?;
        rows.into_iter().map(TryInto::try_into).collect()
    }
}
