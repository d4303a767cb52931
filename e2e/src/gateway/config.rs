//! What a gateway needs to run alone and without the internet.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::Options;

/// The environment: everything lies in one folder, nothing is announced or fetched.
///
/// `NODE_COMPILE_CACHE` must not be set: the launcher would start itself again, as a child that outlives it.
pub(super) fn variables(work: &Path) -> Vec<(&'static str, PathBuf)> {
    let mut all: Vec<(&str, PathBuf)> = [
        ("HOME", "home"),
        ("OPENCLAW_HOME", "home"),
        ("OPENCLAW_STATE_DIR", "state"),
        ("OPENCLAW_CONFIG_PATH", "openclaw.json"),
        ("XDG_CACHE_HOME", "home/.cache"),
        ("XDG_CONFIG_HOME", "home/.config"),
        ("TMPDIR", "tmp"),
    ]
    .map(|(name, folder)| (name, work.join(folder)))
    .into();
    all.extend(
        [
            ("OPENCLAW_NO_AUTO_UPDATE", "1"),
            ("OPENCLAW_DISABLE_BONJOUR", "1"),
            ("OPENCLAW_NO_RESPAWN", "1"),
            ("OPENCLAW_SKIP_CHANNELS", "1"),
            ("OPENCLAW_SKIP_CANVAS_HOST", "1"),
            ("OPENCLAW_SKIP_GMAIL_WATCHER", "1"),
            ("OPENCLAW_SKIP_CRON", "1"),
            ("OPENCLAW_EXEC_SHELL_SNAPSHOT", "0"),
            ("DO_NOT_TRACK", "1"),
            ("NO_COLOR", "1"),
            ("LANG", "C.UTF-8"),
        ]
        .map(|(name, value)| (name, PathBuf::from(value))),
    );
    all
}

/// The configuration file.
pub(super) fn text(work: &Path, port: u16, token: &str, options: &Options) -> String {
    let plugins: Vec<PathBuf> = options
        .plugins
        .iter()
        .map(|folder| std::path::absolute(folder).expect("a folder"))
        .collect();
    let ids: Vec<String> = plugins.iter().map(|folder| id(folder)).collect();
    let entries: Map<String, Value> = ids
        .iter()
        .map(|id| {
            let entry = json!({"enabled": true, "hooks": {"allowConversationAccess": true}});
            (id.clone(), entry)
        })
        .collect();
    let free = json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0});
    let model = json!({
        "id": "scripted", "name": "Scripted", "reasoning": false, "input": ["text"],
        "cost": free, "contextWindow": 128_000, "maxTokens": 4096,
    });
    let mut config = json!({
        "gateway": {
            "mode": "local", "port": port, "bind": "loopback",
            "auth": {"mode": "token", "token": token},
            "tailscale": {"mode": "off"},
            "controlUi": {"enabled": false},
            "http": {"endpoints": {"responses": {"enabled": true}, "chatCompletions": {"enabled": true}}},
        },
        "logging": {"file": work.join("log/openclaw.log")},
        "update": {"checkOnStart": false},
        "discovery": {"mdns": {"mode": "off"}},
        "browser": {"enabled": false},
        "models": {
            "mode": "replace",
            "catalogRefresh": {"enabled": false},
            "providers": {"scripted": {
                "baseUrl": options.model, "apiKey": "none", "api": "openai-completions", "models": [model],
            }},
        },
        "agents": {"defaults": {
            "workspace": work.join("workspace"),
            "model": {"primary": "scripted/scripted"},
            "heartbeat": {"every": "0m"},
            "skipBootstrap": true,
        }},
        "tools": {"profile": "coding", "toolSearch": false, "exec": {"security": "full", "ask": "off"}},
        "plugins": {"load": {"paths": plugins}, "allow": ids, "entries": entries},
    });
    lay_over(&mut config, &options.config);
    config.to_string()
}

/// A plugin's id is in its manifest.
pub(super) fn id(folder: &Path) -> String {
    let file = folder.join("openclaw.plugin.json");
    let text = std::fs::read_to_string(&file);
    let text = text.unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let manifest: Value = serde_json::from_str(&text).expect("a manifest in JSON");
    manifest["id"].as_str().expect("an id").to_owned()
}

/// Puts one over another, object by object.
pub(super) fn lay_over(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (name, value) in over {
                lay_over(base.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (_, Value::Null) => {}
        (base, over) => *base = over.clone(),
    }
}
