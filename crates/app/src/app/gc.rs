//! Making room on this machine's own bridge.

use threadline_contract::{Fault, method};

use super::App;
use crate::{api::GcView, endpoints::LOCAL};

impl App {
    /// Removes the files of old runs from the own bridge, or says which would go. What lies in the
    /// folders of threads is never touched.
    pub async fn artifacts_gc(&self, params: method::GcParams) -> Result<GcView, Fault> {
        let mut bridge = self.core.endpoints.bridge(LOCAL)?;
        // Every run's folder is looked at, which a short request has no time for.
        bridge.timings.answer = bridge.timings.collect;
        let gc: method::Gc = bridge.call(method::ARTIFACTS_GC, &params).await?;
        let names = self.core.records.index(|index| {
            let named = gc.removed.iter().filter_map(|run| {
                let entry = index.get(&run.thread_id)?;
                Some((run.thread_id.clone(), entry.summary.name.clone()))
            });
            named.collect()
        });
        Ok(GcView { gc, names })
    }
}
