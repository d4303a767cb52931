//! Accounts and the tokens that belong to them. A token is known by its digest only.

use threadline_contract::{AccountId, Actor, Millis, Principal, Scopes, TokenId, Who};

use crate::{Result, Store, StoreError, json, open::read, sql, tx::on};

/// A token to be added.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// Its name.
    pub id: TokenId,
    /// The account that it opens.
    pub account: AccountId,
    /// The SHA-256 of the token itself.
    pub hash: [u8; 32],
    /// What its owner calls it.
    pub label: String,
    /// What it may do.
    pub scopes: Scopes,
    /// Who made it.
    pub made_by: Actor,
    /// The token that it stands for, and with which it ends.
    pub parent: Option<TokenId>,
    /// When it was made.
    pub at: Millis,
}

/// What is known of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    /// Its name.
    pub id: TokenId,
    /// The account that it opens.
    pub account: AccountId,
    /// What its owner calls it.
    pub label: String,
    /// What it may do.
    pub scopes: Scopes,
    /// When it was made.
    pub created_at: Millis,
    /// Who made it, where that is known.
    pub made_by: Option<Actor>,
    /// The token that it stands for, and with which it ends.
    pub parent: Option<TokenId>,
    /// Since when it opens nothing.
    pub revoked_at: Option<Millis>,
}

impl TokenRecord {
    /// Whoever has this token.
    pub fn principal(self) -> Principal {
        Principal {
            account: self.account,
            who: Who::Token(self.id),
            label: self.label,
            scopes: self.scopes,
        }
    }
}

#[derive(sqlx::FromRow)]
struct TokenRow {
    id: String,
    account: String,
    label: String,
    scopes: String,
    created_at: i64,
    made_by: Option<String>,
    parent: Option<String>,
    revoked_at: Option<i64>,
}

impl TryFrom<TokenRow> for TokenRecord {
    type Error = StoreError;
    fn try_from(row: TokenRow) -> Result<Self> {
        Ok(Self {
            id: json::id("tokens.id", &row.id)?,
            account: json::id("tokens.account", &row.account)?,
            label: row.label,
            scopes: json::id("tokens.scopes", &row.scopes)?,
            created_at: Millis(row.created_at),
            made_by: json::maybe_from_text("tokens.made_by", row.made_by.as_deref())?,
            parent: row
                .parent
                .map(|p| json::id("tokens.parent", &p))
                .transpose()?,
            revoked_at: json::millis(row.revoked_at),
        })
    }
}

impl Store {
    /// Makes an account, unless it exists.
    pub async fn ensure_account(&self, account: &AccountId, at: Millis) -> Result<()> {
        let account = account.clone();
        self.transact(move |mut tx| {
            Box::pin(async move {
                on!(tx, |c| sqlx::query(sql::ENSURE_ACCOUNT)
                    .bind(account.as_str())
                    .bind(at.0)
                    .execute(c)
                    .await
                    .map(drop))
            })
        })
        .await
    }

    /// Adds a token. `NotFound` when there is no such account, `Duplicate` when the token or its id
    /// is in use.
    pub async fn add_token(&self, token: NewToken) -> Result<()> {
        let (scopes, made_by) = noted(&token)?;
        self.transact(move |mut tx| {
            Box::pin(async move {
                on!(tx, |c| sqlx::query(sql::ADD_TOKEN)
                    .bind(token.id.as_str())
                    .bind(token.account.as_str())
                    .bind(token.hash.as_slice())
                    .bind(token.label.as_str())
                    .bind(token.at.0)
                    .bind(scopes.as_str())
                    .bind(made_by.as_str())
                    .bind(token.parent.as_ref().map(TokenId::as_str))
                    .execute(c)
                    .await
                    .map(drop))
            })
        })
        .await
    }

    /// Adds a token, unless one with its digest is there: then that one is what it gives, also when it was
    /// revoked. Of two who add the same token at once, both get the same record.
    pub async fn admit_token(&self, token: NewToken) -> Result<TokenRecord> {
        let (scopes, made_by) = noted(&token)?;
        self.transact(move |mut tx| {
            Box::pin(async move {
                on!(tx, |c| sqlx::query(sql::ADMIT_TOKEN)
                    .bind(token.id.as_str())
                    .bind(token.account.as_str())
                    .bind(token.hash.as_slice())
                    .bind(token.label.as_str())
                    .bind(token.at.0)
                    .bind(scopes.as_str())
                    .bind(made_by.as_str())
                    .bind(token.parent.as_ref().map(TokenId::as_str))
                    .execute(c)
                    .await
                    .map(drop))?;
                let row: TokenRow = on!(tx, |c| sqlx::query_as(sql::TOKEN_OF_HASH)
                    .bind(token.hash.as_slice())
                    .fetch_one(c)
                    .await)?;
                row.try_into()
            })
        })
        .await
    }

    /// A token of an account by its id, unless it was revoked.
    pub async fn token(&self, account: &AccountId, id: &TokenId) -> Result<Option<TokenRecord>> {
        let row: Option<TokenRow> = read!(self, |db| sqlx::query_as(sql::TOKEN_BY_ID)
            .bind(account.as_str())
            .bind(id.as_str())
            .fetch_optional(db)
            .await)?;
        row.map(TryInto::try_into).transpose()
    }

    /// The token with this digest, unless it was revoked.
    pub async fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<TokenRecord>> {
        let row: Option<TokenRow> = read!(self, |db| sqlx::query_as(sql::TOKEN_BY_HASH)
            .bind(hash.as_slice())
            .fetch_optional(db)
            .await)?;
        row.map(TryInto::try_into).transpose()
    }

    /// Every token of an account, also the revoked ones, oldest first.
    pub async fn tokens(&self, account: &AccountId) -> Result<Vec<TokenRecord>> {
        let rows: Vec<TokenRow> = read!(self, |db| sqlx::query_as(sql::TOKENS)
            .bind(account.as_str())
            .fetch_all(db)
            .await)?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Makes a token open nothing from now on. Revoking it again changes nothing.
    pub async fn revoke_token(&self, account: &AccountId, id: &TokenId, at: Millis) -> Result<()> {
        let (account, id) = (account.clone(), id.clone());
        self.transact(move |mut tx| {
            Box::pin(async move {
                let revoked = on!(tx, |c| sqlx::query(sql::REVOKE_TOKEN)
                    .bind(account.as_str())
                    .bind(id.as_str())
                    .bind(at.0)
                    .execute(c)
                    .await
                    .map(|done| done.rows_affected()))?;
                match revoked {
                    0 => Err(StoreError::NotFound),
                    _ => Ok(()),
                }
            })
        })
        .await
    }
}

/// What a token may do and who made it, as they are stored.
fn noted(token: &NewToken) -> Result<(String, String)> {
    let made_by = json::to_text("made by", &token.made_by)?;
    Ok((token.scopes.to_string(), made_by))
}
