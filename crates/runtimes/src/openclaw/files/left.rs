//! What is told of files that stay at the gateway.

use threadline_contract::{Deliverable, OmitReason, Omitted};

use crate::{End, EndStatus, TurnPlan};

/// Omissions as their user understands them.
///
/// A shared folder holds what all runs before left in it: what this one did not change is worth a word
/// only if somebody speaks of it. And what a run wrote that did not succeed was not written to a wrong
/// place: it stays because the run did not succeed.
pub(super) fn told(
    omitted: impl IntoIterator<Item = Omitted>,
    end: &End,
    plan: &TurnPlan,
) -> Vec<Omitted> {
    let failed = end.status != EndStatus::Completed;
    let mut told: Vec<Omitted> = omitted
        .into_iter()
        .filter(|o| {
            o.reason != OmitReason::ChangedOutsideRun
                || is_spoken_of(&o.path, end, &plan.deliverables)
        })
        .map(|o| Omitted {
            reason: match o.reason {
                OmitReason::OutsideScope if failed && in_workspace(&o.path) => {
                    OmitReason::RunFailed
                }
                reason => reason,
            },
            ..o
        })
        .collect();
    // Without a folder to look into, the plugin did not look for them.
    if failed && plan.expected_dirs.is_empty() {
        let own = end.wrote.iter().filter(|path| in_workspace(path));
        for path in own {
            if !told.iter().any(|o| o.path == *path) {
                told.push(Omitted {
                    path: path.clone(),
                    reason: OmitReason::RunFailed,
                });
            }
        }
    }
    told
}

fn is_spoken_of(path: &str, end: &End, deliverables: &[Deliverable]) -> bool {
    let named = end
        .wrote
        .iter()
        .any(|w| w == path || w.ends_with(&format!("/{path}")));
    let said = end.text.as_deref().is_some_and(|text| text.contains(path));
    let matches = |d: &Deliverable| d.matcher().is_ok_and(|glob| glob.is_match(path));
    named || said || deliverables.iter().any(matches)
}

/// Whether a path lies in the agent's workspace, and not among runs' own folders there.
fn in_workspace(path: &str) -> bool {
    let top = path.split('/').next();
    !matches!(top, Some("" | ".." | "tasks" | "owners"))
}

#[cfg(test)]
#[path = "left_tests.rs"]
mod tests;
