//! Stopping what waits to be sent: nothing of it is at the gateway, so nobody has to be asked.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;

use crate::RunRef;

/// The turns that wait to be sent.
#[derive(Clone, Default)]
pub(super) struct Stops(Arc<Mutex<HashMap<RunRef, CancellationToken>>>);

/// A turn that waits; forgotten when this is dropped.
pub(super) struct Waiting {
    stops: Stops,
    run: RunRef,
    token: CancellationToken,
}

impl Stops {
    /// A turn waits from now on.
    pub(super) fn expect(&self, run: &RunRef) -> Waiting {
        let token = CancellationToken::new();
        self.all().insert(run.clone(), token.clone());
        Waiting {
            stops: self.clone(),
            run: run.clone(),
            token,
        }
    }

    /// Asks a turn that waits to stop. `false`: it does not wait.
    pub(super) fn ask(&self, run: &RunRef) -> bool {
        let token = self.all().get(run).cloned();
        token.inspect(CancellationToken::cancel).is_some()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<RunRef, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Waits until it is asked to stop.
    pub(super) async fn asked(&self) {
        self.token.cancelled().await;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.stops.all().remove(&self.run);
    }
}
