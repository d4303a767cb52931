//! How two servers on one database prove themselves to each other, with the signing keys that both read there.
//!
//! A server that hands a request on seals a pass: for whom it asks, which server it is for, and the one request
//! that it is good for. The other one seals its answer: the pass that it answers and the status. Before any of it
//! is sent, a pass without a caller asks whether the right server is there at all; so whoever listens at the
//! address of a server that is gone sees no request, and what it says is not believed. The caller's own token
//! never leaves the server that it was given to.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256 as Hasher};
use threadline_contract::{Code, Fault, Millis, Principal, Who};

use crate::{Engine, Node};

/// The word before a pass in the header `Authorization`.
pub const FORWARDED_SCHEME: &str = "Threadline-Node";
/// Where a server says that it is the one it is taken for.
pub const HELLO_PATH: &str = "/acp/node";
/// What passes and answers are sealed for.
const PASS: &str = "pass";
const ANSWER: &str = "answer";
/// How many seconds a seal holds: as long as a request may take to arrive, and as clocks may differ.
const SEAL_SECONDS: i64 = 60;

/// A request that one server hands to another.
#[derive(Clone, Copy, Debug)]
pub struct Handed<'a> {
    /// The HTTP method.
    pub method: &'a str,
    /// The path, with its query.
    pub path: &'a str,
    /// The digest of the body.
    pub body: [u8; 32],
}

impl<'a> Handed<'a> {
    /// A request with this body; one without a body has an empty one.
    pub fn new(method: &'a str, path: &'a str, body: &[u8]) -> Self {
        Self {
            method,
            path,
            body: Hasher::digest(body).into(),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Pass {
    /// Told apart from every other pass by this.
    nonce: String,
    /// For whom it is asked. Nobody, where it is only asked whether the server is there.
    caller: Option<Principal>,
    /// The server that it is for.
    node: String,
    method: String,
    path: String,
    body: [u8; 32],
}

/// What a server says about its answer.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Answer {
    nonce: String,
    node: String,
    status: u16,
}

/// A pass that was let in.
#[derive(Clone, Debug)]
pub struct Passed {
    /// For whom it is asked; nobody, where the path is [`HELLO_PATH`].
    pub caller: Option<Principal>,
    /// The digest that the body must have.
    pub body: [u8; 32],
    nonce: String,
}

/// A pass to be sent, and by what its answer is known.
pub struct SealedPass {
    /// The text for the header.
    pub text: String,
    nonce: String,
}

impl Engine {
    /// A pass with which another server answers this one request.
    pub fn pass_to(
        &self,
        node: &Node,
        caller: Option<&Principal>,
        handed: Handed<'_>,
    ) -> Result<SealedPass, Fault> {
        let nonce = uuid::Uuid::new_v4().simple().to_string();
        let pass = Pass {
            nonce: nonce.clone(),
            caller: caller.cloned(),
            node: node.name.clone(),
            method: handed.method.to_owned(),
            path: handed.path.to_owned(),
            body: handed.body,
        };
        let text = self.sealed(PASS, &pass)?;
        Ok(SealedPass { text, nonce })
    }

    /// Whom another server asks for. The token must still be one, and the request the one that was sealed; its
    /// body is compared by whoever reads it.
    pub async fn passed(&self, pass: &str, method: &str, path: &str) -> Result<Passed, Fault> {
        let pass: Pass = self.unsealed(PASS, pass).await?.ok_or_else(refused)?;
        let fits = pass.node == self.node_name() && pass.method == method && pass.path == path;
        if !fits || pass.caller.is_none() != (path == HELLO_PATH) {
            return Err(refused());
        }
        let caller = match pass.caller {
            None => None,
            Some(caller) => Some(self.still_known(caller).await?),
        };
        Ok(Passed {
            caller,
            body: pass.body,
            nonce: pass.nonce,
        })
    }

    /// The same principal, as far as it still is one: a token may have been revoked or narrowed meanwhile.
    async fn still_known(&self, principal: Principal) -> Result<Principal, Fault> {
        match &principal.who {
            Who::Token(id) => {
                let record = self.0.store.token(&principal.account, id).await?;
                Ok(record.ok_or_else(refused)?.principal())
            }
            Who::Person(_) | Who::Agent(_) | Who::Server => Ok(principal),
        }
    }

    /// What proves to the server that gave a pass that this one answers it, with this status.
    pub fn seal_answer(&self, passed: &Passed, status: u16) -> Result<String, Fault> {
        let answer = Answer {
            nonce: passed.nonce.clone(),
            node: self.node_name().to_owned(),
            status,
        };
        self.sealed(ANSWER, &answer)
    }

    /// Whether an answer to a pass comes from the server that the pass was for.
    pub async fn is_answered_by(
        &self,
        node: &Node,
        pass: &SealedPass,
        status: u16,
        seal: &str,
    ) -> Result<bool, Fault> {
        let wanted = Answer {
            nonce: pass.nonce.clone(),
            node: node.name.clone(),
            status,
        };
        Ok(self.unsealed(ANSWER, seal).await? == Some(wanted))
    }

    fn sealed(&self, purpose: &str, value: &impl Serialize) -> Result<String, Fault> {
        let text = serde_json::to_string(value).map_err(|_| Fault::internal())?;
        let expires = Millis::now().0 / 1000 + SEAL_SECONDS;
        Ok(self.0.keys.ring().seal(purpose, &text, expires))
    }

    async fn unsealed<T: for<'de> Deserialize<'de>>(
        &self,
        purpose: &str,
        seal: &str,
    ) -> Result<Option<T>, Fault> {
        let now = Millis::now().0 / 1000;
        let text = self.checked(|ring| ring.unseal(purpose, seal, now)).await?;
        Ok(text.ok().and_then(|text| serde_json::from_str(&text).ok()))
    }
}

fn refused() -> Fault {
    Fault::new(Code::Unauthorized, Code::Unauthorized.advice())
}
