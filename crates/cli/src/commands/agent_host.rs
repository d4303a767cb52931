//! `agent-host`: the process that owns one agent and outlives the bridge.

use std::process::ExitCode;

/// What the bridge starts a host with.
const NAME: &str = "agent-host";

/// Is the host, if that is what this process was started as. Asked for before anything else: a host is
/// small because it reads no settings, needs no terminal and no TLS, and what comes after its name
/// belongs to the agent.
pub(crate) fn agent_host() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    (args.next()? == NAME).then(|| threadline_host::main(args))
}
