//! The moment between the host and its agent: what only a process can do to itself before it becomes
//! another program.

use std::{
    ffi::OsString,
    os::unix::process::CommandExt as _,
    process::{Command, ExitCode},
};

use threadline_files::complain;

/// What a shell answers when a program cannot be run.
const CANNOT_RUN: u8 = 127;

/// Becomes the agent: in a process group and session of its own, and killed with its host.
pub(crate) fn run(host: u32, command: &[OsString]) -> ExitCode {
    let Some((program, args)) = command.split_first() else {
        complain!("No program was named.");
        return CANNOT_RUN.into();
    };
    // It fails only for who leads a group already, and that is what it is for.
    let _ = rustix::process::setsid();
    if let Err(e) = die_with(host) {
        complain!("The agent cannot be tied to its host: {e}.");
        return CANNOT_RUN.into();
    }
    let failed = Command::new(program).args(args).exec();
    complain!("{} cannot be run: {failed}.", program.display());
    CANNOT_RUN.into()
}

#[cfg(target_os = "linux")]
fn die_with(host: u32) -> std::io::Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // If it died before this, nobody will tell.
    match getppid().map(|pid| pid.as_raw_nonzero().get()) == i32::try_from(host).ok() {
        true => Ok(()),
        false => Err(std::io::Error::other("the host is gone")),
    }
}

/// Elsewhere the agent's input ends with its host; sweeping does the rest.
#[cfg(not(target_os = "linux"))]
fn die_with(_host: u32) -> std::io::Result<()> {
    Ok(())
}
