//! `openclaw-sidecar`: files of runs, for the gateway's plugin, over standard input and output.

use std::{
    fs::File,
    io,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use threadline_artifacts::{OutputRoot, WorkspaceSources};
use threadline_contract::{Code, Fault};
use threadline_sidecar::{Ended, Limits, Settings, Sidecar};

use crate::{args, config::Log, exit::Exit, owner};

/// Where references of the earlier plugin are signed with. Not a flag: those can be seen by others.
const PEER_SECRET: &str = "XWORKMATE_ARTIFACT_REF_SIGNING_SECRET";

pub(crate) async fn sidecar(data: &Path, log: &Log, args: args::Sidecar) -> Result<Exit, Fault> {
    let mut signals = owner::Signals::listen()?;
    owner::log_to_stderr(log)?;
    let service = threadline_sidecar::open(settings(data, args)?)?;
    // Descriptors of their own: nothing that prints by the usual way can get between the lines.
    let (input, output, watched) =
        pipes().map_err(|e| broken(&format!("Standard input or output cannot be used ({e})")))?;
    let sidecar = Sidecar::start(input, output, service, Limits::default())
        .map_err(|e| broken(&format!("No thread could be started ({e})")))?;
    let sidecar = Arc::new(sidecar);
    watch(watched, Arc::clone(&sidecar));
    let waits = Arc::clone(&sidecar);
    let mut end = tokio::task::spawn_blocking(move || waits.wait());
    let ended = loop {
        tokio::select! {
            ended = &mut end => break ended,
            signal = signals.next() => {
                tracing::info!("Stopping: {signal}");
                sidecar.stop();
            }
        }
    };
    match ended.map_err(|e| broken(&format!("The service broke down ({e})")))? {
        Ended::EndOfInput | Ended::Shutdown | Ended::Stopped => Ok(Exit::Done),
        Ended::CutOff => {
            tracing::warn!("Something was not finished; it can be asked for again");
            Ok(Exit::Done)
        }
        Ended::InputBroken(e) => Err(broken(&format!("Standard input cannot be read ({e})"))),
    }
}

fn settings(data: &Path, args: args::Sidecar) -> Result<Settings, Fault> {
    let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let home = env("HOME")
        .map(PathBuf::from)
        .filter(|home| home.is_absolute());
    let home = home.ok_or_else(|| {
        Fault::new(
            Code::ConfigInvalid,
            "HOME does not name a folder, so the gateway's folders cannot be found.",
        )
    })?;
    let here = std::env::current_dir()
        .map_err(|e| broken(&format!("The current folder cannot be found ({e})")))?;
    let given = [("media", &args.media), ("tmp-openclaw", &args.tmp)];
    let output_roots = OutputRoot::defaults(&home).into_iter().map(|mut root| {
        let folder = given.iter().find(|(name, _)| *name == root.name);
        if let Some((_, Some(folder))) = folder {
            root.folder = from(&here, folder);
        }
        root
    });
    Ok(Settings {
        state: data.join("openclaw"),
        workspace: WorkspaceSources {
            plugin_config: args.workspace,
            ..WorkspaceSources::from_env(env, here.clone())
        },
        output_roots: output_roots.collect(),
        peer_secret: env(PEER_SECRET),
    })
}

/// A folder as it was named, seen from here.
fn from(here: &Path, folder: &Path) -> PathBuf {
    // Without a slash at its end, which would hide that it is a link.
    here.join(folder).components().collect()
}

fn pipes() -> io::Result<(File, File, File)> {
    let file = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().map(File::from);
    let output = io::stdout();
    // Room for most of an answer: both sides work at once instead of taking turns over 64 KiB. What is
    // not a pipe, or may not grow, stays as it is.
    let _ = rustix::pipe::fcntl_setpipe_size(&output, 1024 * 1024);
    Ok((
        file(io::stdin().as_fd())?,
        file(output.as_fd())?,
        file(output.as_fd())?,
    ))
}

/// Stops when nobody can read answers any more, also while nothing is being written: a gateway that
/// was killed leaves nothing running.
fn watch(output: File, sidecar: Arc<Sidecar>) {
    let watching = std::thread::Builder::new()
        .name("watch".to_owned())
        .spawn(move || {
            // Nothing is asked for, so only the other end's going away is told.
            let mut watched = [PollFd::new(&output, PollFlags::empty())];
            while poll(&mut watched, None) == Err(Errno::INTR) {}
            sidecar.stop();
        });
    if let Err(e) = watching {
        // Then it is noticed with the next answer.
        tracing::warn!(error = %e, "No thread could be started: {e}");
    }
}

fn broken(what: &str) -> Fault {
    Fault::new(Code::Internal, format!("{what}."))
}
