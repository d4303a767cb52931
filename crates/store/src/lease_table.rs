//! Leases with fencing tokens on the rows of any table: claim, renew, release, fence.
//!
//! A lease is three columns of the row that it guards: `lease_owner`, `lease_epoch`, which rises with every lease and
//! never falls, and `lease_until`, zero when nobody has it. Whoever holds one writes under its epoch; after a takeover
//! the epoch is another, and nothing of the old holder is kept.

use threadline_contract::Millis;
use threadline_db::Both;

use crate::{Dialect, Rank, Result, StoreError, Takeover, Tx, json, tx::on};

/// The statements that lease the rows of one table (see [`lease_table!`]).
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseTable {
    pub(crate) take: Both,
    pub(crate) claim: Both,
    pub(crate) renew: Both,
    pub(crate) release: &'static str,
    pub(crate) fence: Both,
    pub(crate) epochs: Both,
}

/// Describes a table whose rows are leased: its name, the column of its key, and which of its rows can be leased.
///
/// `$1` of the statements about several rows is a JSON list of keys, or of `[key, epoch]`. Rows are locked in the
/// order of their keys; a claim leaves out those that another transaction has locked, as somebody is about to have
/// them.
macro_rules! lease_table {
    ($table:literal, $key:literal, $open:literal) => {
        $crate::lease_table::LeaseTable {
            take: threadline_db::Both {
                sqlite: concat!(
                    "update ", $table, " set lease_owner = $2, lease_epoch = lease_epoch + 1, lease_until = $3 where ",
                    $key, " in (select value from json_each($1)) and ", $open, " returning ", $key, ", lease_epoch"
                ),
                postgres: concat!(
                    "update ", $table, " set lease_owner = $2, lease_epoch = lease_epoch + 1, lease_until = $3 where ",
                    $key, " = any(array(select ", $key, " from ", $table, " where ", $key,
                    " in (select json_array_elements_text($1::json)) and ", $open, " order by ", $key,
                    " for update)) returning ", $key, ", lease_epoch"
                ),
            },
            claim: threadline_db::Both {
                sqlite: concat!(
                    "update ", $table, " set lease_owner = $2, lease_epoch = lease_epoch + 1, lease_until = $3 where ",
                    $key, " in (select value from json_each($1)) and ", $open, " and lease_until <= $4 returning ",
                    $key, ", lease_epoch"
                ),
                postgres: concat!(
                    "update ", $table, " set lease_owner = $2, lease_epoch = lease_epoch + 1, lease_until = $3 where ",
                    $key, " = any(array(select ", $key, " from ", $table, " where ", $key,
                    " in (select json_array_elements_text($1::json)) and ", $open, " and lease_until <= $4 order by ",
                    $key, " for update skip locked)) returning ", $key, ", lease_epoch"
                ),
            },
            renew: threadline_db::Both {
                sqlite: concat!(
                    "update ", $table, " set lease_until = $3 from \
                     (select value ->> 0 as key, value ->> 1 as epoch from json_each($1)) l where ", $table, ".", $key,
                    " = l.key and ", $table, ".lease_epoch = l.epoch and ", $table, ".lease_owner = $2 and ", $table,
                    ".lease_until > 0 returning ", $table, ".", $key
                ),
                postgres: concat!(
                    "update ", $table, " set lease_until = $3 from \
                     (select value ->> 0 as key, (value ->> 1)::bigint as epoch from json_array_elements($1::json)) l where ",
                    $table, ".", $key, " = l.key and ", $table, ".lease_epoch = l.epoch and ", $table,
                    ".lease_owner = $2 and ", $table, ".lease_until > 0 returning ", $table, ".", $key
                ),
            },
            release: concat!("update ", $table, " set lease_until = 0 where ", $key, " = $1 and lease_epoch = $2"),
            // The row lock makes a takeover wait until the fenced write is in or out.
            fence: threadline_db::Both {
                sqlite: concat!("select 1 from ", $table, " where ", $key, " = $1 and lease_epoch = $2"),
                postgres: concat!(
                    "select 1 from ", $table, " where ", $key, " = $1 and lease_epoch = $2 for share"
                ),
            },
            // One look at all fences of a group of writes.
            epochs: threadline_db::Both {
                sqlite: concat!(
                    "select ", $key, ", lease_epoch from ", $table, " where ", $key, " in (select value from json_each($1))"
                ),
                postgres: concat!(
                    "select ", $key, ", lease_epoch from ", $table, " where ", $key,
                    " in (select json_array_elements_text($1::json))"
                ),
            },
        }
    };
}
pub(crate) use lease_table;

impl LeaseTable {
    /// The name and text of every statement, for the test that reads their plans.
    pub(crate) fn statements(&self, dialect: Dialect) -> [(&'static str, &'static str); 6] {
        [
            ("take", self.take.of(dialect)),
            ("claim", self.claim.of(dialect)),
            ("renew", self.renew.of(dialect)),
            ("release", self.release),
            ("fence", self.fence.of(dialect)),
            ("epochs", self.epochs.of(dialect)),
        ]
    }
}

/// Who wants leases, and until when.
#[derive(Clone, Debug)]
pub(crate) struct Claimant {
    pub(crate) owner: String,
    pub(crate) now: Millis,
    pub(crate) until: Millis,
}

impl Tx<'_> {
    /// Takes the leases of those of the named rows that may be had, and gives each with its epoch.
    pub(crate) async fn claim_leases(
        &mut self,
        table: LeaseTable,
        keys: impl IntoIterator<Item = &str>,
        claimant: &Claimant,
        takeover: Takeover,
    ) -> Result<Vec<(String, i64)>> {
        let keys = json::list(keys);
        let dialect = self.dialect();
        let (owner, until) = (claimant.owner.as_str(), claimant.until.0);
        match takeover {
            Takeover::Always => on!(self, |c| sqlx::query_as(table.take.of(dialect))
                .bind(keys.as_str())
                .bind(owner)
                .bind(until)
                .fetch_all(c)
                .await),
            Takeover::IfExpired => on!(self, |c| sqlx::query_as(table.claim.of(dialect))
                .bind(keys.as_str())
                .bind(owner)
                .bind(until)
                .bind(claimant.now.0)
                .fetch_all(c)
                .await),
        }
    }

    /// Prolongs leases of an owner, each a key and its epoch. Gives the keys of those that it still has.
    pub(crate) async fn prolong_leases(
        &mut self,
        table: LeaseTable,
        owner: &str,
        leases: &[(&str, i64)],
        until: Millis,
    ) -> Result<Vec<String>> {
        let leases = json::to_text("leases", leases)?;
        let statement = table.renew.of(self.dialect());
        on!(self, |c| sqlx::query_scalar(statement)
            .bind(leases.as_str())
            .bind(owner)
            .bind(until.0)
            .fetch_all(c)
            .await)
    }

    /// Gives a lease back, so that anybody can take it at once. One that is lost already is no error.
    pub(crate) async fn free_lease(
        &mut self,
        table: LeaseTable,
        key: &str,
        epoch: i64,
    ) -> Result<()> {
        on!(self, |c| sqlx::query(table.release)
            .bind(key)
            .bind(epoch)
            .execute(c)
            .await
            .map(drop))
    }

    /// Fails with `Stale` unless a lease still holds; on PostgreSQL it then holds until the transaction ends.
    pub(crate) async fn fence_row(
        &mut self,
        table: LeaseTable,
        rank: Rank,
        key: &str,
        epoch: i64,
    ) -> Result<()> {
        self.locks(rank, key)?;
        let statement = table.fence.of(self.dialect());
        let held: Option<i32> = on!(self, |c| sqlx::query_scalar(statement)
            .bind(key)
            .bind(epoch)
            .fetch_optional(c)
            .await)?;
        held.map(drop).ok_or(StoreError::Stale)
    }
}
