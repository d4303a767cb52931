//! Real agents in a home folder of their own: configured for the scripted model, unable to reach more.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::{
    peers::{self, Peer},
    world::World,
};

/// An agent that speaks the Agent Client Protocol.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Agent {
    /// Gemini CLI.
    Gemini,
    /// Codex behind its adapter.
    Codex,
    /// OpenCode.
    OpenCode,
    /// Hermes.
    Hermes,
}

impl Agent {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Gemini, Self::Codex, Self::OpenCode, Self::Hermes];

    /// Its name as a provider.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gemini => "gemini",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
            Self::Hermes => "hermes",
        }
    }

    /// The command people have, and the arguments that make it speak the protocol.
    pub fn command(self) -> &'static [&'static str] {
        match self {
            Self::Gemini => &["gemini", "--acp"],
            Self::Codex => &["codex-acp"],
            Self::OpenCode => &["opencode", "acp"],
            Self::Hermes => &["hermes", "acp"],
        }
    }

    /// Puts it into a world, with this model (an address without a path). `false`: it is not installed.
    pub fn enter(self, world: &mut World, model: &str) -> bool {
        let (home, bin) = (world.path().join("home"), world.path().join("bin"));
        if self.settle(&home, &bin, model).is_none() {
            return false;
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([bin].into_iter().chain(std::env::split_paths(&path)));
        let path = path.expect("folders without a colon");
        world.set("PATH", path.to_str().expect("a path in UTF-8"));
        for (name, value) in self.variables(model) {
            world.set(name, &value);
        }
        true
    }

    /// Writes its configuration beneath `home` and its command into `bin`; gives the command.
    pub fn settle(self, home: &Path, bin: &Path, model: &str) -> Option<PathBuf> {
        let peer = Peer::find(self.name())?;
        let node = Peer::find("node")?;
        let (file, text) = self.configuration(model);
        let file = home.join(file);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a configuration folder");
        fs::write(file, text).expect("its configuration");
        let name = self.command().first().expect("a command");
        let real = peer.commands().join(name);
        let path = peers::path(&[&node, &peer]);
        let variables: String = quiet(home)
            .into_iter()
            .chain([("PATH", path.to_string_lossy().into_owned())])
            .map(|(name, value)| format!("export {name}='{value}'\n"))
            .collect();
        // `exec`, so that whoever ends the command ends the agent.
        let script = format!("#!/bin/sh\n{variables}exec '{}' \"$@\"\n", real.display());
        fs::create_dir_all(bin).expect("a folder for commands");
        let command = bin.join(name);
        fs::write(&command, script).expect("its command");
        fs::set_permissions(&command, fs::Permissions::from_mode(0o755)).expect("its command");
        Some(command)
    }

    /// What a person who uses it has in the environment.
    pub fn variables(self, model: &str) -> Vec<(&'static str, String)> {
        match self {
            Self::Gemini => vec![
                ("GEMINI_API_KEY", "none".into()),
                ("GOOGLE_GEMINI_BASE_URL", model.into()),
            ],
            Self::Codex => vec![("OPENAI_API_KEY", "none".into())],
            Self::OpenCode => vec![
                ("OPENCODE_DISABLE_AUTOUPDATE", "1".into()),
                ("OPENCODE_DISABLE_MODELS_FETCH", "1".into()),
                ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1".into()),
                ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1".into()),
            ],
            Self::Hermes => vec![("OPENAI_API_KEY", "none".into())],
        }
    }

    fn configuration(self, model: &str) -> (&'static str, String) {
        match self {
            Self::Gemini => (".gemini/settings.json", gemini()),
            Self::Codex => (".codex/config.toml", codex(model)),
            Self::OpenCode => (".config/opencode/opencode.json", opencode(model)),
            Self::Hermes => (".hermes/config.yaml", hermes(model)),
        }
    }
}

/// Everything of an agent lies in its home, and whatever it would fetch from afar fails at once.
fn quiet(home: &Path) -> Vec<(&'static str, String)> {
    let beneath = |folder: &str| home.join(folder).display().to_string();
    let (closed, loopback) = ("http://127.0.0.1:9", "127.0.0.1,localhost");
    vec![
        ("HOME", home.display().to_string()),
        ("XDG_CONFIG_HOME", beneath(".config")),
        ("XDG_DATA_HOME", beneath(".local/share")),
        ("XDG_CACHE_HOME", beneath(".cache")),
        ("XDG_STATE_HOME", beneath(".local/state")),
        ("HTTP_PROXY", closed.into()),
        ("HTTPS_PROXY", closed.into()),
        ("NO_PROXY", loopback.into()),
        ("no_proxy", loopback.into()),
        ("TERM", "dumb".into()),
    ]
}

fn gemini() -> String {
    let settings = json!({
        "security": {
            "auth": {"selectedType": "gemini-api-key"},
            "folderTrust": {"enabled": false},
        },
        "general": {"disableAutoUpdate": true, "enableAutoUpdate": false, "disableUpdateNag": true},
        "telemetry": {"enabled": false},
        "privacy": {"usageStatisticsEnabled": false},
        "model": {"name": "gemini-2.5-flash"},
    });
    settings.to_string()
}

fn codex(model: &str) -> String {
    format!(
        r#"model = "gpt-5-codex"
model_provider = "scripted"
approval_policy = "on-request"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "Scripted"
base_url = "{model}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
requires_openai_auth = false
supports_websockets = false
request_max_retries = 1
stream_max_retries = 1
"#
    )
}

fn opencode(model: &str) -> String {
    let settings = json!({
        "autoupdate": false,
        "share": "disabled",
        "model": "scripted/scripted-1",
        "small_model": "scripted/scripted-1",
        "enabled_providers": ["scripted"],
        "permission": {"edit": "ask", "bash": "ask"},
        "provider": {"scripted": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Scripted",
            "options": {"baseURL": format!("{model}/v1"), "apiKey": "none"},
            "models": {"scripted-1": {
                "name": "Scripted",
                "tool_call": true,
                "limit": {"context": 64000, "output": 8000},
            }},
        }},
    });
    settings.to_string()
}

fn hermes(model: &str) -> String {
    let settings = json!({"model": {
        "default": "scripted-1",
        "provider": "custom",
        "base_url": format!("{model}/v1"),
        "api_key": "none",
    }});
    // JSON is YAML.
    settings.to_string()
}
