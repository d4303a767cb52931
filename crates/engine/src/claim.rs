//! Who may take up an open run: decided without doing anything.

use std::time::Duration;

use threadline_contract::Millis;
use threadline_store::Takeover;

/// How long a node may be away before the runs whose record lies on it count as lost. Long enough
/// for an upgrade or a repair; not so long that nobody ever hears what became of them.
pub(crate) const GONE_AFTER: Duration = Duration::from_secs(60 * 60);

/// An open run and whoever looks at it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look<'a> {
    /// Who has its lease.
    pub(crate) owner: Option<&'a str>,
    /// Until when.
    pub(crate) until: Millis,
    /// This node.
    pub(crate) node: &'a str,
    /// The database is this node's alone.
    pub(crate) sole: bool,
    /// The run's files and record lie on its node's host.
    pub(crate) local: bool,
    /// Now.
    pub(crate) now: Millis,
}

/// What may be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Take its lease and drive it.
    Take(Takeover),
    /// Drive it if our own registry knows it: then it is the data folder's, under an older name.
    IfKnown,
    /// As `IfKnown`; but if our registry does not know it, its node is gone and so is its end.
    IfKnownElseLost,
    /// It is another's.
    Leave,
}

/// Decides.
pub(crate) fn claim(look: Look<'_>) -> Claim {
    let away = look.now.0.saturating_sub(look.until.0);
    match look.owner {
        // The data folder's lock proves that an earlier process of this node is gone. Where the
        // database is ours alone, so is every lease in it, whatever name this node had then.
        Some(owner) if owner == look.node || look.sole => Claim::Take(Takeover::Always),
        Some(_) if look.local && away < 0 => Claim::Leave,
        Some(_) if look.local && away < GONE_AFTER.as_millis() as i64 => Claim::IfKnown,
        Some(_) if look.local => Claim::IfKnownElseLost,
        Some(_) | None => Claim::Take(Takeover::IfExpired),
    }
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
