//! How often, and after which pauses, work that met another transaction is run again.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};

/// The most often that a piece of work is run again.
const MAX_RETRIES: usize = 10;
/// The first pause; each further one is twice as long, with up to as much again by chance, so that two that met do
/// not meet again.
const MIN_PAUSE: Duration = Duration::from_millis(2);
/// No pause is planned longer than this.
const MAX_PAUSE: Duration = Duration::from_millis(250);

/// The pauses before each further try; when they are used up, it has failed.
pub(crate) fn pauses() -> ExponentialBackoff {
    ExponentialBuilder::new()
        .with_min_delay(MIN_PAUSE)
        .with_max_delay(MAX_PAUSE)
        .with_max_times(MAX_RETRIES)
        .with_jitter()
        .build()
}
