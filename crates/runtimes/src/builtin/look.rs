//! What the person already has: model keys, a local model server, agents. Names only; the value of a
//! key is never read further than to see that it is there.

use std::{env, ffi::OsString, path::Path, time::Duration};

use futures_util::future::join_all;
use serde::Deserialize;
use threadline_contract::RuntimeId;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::acp::AgentConfig;

/// How long a local model server may take to answer.
const PATIENCE: Duration = Duration::from_millis(300);
/// Bytes of its answer that are read.
const ANSWER: u64 = 256 * 1024;

/// Providers with an OpenAI-compatible endpoint: the key's usual name, the base URL, a model there.
const KEYS: [(&str, &str, &str); 8] = [
    (
        "OPENAI_API_KEY",
        "https://api.openai.com/v1",
        "gpt-4.1-mini",
    ),
    (
        "ANTHROPIC_API_KEY",
        "https://api.anthropic.com/v1",
        "claude-sonnet-4-5",
    ),
    (
        "GEMINI_API_KEY",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "gemini-2.5-flash",
    ),
    (
        "OPENROUTER_API_KEY",
        "https://openrouter.ai/api/v1",
        "openrouter/auto",
    ),
    (
        "MISTRAL_API_KEY",
        "https://api.mistral.ai/v1",
        "mistral-small-latest",
    ),
    (
        "GROQ_API_KEY",
        "https://api.groq.com/openai/v1",
        "llama-3.3-70b-versatile",
    ),
    (
        "DEEPSEEK_API_KEY",
        "https://api.deepseek.com/v1",
        "deepseek-chat",
    ),
    ("XAI_API_KEY", "https://api.x.ai/v1", "grok-4"),
];
/// Local model servers: their usual port and name.
const SERVERS: [(u16, &str); 3] = [(11434, "Ollama"), (1234, "LM Studio"), (8080, "llama.cpp")];

/// Where the demonstration looks.
#[derive(Clone, Debug)]
pub enum Looking {
    /// At this machine: its environment, its PATH, its loopback ports.
    Here,
    /// Nowhere; this is what there is.
    Told(Found),
}

/// What the person already has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Model servers that answer on this machine.
    pub servers: Vec<Server>,
    /// Names of environment variables that hold a model key.
    pub keys: Vec<&'static str>,
    /// Agents that can be used as they are: the names of their runtimes.
    pub agents: Vec<String>,
}

/// A local model server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// What usually listens there.
    pub name: &'static str,
    /// Its port on 127.0.0.1.
    pub port: u16,
    /// The models it says it has.
    pub models: Vec<String>,
}

impl Looking {
    pub(super) async fn look(&self) -> Found {
        match self {
            Self::Told(found) => found.clone(),
            Self::Here => {
                let asked = SERVERS.map(|(port, name)| server(port, name));
                let servers = join_all(asked).await.into_iter().flatten().collect();
                let is_program = |path: &Path| is_executable(path);
                Found::of(|name| env::var_os(name), is_program, servers)
            }
        }
    }
}

impl Found {
    /// Looks through an environment. `is_program` says whether a path can be run.
    pub fn of(
        env: impl Fn(&str) -> Option<OsString>,
        is_program: impl Fn(&Path) -> bool,
        servers: Vec<Server>,
    ) -> Self {
        let set = |name: &str| env(name).is_some_and(|v| !v.to_string_lossy().trim().is_empty());
        let path = env("PATH").unwrap_or_default();
        let folders: Vec<_> = env::split_paths(&path)
            // An empty part means the current folder: whatever lies there is not "installed".
            .filter(|folder| folder.is_absolute())
            .collect();
        let on_path = |name: &str| folders.iter().any(|folder| is_program(&folder.join(name)));
        Self {
            servers,
            keys: KEYS.iter().map(|k| k.0).filter(|k| set(k)).collect(),
            agents: AgentConfig::known()
                .into_iter()
                .filter(|agent| agent.command.first().is_some_and(|name| on_path(name)))
                .map(|agent| RuntimeId::Acp(agent.name).to_string())
                .collect(),
        }
    }

    /// One line: how to use what was found, or what to set when nothing was.
    pub fn line(&self) -> String {
        let mut rest: Vec<String> = Vec::new();
        let mut ways = self.ways();
        let first = (!ways.is_empty()).then(|| ways.remove(0));
        rest.extend(ways.into_iter().map(|(what, _)| what));
        let mut also = if rest.is_empty() {
            String::new()
        } else {
            format!(" Also found: {}.", rest.join(", "))
        };
        if let Some(agent) = self.agents.first() {
            also.push_str(&format!(
                " Agents that are installed work without this: {} (`threadline run -r {agent} …`).",
                self.agents.join(", ")
            ));
        }
        match first {
            Some((what, how)) => {
                format!("Found {what}. To work with it, set {how} and start again.{also}")
            }
            None => format!(
                "To work with a model, set THREADLINE_MODEL_URL, THREADLINE_MODEL and, if it needs one, THREADLINE_MODEL_KEY to any OpenAI-compatible endpoint.{also}"
            ),
        }
    }

    /// Everything that can serve as the model: what it is, and the settings for it.
    fn ways(&self) -> Vec<(String, String)> {
        let servers = self.servers.iter().map(|s| {
            let model = s.models.first().map_or("<model>", String::as_str);
            (
                format!("{} on 127.0.0.1:{}", s.name, s.port),
                format!(
                    "THREADLINE_MODEL_URL=http://127.0.0.1:{}/v1 THREADLINE_MODEL={}",
                    s.port,
                    quoted(model)
                ),
            )
        });
        let keys = KEYS.iter().filter(|k| self.keys.contains(&k.0));
        let keys = keys.map(|(key, url, model)| {
            (
                (*key).to_owned(),
                format!(
                    "THREADLINE_MODEL_URL={url} THREADLINE_MODEL_KEY=\"${key}\" THREADLINE_MODEL={model}"
                ),
            )
        });
        servers.chain(keys).collect()
    }
}

/// A word as a shell takes it: the name comes from whatever answers on that port.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    let word: String = word.chars().filter(|c| !c.is_control()).take(100).collect();
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Asks a port on this machine for its models. By hand rather than with the HTTP client: no proxy
/// and no TLS must come between, and anything at all may listen there.
async fn server(port: u16, name: &'static str) -> Option<Server> {
    let models = timeout(PATIENCE, models(port)).await.ok().flatten()?;
    Some(Server { name, port, models })
}

async fn models(port: u16) -> Option<Vec<String>> {
    #[derive(Deserialize)]
    struct List {
        data: Vec<Model>,
    }
    #[derive(Deserialize)]
    struct Model {
        id: String,
    }
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let request = format!(
        "GET /v1/models HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nAccept: application/json\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.take(ANSWER).read_to_end(&mut answer).await.ok()?;
    let answer = String::from_utf8(answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?;
    let list: List = serde_json::from_str(body).ok()?;
    (status == "200").then(|| list.data.into_iter().map(|m| m.id).collect())
}

#[cfg(test)]
#[path = "look_tests.rs"]
mod tests;
