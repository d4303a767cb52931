//! What can be asked, and who answers it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use threadline_artifacts::{
    ExportOptions, LINK_SECONDS, MAX_CHUNK, MAX_FILE_BYTES, MAX_PAGE, Service,
};
use threadline_contract::{
    Code, Fault,
    plugin::{COLLECT, EXPORT, GC, LIST, PREPARE, READ},
    rpc::{Id, Request},
};

use crate::{Limits, output::Output};

pub(crate) const INITIALIZE: &str = "initialize";
pub(crate) const SHUTDOWN: &str = "shutdown";
pub(crate) const CANCEL: &str = "$/cancelRequest";

/// The methods that are work.
const WORK: [&str; 6] = [PREPARE, COLLECT, EXPORT, LIST, READ, GC];

/// The answer to [`INITIALIZE`].
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Introduction {
    name: &'static str,
    version: &'static str,
    protocol_version: u32,
    methods: Vec<&'static str>,
    limits: Told,
}

/// The limits that a client should know.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    line_bytes: usize,
    concurrent_requests: usize,
    waiting_requests: usize,
    chunk_bytes: u64,
    file_bytes: u64,
    page_files: usize,
    max_page_files: usize,
    link_seconds: i64,
}

pub(crate) fn introduction(limits: &Limits) -> Introduction {
    let own = [INITIALIZE, SHUTDOWN, CANCEL];
    Introduction {
        name: "threadline-openclaw-sidecar",
        version: env!("CARGO_PKG_VERSION"),
        protocol_version: 1,
        methods: own.into_iter().chain(WORK).collect(),
        limits: Told {
            line_bytes: limits.line_bytes,
            concurrent_requests: limits.concurrent,
            waiting_requests: limits.waiting,
            chunk_bytes: MAX_CHUNK,
            file_bytes: MAX_FILE_BYTES,
            page_files: ExportOptions::default().max_files,
            max_page_files: MAX_PAGE,
            link_seconds: LINK_SECONDS,
        },
    }
}

/// Whether a method is work.
pub(crate) fn is_work(method: &str) -> bool {
    WORK.contains(&method)
}

pub(crate) fn unknown(method: &str) -> Fault {
    // Somebody reads this: a name of any length would not help.
    let shown: String = method.chars().take(80).collect();
    Fault::new(
        Code::MethodNotFound,
        format!("There is no method {shown:?}. `{INITIALIZE}` lists what there is."),
    )
}

/// Does what a request asks for, and answers it. `false` when there is nobody left to answer.
pub(crate) fn perform(service: &Service, request: Request, output: &Output) -> bool {
    let Request { id, method, params } = request;
    let to = Answer { id, output };
    match method.as_str() {
        PREPARE => to.with(params, |p| service.prepare(p)),
        COLLECT => to.with(params, |p| service.collect(p)),
        EXPORT => to.with(params, |p| service.export(p)),
        LIST => to.with(params, |p| service.list(p)),
        READ => to.with(params, |p| service.read(p)),
        GC => to.with(params, |p| service.gc(p)),
        _ => to.refuse(&unknown(&method)),
    }
}

/// Where an answer goes.
struct Answer<'a> {
    id: Option<Id>,
    output: &'a Output,
}

impl Answer<'_> {
    fn with<P: DeserializeOwned, R: Serialize>(
        &self,
        params: Value,
        method: impl Fn(&P) -> Result<R, Fault>,
    ) -> bool {
        match outcome(params, method) {
            Ok(result) => self
                .id
                .as_ref()
                .is_none_or(|id| self.output.success(id, &result)),
            Err(fault) => self.refuse(&fault),
        }
    }

    fn refuse(&self, fault: &Fault) -> bool {
        match &self.id {
            Some(id) => self.output.failure(Some(id), fault),
            None => {
                tracing::warn!("A notification was not done: {fault}");
                true
            }
        }
    }
}

fn outcome<P: DeserializeOwned, R>(
    params: Value,
    method: impl Fn(&P) -> Result<R, Fault>,
) -> Result<R, Fault> {
    let params: P = serde_json::from_value(params)
        .map_err(|e| Fault::invalid(format!("The parameters cannot be used: {e}.")))?;
    // A fault of ours in one request must not take the others with it. Nothing that the service
    // keeps in memory is changed in more than one step.
    catch_unwind(AssertUnwindSafe(|| method(&params))).unwrap_or_else(|_| Err(Fault::internal()))
}
