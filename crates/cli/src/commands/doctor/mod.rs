//! `doctor`: is everything in order, and what to do where it is not.

mod agents;
mod machine;
mod model;
mod openclaw;

use serde::Serialize;
use threadline_app::api::{self, NoParams, Problems, RuntimeView, Runtimes};
use threadline_contract::{Fault, RuntimeId};

use self::{
    agents::agents,
    machine::{data_folder, database, disk, leftovers, owner_state, settings, token_file},
    model::model,
    openclaw::{nothing_to_mend, openclaw},
};
use super::Context;
use crate::{
    args,
    client::Matters,
    config::Config,
    exit::Exit,
    owner::{Places, look},
    screen::{
        Terminal, ending, words,
        wrap::{hanging, wrap},
    },
};

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Health {
    Ok,
    Warn,
    Bad,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Check {
    what: &'static str,
    health: Health,
    found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Check {
    fn ok(what: &'static str, found: impl Into<String>) -> Self {
        Self {
            what,
            health: Health::Ok,
            found: found.into(),
            advice: None,
        }
    }
    fn warn(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            health: Health::Warn,
            advice: Some(advice.into()),
            ..Self::ok(what, found)
        }
    }
    fn bad(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            health: Health::Bad,
            advice: Some(advice.into()),
            ..Self::ok(what, found)
        }
    }
    fn fault(what: &'static str, fault: &Fault) -> Self {
        let found = format!("{} [{}]", words::clean(&fault.message), fault.code);
        Self {
            health: Health::Bad,
            advice: ending::advice(fault),
            ..Self::ok(what, found)
        }
    }
}

pub(super) async fn doctor(context: &Context, args: &args::Doctor) -> Result<Exit, Fault> {
    let config = &context.config;
    let places = Places::new(&config.data);
    let mut checks = vec![settings(context)];
    // A setting that is wrong leaves no folder to look at.
    let known = !places.data().as_os_str().is_empty();
    let folder = known.then(|| data_folder(places.data()));
    let usable = folder.as_ref().is_some_and(|f| f.health != Health::Bad);
    checks.extend(folder);
    if known {
        checks.extend(disk("disk of the data", places.data()));
    }
    if !config.workspaces.as_os_str().is_empty() {
        checks.extend(disk("disk of the threads", &config.workspaces));
    }
    let mut gateway = Vec::new();
    let mut others = false;
    if usable {
        checks.push(token_file(&places));
        let owner = look(&places);
        checks.push(database(config, &places, &owner).await);
        let state = owner_state(&owner, &places, config).await;
        let answers = state.health != Health::Bad;
        checks.push(state);
        checks.extend(leftovers(&places, &owner));
        checks.extend(agents(&config.hosts).await);
        gateway = openclaw(context, &places, args).await;
        // One that is started with half of the settings would be of no use.
        if answers && context.mistakes.is_empty() {
            let asked = asked(context).await;
            checks.extend(runtimes(&asked.runtimes, &gateway, config));
            checks.extend(asked.checks);
            others = asked.runtimes.iter().any(works_without_model);
        }
    }
    checks.push(model(config, others).await);
    checks.extend(gateway);
    if args.mend {
        let gateway = config.openclaw.as_ref().map(|set| set.url.as_str());
        checks.extend(nothing_to_mend(&checks, gateway));
    }
    let worst = checks
        .iter()
        .map(|c| c.health)
        .max_by_key(|h| *h as u8)
        .unwrap_or(Health::Ok);
    context.print(
        &serde_json::json!({"health": worst, "checks": checks}),
        || told(&checks, context.out),
    );
    Ok(match worst {
        Health::Ok | Health::Warn => Exit::Done,
        Health::Bad => Exit::Failed,
    })
}

fn told(checks: &[Check], to: Terminal) -> String {
    let width = checks.iter().map(|c| c.what.len()).max().unwrap_or(0);
    // Where a column would leave no room for what was found, it stands beneath.
    let narrow = to.width < width + 8 + 32;
    let indent = if narrow { 6 } else { width + 8 };
    let most = if to.person { to.width } else { usize::MAX };
    let mut out = String::new();
    for check in checks {
        let sign = match check.health {
            Health::Ok => to.good("ok  "),
            Health::Warn => to.warn("warn"),
            Health::Bad => to.bad("bad "),
        };
        let found = hanging(&check.found, most, indent);
        out.push_str(&match narrow {
            true => format!("{sign}  {}\n{:indent$}{found}\n", check.what, ""),
            false => format!("{sign}  {:width$}  {found}\n", check.what),
        });
        if let Some(advice) = &check.advice {
            for line in wrap(&words::clean(advice), most.saturating_sub(indent)).lines() {
                out.push_str(&format!("{:indent$}{}\n", "", to.dim(line)));
            }
        }
    }
    out
}

/// What only the owner knows.
#[derive(Default)]
struct Asked {
    runtimes: Vec<RuntimeView>,
    checks: Vec<Check>,
}

/// A runtime that brings its own model.
fn works_without_model(runtime: &RuntimeView) -> bool {
    runtime.available && runtime.runtime != RuntimeId::Builtin
}

/// Each runtime, and in one line the known agents that are not installed.
fn runtimes(all: &[RuntimeView], gateway: &[Check], config: &Config) -> Vec<Check> {
    // What is wrong with a gateway is told once, with what to do about it.
    let told = gateway.iter().any(|check| check.health == Health::Bad);
    let shown = all
        .iter()
        .filter(|r| r.available || r.runtime != RuntimeId::OpenClaw || !told);
    let mut checks: Vec<Check> = shown
        .map(|r| {
            let found = format!("{}: {}", r.runtime, words::line(&r.status));
            match r.available {
                true => Check::ok("runtime", found),
                false => Check::warn("runtime", found, "It takes no work now."),
            }
        })
        .collect();
    let missing = config.agents.iter().filter(|agent| {
        let name = RuntimeId::Acp(agent.name.clone());
        !all.iter().any(|runtime| runtime.runtime == name)
    });
    let missing: Vec<String> = missing
        .map(|agent| {
            let program = agent.command.first().map_or("", String::as_str);
            format!("acp:{} (`{program}`)", agent.name)
        })
        .collect();
    if !all.is_empty() && !missing.is_empty() {
        checks.push(Check::ok(
            "runtime",
            format!("known, and not installed: {}", missing.join(", ")),
        ));
    }
    checks
}

/// Asks the owner; one is started if there is none.
async fn asked(context: &Context) -> Asked {
    let mut out = Asked::default();
    // In what a running one differs was said already.
    let client = match context.client_for(Matters::Nothing).await {
        Ok(client) => client,
        Err(fault) => {
            out.checks.push(Check::fault("start", &fault));
            return out;
        }
    };
    match client.call::<Runtimes>(api::RUNTIMES, NoParams {}).await {
        Ok(found) => out.runtimes = found.runtimes,
        Err(fault) => out.checks.push(Check::fault("runtimes", &fault)),
    }
    match client.call::<Problems>(api::PROBLEMS, NoParams {}).await {
        Ok(found) if found.problems.is_empty() => out
            .checks
            .push(Check::ok("threads", "every record can be read")),
        Ok(found) => out.checks.extend(found.problems.iter().map(|p| {
            let kept = p
                .kept
                .as_deref()
                .map_or("Its bytes were left as they are.".into(), |k| {
                    format!("Its bytes are kept in {}.", words::line(k))
                });
            Check::warn(
                "threads",
                format!("{}: {}", words::line(&p.file), words::line(&p.message)),
                kept,
            )
        })),
        Err(fault) => out.checks.push(Check::fault("threads", &fault)),
    }
    out
}

#[cfg(test)]
#[path = "doctor_tests.rs"]
mod tests;
