//! From a method's name to the one engine function behind it.

use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};
use threadline_contract::{
    Code, Fault,
    method::{
        self, AnswerParams, GcParams, ProbeParams, QuestionsParams, ResolveParams, RespondParams,
        SessionParams, TaskParams,
    },
    operator::{RunsParams, SessionsParams},
    rpc::Request,
};
use threadline_engine::{Caller, Engine};

/// Every method but the two that start turns, which may stream.
pub(crate) async fn dispatch(
    engine: &Engine,
    caller: &Caller,
    Request { method, params, .. }: Request,
) -> Result<Arc<RawValue>, Fault> {
    match method.as_str() {
        method::CAPABILITIES => engine.capabilities().await,
        method::CANCEL => value(
            engine
                .cancel_session(caller, &read::<SessionParams>(params)?.session_id)
                .await?,
        ),
        method::CLOSE => value(
            engine
                .close_session(caller, &read::<SessionParams>(params)?.session_id)
                .await?,
        ),
        method::DELETE => value(
            engine
                .delete_session(caller, &read::<SessionParams>(params)?.session_id)
                .await?,
        ),
        method::ROUTING_RESOLVE => value(
            engine
                .resolve(caller, &read::<ResolveParams>(params)?)
                .await?,
        ),
        method::TASKS_GET => value(engine.task(caller, &read::<TaskParams>(params)?).await?),
        method::TASKS_CANCEL => value(
            engine
                .cancel_task(caller, &read::<TaskParams>(params)?)
                .await?,
        ),
        method::QUESTIONS_LIST => value(
            engine
                .questions(caller, &read::<QuestionsParams>(params)?)
                .await?,
        ),
        method::QUESTIONS_ANSWER => {
            value(engine.answer(caller, read::<AnswerParams>(params)?).await?)
        }
        method::PERMISSIONS_LIST => value(
            engine
                .permissions(caller, &read::<QuestionsParams>(params)?)
                .await?,
        ),
        method::PERMISSIONS_RESPOND => value(
            engine
                .respond(caller, read::<RespondParams>(params)?)
                .await?,
        ),
        method::PROVIDER_PROBE => value(engine.probe(&read::<ProbeParams>(params)?).await?),
        method::ARTIFACTS_GC => value(engine.make_room(caller, &read::<GcParams>(params)?).await?),
        method::OPERATOR_STATUS => value(engine.operator_status(caller).await?),
        method::OPERATOR_RUNS => value(
            engine
                .operator_runs(caller, &read::<RunsParams>(params)?)
                .await?,
        ),
        method::OPERATOR_SESSIONS => value(
            engine
                .operator_sessions(caller, &read::<SessionsParams>(params)?)
                .await?,
        ),
        other => Err(Fault::new(
            Code::MethodNotFound,
            format!("There is no method `{other}`. `acp.capabilities` lists what there is."),
        )),
    }
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, Fault> {
    serde_path_to_error::deserialize(params).map_err(|e| match e.path().to_string().as_str() {
        "." => Fault::invalid(format!("{}.", e.inner())),
        path => Fault::invalid(format!("`{path}`: {}.", e.inner())),
    })
}

/// The text of a result, written once and never taken apart again.
pub(crate) fn value(result: impl Serialize) -> Result<Arc<RawValue>, Fault> {
    serde_json::value::to_raw_value(&result)
        .map(Into::into)
        .map_err(|e| {
            tracing::error!(error = %e, "A result could not be written as JSON");
            Fault::internal()
        })
}
