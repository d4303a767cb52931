//! The hosts of agents: how many run, and that nothing is left of those that do not.

use std::path::Path;

use threadline_host::{HostError, Hosts, Standing};

use super::Check;
use crate::{
    owner::hosts,
    screen::words::{self, count},
};

const WHAT: &str = "agents";

/// Looks at every host of the data folder, and at what dead ones may have left running.
pub(super) async fn agents(root: &Path) -> Vec<Check> {
    let mut checks = match hosts(root) {
        Ok(hosts) => look(&hosts).await.unwrap_or_else(|e| {
            let advice = "Look into the folder that `hosts` names.";
            vec![Check::bad(WHAT, words::line(&e.to_string()), advice)]
        }),
        Err(fault) => vec![Check::fault(WHAT, &fault)],
    };
    checks.extend(unit());
    checks
}

async fn look(hosts: &Hosts) -> Result<Vec<Check>, HostError> {
    let mut checks = vec![look_at_known(hosts).await?];
    let unreadable = hosts.unreadable().await?;
    checks.extend(unreadable.iter().map(|(folder, why)| {
        let folder = words::line(&folder.display().to_string());
        Check::bad(
            WHAT,
            format!(
                "{folder} cannot be read, so what its host left is not known: {}",
                words::line(&why.to_string())
            ),
            "All others are looked after. If no agent of that session runs any more, remove the folder.",
        )
    }));
    Ok(checks)
}

async fn look_at_known(hosts: &Hosts) -> Result<Check, HostError> {
    let (mut running, mut working, mut waiting, mut silent) = (0, 0, 0, Vec::new());
    for standing in hosts.present().await? {
        let Standing::Alive(state) = standing else {
            continue;
        };
        running += 1;
        match hosts.inspect(&state.session).await {
            Ok(hello) => {
                working += u64::from(hello.open_turns > 0);
                // What is asked without a turn waits for nobody.
                waiting += match hello.open_turns {
                    0 => 0,
                    _ => hello.waiting as u64,
                };
            }
            Err(_) => silent.push(state.host.pid.to_string()),
        }
    }
    let left = hosts.left().await?;
    if !left.is_empty() {
        let all: usize = left.iter().map(|(_, count)| count).sum();
        let sessions: Vec<String> = left.iter().map(|(name, _)| words::line(name)).collect();
        return Ok(Check::bad(
            WHAT,
            format!(
                "{} left by killed hosts: {}",
                count(all as u64, "process"),
                sessions.join(", ")
            ),
            "The next start of the background process ends them: `threadline stop`, then any command.",
        ));
    }
    if !silent.is_empty() {
        return Ok(Check::warn(
            WHAT,
            format!("hosts that do not answer: {}", silent.join(", ")),
            "Look again in a moment. If they stay so, end them with kill.",
        ));
    }
    let found = match running {
        0 => "none running, nothing left over".into(),
        n => format!(
            "{} running ({working} at work, {} open), nothing left over",
            count(n, "process"),
            count(waiting, "question")
        ),
    };
    Ok(Check::ok(WHAT, found))
}

/// Under systemd a stop of the service would take the agents along, unless it is told not to.
fn unit() -> Option<Check> {
    std::env::var_os("INVOCATION_ID")?;
    let cgroup = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let unit = cgroup
        .trim()
        .rsplit('/')
        .next()
        .filter(|u| u.ends_with(".service"))?;
    let shown = std::process::Command::new("systemctl")
        .args(["show", "--property=KillMode", "--value", unit])
        .output()
        .ok()?;
    let mode = String::from_utf8_lossy(&shown.stdout).trim().to_owned();
    (!mode.is_empty() && mode != "process").then(|| {
        Check::warn(
            "service",
            format!("{unit} has KillMode={mode}: its stop ends the agents too"),
            "Set KillMode=process in the unit, so that turns outlive a restart.",
        )
    })
}

#[cfg(test)]
#[path = "agents_tests.rs"]
mod tests;
