//! The one list of result and error codes: who sets each, what a person should do, and its form in
//! JSON-RPC and HTTP. `docs/codes.md` is generated from it.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Who puts a code on the wire or into a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetBy {
    /// The bridge, in an answer or a snapshot.
    Bridge,
    /// A runtime, as the end of a run.
    Runtime,
    /// The app, as a thread's last result.
    App,
    /// The command line, before anything ran.
    Cli,
}

macro_rules! codes {
    ($($variant:ident $wire:literal $by:ident $rpc:literal $http:literal $advice:literal;)*) => {
        /// A code from the one list.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $advice] $variant,)*
        }
        impl Code {
            /// Every code, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];
            /// Its spelling on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $wire,)* }
            }
            /// Who sets it.
            pub const fn set_by(self) -> SetBy {
                match self { $(Self::$variant => SetBy::$by,)* }
            }
            /// The number in a JSON-RPC error.
            pub const fn rpc(self) -> i32 {
                match self { $(Self::$variant => $rpc,)* }
            }
            /// The HTTP status where the answer is not JSON-RPC, or the request never got that far.
            pub const fn http(self) -> u16 {
                match self { $(Self::$variant => $http,)* }
            }
            /// What a person should do.
            pub const fn advice(self) -> &'static str {
                match self { $(Self::$variant => $advice,)* }
            }
        }
    };
}

codes! {
    // Requests that cannot be taken.
    InvalidJson "INVALID_JSON" Bridge -32700 400 "The body is not JSON. Send one JSON-RPC 2.0 request object.";
    InvalidEnvelope "INVALID_ENVELOPE" Bridge -32600 400 "The body is JSON but not one JSON-RPC 2.0 request. Batches are not taken.";
    InvalidRequest "INVALID_REQUEST" Bridge -32602 400 "A parameter is missing or wrong. The sentence names it.";
    MethodNotFound "METHOD_NOT_FOUND" Bridge -32601 404 "There is no such method. `acp.capabilities` lists what there is.";
    MethodNotAllowed "METHOD_NOT_ALLOWED" Bridge -32600 405 "Use the HTTP method that the sentence names.";
    BodyTooLarge "BODY_TOO_LARGE" Bridge -32600 413 "The body is over the limit. Send large inputs as files the runtime can reach.";
    UpgradeRequired "UPGRADE_REQUIRED" Bridge -32600 426 "This address speaks WebSocket, version 13. Use a client that does, or POST to /acp/rpc.";
    RateLimited "RATE_LIMITED" Bridge -32005 429 "That is more than one caller may ask for at once. Wait as long as `retryAfter` says, or for an open request to end.";
    NotFound "NOT_FOUND" Bridge -32004 404 "There is nothing at this address.";
    Unauthorized "UNAUTHORIZED" Bridge -32001 401 "Send the token: `Authorization: Bearer …`. The token file lies in the data folder.";
    ScopeMissing "SCOPE_MISSING" Bridge -32003 403 "The token may not do this. Use one with the scope that the sentence names.";
    OriginNotAllowed "ORIGIN_NOT_ALLOWED" Bridge -32003 403 "A page of another origin may not call this server. Add it to `server.allowed_origins` and use a bearer token.";
    HostNotAllowed "HOST_NOT_ALLOWED" Bridge -32003 403 "The Host header names another server. Use the address that Threadline printed, or set `server.public_url`.";
    PathDisabled "PROVIDER_DIRECT_PATH_DISABLED" Bridge -32004 410 "This path is not for apps. Send the request to /acp/rpc with routing.";
    // Turns that cannot be admitted.
    RoutingRequired "ROUTING_REQUIRED" Bridge -32602 400 "Say where the turn should run: `routing.explicitExecutionTarget` and a provider, or `routingMode: auto`.";
    RoutingFailed "ROUTING_FAILED" Bridge -32602 400 "The routing contradicts itself or names something unknown. The sentence says what.";
    ProviderNotFound "PROVIDER_NOT_FOUND" Bridge -32001 404 "No runtime has this name. `acp.capabilities` lists them.";
    ProviderUnavailable "PROVIDER_UNAVAILABLE" Bridge -32002 503 "The runtime is known but cannot take work now. The sentence says why.";
    PromptRequired "OPENCLAW_TASK_PROMPT_REQUIRED" Bridge -32602 400 "The turn has no prompt. Send one in `prompt`.";
    AttachmentInvalid "ATTACHMENT_INVALID" Bridge -32602 400 "An attachment is damaged or misdescribed. The sentence names it; send it again.";
    AttachmentTooLarge "ATTACHMENT_TOO_LARGE" Bridge -32602 413 "Attachments may have 10 MiB each and 25 MiB together. Put larger ones where the runtime can read them.";
    WorkdirNotAllowed "WORKDIR_NOT_ALLOWED" Bridge -32602 403 "The working directory must exist and lie beneath one of `work_roots`.";
    IdempotencyConflict "IDEMPOTENCY_CONFLICT" Bridge -32002 409 "This requestId was used for another request. Use a new one.";
    Conflict "CONFLICT" Bridge -32002 409 "The session or the folder is another's. Nothing was changed; the sentence says whose it is and what to do.";
    ContinuationUnavailable "SESSION_CONTINUATION_UNAVAILABLE" Bridge -32002 409 "The session cannot be continued. Start a new one with session.start.";
    NodeUnavailable "NODE_UNAVAILABLE" Bridge -32002 503 "Another server that shares the database has what was asked for, and it cannot be reached from this one. The sentence names it: start it again, or set its `server.advertise`.";
    GatewayBusy "OPENCLAW_GATEWAY_BUSY" Bridge -32002 503 "The OpenClaw lane and its queue are full. Try again when a run has ended.";
    RuntimeBusy "RUNTIME_BUSY" Bridge -32002 503 "The runtime's lane and its queue are full. Try again when a run has ended.";
    RequestCancelled "REQUEST_CANCELLED" Bridge -32800 409 "The caller took the request back before it began. Nothing was done.";
    ShuttingDown "SHUTTING_DOWN" Bridge -32002 503 "The server is stopping. Send the same requestId again when it is back.";
    // Looking up, cancelling and answering.
    InvalidLookup "invalid_lookup" Bridge -32602 400 "Name the run by appThreadKey and runId.";
    MappingNotFound "mapping_not_found" Bridge -32004 404 "No session is mapped to this thread.";
    NoNativeRecord "no_native_task_record" Bridge -32004 404 "The runtime has no record of this run.";
    TaskNotFound "task_not_found" Bridge -32004 404 "This thread has no run yet.";
    ScopeNotOwned "TASK_SCOPE_NOT_OWNED_OR_RECOVERED" Bridge -32602 404 "No run of yours has this id, so there is nothing to cancel.";
    QuestionNotFound "QUESTION_NOT_FOUND" Bridge -32004 404 "There is no such question. `threadline show` lists the open ones.";
    QuestionOptionNotOffered "QUESTION_OPTION_NOT_OFFERED" Bridge -32602 400 "Choose one of the options that the question offers.";
    QuestionAlreadyClosed "QUESTION_ALREADY_CLOSED" Bridge -32002 409 "The question was answered or withdrawn already.";
    // Downloads.
    LinkExpired "LINK_EXPIRED" Bridge -32041 410 "The link is past its time. `xworkmate.tasks.get` gives a fresh one.";
    LinkForged "LINK_FORGED" Bridge -32042 403 "The link's signature does not hold. Use a link from `xworkmate.tasks.get`.";
    RuntimeReadFailed "RUNTIME_READ_FAILED" Bridge -32043 502 "The runtime could not hand over the file. Try again.";
    ArtifactPathMismatch "artifact_path_mismatch" Bridge -32045 502 "The gateway handed over another file than was asked for, so nothing of it was taken. `threadline openclaw install` puts the right plugin there.";
    ArtifactEncodingInvalid "artifact_encoding_invalid" Bridge -32047 502 "The gateway's bytes were damaged on their way. Try again.";
    ArtifactHashMismatch "artifact_hash_mismatch" Bridge -32053 502 "The gateway handed over other bytes than the run delivered, so nothing of them was kept. Try again.";
    ArtifactNotFound "artifact_not_found" Bridge -32044 404 "The file is no longer there.";
    ArtifactsRemoved "ARTIFACTS_REMOVED" Bridge -32052 410 "The run's files were removed from the bridge to make room. Its receipt says what they were; retry makes them anew.";
    SymlinkRejected "symlink_rejected" Bridge -32050 404 "The path leads through a symbolic link, and links are never followed. Put the file itself into the run's folder.";
    NotAFile "not_a_file" Bridge -32051 404 "What stands there is not a plain file, so there is nothing to hand over.";
    ArtifactChanged "artifact_changed" Bridge -32048 409 "The file changed after the run ended, so it is not what the run delivered.";
    ReceiptInvalid "RECEIPT_INVALID" Cli -32602 422 "The receipt is damaged, or was not made by Threadline. Sync the run again to get a whole one.";
    ReceiptMissing "RECEIPT_MISSING" Cli -32004 404 "No receipt lies in the folder, so nothing says what it should hold. Name a folder that Threadline synced, or give the receipt.";
    RangeInvalid "range_invalid" Bridge -32049 416 "Ask for one range inside the file.";
    // How runs end.
    PrepareFailed "PREPARE_FAILED" Bridge -32002 500 "The run's folder could not be made. The sentence says why.";
    OpenClawPrepareFailed "OPENCLAW_PREPARE_FAILED" Bridge -32002 502 "OpenClaw could not prepare the run's folder. `threadline doctor` checks the plugin.";
    SessionMismatch "OPENCLAW_SESSION_MISMATCH" Runtime -32002 502 "The OpenClaw gateway took the turn for another run or session than it was sent for, so it was stopped there. Check the gateway's version and send the turn again.";
    RequiredArtifactMissing "OPENCLAW_REQUIRED_ARTIFACT_MISSING" Bridge -32002 422 "The run ended, but something it had to deliver is not there. The list names it; try again.";
    ExecutionFailed "EXECUTION_FAILED" Runtime -32002 500 "The runtime could not finish the turn. The sentence says why.";
    AgentLost "AGENT_LOST" Runtime -32002 502 "The agent's process is gone. Send the message again; its files are still in the work folder.";
    TurnDeclined "TURN_DECLINED" Runtime -32002 422 "The agent stopped because a permission was declined.";
    PathProtected "PATH_PROTECTED" Runtime -32003 403 "The path leads to Threadline's own data or settings, which no task may read or change. Name a file of yours.";
    StoppedAtGateway "STOPPED_AT_GATEWAY" Runtime -32002 409 "Somebody stopped the run at the OpenClaw gateway, not from here. What it did until then stays; send the message again if it is still wanted.";
    ModelUnreachable "MODEL_UNREACHABLE" Runtime -32002 502 "The model endpoint does not answer. Check THREADLINE_MODEL_URL.";
    ModelFailed "MODEL_FAILED" Runtime -32002 502 "The model endpoint answered with an error. The sentence carries it.";
    AnswerIncomplete "ANSWER_INCOMPLETE" Runtime -32002 502 "The run completed, but a part of its answer may be missing: a warning, not a failure. Read the answer before you rely on it, and send the message again if it breaks off.";
    ModelRefusesTools "MODEL_REFUSES_TOOLS" Runtime -32002 422 "This model takes no tools. Set THREADLINE_MODEL to one that does.";
    UnsupportedByRuntime "UNSUPPORTED_BY_RUNTIME" Bridge -32002 422 "The runtime does not take what the turn brings. The sentence says what that is; choose another runtime.";
    BudgetExceeded "BUDGET_EXCEEDED" Runtime -32002 422 "The turn used up its steps or time. Ask for less at once, or raise `builtin.max_steps`.";
    QueueTimeout "QUEUE_TIMEOUT" Bridge -32002 503 "The turn waited in line for longer than `lanes.queue_minutes` and never began. Send it again when fewer wait.";
    RunDeadlineExceeded "OPENCLAW_RUN_DEADLINE_EXCEEDED" Bridge -32002 504 "The run has used up the time of its class and goes on: only its runtime ends it. Wait for it, or cancel it.";
    GatewayLost "OPENCLAW_GATEWAY_LOST" Bridge -32002 502 "The OpenClaw gateway has been silent about the run for longer than it may, and does not answer. Check that it runs; the run's end comes when it is back.";
    WaitFailed "OPENCLAW_WAIT_FAILED" Bridge -32002 502 "The OpenClaw gateway is there but could not say how the run stands. It is asked again; `threadline doctor` checks the plugin.";
    TerminalWithoutEvidence "OPENCLAW_TERMINAL_WITHOUT_EVIDENCE" Bridge -32002 502 "The OpenClaw gateway has no record of the run any more, and files alone do not prove that it was done. Start it again.";
    RunLost "RUN_LOST" Runtime -32002 500 "The runtime has no trace of the run, so its end is unknown. Start it again.";
    // What the app records when it cannot hear the bridge.
    ConnectFailed "ACP_HTTP_CONNECT_FAILED" App -32002 502 "The bridge cannot be reached. Check its address and that it runs.";
    ConnectTimeout "ACP_HTTP_CONNECT_TIMEOUT" App -32002 504 "The bridge did not take the connection in time.";
    ConnectionClosed "ACP_HTTP_CONNECTION_CLOSED" App -32002 502 "The connection to the bridge broke. `threadline sync` brings the result later.";
    SseNoResult "ACP_SSE_NO_RESULT" App -32002 502 "The stream ended without a result. `threadline sync` asks again.";
    BadBridgeAnswer "ACP_BAD_ANSWER" App -32002 502 "The bridge answered something that is not the protocol. Check its address and version.";
    PollTimeout "OPENCLAW_RUN_POLL_TIMEOUT" App -32002 504 "The run did not end in its time. It goes on at the bridge; `threadline sync` brings its result.";
    QueueFull "OPENCLAW_GATEWAY_QUEUE_FULL" App -32002 503 "Too many tasks wait already. Send it again when one has ended.";
    ScopeMismatch "scope_mismatch" App -32002 502 "The bridge offered files of another run. They were refused.";
    ThreadNotFound "THREAD_NOT_FOUND" App -32004 404 "There is no such thread. `threadline threads` lists them.";
    ThreadAmbiguous "THREAD_AMBIGUOUS" App -32602 409 "Several threads begin so. Type more of the name.";
    ThreadArchived "THREAD_ARCHIVED" App -32002 409 "The thread is archived. `threadline restore` brings it back.";
    TurnNotWaiting "TURN_NOT_WAITING" App -32002 409 "The turn does not wait any more, so it was left as it is. `threadline show` says what became of it.";
    ThreadBusy "THREAD_BUSY" App -32002 409 "The thread has a run. Wait for its end or cancel it first.";
    ThreadCorrupt "THREAD_RECORD_CORRUPT" App -32002 500 "The thread's record cannot be read. A copy lies beside it; the others are not affected.";
    // Before anything ran.
    ConfigInvalid "CONFIG_INVALID" Cli -32602 400 "Mend the settings that the list names. `threadline config show --origin` shows where each comes from.";
    DataFolderInUse "DATA_FOLDER_IN_USE" Cli -32002 409 "Another Threadline owns this data folder. Use it, stop it, or choose another with THREADLINE_DATA.";
    NodeNameInUse "NODE_NAME_IN_USE" Cli -32002 409 "Another server with this data folder's name is on the database. Stop it, or, if this folder is a copy, delete its file `node` and start again.";
    PortInUse "PORT_IN_USE" Cli -32002 409 "Another program listens there. Choose another address with --listen.";
    ListenNotAllowed "LISTEN_NOT_ALLOWED" Cli -32602 400 "Beyond loopback needs --allow-remote and a token of yours in THREADLINE_TOKEN.";
    OwnerUnreachable "OWNER_UNREACHABLE" Cli -32002 503 "The background process does not answer. Its log says why.";
    OutFileExists "OUT_FILE_EXISTS" Cli -32002 409 "The run's files are in the thread's folder. Choose another folder for --out, or move away what is there.";
    DatabaseTooNew "DATABASE_TOO_NEW" Cli -32002 409 "A newer Threadline made this database. Use that one, or another data folder.";
    DatabaseDamaged "DATABASE_DAMAGED" Bridge -32002 500 "The database file is damaged. Stop Threadline, keep a copy of the file, and put a back-up in its place; `threadline doctor` checks it.";
    StateDamaged "STATE_DAMAGED" Bridge -32002 500 "A file that Threadline keeps is damaged. The sentence says which: put a back-up in its place, or move it away to begin anew.";
    DatabaseUnreachable "DATABASE_UNREACHABLE" Bridge -32002 503 "The database does not answer. Check its address and that it runs.";
    StorageFull "STORAGE_FULL" Bridge -32002 507 "The disk is full. Nothing half-written was kept; make room and try again.";
    StorageReadOnly "STORAGE_READ_ONLY" Bridge -32002 507 "The data folder cannot be written. Mend its permissions, or choose another with THREADLINE_DATA.";
    Internal "INTERNAL" Bridge -32603 500 "Something inside Threadline broke. The server's log says what.";
}

impl Code {
    /// Finds a code by its spelling.
    pub fn find(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|c| c.as_str() == text)
    }
}
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
impl Serialize for Code {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}
impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        Self::find(&text).ok_or_else(|| serde::de::Error::custom(format!("unknown code `{text}`")))
    }
}
impl schemars::JsonSchema for Code {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Code".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let all: Vec<&str> = Self::ALL.iter().map(|c| c.as_str()).collect();
        schemars::json_schema!({"type": "string", "enum": all})
    }
}

/// What a thread says about its last run: a status word, a code of the list, or an HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultCode {
    /// The run completed.
    Success,
    /// The run failed and no better code is known.
    Failed,
    /// The user stopped it.
    Aborted,
    /// A declared deliverable is missing and no better code is known.
    ArtifactMissing,
    /// A concrete code.
    Code(Code),
    /// The bridge answered with this HTTP status.
    AcpHttp(u16),
}

impl ResultCode {
    /// Whether somebody stopped the run, here or at its runtime.
    pub const fn is_cancelled(self) -> bool {
        matches!(self, Self::Aborted | Self::Code(Code::StoppedAtGateway))
    }
}
impl fmt::Display for ResultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Success => f.write_str("success"),
            Self::Failed => f.write_str("failed"),
            Self::Aborted => f.write_str("aborted"),
            Self::ArtifactMissing => f.write_str("artifact_missing"),
            Self::Code(code) => code.fmt(f),
            Self::AcpHttp(status) => write!(f, "ACP_HTTP_{status}"),
        }
    }
}
impl std::str::FromStr for ResultCode {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match text {
            "success" => Self::Success,
            "failed" => Self::Failed,
            "aborted" => Self::Aborted,
            "artifact_missing" => Self::ArtifactMissing,
            other => match Code::find(other) {
                Some(code) => Self::Code(code),
                None => Self::AcpHttp(
                    other
                        .strip_prefix("ACP_HTTP_")
                        .and_then(|n| n.parse().ok())
                        .ok_or(())?,
                ),
            },
        })
    }
}
impl Serialize for ResultCode {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for ResultCode {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse()
            .map_err(|()| serde::de::Error::custom(format!("unknown result code `{text}`")))
    }
}
impl schemars::JsonSchema for ResultCode {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ResultCode".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "description": "success, failed, aborted, artifact_missing, ACP_HTTP_<status>, or one code of the code list"})
    }
}

/// An advice beside the sentence that it speaks of: without what points at that sentence.
pub fn beside(advice: &str) -> String {
    let points = |part: &&str| !part.contains("sentence") && !part.starts_with("The list");
    let parts: String = advice.split_inclusive(". ").filter(points).collect();
    parts.trim_end().to_owned()
}

#[cfg(test)]
#[path = "code_tests.rs"]
mod tests;
