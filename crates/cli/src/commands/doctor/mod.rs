//! `doctor`: is everything in order, and what to do where it is not.

mod machine;

use std::{os::unix::fs::PermissionsExt as _, path::Path, sync::Arc};

use serde::Serialize;
use threadline_app::api::{self, NoParams, Problems, Runtimes};
use threadline_contract::Fault;
use threadline_runtimes::builtin::Found;

use self::machine::{data_folder, database, disk, leftovers, owner_state, settings, token_file};
use super::Context;
use crate::{
    client::Client,
    config::Config,
    exit::Exit,
    owner::{Owner, Places, look},
    screen::{Terminal, words},
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
        Self::bad(
            what,
            format!("{} [{}]", words::clean(&fault.message), fault.code),
            fault.code.advice(),
        )
    }
}

pub(super) async fn doctor(context: &Context) -> Result<Exit, Fault> {
    let config = &context.config;
    let places = Places::new(&config.data);
    let mut checks = vec![settings(config)];
    let folder = data_folder(places.data());
    let usable = folder.health != Health::Bad;
    checks.push(folder);
    checks.extend(disk("disk of the data", places.data()));
    checks.extend(disk("disk of the threads", &config.workspaces));
    if usable {
        checks.push(token_file(&places));
        let owner = look(&places);
        checks.push(database(config, &places, &owner).await);
        checks.push(owner_state(&owner));
        checks.extend(leftovers(&places, &owner));
        checks.extend(asked(context, &owner).await);
    }
    checks.push(model(config));
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
    let mut out = String::new();
    for check in checks {
        let sign = match check.health {
            Health::Ok => to.good("ok  "),
            Health::Warn => to.warn("warn"),
            Health::Bad => to.bad("bad "),
        };
        let found = check
            .found
            .replace('\n', &format!("\n{:1$}", "", width + 8));
        out.push_str(&format!("{sign}  {:width$}  {found}\n", check.what));
        if let Some(advice) = &check.advice {
            out.push_str(&format!(
                "{:1$}{2}\n",
                "",
                width + 8,
                to.dim(&words::clean(advice))
            ));
        }
    }
    out
}

/// What only the owner knows; one is started if there is none.
async fn asked(context: &Context, owner: &Result<Owner, Fault>) -> Vec<Check> {
    if owner.is_err() {
        return vec![];
    }
    let client = match Client::connect(Arc::clone(&context.config), context.passed.clone()).await {
        Ok(client) => client,
        Err(fault) => return vec![Check::fault("start", &fault)],
    };
    let mut out = Vec::new();
    match client.call::<Runtimes>(api::RUNTIMES, NoParams {}).await {
        Ok(found) => out.extend(found.runtimes.iter().map(|r| {
            let found = format!("{}: {}", r.runtime, words::line(&r.status));
            match r.available {
                true => Check::ok("runtime", found),
                false => Check::warn("runtime", found, "It takes no work now."),
            }
        })),
        Err(fault) => out.push(Check::fault("runtimes", &fault)),
    }
    match client.call::<Problems>(api::PROBLEMS, NoParams {}).await {
        Ok(found) if found.problems.is_empty() => {
            out.push(Check::ok("threads", "every record can be read"))
        }
        Ok(found) => out.extend(found.problems.iter().map(|p| {
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
        Err(fault) => out.push(Check::fault("threads", &fault)),
    }
    out
}

fn model(config: &Config) -> Check {
    if let Some(model) = &config.model {
        return Check::ok(
            "model",
            format!(
                "{} at {}",
                words::line(&model.model),
                words::line(&model.url)
            ),
        );
    }
    let found = Found::of(|name| std::env::var_os(name), is_program, vec![]);
    Check::warn(
        "model",
        "none, so the builtin agent only demonstrates",
        found.line(),
    )
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
#[path = "doctor_tests.rs"]
mod tests;
