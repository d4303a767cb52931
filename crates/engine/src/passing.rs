//! How one server proves to another for whom it asks: a pass, sealed with the keys that both share. The
//! caller's own token never leaves the server that it was given to.

use serde::{Deserialize, Serialize};
use threadline_contract::{AccountId, Code, Fault, Millis, TokenId};

use crate::{Caller, Engine, Node};

/// The word before a pass in the header `Authorization`.
pub const FORWARDED_SCHEME: &str = "Threadline-Node";
/// What passes are sealed for.
const PURPOSE: &str = "pass";
/// How many seconds a pass holds: as long as a request may take to arrive, and as clocks may differ.
const PASS_SECONDS: i64 = 60;

#[derive(Serialize, Deserialize)]
struct Pass {
    account: AccountId,
    token: TokenId,
    /// The server that it is for.
    node: String,
}

impl Engine {
    /// A pass with which another server answers this caller.
    pub fn pass_to(&self, node: &Node, caller: &Caller) -> Result<String, Fault> {
        let pass = Pass {
            account: caller.account.clone(),
            token: caller.token.clone(),
            node: node.name.clone(),
        };
        let text = serde_json::to_string(&pass).map_err(|_| Fault::internal())?;
        let expires = Millis::now().0 / 1000 + PASS_SECONDS;
        Ok(self.0.keys.ring().seal(PURPOSE, &text, expires))
    }

    /// Whom another server asks for. Its token must still be one.
    pub async fn passed(&self, pass: &str) -> Result<Caller, Fault> {
        let refused = || Fault::new(Code::Unauthorized, Code::Unauthorized.advice());
        let now = Millis::now().0 / 1000;
        let text = self.checked(|ring| ring.unseal(PURPOSE, pass, now));
        let text = text.await?.map_err(|_| refused())?;
        let pass: Pass = serde_json::from_str(&text).map_err(|_| refused())?;
        if pass.node != self.node_name() {
            return Err(refused());
        }
        let record = self.0.store.token(&pass.account, &pass.token).await?;
        let record = record.ok_or_else(refused)?;
        Ok(Caller {
            account: record.account,
            token: record.id,
            label: record.label,
        })
    }
}
