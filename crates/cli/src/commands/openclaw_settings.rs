//! The gateway's settings, as they were before its command changed them, and after.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::PLUGIN;
use crate::screen::words;

/// Its port, when nobody chose another.
const PORT: u64 = 18789;

/// The gateway's file of settings, where its command would look for it too.
pub(in crate::commands) struct Settings {
    file: PathBuf,
    text: Vec<u8>,
    /// `None`: it is written in a form that only the gateway understands, with comments for example.
    set: Option<Value>,
}

/// What came of the file.
pub(super) struct Compared {
    before: Settings,
    after: Option<Settings>,
}

/// Where a gateway on this machine keeps what it has.
pub(in crate::commands) fn state_folder(
    variable: impl Fn(&str) -> Option<PathBuf>,
) -> Option<PathBuf> {
    let home = || variable("OPENCLAW_HOME").or_else(|| variable("HOME"));
    variable("OPENCLAW_STATE_DIR").or_else(|| Some(home()?.join(".openclaw")))
}

impl Settings {
    /// Finds them by the variables that the gateway's command goes by.
    pub(super) fn find(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<Self> {
        let file = match variable("OPENCLAW_CONFIG_PATH") {
            Some(file) => file,
            None => state_folder(variable)?.join("openclaw.json"),
        };
        Self::read(file)
    }

    /// Finds them in this environment.
    pub(in crate::commands) fn here() -> Option<Self> {
        Self::find(|name| std::env::var_os(name).map(PathBuf::from))
    }

    fn read(file: PathBuf) -> Option<Self> {
        let text = std::fs::read(&file).ok()?;
        let set = serde_json::from_slice(&text).ok();
        Some(Self { file, text, set })
    }

    /// Whether they are others now.
    pub(super) fn compare(self) -> Compared {
        Compared {
            after: Self::read(self.file.clone()),
            before: self,
        }
    }

    /// What stands at a path of names.
    fn at(&self, path: &[&str]) -> Option<&Value> {
        let set = self.set.as_ref()?;
        path.iter().try_fold(set, |value, name| value.get(name))
    }

    fn lists(&self, path: &[&str], name: &str) -> bool {
        let list = self.at(path).and_then(Value::as_array);
        list.is_some_and(|list| list.iter().any(|entry| entry == name))
    }

    /// The settings that keep the plugin out of the gateway.
    pub(in crate::commands) fn keeping_out(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.at(&["plugins", "enabled"]) == Some(&json!(false)) {
            all.push("`plugins.enabled` is false".to_owned());
        }
        if self.lists(&["plugins", "deny"], PLUGIN) {
            all.push("`plugins.deny` names it".to_owned());
        }
        let allow = self.at(&["plugins", "allow"]).and_then(Value::as_array);
        if allow.is_some_and(|list| !list.is_empty()) && !self.lists(&["plugins", "allow"], PLUGIN)
        {
            all.push("`plugins.allow` does not name it".to_owned());
        }
        if self.at(&["plugins", "entries", PLUGIN, "enabled"]) == Some(&json!(false)) {
            all.push(format!("`plugins.entries.{PLUGIN}.enabled` is false"));
        }
        all
    }

    /// Whether the plugin is switched on, as far as can be read.
    pub(super) fn has_plugin_on(&self) -> bool {
        self.set.is_none()
            || self.at(&["plugins", "entries", PLUGIN, "enabled"]) == Some(&json!(true))
    }

    /// Where they lie.
    pub(in crate::commands) fn file(&self) -> &Path {
        &self.file
    }

    /// Where a gateway with these settings listens.
    fn url(&self) -> String {
        let port = self.at(&["gateway", "port"]).and_then(Value::as_u64);
        let tls = self.at(&["gateway", "tls", "enabled"]) == Some(&json!(true));
        let scheme = if tls { "wss" } else { "ws" };
        format!("{scheme}://127.0.0.1:{}", port.unwrap_or(PORT))
    }

    /// Lines for a shell that bring the token into the environment. The gateway's own command shows it
    /// to nobody but a person at a terminal, so it is read out of the file, where that can be done.
    fn token(&self, is_here: impl Fn(&str) -> bool) -> Vec<String> {
        let plain = |token: &&str| !token.is_empty() && !token.contains("${");
        let token = self.at(&["gateway", "auth", "token"]);
        let file = self.file.display().to_string();
        if token.and_then(Value::as_str).filter(plain).is_some() && is_here("node") {
            // The name of the file is an argument, so that nothing in it can be taken for a script.
            let read =
                "JSON.parse(require(\"fs\").readFileSync(process.argv[1])).gateway.auth.token";
            let file = words::quoted(&file);
            return vec![format!(
                "export THREADLINE_OPENCLAW_TOKEN=\"$(node -p '{read}' {file})\""
            )];
        }
        vec![
            "openclaw gateway auth-token --show".to_owned(),
            "read -rs THREADLINE_OPENCLAW_TOKEN; export THREADLINE_OPENCLAW_TOKEN".to_owned(),
        ]
    }
}

/// Lines for a shell that say where the gateway is, and what opens it.
pub(super) fn exports(settings: Option<&Settings>, is_here: impl Fn(&str) -> bool) -> Vec<String> {
    let unknown = Settings {
        file: PathBuf::new(),
        text: Vec::new(),
        set: None,
    };
    let settings = settings.unwrap_or(&unknown);
    let mut lines = vec![format!("export THREADLINE_OPENCLAW_URL={}", settings.url())];
    lines.extend(settings.token(is_here));
    lines
}

impl Compared {
    /// As they are now.
    pub(super) fn now(&self) -> Option<&Settings> {
        self.after.as_ref()
    }

    /// Whether anything in them is another now.
    pub(super) fn changed(&self) -> bool {
        let same = |after: &Settings| after.text == self.before.text;
        !self.after.as_ref().is_some_and(same)
    }

    /// For programs.
    pub(super) fn told(&self) -> Value {
        json!({
            "file": self.before.file, "changed": self.changed(), "changes": self.changes(),
            "before": self.kept(),
        })
    }

    /// For people.
    pub(super) fn said(&self) -> String {
        let file = self.before.file.display();
        if !self.changed() {
            return format!("Nothing had to be changed in {file}.\n");
        }
        let mut said = match self.changes() {
            changes if changes.is_empty() => format!("{file} was changed for it.\n"),
            changes => format!("In {file} it was {}.\n", changes.join(", ")),
        };
        if let Some(kept) = self.kept() {
            said.push_str(&format!(
                "The gateway's command keeps no comments; what was there before is in {}.\n",
                kept.display()
            ));
        }
        said
    }

    /// What was done about the plugin, as far as both versions can be read.
    fn changes(&self) -> Vec<String> {
        let (before, Some(after)) = (&self.before, &self.after) else {
            return Vec::new();
        };
        if before.set.is_none() || after.set.is_none() {
            return Vec::new();
        }
        let load = ["plugins", "load", "paths"];
        let entry = ["plugins", "entries", PLUGIN];
        let mut all = Vec::new();
        if before.at(&load) != after.at(&load) {
            all.push("added to `plugins.load.paths`".to_owned());
        }
        let listed = |of: &Settings, list| of.lists(&["plugins", list], PLUGIN);
        if !listed(before, "allow") && listed(after, "allow") {
            all.push("added to `plugins.allow`".to_owned());
        }
        if listed(before, "deny") && !listed(after, "deny") {
            all.push("taken out of `plugins.deny`".to_owned());
        }
        if before.at(&entry) != after.at(&entry) {
            all.push(match before.at(&entry) {
                None => "added to `plugins.entries`".to_owned(),
                Some(_) => format!("switched on in `plugins.entries.{PLUGIN}`"),
            });
        }
        if before.at(&["plugins", "enabled"]) != after.at(&["plugins", "enabled"]) {
            all.push("made possible by `plugins.enabled`".to_owned());
        }
        all
    }

    /// Where the gateway's command put the settings of before.
    fn kept(&self) -> Option<PathBuf> {
        let mut name = self.before.file.clone().into_os_string();
        name.push(".bak");
        let kept = Some(PathBuf::from(name)).filter(|kept| Path::exists(kept));
        kept.filter(|_| self.changed())
    }
}

#[cfg(test)]
#[path = "openclaw_settings_tests.rs"]
mod tests;
