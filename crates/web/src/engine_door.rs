//! The engine of this machine, as the pages and the local API reach it: the bridge's own methods without a socket.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use threadline_contract::{Fault, Principal};
use threadline_engine::Engine;

use crate::{Pending, local};

/// What answers the bridge's methods for a principal.
pub trait EngineDoor: Send + Sync + 'static {
    /// Does what a method asks, if the principal may.
    fn call<'a>(
        &'a self,
        by: &'a Principal,
        method: &'a str,
        params: Value,
    ) -> Pending<'a, Result<Value, Fault>>;
}

impl EngineDoor for Engine {
    fn call<'a>(
        &'a self,
        by: &'a Principal,
        method: &'a str,
        params: Value,
    ) -> Pending<'a, Result<Value, Fault>> {
        Box::pin(threadline_server::call(self, by, method, params))
    }
}

/// A method with its result read back into its type.
pub(crate) async fn call<T: DeserializeOwned>(
    door: &dyn EngineDoor,
    by: &Principal,
    method: &str,
    params: impl Serialize,
) -> Result<T, Fault> {
    let params = local::written(method, params)?;
    local::read(method, door.call(by, method, params).await?)
}
