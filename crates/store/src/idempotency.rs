//! Requests that may be sent again: one is carried out once, and whoever repeats it gets what came of it.

use threadline_contract::{AccountId, Actor, Millis, Sha256};
use threadline_db::DbError;

use crate::{Result, Store, StoreError, Tx, json, open::read, sql, tx::on};

/// A request that its sender gave a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The account.
    pub account: AccountId,
    /// What the key is unique in: for a turn, its owner's text.
    pub scope: String,
    /// The sender's key.
    pub key: String,
    /// The digest of what is asked for: the same key with another digest is another request, and refused.
    pub digest: Sha256,
    /// Who asks.
    pub by: Actor,
    /// Now.
    pub at: Millis,
}

type Known = (Vec<u8>, String);

/// What came of a request before. `IdempotencyConflict` when its key was used for another one.
fn outcome_of(known: Option<Known>, digest: &Sha256) -> Result<Option<String>> {
    match known {
        None => Ok(None),
        Some((known, _)) if known != digest.0 => Err(StoreError::IdempotencyConflict),
        Some((_, outcome)) => Ok(Some(outcome)),
    }
}

impl Store {
    /// What came of a request before, if it came before. `IdempotencyConflict` when its key was used for another one.
    pub async fn outcome(
        &self,
        account: &AccountId,
        scope: &str,
        key: &str,
        digest: &Sha256,
    ) -> Result<Option<String>> {
        let known: Option<Known> = read!(self, |db| sqlx::query_as(sql::OUTCOME)
            .bind(account.as_str())
            .bind(scope)
            .bind(key)
            .fetch_optional(db)
            .await)?;
        outcome_of(known, digest)
    }
}

impl Tx<'_> {
    /// What came of a request before, if it came before. `IdempotencyConflict` when its key was used for another one.
    pub async fn outcome(&mut self, request: &Request) -> Result<Option<String>> {
        let known: Option<Known> = on!(self, |c| sqlx::query_as(sql::OUTCOME)
            .bind(request.account.as_str())
            .bind(request.scope.as_str())
            .bind(request.key.as_str())
            .fetch_optional(c)
            .await)?;
        outcome_of(known, &request.digest)
    }

    /// Keeps what came of a request, in the transaction that carries it out. Where the same one is carried out at
    /// this moment by another, the whole transaction is run again, and finds what came of that.
    pub async fn keep_outcome(&mut self, request: &Request, outcome: &str) -> Result<()> {
        let by = json::to_text("asked by", &request.by)?;
        let kept = on!(self, |c| sqlx::query(sql::KEEP_OUTCOME)
            .bind(request.account.as_str())
            .bind(request.scope.as_str())
            .bind(request.key.as_str())
            .bind(request.digest.0.as_slice())
            .bind(outcome)
            .bind(by.as_str())
            .bind(request.at.0)
            .execute(c)
            .await
            .map(drop));
        kept.map_err(|e| match e {
            StoreError::Duplicate => DbError::Contended(None).into(),
            other => other,
        })
    }
}
