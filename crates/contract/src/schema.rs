//! The JSON Schema of every wire type and the code list, as files that a test keeps true.

use schemars::schema_for;
use serde_json::Value;

use crate::{
    Code, OmitReason, Question, SessionUpdate, SetBy, Snapshot, method, operator, plugin,
    thread::TaskThread, turn::TurnParams,
};

/// Every exported schema with its file name.
pub fn all() -> Vec<(&'static str, Value)> {
    fn of<T: schemars::JsonSchema>() -> Value {
        schema_for!(T).to_value()
    }
    vec![
        ("turn-params.json", of::<TurnParams>()),
        ("snapshot.json", of::<Snapshot>()),
        ("session-update.json", of::<SessionUpdate>()),
        ("question.json", of::<Question>()),
        ("task-params.json", of::<method::TaskParams>()),
        ("session-params.json", of::<method::SessionParams>()),
        ("receipt.json", of::<method::Receipt>()),
        ("session-deleted.json", of::<method::SessionDeleted>()),
        ("questions-params.json", of::<method::QuestionsParams>()),
        ("questions.json", of::<method::Questions>()),
        ("answer-params.json", of::<method::AnswerParams>()),
        ("resolve-params.json", of::<method::ResolveParams>()),
        ("resolved.json", of::<method::Resolved>()),
        ("gc-params.json", of::<method::GcParams>()),
        ("gc.json", of::<method::Gc>()),
        ("permissions.json", of::<method::Permissions>()),
        ("respond-params.json", of::<method::RespondParams>()),
        ("responded.json", of::<method::Responded>()),
        ("probe-params.json", of::<method::ProbeParams>()),
        ("probed.json", of::<method::Probed>()),
        ("operator-status.json", of::<operator::OperatorStatus>()),
        ("operator-runs-params.json", of::<operator::RunsParams>()),
        ("operator-runs.json", of::<operator::RunsPage>()),
        (
            "operator-sessions-params.json",
            of::<operator::SessionsParams>(),
        ),
        ("operator-sessions.json", of::<operator::SessionsPage>()),
        ("capabilities.json", of::<method::Capabilities>()),
        ("task-thread.json", of::<TaskThread>()),
        ("plugin-prepare-params.json", of::<plugin::PrepareParams>()),
        ("plugin-prepare.json", of::<plugin::PrepareResult>()),
        ("plugin-collect-params.json", of::<plugin::CollectParams>()),
        ("plugin-collect.json", of::<plugin::CollectResult>()),
        ("plugin-export-params.json", of::<plugin::ExportParams>()),
        ("plugin-export.json", of::<plugin::ExportResult>()),
        ("plugin-gc-params.json", of::<plugin::GcParams>()),
        ("plugin-read-params.json", of::<plugin::ReadParams>()),
        ("plugin-read.json", of::<plugin::ReadResult>()),
    ]
}

/// `docs/codes.md`.
pub fn codes_page() -> String {
    let mut out = String::from(
        "# Codes\n\nGenerated from `crates/contract/src/code.rs`; do not edit.\n\n\
         A thread's `lastResultCode` is empty while queued or running, then `success`, `failed`, `aborted`,\n\
         `artifact_missing`, `ACP_HTTP_<status>` or one of these codes. Errors carry theirs in `error.data.code`.\n\n\
         The HTTP status is that of an answer which is not JSON-RPC (a download, an event stream), or of a\n\
         request that never reached a method. An error of a method is answered with 200, as JSON-RPC has it.\n\n\
         | code | set by | JSON-RPC | HTTP | what to do |\n| --- | --- | --- | --- | --- |\n",
    );
    for code in Code::ALL {
        let by = match code.set_by() {
            SetBy::Bridge => "bridge",
            SetBy::Runtime => "runtime",
            SetBy::App => "app",
            SetBy::Cli => "command line",
        };
        out.push_str(&format!(
            "| `{code}` | {by} | {} | {} | {} |\n",
            code.rpc(),
            code.http(),
            code.advice()
        ));
    }
    out.push_str(
        "\n## Files that are not taken\n\nEach stands in `omitted` with its path and its `reason`.\n\n\
         | reason | the file |\n| --- | --- |\n",
    );
    for reason in OmitReason::ALL {
        let name = serde_json::to_value(reason).unwrap_or_default();
        let name = name.as_str().unwrap_or_default();
        out.push_str(&format!("| `{name}` | {} |\n", reason.in_words()));
    }
    out
}
