//! How often one token may ask.

use std::num::NonZeroU32;

use governor::{
    Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
    state::keyed::HashMapStateStore,
};

use crate::gate::TokenHash;

/// Seconds' worth of requests that may come at once.
const BURST: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);
/// Tokens that are counted at once; only those that exist come this far.
const MAX_TOKENS: usize = 4096;

/// Counts the requests of each token.
pub(crate) struct Rate(RateLimiter<TokenHash, HashMapStateStore<TokenHash>, DefaultClock>);

impl Rate {
    /// No rate, when it is zero.
    pub(crate) fn new(per_second: u32) -> Option<Self> {
        let rate = NonZeroU32::new(per_second)?;
        let quota = Quota::per_second(rate).allow_burst(rate.saturating_mul(BURST));
        Some(Self(RateLimiter::hashmap(quota)))
    }

    /// One more request; or the seconds after which there may be one.
    pub(crate) fn take(&self, token: &TokenHash) -> Result<(), u64> {
        if self.0.len() >= MAX_TOKENS {
            // What is counted of a token that may ask as often as any other says nothing.
            self.0.retain_recent();
        }
        self.0.check_key(token).map_err(|refused| {
            let wait = refused.wait_time_from(self.0.clock().now());
            wait.as_secs_f64().ceil().max(1.0) as u64
        })
    }
}
