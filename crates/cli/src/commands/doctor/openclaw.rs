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
    let mut checks = Vec::new();
    for finding in findings {
        let mend = finding.mend.filter(|_| is_here(&set.url));
        let check = check(finding);
        checks.push(match mend {
            None => check,
            Some(_) if !args.mend => offered(check),
            Some(mend) => mended(check, try_to_mend(context, &args.openclaw, mend).await),
        });
    }
    checks
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
            advice: Some(format!(
                "Mended: {done} Restart the gateway: openclaw gateway restart"
            )),
            ..check
        },
        Err(fault) => Check {
            advice: Some(format!("Not mended: {}", fault.message)),
            ..check
        },
    }
}

/// What was done.
async fn try_to_mend(context: &Context, program: &str, mend: Mend) -> Result<String, Fault> {
    match mend {
        Mend::Plugin => {
            let put = openclaw::put(context, program).await?;
            Ok(format!("the plugin lies in {}.", put.folder.display()))
        }
        Mend::Log => {
            let file = openclaw::state_folder(|name| std::env::var_os(name).map(PathBuf::from))
                .ok_or_else(|| Fault::invalid("There is no home folder for the log."))?
                .join("logs/gateway.log");
            openclaw::set(program, "logging.file", &file).await?;
            Ok(format!("the log goes to {}.", file.display()))
        }
    }
}

#[cfg(test)]
#[path = "openclaw_tests.rs"]
mod tests;
