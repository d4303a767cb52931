//! A gateway's host to try the service on: a home with a workspace and output folders, and requests
//! as JSON, as they come over the wire.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use threadline_artifacts::{
    KeyRing, Ledger, OutputRoot, Service, ServiceSettings, WorkspaceSources,
};
use threadline_contract::{Fault, plugin};

pub(crate) const K: &str = "agent:main:draft:1780658097668838-1";
pub(crate) const A: &str = "draft:1780658097668838-1";
pub(crate) const SCOPE: &str = "tasks/agent-main-draft-1780658097668838-1/turn-1";

pub(crate) struct Host {
    pub temp: tempfile::TempDir,
    pub service: Service,
}

/// What a request was refused with: its code and its sentence.
pub(crate) type Refused = (String, String);

impl Host {
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        for folder in [
            "home/.openclaw/workspace",
            "home/.openclaw/media",
            "tmp-openclaw",
        ] {
            fs::create_dir_all(temp.path().join(folder)).unwrap();
        }
        let service = Self::service_in(temp.path());
        Self { temp, service }
    }

    /// A host with one prepared run.
    pub(crate) fn prepared() -> Self {
        let host = Self::new();
        host.prepare(run_params("turn-1")).unwrap();
        host
    }

    /// As after a restart: the same folders, nothing in memory.
    pub(crate) fn restarted(&self) -> Service {
        Self::service_in(self.temp.path())
    }

    fn service_in(temp: &Path) -> Service {
        Service::new(Self::settings(temp), Self::keys(temp))
    }
    pub(crate) fn settings(temp: &Path) -> ServiceSettings {
        let root = |name: &str, folder: &str| OutputRoot {
            name: name.to_owned(),
            folder: temp.join(folder),
        };
        ServiceSettings {
            workspace: WorkspaceSources {
                home: temp.join("home"),
                current_dir: temp.to_owned(),
                ..WorkspaceSources::default()
            },
            output_roots: vec![
                root("media", "home/.openclaw/media"),
                root("tmp-openclaw", "tmp-openclaw"),
            ],
            ledger: Ledger::at(temp.join("state")),
            peer_secret: None,
        }
    }
    pub(crate) fn keys(temp: &Path) -> KeyRing {
        fs::create_dir_all(temp.join("state")).unwrap();
        KeyRing::load_or_create(temp.join("state/keys.json"), 1_800_000_000).unwrap()
    }

    pub(crate) fn ws(&self) -> PathBuf {
        self.temp.path().join("home/.openclaw/workspace")
    }
    pub(crate) fn scope(&self) -> PathBuf {
        self.ws().join(SCOPE)
    }
    pub(crate) fn media(&self) -> PathBuf {
        self.temp.path().join("home/.openclaw/media")
    }
    pub(crate) fn tmp(&self) -> PathBuf {
        self.temp.path().join("tmp-openclaw")
    }

    pub(crate) fn prepare(&self, params: Value) -> Result<Value, Refused> {
        call(params, |p: plugin::PrepareParams| self.service.prepare(&p))
    }
    pub(crate) fn collect(&self, params: Value) -> Result<Value, Refused> {
        call(params, |p: plugin::CollectParams| self.service.collect(&p))
    }
    pub(crate) fn export(&self, params: Value) -> Result<Value, Refused> {
        call(params, |p: plugin::ExportParams| self.service.export(&p))
    }
    pub(crate) fn list(&self, params: Value) -> Result<Value, Refused> {
        call(params, |p: plugin::ExportParams| self.service.list(&p))
    }
    pub(crate) fn read(&self, params: Value) -> Result<Value, Refused> {
        call(params, |p: plugin::ReadParams| self.service.read(&p))
    }
}

/// Over the wire and back, as a door would.
pub(crate) fn call<P: serde::de::DeserializeOwned, R: serde::Serialize>(
    params: Value,
    method: impl Fn(P) -> Result<R, Fault>,
) -> Result<Value, Refused> {
    let params = serde_json::from_value(params).unwrap();
    match method(params) {
        Ok(result) => Ok(serde_json::to_value(result).unwrap()),
        Err(fault) => Err((fault.code.to_string(), fault.message)),
    }
}

/// The parameters of a run of the usual session, enough for every method.
pub(crate) fn run_params(run: &str) -> Value {
    json!({"schemaVersion": 1, "appThreadKey": A, "openclawSessionKey": K, "runId": run})
}

/// The same with more.
pub(crate) fn with(mut params: Value, more: Value) -> Value {
    let (Value::Object(all), Value::Object(more)) = (&mut params, more) else {
        panic!("objects");
    };
    all.extend(more);
    params
}

pub(crate) fn turn(more: Value) -> Value {
    with(run_params("turn-1"), more)
}

/// The texts at a key of every item of a list.
pub(crate) fn each<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    let items = list.as_array().unwrap();
    items
        .iter()
        .map(|item| item[key].as_str().unwrap())
        .collect()
}

pub(crate) fn texts(list: &Value) -> Vec<&str> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|item| item.as_str().unwrap())
        .collect()
}

/// Omissions as pairs of path and reason.
pub(crate) fn omitted(result: &Value) -> Vec<(&str, &str)> {
    let files = &result["omitted"]["files"];
    each(files, "path")
        .into_iter()
        .zip(each(files, "reason"))
        .collect()
}

/// Now, in milliseconds, with room on both sides, so that no clock is too coarse for it.
pub(crate) fn moment() -> i64 {
    std::thread::sleep(Duration::from_millis(30));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    std::thread::sleep(Duration::from_millis(30));
    i64::try_from(now.as_millis()).unwrap()
}
