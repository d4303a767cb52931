//! Keys that sign artifact links. A retired key still verifies; it signs nothing new.

use threadline_contract::Millis;

use crate::{Dialect, Result, Store, StoreError, json, open::read, sql, tx::on};

/// A signing key.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey {
    /// Its name, which stands in every link that it signed.
    pub kid: String,
    /// The secret itself.
    pub secret: Vec<u8>,
    /// When it was made.
    pub created_at: Millis,
    /// Since when it signs nothing new.
    pub retired_at: Option<Millis>,
}

impl std::fmt::Debug for SigningKey {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey")
            .field("kid", &self.kid)
            .field("created_at", &self.created_at)
            .field("retired_at", &self.retired_at)
            .finish_non_exhaustive()
    }
}

type KeyRow = (String, Vec<u8>, i64, Option<i64>);

fn key((kid, secret, created_at, retired_at): KeyRow) -> SigningKey {
    SigningKey {
        kid,
        secret,
        created_at: Millis(created_at),
        retired_at: json::millis(retired_at),
    }
}

impl Store {
    /// Every signing key, newest first.
    pub async fn signing_keys(&self) -> Result<Vec<SigningKey>> {
        let rows: Vec<KeyRow> = read!(self, |db| sqlx::query_as(sql::SIGNING_KEYS)
            .fetch_all(db)
            .await)?;
        Ok(rows.into_iter().map(key).collect())
    }

    /// Every signing key, newest first, one of which signs: those that were made before `oldest` stop
    /// signing, and if none is left that signs, `fresh` is added. Of many who ask at once, one adds its key.
    pub async fn signing_keys_with(
        &self,
        fresh: SigningKey,
        oldest: Millis,
    ) -> Result<Vec<SigningKey>> {
        self.transact(move |mut tx| {
            Box::pin(async move {
                if tx.dialect() == Dialect::Postgres {
                    on!(tx, |c| sqlx::query(sql::LOCK_KEYS)
                        .execute(c)
                        .await
                        .map(drop))?;
                }
                let rows: Vec<KeyRow> =
                    on!(tx, |c| sqlx::query_as(sql::SIGNING_KEYS).fetch_all(c).await)?;
                let mut keys: Vec<SigningKey> = rows.into_iter().map(key).collect();
                let signing = keys.iter_mut().filter(|key| key.retired_at.is_none());
                for key in signing.filter(|key| key.created_at < oldest) {
                    on!(tx, |c| sqlx::query(sql::RETIRE_SIGNING_KEY)
                        .bind(key.kid.as_str())
                        .bind(fresh.created_at.0)
                        .execute(c)
                        .await
                        .map(drop))?;
                    key.retired_at = Some(fresh.created_at);
                }
                if keys.iter().all(|key| key.retired_at.is_some()) {
                    on!(tx, |c| sqlx::query(sql::ADD_SIGNING_KEY)
                        .bind(fresh.kid.as_str())
                        .bind(fresh.secret.as_slice())
                        .bind(fresh.created_at.0)
                        .execute(c)
                        .await
                        .map(drop))?;
                    keys.insert(0, fresh);
                }
                Ok(keys)
            })
        })
        .await
    }

    /// Adds a signing key. `Duplicate` when its name is in use.
    pub async fn add_signing_key(&self, kid: &str, secret: &[u8], at: Millis) -> Result<()> {
        let (kid, secret) = (kid.to_owned(), secret.to_vec());
        self.transact(move |mut tx| {
            Box::pin(async move {
                on!(tx, |c| sqlx::query(sql::ADD_SIGNING_KEY)
                    .bind(kid.as_str())
                    .bind(secret.as_slice())
                    .bind(at.0)
                    .execute(c)
                    .await
                    .map(drop))
            })
        })
        .await
    }

    /// Lets a key sign nothing new. Retiring it again changes nothing.
    pub async fn retire_signing_key(&self, kid: &str, at: Millis) -> Result<()> {
        let kid = kid.to_owned();
        self.transact(move |mut tx| {
            Box::pin(async move {
                let retired = on!(tx, |c| sqlx::query(sql::RETIRE_SIGNING_KEY)
                    .bind(kid.as_str())
                    .bind(at.0)
                    .execute(c)
                    .await
                    .map(|done| done.rows_affected()))?;
                match retired {
                    0 => Err(StoreError::NotFound),
                    _ => Ok(()),
                }
            })
        })
        .await
    }
}
