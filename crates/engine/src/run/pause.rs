//! Waiting before something is tried again.

use threadline_retry::Pauses;

use super::drive::Halt;
use crate::Engine;

impl Engine {
    /// Waits for the next of the pauses, unless the server is stopping.
    pub(crate) async fn pause(&self, pauses: &mut Pauses) -> Result<(), Halt> {
        self.stopping()
            .run_until_cancelled(tokio::time::sleep(pauses.next_pause()))
            .await
            .ok_or(Halt::Stopping)
    }
}
