//! The OpenClaw gateway and its plugin, as they answer now.

use threadline_runtimes::openclaw::{Finding, Standing, examine};

use super::{Check, Health};
use crate::{
    config::Config,
    owner::{Places, VERSION},
    screen::words,
};

pub(super) async fn openclaw(config: &Config, places: &Places) -> Vec<Check> {
    let Some(set) = &config.openclaw else {
        return Vec::new();
    };
    let token = set.token.as_ref().map(|token| token.expose());
    let (ca, folder) = (set.ca.as_deref(), places.openclaw());
    let findings = match examine(&set.url, token, ca, &folder, VERSION).await {
        Ok(findings) => findings,
        Err(fault) => return vec![Check::fault("OpenClaw gateway", &fault)],
    };
    let check = |finding: Finding| Check {
        what: finding.what,
        health: match finding.standing {
            Standing::Good => Health::Ok,
            Standing::Doubtful => Health::Warn,
            Standing::Bad => Health::Bad,
        },
        found: words::clean(&finding.found),
        advice: finding.advice,
    };
    findings.into_iter().map(check).collect()
}
