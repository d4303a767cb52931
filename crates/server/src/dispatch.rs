//! From a method's name to the one engine function behind it.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, value::RawValue};
use threadline_contract::{
    Code, Fault, Principal,
    method::{
        self, AnswerParams, GcParams, ProbeParams, QuestionsParams, ResolveParams, RespondParams,
        SessionParams, TaskParams,
    },
    operator::{RunsParams, SessionsParams},
    rpc::{self, Request},
};
use threadline_engine::Engine;

use crate::access;

/// Answers a method of the bridge for a caller in this process, if the principal has its scope. Turns are begun over
/// the wire, where they can be followed.
pub async fn call(
    engine: &Engine,
    principal: &Principal,
    method: &str,
    params: Value,
) -> Result<Value, Fault> {
    access::check_method(principal, method)?;
    let request = Request {
        id: None,
        method: method.to_owned(),
        params,
    };
    let result = dispatch(engine, principal, request).await?;
    serde_json::from_str(result.get()).map_err(|e| {
        tracing::error!(error = %e, "A result could not be read back");
        Fault::internal()
    })
}

/// Every method but the two that start turns, which may stream.
pub(crate) async fn dispatch(
    engine: &Engine,
    caller: &Principal,
    Request { method, params, .. }: Request,
) -> Result<Arc<RawValue>, Fault> {
    match method.as_str() {
        method::CAPABILITIES => engine.capabilities().await,
        method::CANCEL => value(
            engine
                .cancel_session(caller, &rpc::params::<SessionParams>(params)?.session_id)
                .await?,
        ),
        method::CLOSE => value(
            engine
                .close_session(caller, &rpc::params::<SessionParams>(params)?.session_id)
                .await?,
        ),
        method::DELETE => value(
            engine
                .delete_session(caller, &rpc::params::<SessionParams>(params)?.session_id)
                .await?,
        ),
        method::ROUTING_RESOLVE => value(
            engine
                .resolve(caller, &rpc::params::<ResolveParams>(params)?)
                .await?,
        ),
        method::TASKS_GET => value(
            engine
                .task(caller, &rpc::params::<TaskParams>(params)?)
                .await?,
        ),
        method::TASKS_CANCEL => value(
            engine
                .cancel_task(caller, &rpc::params::<TaskParams>(params)?)
                .await?,
        ),
        method::QUESTIONS_LIST => value(
            engine
                .questions(caller, &rpc::params::<QuestionsParams>(params)?)
                .await?,
        ),
        method::QUESTIONS_ANSWER => value(
            engine
                .answer(caller, rpc::params::<AnswerParams>(params)?)
                .await?,
        ),
        method::PERMISSIONS_LIST => value(
            engine
                .permissions(caller, &rpc::params::<QuestionsParams>(params)?)
                .await?,
        ),
        method::PERMISSIONS_RESPOND => value(
            engine
                .respond(caller, rpc::params::<RespondParams>(params)?)
                .await?,
        ),
        method::PROVIDER_PROBE => value(engine.probe(&rpc::params::<ProbeParams>(params)?).await?),
        method::ARTIFACTS_GC => value(
            engine
                .make_room(caller, &rpc::params::<GcParams>(params)?)
                .await?,
        ),
        method::OPERATOR_STATUS => value(engine.operator_status(caller).await?),
        method::OPERATOR_RUNS => value(
            engine
                .operator_runs(caller, &rpc::params::<RunsParams>(params)?)
                .await?,
        ),
        method::OPERATOR_SESSIONS => value(
            engine
                .operator_sessions(caller, &rpc::params::<SessionsParams>(params)?)
                .await?,
        ),
        other => Err(Fault::new(
            Code::MethodNotFound,
            format!("There is no method `{other}`. `acp.capabilities` lists what there is."),
        )),
    }
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
