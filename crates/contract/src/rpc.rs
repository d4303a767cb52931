//! JSON-RPC 2.0, thin: our transports (HTTP, SSE, WebSocket, stdio) share these envelopes.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use crate::{Code, Fault};

/// A request id: text or number, echoed as it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    /// A number, kept as sent.
    Number(serde_json::Number),
    /// A text.
    Text(String),
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Its id; a request without one wants no answer.
    pub id: Option<Id>,
    /// What to do.
    pub method: String,
    /// With what.
    pub params: Value,
}

/// A body that is not a request, with the id that it has all the same: whoever waits for an answer
/// under that id shall get one.
#[derive(Clone, Debug, PartialEq)]
pub struct Malformed {
    /// Its id, where it could be read.
    pub id: Option<Id>,
    /// What is wrong with it.
    pub fault: Fault,
}

impl From<Fault> for Malformed {
    fn from(fault: Fault) -> Self {
        Self { id: None, fault }
    }
}

impl Request {
    /// Reads a request from the bytes of a body or a line.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|e| Fault::new(Code::InvalidJson, format!("The body is not JSON: {e}.")))?;
        let refuse = |why: &str| {
            Fault::new(
                Code::InvalidEnvelope,
                format!("{why} Send one JSON-RPC 2.0 request object."),
            )
        };
        let Value::Object(mut map) = value else {
            return Err(refuse("The body is JSON but not an object.").into());
        };
        let id = match map.remove("id") {
            None => None,
            Some(Value::String(text)) => Some(Id::Text(text)),
            // A larger one would come back rounded, and nobody could match it.
            Some(Value::Number(number)) if !number.is_f64() => Some(Id::Number(number)),
            Some(_) => {
                return Err(
                    refuse("`id` must be a text or a whole number of at most 64 bits.").into(),
                );
            }
        };
        let malformed = |fault| {
            let id = id.clone();
            Malformed { id, fault }
        };
        if map.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(malformed(refuse("`jsonrpc` must be \"2.0\".")));
        }
        let Some(Value::String(method)) = map.remove("method") else {
            return Err(malformed(refuse("`method` must be a text.")));
        };
        // Some clients write what they do not have as `null`.
        let params = map.remove("params").filter(|params| !params.is_null());
        let params = params.unwrap_or_else(|| Value::Object(Map::new()));
        if !params.is_object() {
            let fault = Fault::invalid("`params` must be an object.");
            return Err(malformed(fault));
        }
        Ok(Self { id, method, params })
    }

    /// The request as a body.
    pub fn to_value(&self) -> Value {
        let mut out = json!({"jsonrpc": "2.0", "method": self.method, "params": self.params});
        if let (Some(map), Some(id)) = (out.as_object_mut(), &self.id) {
            map.insert("id".into(), json!(id));
        }
        out
    }
}

/// Reads parameters; what is wrong with them is said, with the place.
pub fn params<T: DeserializeOwned>(params: Value) -> Result<T, Fault> {
    serde_path_to_error::deserialize(params).map_err(|e| match e.path().to_string().as_str() {
        "." => Fault::invalid(format!("The parameters are not right: {}.", e.inner())),
        path => Fault::invalid(format!("`{path}` is not right: {}.", e.inner())),
    })
}

/// A notification's envelope.
pub fn notification(method: &str, params: &impl Serialize) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// A success envelope.
pub fn success(id: Option<&Id>, result: &impl Serialize) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// An error envelope; the machine code stands in `error.data.code`.
pub fn failure(id: Option<&Id>, fault: &Fault) -> Value {
    let mut data = fault.data.clone();
    data.insert("code".into(), json!(fault.code));
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": fault.code.rpc(), "message": fault.message, "data": data}})
}

/// Reads an answer back: the client's side of [`success`] and [`failure`].
pub fn outcome(mut envelope: Value) -> Result<Value, Fault> {
    if let Some(result) = envelope.get_mut("result") {
        return Ok(result.take());
    }
    let strange = || {
        Fault::new(
            Code::BadBridgeAnswer,
            "The bridge's answer is neither a result nor an error.",
        )
    };
    let error = envelope.get("error").ok_or_else(strange)?;
    let message = error
        .get("message")
        .and_then(Value::as_str)
        .ok_or_else(strange)?
        .to_owned();
    let mut data = error
        .get("data")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    let spelled = data.remove("code");
    let code = spelled
        .as_ref()
        .and_then(Value::as_str)
        .and_then(Code::find);
    let Some(code) = code else {
        // A code that a newer or foreign bridge knows and we do not: keep it readable.
        let named = spelled
            .as_ref()
            .and_then(Value::as_str)
            .unwrap_or("no code");
        return Err(Fault {
            code: Code::ExecutionFailed,
            message: format!("{message} ({named})"),
            data,
        });
    };
    Err(Fault {
        code,
        message,
        data,
    })
}

#[cfg(test)]
#[path = "rpc_tests.rs"]
mod tests;
