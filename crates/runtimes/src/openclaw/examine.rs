//! A look at a gateway, for somebody who wants to know whether everything is in order there.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use threadline_contract::{Fault, plugin::PREPARE};

use super::{
    MAIN,
    files::NO_PLUGIN,
    gateway::{CallError, Conn, Gateway, GatewayConfig, NO_ANSWER, trust},
};

/// How long it may take to connect, and each question after that.
const PATIENCE: Duration = Duration::from_secs(10);
/// The program behind the plugin may have to be started first.
const START: Duration = Duration::from_secs(30);
const RESTART: &str = "Then restart the gateway.";
const INSTALL: &str =
    "Run `threadline openclaw install` on the gateway's machine and restart the gateway.";

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// As it should be.
    Good,
    /// It works, and could be better.
    Doubtful,
    /// It does not work.
    Bad,
}

/// What a program on the gateway's machine can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mend {
    /// Put this version's plugin into the gateway.
    Plugin,
    /// Put the gateway's log elsewhere.
    Log,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub what: &'static str,
    /// How it stands.
    pub standing: Standing,
    /// What was found.
    pub found: String,
    /// What to do about it.
    pub advice: Option<String>,
    /// The same, if a program can do it.
    pub mend: Option<Mend>,
}

impl Finding {
    fn good(what: &'static str, found: impl Into<String>) -> Self {
        Self {
            what,
            standing: Standing::Good,
            found: found.into(),
            advice: None,
            mend: None,
        }
    }
    fn doubtful(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            standing: Standing::Doubtful,
            advice: Some(advice.into()),
            ..Self::good(what, found)
        }
    }
    fn bad(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            standing: Standing::Bad,
            ..Self::doubtful(what, found, advice)
        }
    }
    fn mended_by(self, mend: Mend) -> Self {
        Self {
            mend: Some(mend),
            ..self
        }
    }
}

/// The plugin is not there, or not this version's.
fn no_plugin(found: impl Into<String>) -> Finding {
    Finding::bad("OpenClaw plugin", found, INSTALL).mended_by(Mend::Plugin)
}

/// Connects, looks, and leaves. No thread, session or run is made at the gateway. `agent` works for new
/// threads, if it is not the gateway's default one; `folder` is where this machine's identity lies, as for [`OpenClawConfig`](super::OpenClawConfig).
pub async fn examine(
    url: &str,
    token: Option<&str>,
    ca: Option<&Path>,
    agent: Option<&str>,
    folder: &Path,
    version: &str,
) -> Result<Vec<Finding>, Fault> {
    let gateway = Gateway::connect(GatewayConfig {
        url: url.to_owned(),
        token: token.map(str::to_owned),
        tls: ca.map(trust).transpose()?,
        identity: folder.join("device.json"),
        // As an administrator one would not see what others may not do.
        admin: false,
        version: version.to_owned(),
    })?;
    let findings = match gateway.wait_up(PATIENCE, PATIENCE).await {
        Ok(conn) => look(&conn, gateway.url(), agent, version).await,
        Err(error) => vec![out_of_reach(&error.to_string(), gateway.url())],
    };
    gateway.stop().await;
    Ok(findings)
}

/// Only one that nobody answers for may not run. Whatever else is wrong says itself what to do.
fn out_of_reach(why: &str, url: &str) -> Finding {
    let start = "Start it with `openclaw gateway run`, or check `openclaw.url`.";
    Finding {
        advice: why.starts_with(NO_ANSWER).then(|| start.to_owned()),
        ..Finding::bad("OpenClaw gateway", format!("{why} ({url})"), "")
    }
}

async fn look(conn: &Conn, url: &str, agent: Option<&str>, version: &str) -> Vec<Finding> {
    let mut findings = vec![Finding::good(
        "OpenClaw gateway",
        format!("OpenClaw {} at {url}", conn.hello().server.version),
    )];
    if !conn.hello().has(PREPARE) {
        findings.push(no_plugin(NO_PLUGIN));
        return findings;
    }
    let agents: Result<Value, _> = conn.call("agents.list", json!({}), PATIENCE).await;
    let agent = match &agents {
        Ok(agents) => {
            let agent = agent.or(agents["defaultId"].as_str()).unwrap_or(MAIN);
            findings.push(of_agents(agents, agent));
            agent
        }
        Err(error) => {
            let said = format!("the gateway does not list them: {error}");
            findings.push(Finding::doubtful(
                "OpenClaw agents",
                said,
                "Agents cannot be checked.",
            ));
            agent.unwrap_or(MAIN)
        }
    };
    let params = json!({
        "schemaVersion": 1, "appThreadKey": "threadline-doctor", "runId": "check", "checkOnly": true,
        "openclawSessionKey": format!("agent:{agent}:threadline-doctor"),
    });
    match conn.call::<Value>(PREPARE, params, START).await {
        Ok(answer) => findings.extend(of_answer(&answer, version)),
        Err(error) => findings.push(of_refusal(&error)),
    }
    findings
}

/// The gateway's agents, and the one among them that works for new threads.
fn of_agents(agents: &Value, works: &str) -> Finding {
    let list = agents["agents"].as_array().into_iter().flatten();
    let names: Vec<&str> = list.filter_map(|agent| agent["id"].as_str()).collect();
    match names.as_slice() {
        [] => Finding::bad(
            "OpenClaw agents",
            "the gateway has none",
            "`openclaw agents add` makes one.",
        ),
        names if names.contains(&works) => {
            let said = format!("{} ({works} works for new threads)", names.join(", "));
            Finding::good("OpenClaw agents", said)
        }
        names => Finding::bad(
            "OpenClaw agents",
            format!("the gateway has no `{works}`, only {}", names.join(", ")),
            "Set `openclaw.agent` to one of them, or leave it out: then the gateway's default agent works.",
        ),
    }
}

/// What the plugin says about itself.
fn of_answer(answer: &Value, version: &str) -> Vec<Finding> {
    let plugin = &answer["plugin"];
    let Some(own) = plugin["version"].as_str() else {
        let found = "it does not say what it is, so it is not this Threadline's";
        return vec![no_plugin(found)];
    };
    let program = plugin["sidecar"]["version"].as_str().unwrap_or("unknown");
    let said = format!("version {own}, with the program's version {program}");
    let is_ours = own == version && program == version;
    let mut findings = vec![match is_ours {
        true => Finding::good("OpenClaw plugin", said),
        false => {
            let advice = format!("This is version {version}. {INSTALL}");
            Finding::doubtful("OpenClaw plugin", said, advice).mended_by(Mend::Plugin)
        }
    }];
    let folder = answer["remoteWorkingDirectory"].as_str().unwrap_or("");
    let source = answer["workspaceSource"].as_str().unwrap_or("unknown");
    findings.push(Finding::good(
        "OpenClaw workspace",
        format!("{folder} ({source})"),
    ));
    findings.push(of_log(plugin));
    findings
}

/// The gateway's log must not lie where files of runs are collected.
fn of_log(plugin: &Value) -> Finding {
    let advice = "It is never delivered, but each run names it: `openclaw config set logging.file ~/.openclaw/logs/gateway.log` puts it elsewhere.";
    let Some(file) = plugin["logFile"].as_str() else {
        let found = "it lies in /tmp/openclaw, where files of runs are collected";
        return Finding::doubtful("OpenClaw log", found, advice).mended_by(Mend::Log);
    };
    let arguments = plugin["sidecar"]["args"].as_array();
    let words = arguments.into_iter().flatten().filter_map(Value::as_str);
    let words: Vec<&str> = words.collect();
    let given = |flag: &str| {
        let at = words.iter().position(|word| *word == flag)?;
        words.get(at + 1).copied()
    };
    let roots = [given("--media"), given("--tmp").or(Some("/tmp/openclaw"))];
    let inside = roots
        .into_iter()
        .flatten()
        .find(|root| Path::new(file).starts_with(root));
    match inside {
        Some(root) => {
            let found = format!("{file} lies in {root}, where files of runs are collected");
            Finding::doubtful("OpenClaw log", found, advice).mended_by(Mend::Log)
        }
        None => Finding::good("OpenClaw log", file),
    }
}

fn of_refusal(error: &CallError) -> Finding {
    let CallError::Refused(said) = error else {
        return Finding::bad(
            "OpenClaw plugin",
            error.to_string(),
            "Look into the gateway's log.",
        );
    };
    match (said.code.as_str(), said.detail("code")) {
        ("FORBIDDEN", _) => {
            no_plugin("it answers administrators only, so it is an earlier one of the same name")
        }
        // It says itself what to do.
        (_, Some("SIDECAR_MISSING")) => {
            Finding::bad("OpenClaw plugin", &said.message, RESTART).mended_by(Mend::Plugin)
        }
        _ => Finding::bad(
            "OpenClaw plugin",
            format!("{} [{}]", said.message, said.code),
            "docs/openclaw.md says what the codes mean; the gateway's log has the rest.",
        ),
    }
}

#[cfg(test)]
#[path = "examine_tests.rs"]
mod tests;
