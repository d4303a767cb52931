//! The OpenClaw gateway and its plugin, as they answer now; and what can be mended there.

use std::path::PathBuf;

use threadline_contract::Fault;
use threadline_runtimes::openclaw::{Finding, Mend, Standing, examine};

use super::{Check, Health};
use crate::{
    args,
    commands::{Context, openclaw},
    owner::{Places, VERSION},
    screen::words,
};

/// What stands before what was done, and before why it was not.
const MENDED: &str = "Mended:";
const NOT_MENDED: &str = "Not mended:";

pub(super) async fn openclaw(
    context: &Context,
    places: &Places,
    args: &args::Doctor,
) -> Vec<Check> {
    let Some(set) = &context.config.openclaw else {
        return Vec::new();
    };
    let token = set.token.as_ref().map(|token| token.expose());
    let (ca, folder) = (set.ca.as_deref(), places.openclaw());
    let agent = set.agent.as_deref();
    let findings = match examine(&set.url, token, ca, agent, &folder, VERSION).await {
        Ok(findings) => findings,
        Err(fault) => return vec![Check::fault("OpenClaw gateway", &fault)],
    };
    let here = is_here(&set.url);
    let settings = openclaw::Settings::here().filter(|_| here);
    let mut checks = Vec::new();
    for finding in findings {
        let mend = finding.mend.filter(|_| here);
        let check = check(finding);
        checks.push(match mend {
            None => check,
            Some(mend) => {
                let check = match (mend, &settings) {
                    (Mend::Plugin, Some(settings)) => explained(check, settings),
                    _ => check,
                };
                match args.mend {
                    false => offered(check),
                    true => mended(check, try_to_mend(context, &args.openclaw, mend).await),
                }
            }
        });
    }
    checks
}

/// Whether anything can be mended is found out at the gateway; without one, there is nothing.
pub(super) fn nothing_to_mend(checks: &[Check], gateway: Option<&str>) -> Option<Check> {
    let tried = |check: &Check| {
        let advice = check.advice.as_deref().unwrap_or_default();
        advice.starts_with(MENDED) || advice.starts_with(NOT_MENDED)
    };
    if checks.iter().any(tried) {
        return None;
    }
    Some(Check::ok(
        "mend",
        match gateway {
            None => "nothing: only OpenClaw gateways are mended, and none is set (`openclaw.url`)",
            Some(url) if !is_here(url) => {
                "nothing: the OpenClaw gateway is not on this machine; run this on its own"
            }
            Some(_) => "nothing was found that this command can mend",
        },
    ))
}

/// Says which settings of the gateway keep the plugin out.
fn explained(check: Check, settings: &openclaw::Settings) -> Check {
    let why = settings.keeping_out();
    if why.is_empty() {
        return check;
    }
    let file = words::clean(&settings.file().display().to_string());
    Check {
        found: format!("{} In {file}, {}.", check.found, why.join(" and ")),
        ..check
    }
}

fn check(finding: Finding) -> Check {
    Check {
        what: finding.what,
        health: match finding.standing {
            Standing::Good => Health::Ok,
            Standing::Doubtful => Health::Warn,
            Standing::Bad => Health::Bad,
        },
        found: words::clean(&finding.found),
        advice: finding.advice,
    }
}

/// Whether the gateway is on this machine: nothing else is ours to mend.
fn is_here(url: &str) -> bool {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = host.split('/').next().unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    ["127.0.0.1", "localhost", "[::1]"].contains(&name) || host == "[::1]"
}

fn offered(check: Check) -> Check {
    let advice = check.advice.unwrap_or_default();
    Check {
        advice: Some(format!("{advice} `threadline doctor --mend` does it.")),
        ..check
    }
}

fn mended(check: Check, done: Result<String, Fault>) -> Check {
    match done {
        Ok(done) => Check {
            health: Health::Warn,
            advice: Some(format!("{MENDED} {done}")),
            ..check
        },
        Err(fault) => Check {
            advice: Some(format!("{NOT_MENDED} {}", fault.message)),
            ..check
        },
    }
}

/// What was done.
async fn try_to_mend(context: &Context, program: &str, mend: Mend) -> Result<String, Fault> {
    match mend {
        Mend::Plugin => {
            let put = openclaw::put(context, program).await?;
            Ok(put.said())
        }
        Mend::Log => {
            let file = openclaw::state_folder(|name| std::env::var_os(name).map(PathBuf::from))
                .ok_or_else(|| Fault::invalid("There is no home folder for the log."))?
                .join("logs/gateway.log");
            openclaw::set(program, "logging.file", &file).await?;
            Ok(format!(
                "The log goes to {} when the gateway is started again: openclaw gateway restart",
                file.display()
            ))
        }
    }
}

#[cfg(test)]
#[path = "openclaw_tests.rs"]
mod tests;
