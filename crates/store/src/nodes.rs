//! The servers that share a database: where each can be reached, and which sessions lie with it.

use threadline_contract::{AccountId, Millis, Owner, RuntimeId, SessionKey};

use crate::{Result, Session, Store, open::read, overview::NumberedSession, sql, tx::on};

/// What is known of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its name.
    pub node: String,
    /// Where the others reach it, when it said so.
    pub url: Option<String>,
    /// When it was last there.
    pub seen_at: Millis,
}

/// A start of a node that wants its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeClaim {
    /// The name.
    pub node: String,
    /// Where the others reach it, when it says so.
    pub url: Option<String>,
    /// This start of it.
    pub incarnation: String,
    /// The start before it on the same data folder, where there was one.
    pub before: Option<String>,
    /// Any other that was not there since then has lost the name.
    pub away_since: Millis,
    /// Now.
    pub at: Millis,
}

impl Store {
    /// Gives a node's name to a start of it. `false`, and nothing is changed, when another start has it that
    /// is not the one before and was there since `away_since`.
    pub async fn claim_node(&self, claim: NodeClaim) -> Result<bool> {
        self.transact(move |mut tx| {
            Box::pin(async move {
                on!(tx, |c| sqlx::query(sql::CLAIM_NODE)
                    .bind(claim.node.as_str())
                    .bind(claim.url.as_deref())
                    .bind(claim.at.0)
                    .bind(claim.incarnation.as_str())
                    .bind(claim.before.as_deref())
                    .bind(claim.away_since.0)
                    .execute(c)
                    .await
                    .map(|done| done.rows_affected() > 0))
            })
        })
        .await
    }

    /// Notes that a start of a node is there, and where it can be reached now. `false` when another start has
    /// its name by now.
    pub async fn note_node(
        &self,
        node: &str,
        incarnation: &str,
        url: Option<&str>,
        at: Millis,
    ) -> Result<bool> {
        let (node, incarnation) = (node.to_owned(), incarnation.to_owned());
        let url = url.map(str::to_owned);
        self.transact(move |mut tx| {
            Box::pin(async move {
                on!(tx, |c| sqlx::query(sql::NOTE_NODE)
                    .bind(node.as_str())
                    .bind(url.as_deref())
                    .bind(at.0)
                    .bind(incarnation.as_str())
                    .execute(c)
                    .await
                    .map(|done| done.rows_affected() > 0))
            })
        })
        .await
    }

    /// A start of a node is over: whoever comes with its name next may have it at once.
    pub async fn release_node(&self, node: &str, incarnation: &str) -> Result<()> {
        let (node, incarnation) = (node.to_owned(), incarnation.to_owned());
        self.transact(move |mut tx| {
            Box::pin(async move {
                on!(tx, |c| sqlx::query(sql::RELEASE_NODE)
                    .bind(node.as_str())
                    .bind(incarnation.as_str())
                    .execute(c)
                    .await
                    .map(drop))
            })
        })
        .await
    }

    /// A node, if it was ever there.
    pub async fn node(&self, node: &str) -> Result<Option<NodeRecord>> {
        let row: Option<(String, Option<String>, i64)> =
            read!(self, |db| sqlx::query_as(sql::NODE)
                .bind(node)
                .fetch_optional(db)
                .await)?;
        Ok(row.map(|(node, url, seen_at)| NodeRecord {
            node,
            url,
            seen_at: Millis(seen_at),
        }))
    }

    /// Sessions of a runtime, of all accounts, that no node was noted for, from after a number on: each
    /// with its number.
    pub async fn sessions_without_node(
        &self,
        runtime: &RuntimeId,
        after: i64,
        limit: u32,
    ) -> Result<Vec<(i64, Session)>> {
        let runtime = runtime.to_string();
        let rows: Vec<NumberedSession> =
            read!(self, |db| sqlx::query_as(sql::SESSIONS_WITHOUT_NODE)
                .bind(runtime.as_str())
                .bind(after)
                .bind(i64::from(limit))
                .fetch_all(db)
                .await)?;
        rows.into_iter().map(NumberedSession::read).collect()
    }

    /// Moves a session from one node, or none, to another. `false` when it was not there any more.
    pub async fn move_session(
        &self,
        session: &SessionKey,
        from: Option<&str>,
        to: &str,
    ) -> Result<bool> {
        let (session, from, to) = (session.clone(), from.map(str::to_owned), to.to_owned());
        self.transact(move |mut tx| {
            Box::pin(async move {
                on!(tx, |c| sqlx::query(sql::MOVE_SESSION)
                    .bind(session.as_str())
                    .bind(from.as_deref())
                    .bind(to.as_str())
                    .execute(c)
                    .await
                    .map(|done| done.rows_affected() > 0))
            })
        })
        .await
    }

    /// Forgets that a node has anything of an owner: its sessions there, and that it drove runs of it.
    pub async fn leave_owner(&self, account: &AccountId, owner: &Owner, node: &str) -> Result<()> {
        let (account, owner, node) = (account.clone(), owner.to_string(), node.to_owned());
        self.transact(move |mut tx| {
            Box::pin(async move {
                for statement in [sql::LEAVE_SESSIONS, sql::LEAVE_RUNS] {
                    on!(tx, |c| sqlx::query(statement)
                        .bind(account.as_str())
                        .bind(owner.as_str())
                        .bind(node.as_str())
                        .execute(c)
                        .await
                        .map(drop))?;
                }
                Ok(())
            })
        })
        .await
    }
}
