//! How often one token may ask.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use crate::gate::TokenHash;

/// Seconds' worth of requests that may come at once.
const BURST: f64 = 2.0;
/// Tokens that are counted at once; only those that exist come this far.
const MOST: usize = 4096;

/// A bucket for each token, which fills at the rate.
pub(crate) struct Rate {
    per_second: f64,
    buckets: Mutex<HashMap<TokenHash, Bucket>>,
}

struct Bucket {
    left: f64,
    at: Instant,
}

impl Rate {
    /// No rate, when it is zero.
    pub(crate) fn new(per_second: u32) -> Option<Self> {
        (per_second > 0).then(|| Self {
            per_second: per_second.into(),
            buckets: Mutex::default(),
        })
    }

    /// One more request; or the seconds after which there may be one.
    pub(crate) fn take(&self, token: &TokenHash) -> Result<(), u64> {
        let full = self.per_second * BURST;
        let now = Instant::now();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MOST {
            // A bucket that is full again says nothing.
            buckets.retain(|_, b| b.filled(now, self.per_second) < full);
        }
        let bucket = buckets.entry(*token).or_insert(Bucket {
            left: full,
            at: now,
        });
        bucket.left = bucket.filled(now, self.per_second).min(full);
        bucket.at = now;
        if bucket.left < 1.0 {
            return Err(((1.0 - bucket.left) / self.per_second).ceil().max(1.0) as u64);
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

impl Bucket {
    fn filled(&self, now: Instant, per_second: f64) -> f64 {
        self.left + now.duration_since(self.at).as_secs_f64() * per_second
    }
}
