//! What agents left running whose hosts are gone: finding it, with one look at all processes for all of
//! them, and ending it.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::Path,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::{
    ProcessId, State,
    family::{FamilyList, Member, member_of},
    place::Place,
    procs::{MARK, Stat, all, stat, system},
};

/// The pause between two looks at what was killed.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A host that is gone, as far as it is needed to find what its agent left.
#[derive(Clone, Debug)]
pub(crate) struct DeadHost<'a> {
    /// Which life of its session's host it was: what its agent started carries this as a mark.
    pub(crate) boot: &'a str,
    /// The agent, which led its own session.
    pub(crate) agent: Option<&'a ProcessId>,
    /// Who descended from it when it last looked.
    pub(crate) family: BTreeSet<Member>,
}

impl<'a> DeadHost<'a> {
    /// A host as it described itself in its folder.
    pub(crate) fn new(state: &'a State, place: &Place) -> Self {
        let same_system = state.host.system == system();
        Self {
            boot: &state.boot,
            agent: Some(&state.agent),
            family: match same_system {
                true => FamilyList::read(place.folder()),
                false => BTreeSet::new(),
            },
        }
    }
}

/// Kills what these hosts' agents left behind, and gives for each how many there were; `None` where some
/// are still there after the given time.
pub(crate) fn end_leftovers(hosts: &[DeadHost<'_>], patience: Duration) -> Vec<Option<usize>> {
    let begun = Instant::now();
    let mut killed = vec![BTreeSet::new(); hosts.len()];
    loop {
        let left = left_behind(hosts);
        let is_over = begun.elapsed() > patience;
        if is_over || left.iter().all(Vec::is_empty) {
            let done = killed.iter().zip(&left);
            return done
                .map(|(killed, left)| left.is_empty().then_some(killed.len()))
                .collect();
        }
        for (killed, left) in killed.iter_mut().zip(left) {
            for process in left {
                process.signal(Signal::KILL);
                killed.insert(process.pid);
            }
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// What each host's agent left behind: whatever carries the host's mark, the agent's session, and who was noted
/// as the host's family, with all that descends from them.
pub(crate) fn left_behind(hosts: &[DeadHost<'_>]) -> Vec<Vec<ProcessId>> {
    let mut found = vec![Vec::new(); hosts.len()];
    if hosts.is_empty() {
        return found;
    }
    let (system, me) = (system(), std::process::id());
    // While anybody is in a session, no other process gets its number. So if the number is taken by
    // another process, the session is empty.
    let session = |host: &DeadHost<'_>| {
        host.agent
            .filter(|agent| agent.system == system)
            .filter(|agent| stat(agent.pid).is_none_or(|stat| stat.started == agent.started))
            .map(|agent| (agent.pid, agent.started))
    };
    let numbered = || hosts.iter().enumerate();
    let sessions: HashMap<u32, (u64, usize)> = numbered()
        .filter_map(|(at, host)| session(host).map(|(pid, started)| (pid, (started, at))))
        .collect();
    let marks: HashMap<&[u8], usize> = numbered()
        .map(|(at, host)| (host.boot.as_bytes(), at))
        .collect();
    let families: HashMap<Member, usize> = numbered()
        .flat_map(|(at, host)| host.family.iter().map(move |member| (*member, at)))
        .collect();
    let all: HashMap<u32, Stat> = all().into_iter().collect();
    for (&pid, &stat) in &all {
        if pid == me || stat.is_zombie() {
            continue;
        }
        let in_session = sessions.get(&stat.session);
        let in_session = in_session.filter(|(started, _)| stat.started >= *started);
        let owner = in_session
            .map(|(_, at)| *at)
            .or_else(|| marked(pid, &marks))
            .or_else(|| member_of(pid, &all, &families));
        if let Some(found) = owner.and_then(|at| found.get_mut(at)) {
            found.push(ProcessId {
                pid,
                started: stat.started,
                system: system.to_owned(),
            });
        }
    }
    found
}

/// Whose mark a process carries. Other users' processes cannot be read, and so are never ours.
fn marked(pid: u32, marks: &HashMap<&[u8], usize>) -> Option<usize> {
    let environ = fs::read(Path::new("/proc").join(pid.to_string()).join("environ")).ok()?;
    environ.split(|byte| *byte == 0).find_map(|variable| {
        let boot = variable.strip_prefix(MARK.as_bytes())?.strip_prefix(b"=")?;
        marks.get(boot).copied()
    })
}

#[cfg(test)]
#[path = "leftovers_tests.rs"]
mod tests;
