//! What this app adds to what a bridge says: the names of its threads, the turns that wait here, and the stop of a
//! run that is its own.

use std::collections::BTreeMap;

use threadline_contract::{AppThreadKey, Fault, Question};

use super::App;
use crate::{
    api::{CancelRunParams, Known, ThreadName},
    endpoints::LOCAL,
};

impl App {
    /// The names of those of these threads that are this app's, and the turns that wait here for a place on this
    /// machine's own bridge, which has not heard of them.
    pub fn known(&self, threads: &[AppThreadKey]) -> Known {
        let names: BTreeMap<AppThreadKey, ThreadName> = self.core.records.index(|index| {
            let named = threads.iter().filter_map(|thread| {
                let summary = &index.get(thread)?.summary;
                let name = ThreadName {
                    name: summary.name.clone(),
                    title: summary.title.clone(),
                };
                Some((thread.clone(), name))
            });
            named.collect()
        });
        Known {
            names,
            waiting: self.core.waiting_by_runtime(LOCAL),
        }
    }

    /// Cancels a run that is the current one of a thread of this app, as its own commands would, so that the
    /// thread knows that somebody wanted it. Any other run is left alone.
    pub async fn cancel_own_run(&self, params: &CancelRunParams) -> Result<(), Fault> {
        let Ok(record) = self.core.records.read(&params.thread_id).await else {
            return Ok(());
        };
        let current = record.context_state.task_association.as_ref();
        if let Some(own) = current.filter(|a| a.run_id.as_ref() == Some(&params.run_id)) {
            self.cancel_turn(params.thread_id.as_str(), &own.request_id)
                .await?;
        }
        Ok(())
    }

    /// Notes that a question of this machine's own bridge was closed: its event may come later or not at all.
    pub fn note_answer(&self, question: &Question) {
        self.core.live_answered(question);
    }
}
