//! `[agents.<name>]`: agents that speak the Agent Client Protocol. Those that are known by their names are
//! always there; any other is there by its command line.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::{Value as Json, json};
use threadline_runtimes::acp::AgentConfig;
use toml::de::{DeTable, DeValue};

use super::{
    Mistake, Origin, Shown, SourceFlag, Sources, keys,
    layers::line,
    value::{Toml, Value, Wanted},
};

/// The variable that holds agents.
pub(crate) const VARIABLE: &str = "THREADLINE_AGENTS";
/// Everything that can be said about an agent.
const FIELDS: [&str; 8] = [
    "command",
    "env",
    "pass",
    "max_active",
    "max_queued",
    "startup_seconds",
    "turn_minutes",
    "idle_minutes",
];
/// Names that mean something else.
const TAKEN: [&str; 4] = ["builtin", "openclaw", "acp", "auto"];

/// The agents, and each of their settings that somebody made.
#[derive(Default)]
pub(super) struct Agents {
    agents: BTreeMap<String, AgentConfig>,
    shown: BTreeMap<String, Shown>,
    mistakes: Vec<Mistake>,
    /// Where each was first named.
    named: BTreeMap<String, Origin>,
    /// Those of which something could not be taken.
    wrong: BTreeSet<String>,
}

impl Agents {
    pub(super) fn read(sources: &Sources) -> Self {
        let known = AgentConfig::known().into_iter();
        let mut all = Self {
            agents: known.map(|agent| (agent.name.clone(), agent)).collect(),
            ..Self::default()
        };
        for file in &sources.files {
            // What cannot be read, or is not TOML, is told by whoever reads the other settings.
            let Ok(text) = &file.text else { continue };
            let (table, _) = DeTable::parse_recoverable(text);
            let Some((key, agents)) = table.get_ref().get_key_value("agents") else {
                continue;
            };
            let at = |start| Origin::File(file.path.clone(), line(text, start));
            match agents.get_ref() {
                _ if file.of_folder => all.mistake(
                    at(key.span().start),
                    "`agents` cannot be set by the file of a folder, because a folder can be anybody's. Set them in your own threadline.toml or with --set.",
                ),
                DeValue::Table(agents) => {
                    for (name, agent) in agents {
                        let DeValue::Table(fields) = agent.get_ref() else {
                            let message = format!("`agents.{}` must be a table.", name.get_ref());
                            all.mistake(at(name.span().start), message);
                            continue;
                        };
                        for (field, value) in fields {
                            let origin = at(field.span().start);
                            all.field(name.get_ref(), field.get_ref(), value.get_ref(), &origin);
                        }
                    }
                }
                _ => all.mistake(at(key.span().start), "`agents` must be a table."),
            }
        }
        all.environment(sources);
        for flag in &sources.flags {
            let Some(rest) = flag.key.strip_prefix("agents.") else {
                continue;
            };
            let origin = Origin::Flag(flag.flag.clone());
            let mut parts = rest.splitn(3, '.');
            match (parts.next(), parts.next(), parts.next(), &flag.value) {
                (Some(name), Some("env"), Some(variable), Some(value)) => {
                    all.variable(name, variable, value, &origin);
                }
                (Some(name), Some(field), None, Some(value)) => {
                    all.set(name, field, &Value::Text(value.clone()), &origin);
                }
                _ => all.mistake(
                    origin,
                    format!("`{}` must be agents.NAME.FIELD=VALUE.", flag.key),
                ),
            }
        }
        all.complete();
        all
    }

    /// As one JSON object: the same tables as in a file.
    fn environment(&mut self, sources: &Sources) {
        let Some(text) = sources.env.get(VARIABLE).filter(|t| !t.trim().is_empty()) else {
            return;
        };
        let origin = Origin::Env(VARIABLE.into());
        let Ok(agents) = serde_json::from_str::<BTreeMap<String, BTreeMap<String, Json>>>(text)
        else {
            let message = "must be a JSON object of agents, such as {\"mine\": {\"command\": [\"my-agent\"]}}.";
            return self.mistake(origin, message);
        };
        for (name, fields) in agents {
            for (field, value) in fields {
                match value {
                    Json::Object(variables) if field == "env" => {
                        for (variable, value) in variables {
                            let value = value.as_str().map_or(value.to_string(), str::to_owned);
                            self.variable(&name, &variable, &value, &origin);
                        }
                    }
                    Json::String(text) => self.set(&name, &field, &Value::Text(text), &origin),
                    other => {
                        let text = Value::Text(other.to_string());
                        self.set(&name, &field, &text, &origin);
                    }
                }
            }
        }
    }

    /// What came of it: the agents, what is shown, and what is wrong.
    pub(super) fn parts(self) -> (Vec<AgentConfig>, Vec<Shown>, Vec<Mistake>) {
        let agents = self.agents.into_values().collect();
        (agents, self.shown.into_values().collect(), self.mistakes)
    }

    fn mistake(&mut self, origin: Origin, message: impl Into<String>) {
        self.mistakes.push(Mistake {
            origin,
            message: message.into(),
        });
    }

    fn field(&mut self, name: &str, field: &str, value: &DeValue<'_>, origin: &Origin) {
        let DeValue::Table(variables) = value else {
            return self.set(name, field, &Value::Toml(Toml::of(value)), origin);
        };
        if field != "env" {
            let message = format!("`agents.{name}.{field}` must not be a table.");
            return self.mistake(origin.clone(), message);
        }
        for (variable, value) in variables {
            match value.get_ref() {
                DeValue::String(value) => self.variable(name, variable.get_ref(), value, origin),
                _ => {
                    let variable = variable.get_ref();
                    let message =
                        format!("`agents.{name}.env.{variable}` must be a text in quotes.");
                    self.mistake(origin.clone(), message);
                }
            }
        }
    }

    /// The agent of this name, if one can have it.
    fn agent(&mut self, name: &str, origin: &Origin) -> Option<&mut AgentConfig> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
        let fits = (1..=32).contains(&name.len()) && name.bytes().all(plain);
        if !fits || TAKEN.contains(&name) {
            let message = format!(
                "`{name}` cannot be the name of an agent. Use up to 32 small letters, digits, `-` and `_`."
            );
            self.mistake(origin.clone(), message);
            return None;
        }
        self.named
            .entry(name.to_owned())
            .or_insert_with(|| origin.clone());
        let agent = self.agents.entry(name.to_owned());
        let agent = agent.or_insert_with(|| AgentConfig::new(name, vec![]));
        agent.configured = true;
        Some(agent)
    }

    fn variable(&mut self, name: &str, variable: &str, value: &str, origin: &Origin) {
        let Some(agent) = self.agent(name, origin) else {
            return;
        };
        agent.env.insert(variable.to_owned(), value.to_owned());
        let key = format!("agents.{name}.env.{variable}");
        self.show(key, value.to_owned(), origin, true);
    }

    fn set(&mut self, name: &str, field: &str, value: &Value, origin: &Origin) {
        let key = format!("agents.{name}.{field}");
        let Some(agent) = self.agent(name, origin) else {
            return;
        };
        let minutes = |n: u64| Duration::from_secs(n * 60);
        let done: Result<String, Wanted> = match field {
            "command" => command(value).map(|words| {
                agent.command = words;
                agent.command.join(" ")
            }),
            "pass" => texts(value, ',').map(|names| {
                let shown = names.join(", ");
                agent.pass.extend(names);
                shown
            }),
            "max_active" => value.whole(1..=1000).map(|n| {
                agent.lane.max_active = u32::try_from(n).unwrap_or(u32::MAX);
                n.to_string()
            }),
            "max_queued" => value.whole(0..=100_000).map(|n| {
                agent.lane.max_queued = u32::try_from(n).unwrap_or(u32::MAX);
                n.to_string()
            }),
            "startup_seconds" => value.whole(1..=3_600).map(|n| {
                agent.startup = Duration::from_secs(n);
                n.to_string()
            }),
            "turn_minutes" => value.whole(0..=525_600).map(|n| {
                agent.turn = (n > 0).then(|| minutes(n));
                n.to_string()
            }),
            "idle_minutes" => value.whole(1..=525_600).map(|n| {
                agent.idle = minutes(n);
                n.to_string()
            }),
            other => {
                let meant = keys::meant(other, FIELDS.into_iter());
                let meant = meant.map_or(String::new(), |m| format!(" Did you mean `{m}`?"));
                let message = format!("`{key}` is not a setting.{meant}");
                self.wrong.insert(name.to_owned());
                return self.mistake(origin.clone(), message);
            }
        };
        match done {
            Ok(shown) => self.show(key, shown, origin, false),
            Err(wanted) => {
                let message = format!("`{key}` must be {wanted}, not {}.", value.as_written());
                self.wrong.insert(name.to_owned());
                self.mistake(origin.clone(), message);
            }
        }
    }

    fn show(&mut self, key: String, value: String, origin: &Origin, secret: bool) {
        let shown = Shown {
            key: key.clone().into(),
            value: Some(value),
            secret,
            origin: origin.clone(),
            wrong: false,
        };
        self.shown.insert(key, shown);
    }

    /// An agent that nobody knows needs its command.
    fn complete(&mut self) {
        let nameless = |agent: &&AgentConfig| agent.command.is_empty();
        let missing: Vec<String> = self
            .agents
            .values()
            .filter(nameless)
            .map(|agent| agent.name.clone())
            .collect();
        for name in missing {
            self.agents.remove(&name);
            if let Some(origin) = self.named.get(&name).cloned()
                && !self.wrong.contains(&name)
            {
                let message =
                    format!("`agents.{name}` needs its `command`, such as [\"{name}\", \"acp\"].");
                self.mistake(origin, message);
            }
        }
    }
}

/// The flags about agents as the variable holds them, above what it held before.
pub(crate) fn as_variable(before: Option<&str>, flags: &[SourceFlag]) -> Option<String> {
    let before = before.and_then(|text| serde_json::from_str(text).ok());
    let mut all: BTreeMap<String, BTreeMap<String, Json>> = before.unwrap_or_default();
    for flag in flags {
        let mut parts = flag.key.strip_prefix("agents.")?.splitn(3, '.');
        let (name, field, value) = (parts.next()?, parts.next()?, flag.value.as_ref()?);
        let agent = all.entry(name.to_owned()).or_default();
        match parts.next() {
            None => _ = agent.insert(field.to_owned(), json!(value)),
            Some(variable) => {
                let variables = agent.entry(field.to_owned()).or_insert_with(|| json!({}));
                if let Some(variables) = variables.as_object_mut() {
                    variables.insert(variable.to_owned(), json!(value));
                }
            }
        }
    }
    serde_json::to_string(&all).ok()
}

/// A command as a list of words; as one text, words have spaces between them.
fn command(value: &Value) -> Result<Vec<String>, Wanted> {
    let wanted = || "a list of texts, such as [\"my-agent\", \"--acp\"]".to_owned();
    let words = texts(value, ' ').map_err(|_| wanted())?;
    match words.first() {
        Some(program) if !program.is_empty() => Ok(words),
        _ => Err(wanted()),
    }
}

/// A list of texts; in one text, as JSON or with a separator.
fn texts(value: &Value, separator: char) -> Result<Vec<String>, Wanted> {
    match value {
        Value::Text(text) if text.trim_start().starts_with('[') => {
            serde_json::from_str(text).map_err(|_| "a list of texts".to_owned())
        }
        other => other.list(separator),
    }
}

#[cfg(test)]
#[path = "agents_tests.rs"]
mod tests;
