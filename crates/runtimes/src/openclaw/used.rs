//! What turns used, in the gateway's words.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::Deserialize;
use threadline_contract::Usage;

use super::gateway::Second;
use crate::RunRef;

/// What was used: by one call of the model, or by all of a turn.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Used {
    #[serde(default)]
    input: u64,
    #[serde(default)]
    output: u64,
    #[serde(default)]
    cache_read: u64,
    #[serde(default)]
    cache_write: u64,
    #[serde(default)]
    cost: Option<Cost>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Cost {
    #[serde(default)]
    total: f64,
}

impl Used {
    /// All of it together, if anything was told.
    pub(super) fn total<'a>(told: impl Iterator<Item = &'a Self>) -> Option<Usage> {
        let mut told = told.peekable();
        told.peek()?;
        let (mut read, mut written, mut cost) = (0, 0, 0.0);
        for used in told {
            read += used.input + used.cache_read + used.cache_write;
            written += used.output;
            cost += used.cost.as_ref().map_or(0.0, |cost| cost.total);
        }
        Some(Usage {
            input_tokens: Some(read),
            output_tokens: Some(written),
            // A model without a price is not told to be free.
            cost_usd: (cost > 0.0).then_some(cost),
        })
    }
}

/// The gateway's last answers about turns: `agent` is answered again when a turn is over.
#[derive(Clone, Default)]
pub(super) struct Receipts(Arc<Mutex<HashMap<RunRef, Second>>>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Receipt {
    #[serde(default)]
    run_id: String,
    #[serde(default)]
    result: Outcome,
}

#[derive(Default, Deserialize)]
struct Outcome {
    #[serde(default)]
    meta: Meta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    #[serde(default)]
    agent_meta: AgentMeta,
}

#[derive(Default, Deserialize)]
struct AgentMeta {
    #[serde(default)]
    usage: Option<Used>,
}

impl Receipts {
    /// The one of this run will come.
    pub(super) fn expect(&self, run: RunRef, receipt: Second) {
        self.all().insert(run, receipt);
    }

    /// What a run used, by its receipt, which it has under this name. Nothing, when none will come.
    pub(super) async fn usage(&self, run: &RunRef, name: &str) -> Option<Usage> {
        let receipt = self.all().remove(run)?;
        let receipt: Receipt = receipt.come().await?;
        let used = receipt.result.meta.agent_meta.usage?;
        Used::total([&used].into_iter()).filter(|_| receipt.run_id == name)
    }

    /// None is waited for any more.
    pub(super) fn forget(&self, run: &RunRef) {
        self.all().remove(run);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<RunRef, Second>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
