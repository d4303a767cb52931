//! Deciding what goes, without touching anything.

use serde::Serialize;

use super::{Kept, KeptFor, Removal, RemovedFor, Retention, ScopeFacts};

/// What would go, and what stays although a rule would have it go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemovalPlan {
    /// What goes, in this order.
    pub remove: Vec<Removal>,
    /// What a rule would remove and another protects.
    pub keep: Vec<Kept>,
    /// Bytes of all scopes before.
    pub bytes_before: u64,
    /// Bytes of all scopes after.
    pub bytes_after: u64,
    /// Folders that look like scopes and have no stamp that we can read. They are left alone.
    pub unknown: Vec<String>,
}

/// A scope, and what protects it.
#[derive(Clone, Debug)]
pub(super) struct Surveyed {
    pub facts: ScopeFacts,
    pub live: bool,
    pub held_until: Option<i64>,
    /// Its removal was begun.
    pub unfinished: bool,
}

impl Surveyed {
    pub(super) fn protected(&self, retention: &Retention, now: i64) -> Option<KeptFor> {
        if self.live {
            return Some(KeptFor::Live);
        }
        if let Some(until) = self.held_until.filter(|until| *until >= now) {
            return Some(KeptFor::Held { until });
        }
        let grace = i64::try_from(retention.grace.as_secs()).unwrap_or(i64::MAX);
        (self.facts.changed_at.saturating_add(grace) > now).then_some(KeptFor::Grace)
    }
}

/// The oldest first; of one second, by name.
pub(super) fn decide(mut scopes: Vec<Surveyed>, retention: &Retention, now: i64) -> RemovalPlan {
    let order = |s: &Surveyed| (s.facts.changed_at, s.facts.scope.to_string());
    scopes.sort_by_cached_key(order);
    let mut plan = RemovalPlan::default();
    let total = scopes.iter().map(|s| s.facts.bytes);
    plan.bytes_before = total.fold(0, u64::saturating_add);
    plan.bytes_after = plan.bytes_before;

    let (unfinished, scopes): (Vec<_>, Vec<_>) = scopes.into_iter().partition(|s| s.unfinished);
    for scope in unfinished {
        plan.take(scope, RemovedFor::Unfinished);
    }
    let too_old = |s: &Surveyed| {
        let age = now.saturating_sub(s.facts.changed_at);
        let max = retention.max_age.map(|max| i64::try_from(max.as_secs()));
        max.is_some_and(|max| age > max.unwrap_or(i64::MAX))
    };
    let (old, young): (Vec<_>, Vec<_>) = scopes.into_iter().partition(too_old);
    for scope in old {
        plan.consider(scope, RemovedFor::Age, retention, now);
    }
    for scope in young {
        if retention
            .max_bytes
            .is_none_or(|max| plan.bytes_after <= max)
        {
            break;
        }
        plan.consider(scope, RemovedFor::Bytes, retention, now);
    }
    plan
}

impl RemovalPlan {
    fn consider(&mut self, scope: Surveyed, why: RemovedFor, retention: &Retention, now: i64) {
        match scope.protected(retention, now) {
            Some(why) => self.keep.push(Kept {
                scope: scope.facts.scope,
                why,
            }),
            None => self.take(scope, why),
        }
    }

    fn take(&mut self, scope: Surveyed, why: RemovedFor) {
        self.bytes_after = self.bytes_after.saturating_sub(scope.facts.bytes);
        self.remove.push(Removal {
            scope: scope.facts,
            why,
        });
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
