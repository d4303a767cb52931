//! Why a bridge was not heard, and whether asking again can help.

use reqwest::StatusCode;
use serde_json::Value;
use threadline_contract::{Code, Fault, ResultCode, rpc};

/// A request that did not bring what was asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Trouble {
    /// What goes into the thread's record.
    pub(crate) code: ResultCode,
    /// What happened, in a sentence.
    pub(crate) message: String,
    /// The same request may succeed later.
    pub(crate) again: bool,
    /// The bridge's own error, where it gave one.
    pub(crate) fault: Option<Fault>,
}

impl Trouble {
    /// Worth asking again.
    pub(crate) fn again(code: Code, message: impl Into<String>) -> Self {
        Self {
            code: ResultCode::Code(code),
            message: message.into(),
            again: true,
            fault: None,
        }
    }

    /// Not worth asking again.
    pub(crate) fn final_(code: Code, message: impl Into<String>) -> Self {
        Self {
            again: false,
            ..Self::again(code, message)
        }
    }

    /// A request that could not be sent.
    pub(crate) fn unsent(e: &reqwest::Error) -> Self {
        let cause = root_cause(e);
        if e.is_builder() {
            return Self::final_(
                Code::ConnectFailed,
                format!("The bridge's address cannot be used: {cause}."),
            );
        }
        if e.is_connect() && e.is_timeout() {
            return Self::again(
                Code::ConnectTimeout,
                "The bridge did not take the connection in time. Check its address and that it runs.",
            );
        }
        if e.is_connect() {
            return Self::again(
                Code::ConnectFailed,
                format!(
                    "The bridge cannot be reached ({cause}). Check its address and that it runs."
                ),
            );
        }
        Self::cut(e)
    }

    /// A connection that broke or an answer that did not come.
    pub(crate) fn cut(e: &reqwest::Error) -> Self {
        if e.is_timeout() {
            return Self::again(Code::ConnectionClosed, "The bridge did not answer in time.");
        }
        Self::again(
            Code::ConnectionClosed,
            format!("The connection to the bridge broke ({}).", root_cause(e)),
        )
    }

    /// An HTTP answer other than success.
    pub(crate) fn status(status: StatusCode, body: &[u8]) -> Self {
        let fault = serde_json::from_slice::<Value>(body)
            .ok()
            .filter(|v| v.get("error").is_some_and(Value::is_object))
            .and_then(|v| rpc::outcome(v).err());
        let again = matches!(status.as_u16(), 408 | 425 | 429 | 502 | 503 | 504);
        let said = match &fault {
            Some(fault) => fault.message.clone(),
            None => format!("The bridge answered {status}."),
        };
        Self {
            code: ResultCode::AcpHttp(status.as_u16()),
            message: said,
            again,
            fault,
        }
    }

    /// The HTTP status, where there was one.
    pub(crate) fn http(&self) -> Option<u16> {
        match self.code {
            ResultCode::AcpHttp(status) => Some(status),
            _ => None,
        }
    }
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Self {
            code: ResultCode::Code(fault.code),
            message: fault.message.clone(),
            again: fault.code == Code::ShuttingDown,
            fault: Some(fault),
        }
    }
}

impl From<Trouble> for Fault {
    fn from(trouble: Trouble) -> Self {
        if let Some(fault) = trouble.fault {
            return fault;
        }
        let code = match trouble.code {
            ResultCode::Code(code) => code,
            ResultCode::AcpHttp(401) => Code::Unauthorized,
            _ => Code::BadBridgeAnswer,
        };
        Self::new(code, trouble.message)
    }
}

/// The innermost cause: the outer ones repeat the address and say "error sending request".
fn root_cause(e: &dyn std::error::Error) -> String {
    let mut cause = e;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
