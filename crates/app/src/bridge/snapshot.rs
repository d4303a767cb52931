//! A run as a bridge tells it: ours, or another that speaks the protocol with fewer or other words.
//!
//! Only what the app cannot do without must be there: the run, its thread, and how it stands. Anything
//! else that is absent, or says something that this version does not know, is unknown and nothing more.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use threadline_contract::{
    AppThreadKey, ArtifactScope, ArtifactSet, Code, Deliverable, Millis, Missing, Progress,
    QueuePlace, RunId, RunStatus, RunWarning, RuntimeId, SessionKey, Usage,
};

/// A run as a bridge tells it: a running handle, or a result.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Snapshot {
    /// In a result: completed. In a running handle: accepted.
    pub(crate) success: bool,
    pub(crate) status: RunStatus,
    pub(crate) thread_id: AppThreadKey,
    pub(crate) run_id: RunId,
    /// The session on the runtime, if the bridge named it.
    #[serde(default, deserialize_with = "known")]
    pub(crate) session_key: Option<SessionKey>,
    #[serde(default, deserialize_with = "known")]
    pub(crate) openclaw_session_key: Option<SessionKey>,
    /// Where it runs, if the bridge named it.
    #[serde(default, deserialize_with = "known")]
    pub(crate) runtime: Option<RuntimeId>,
    #[serde(default, deserialize_with = "known")]
    pub(crate) text: Option<String>,
    #[serde(default, deserialize_with = "known")]
    pub(crate) code: Option<Code>,
    #[serde(default, deserialize_with = "known")]
    pub(crate) message: Option<String>,
    /// What a completed run is warned about.
    #[serde(default, deserialize_with = "known_items")]
    pub(crate) warnings: Vec<RunWarning>,
    #[serde(default, deserialize_with = "known")]
    pub(crate) progress: Option<Progress>,
    #[serde(default, deserialize_with = "known")]
    pub(crate) queue: Option<QueuePlace>,
    /// The run's scope, if the bridge named it.
    #[serde(default, deserialize_with = "known")]
    pub(crate) artifact_scope: Option<ArtifactScope>,
    /// The scope's folder on the runtime's host.
    #[serde(default, deserialize_with = "known")]
    artifact_directory: Option<String>,
    /// The session's folder there, in the words of other bridges.
    #[serde(default, deserialize_with = "known")]
    remote_working_directory: Option<String>,
    #[serde(default, deserialize_with = "known")]
    pub(crate) artifacts: Option<ArtifactSet>,
    #[serde(default, deserialize_with = "known_or_default")]
    pub(crate) artifacts_pending: bool,
    #[serde(default, deserialize_with = "known")]
    pub(crate) artifacts_failed: Option<String>,
    #[serde(default, deserialize_with = "known_or_default")]
    pub(crate) missing: Vec<Missing>,
    #[serde(default, deserialize_with = "known")]
    pub(crate) usage: Option<Usage>,
    #[serde(default, deserialize_with = "known")]
    pub(crate) waited_ms: Option<i64>,
    #[serde(default, deserialize_with = "known")]
    pub(crate) runtime_budget_minutes: Option<u32>,
    #[serde(default, deserialize_with = "known")]
    pub(crate) started_at: Option<Millis>,
    #[serde(default, deserialize_with = "known")]
    pub(crate) ended_at: Option<Millis>,
}

impl Snapshot {
    /// Where the session works on the runtime's host: as the bridge says, or the folder in which the
    /// folders of its runs lie.
    pub(crate) fn session_folder(&self) -> Option<String> {
        let said = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        said(&self.remote_working_directory).or_else(|| {
            let run = said(&self.artifact_directory)?;
            let (folder, _) = run.trim_end_matches('/').rsplit_once('/')?;
            Some(folder.to_owned()).filter(|folder| !folder.is_empty())
        })
    }
}

/// A value, if it is one that this version knows.
fn known<'de, D: Deserializer<'de>, T: DeserializeOwned>(d: D) -> Result<Option<T>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(d)?).ok())
}

fn known_or_default<'de, D, T>(d: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    known(d).map(Option::unwrap_or_default)
}

/// The items of a list that this version knows: one that it does not know spoils no other.
fn known_items<'de, D, T>(d: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let items: Vec<Value> = known_or_default(d)?;
    let known = items.into_iter().map(serde_json::from_value);
    Ok(known.filter_map(Result::ok).collect())
}

/// Brings the words of a run's snapshot into the form in which [`Snapshot`] reads them. The items of its
/// file list are brought into form and stay raw: each is read alone.
pub(crate) fn normalize(value: &mut Value) {
    let Some(map) = value.as_object_mut() else {
        return;
    };
    same(map, &["threadId", "appThreadKey", "sessionId"]);
    same(map, &["runId", "turnId", "taskId"]);
    same(map, &["sessionKey", "openclawSessionKey"]);
    standing(map);
    if !map.get("runtime").is_some_and(Value::is_string)
        && let Some(provider) = provider(map)
    {
        map.insert("runtime".into(), json!(provider));
    }
    files(map);
    let missing = map.get("missing").and_then(Value::as_array);
    let missing: Option<Vec<Missing>> =
        missing.map(|list| list.iter().filter_map(missing_of).collect());
    if let Some(missing) = missing {
        map.insert("missing".into(), json!(missing));
    }
}

/// Gives the first of these names the value that any of them has.
pub(super) fn same(map: &mut Map<String, Value>, names: &[&str]) {
    let text = |name: &&&str| map.get(**name).is_some_and(Value::is_string);
    if let Some(found) = names.iter().find(text)
        && *found != names[0]
    {
        let value = map[*found].clone();
        map.insert(names[0].into(), value);
    }
}

/// How the run stands: a word that is not known is the end of a run only where the bridge says that it
/// did not succeed, and goes on otherwise.
fn standing(map: &mut Map<String, Value>) {
    let status = map.get("status").and_then(Value::as_str);
    let Some(word) = status.map(str::to_owned) else {
        return;
    };
    let success = map.get("success").and_then(Value::as_bool);
    let said: Option<RunStatus> = serde_json::from_value(json!(word)).ok();
    let status = match (said, success) {
        // A run succeeded only where both say so.
        (Some(RunStatus::Completed), Some(false)) => RunStatus::Failed,
        (Some(status), _) => status,
        (None, Some(false)) => RunStatus::Failed,
        (None, _) => RunStatus::Running,
    };
    if said.is_none() && status == RunStatus::Failed && !map.contains_key("message") {
        let message = format!("The bridge says that the run is `{word}`.");
        map.insert("message".into(), json!(message));
    }
    let success = match status {
        RunStatus::Running => success.unwrap_or(true),
        status => status == RunStatus::Completed,
    };
    map.insert("status".into(), json!(status));
    map.insert("success".into(), json!(success));
}

/// The runtime, by what else the bridge says of it.
fn provider(map: &Map<String, Value>) -> Option<RuntimeId> {
    let text = |name: &str| map.get(name).and_then(Value::as_str);
    let gateway = text("openclawSessionKey").is_some() || text("mode") == Some("gateway-chat");
    let named = text("resolvedGatewayProviderId").or(text("resolvedProviderId"));
    match named {
        Some(name) => Some(RuntimeId::of_provider(name)),
        None => gateway.then(RuntimeId::of_gateway),
    }
}

/// The files, from whichever of the standard fields has them.
fn files(map: &mut Map<String, Value>) {
    let list = |value: Option<&Value>| value.is_some_and(Value::is_array);
    let field = ["artifacts", "files", "attachments"];
    let flat = field.into_iter().find(|name| list(map.get(*name)));
    if let Some(name) = flat
        && !map.get("artifacts").is_some_and(Value::is_object)
    {
        let items = map.get(name).cloned();
        map.insert("artifacts".into(), json!({"items": items}));
    }
    let scope = map.get("artifactScope").cloned();
    let Some(set) = map.get_mut("artifacts").and_then(Value::as_object_mut) else {
        return;
    };
    if !list(set.get("items")) {
        let items = set.get("files").filter(|files| files.is_array()).cloned();
        set.insert("items".into(), items.unwrap_or_else(|| json!([])));
    }
    if let Some(items) = set.get_mut("items").and_then(Value::as_array_mut) {
        items.iter_mut().for_each(item);
    }
    let any = set["items"]
        .as_array()
        .is_some_and(|items| !items.is_empty());
    if !set.get("scope").is_some_and(Value::is_string) {
        match scope.filter(Value::is_string) {
            Some(scope) => _ = set.insert("scope".into(), scope),
            // Nothing says whose they are.
            None if any => {
                let why = "The bridge listed files and did not say of which run's folder, so none was taken.";
                map.insert("artifactsFailed".into(), json!(why));
                map.remove("artifacts");
                return;
            }
            None => {
                map.remove("artifacts");
                return;
            }
        }
    }
    let empty_reason = set.get("emptyReason").cloned().unwrap_or_default();
    if serde_json::from_value::<threadline_contract::EmptyReason>(empty_reason).is_err() {
        set.remove("emptyReason");
    }
    for name in ["total", "nextCursor", "receipt"] {
        let readable = match (name, set.get(name)) {
            (_, None) => true,
            ("total", Some(value)) => value.is_u64(),
            ("receipt", Some(value)) => {
                serde_json::from_value::<Option<threadline_contract::Sha256>>(value.clone()).is_ok()
            }
            (_, Some(value)) => value.is_string() || value.is_null(),
        };
        if !readable {
            set.remove(name);
        }
    }
    // That they are gone is what counts, whatever it was for.
    if let Some(removed) = set.get_mut("removed").filter(|removed| !removed.is_null())
        && serde_json::from_value::<threadline_contract::Removed>(removed.clone()).is_err()
    {
        let at = removed.get("at").and_then(Value::as_i64).unwrap_or(0);
        *removed = json!({"at": at, "why": "age"});
    }
    if let Some(omitted) = set.get_mut("omitted") {
        let named = omitted.as_array().into_iter().flatten().filter_map(|file| {
            let path = file.get("path").and_then(Value::as_str)?;
            Some(json!({"path": path, "reason": file.get("reason").and_then(Value::as_str).unwrap_or_default()}))
        });
        *omitted = named.collect();
    }
}

fn item(item: &mut Value) {
    let Some(map) = item.as_object_mut() else {
        return;
    };
    same(map, &["path", "relativePath"]);
    same(map, &["url", "downloadUrl"]);
    same(map, &["contentType", "mimeType"]);
    if !map.get("contentType").is_some_and(Value::is_string) {
        map.insert("contentType".into(), json!("application/octet-stream"));
    }
    if !map.get("size").is_some_and(Value::is_u64)
        && let Some(size) = map.get("sizeBytes").filter(|size| size.is_u64()).cloned()
    {
        map.insert("size".into(), size);
    }
    if !map.get("displayPath").is_some_and(Value::is_string) {
        map.remove("displayPath");
    }
}

fn missing_of(value: &Value) -> Option<Missing> {
    serde_json::from_value(value.clone()).ok().or_else(|| {
        let glob = value.pointer("/deliverable/glob").and_then(Value::as_str)?;
        Some(Missing {
            deliverable: Deliverable {
                glob: glob.to_owned(),
                content_type: None,
                min_bytes: None,
                min_count: None,
            },
            found: 0,
        })
    })
}
