//! Growing pauses between tries.

use std::time::Duration;

use super::drive::Halt;
use crate::Engine;

pub(crate) struct Patience {
    next: Duration,
    longest: Duration,
}

impl Patience {
    pub(crate) fn new(first_ms: u64, longest_s: u64) -> Self {
        Self {
            next: Duration::from_millis(first_ms),
            longest: Duration::from_secs(longest_s),
        }
    }

    /// Waits, unless the server is stopping.
    pub(crate) async fn wait(&mut self, engine: &Engine) -> Result<(), Halt> {
        let pause = tokio::time::sleep(self.next);
        self.next = (self.next * 2).min(self.longest);
        engine
            .stopping()
            .run_until_cancelled(pause)
            .await
            .ok_or(Halt::Stopping)
    }
}
