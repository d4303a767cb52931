//! The bridges that threads use, and how to get into each.
//!
//! A thread names its bridge by an id: [`LOCAL`] for the one from the settings, whose port may change
//! between starts, and the address itself for any other. Tokens lie in one private file, never in a
//! record.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::Mutex,
};

use threadline_contract::{Code, Fault};
use threadline_files::{Access, Reason, atomic};

use crate::{
    api::BridgeParams,
    bridge::{Bridge, base_url},
    config::{Endpoint, Timings},
    fault::{internal, storage},
    records::lock,
};

/// The bridge from the settings.
pub(crate) const LOCAL: &str = "local";
const MOST_BYTES: u64 = 1 << 20;

pub(crate) struct Endpoints {
    file: PathBuf,
    timings: Timings,
    tokens: Mutex<BTreeMap<String, Option<String>>>,
    bridges: Mutex<HashMap<String, Bridge>>,
}

impl Endpoints {
    /// Blocks.
    pub(crate) fn open(file: &Path, local: &Endpoint, timings: Timings) -> Result<Self, Fault> {
        let tokens = match atomic::read_limited(file, MOST_BYTES) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| {
                Fault::new(
                    Code::ConfigInvalid,
                    format!("{} cannot be read ({e}). Mend it or remove it; then name the bridges and tokens again.", file.display()),
                )
            })?,
            Err(e) if e.reason() == Reason::NotFound => BTreeMap::new(),
            Err(e) => return Err(storage(e)),
        };
        let local = Bridge::new(local, timings)?;
        Ok(Self {
            file: file.to_owned(),
            timings,
            tokens: Mutex::new(tokens),
            bridges: Mutex::new(HashMap::from([(LOCAL.to_owned(), local)])),
        })
    }

    /// The bridge of an id.
    pub(crate) fn bridge(&self, id: &str) -> Result<Bridge, Fault> {
        if let Some(bridge) = lock(&self.bridges).get(id) {
            return Ok(bridge.clone());
        }
        let token = lock(&self.tokens).get(id).cloned().flatten();
        let endpoint = Endpoint {
            url: id.to_owned(),
            token,
        };
        let bridge = Bridge::new(&endpoint, self.timings)?;
        lock(&self.bridges).insert(id.to_owned(), bridge.clone());
        Ok(bridge)
    }

    /// Remembers a bridge that the user named, and gives its id. Blocks.
    pub(crate) fn remember(&self, params: &BridgeParams) -> Result<String, Fault> {
        let id = base_url(&params.url)?
            .to_string()
            .trim_end_matches('/')
            .to_owned();
        let bytes = {
            let mut tokens = lock(&self.tokens);
            let known = tokens.entry(id.clone()).or_default();
            if let Some(token) = &params.token {
                *known = Some(token.clone());
            }
            serde_json::to_vec_pretty(&*tokens).map_err(internal)?
        };
        atomic::write(&self.file, &bytes, Access::Private).map_err(storage)?;
        lock(&self.bridges).remove(&id);
        Ok(id)
    }
}
