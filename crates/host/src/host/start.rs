//! How a host begins: alone in its session and its work folder, or not at all.

use std::{
    io::Read as _,
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    rc::Rc,
    time::{Duration, Instant},
};

use threadline_files::{Access, Lock, LockError, Root, atomic, complain};
use uuid::Uuid;

use super::{
    agent::{self, Agent},
    shared::Shared,
};
use crate::{
    HostError, ProcessId, Spec, StartCode, State, VERSION,
    leftovers::{DeadHost, end_leftovers},
    place::{Place, now},
    procs,
};

/// The largest description of what to run.
const SPEC_MOST: u64 = 4 * 1024 * 1024;
/// How long the session's last host, and what it left, may take to be gone.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long another session's may.
const FOLDER_PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct Host {
    pub(super) place: Place,
    pub(super) idle: Duration,
    pub(super) shared: Rc<Shared>,
    pub(super) agent: Agent,
    pub(super) listener: Option<tokio::net::UnixListener>,
    pub(super) state: State,
    /// Where the work folder's lock lies.
    pub(super) folder_lock: PathBuf,
    /// Held as long as the host lives.
    _locks: [Lock; 2],
}

type Failed = (StartCode, String);

pub(super) fn start(place: Place) -> Result<Host, Failed> {
    let failed = |e: &dyn std::fmt::Display| (StartCode::Failed, format!("{e}."));
    let spec = read_spec()?;
    let host = ProcessId::of(std::process::id())
        .ok_or_else(|| failed(&"The system does not tell about processes"))?;
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(procs::pid(host.pid)).map_err(|e| failed(&e))?;
    atomic::create_dir_all(place.folder(), Access::Private).map_err(|e| failed(&e))?;
    let own = acquire(&place.lock(), StartCode::HostRunning, PATIENCE)?;
    sweep_earlier(&place)?;
    place.clear().map_err(|e| failed(&e))?;

    // By whatever name it was given, it is one folder.
    let work = std::fs::canonicalize(&spec.folder)
        .map_err(|e| {
            (
                StartCode::NoFolder,
                format!("{}: {e}.", spec.folder.display()),
            )
        })
        .and_then(|folder| {
            Root::open(folder).map_err(|e| (StartCode::NoFolder, format!("{e}.")))
        })?;
    let program = agent::find(&spec).ok_or_else(|| {
        let name = spec.command.first().map_or("", String::as_str);
        let message = format!("There is no program {name} that can be run.");
        (StartCode::NoProgram, message)
    })?;
    let folder_lock = place.folder_lock(&work).map_err(|e| failed(&e))?;
    let folder = acquire(&folder_lock, StartCode::FolderBusy, FOLDER_PATIENCE)?;
    // The agent inherits it, and what it starts does so too: the folder is free when all are gone.
    rustix::io::fcntl_setfd(&folder, rustix::io::FdFlags::empty()).map_err(|e| failed(&e))?;

    let boot = Uuid::new_v4().simple().to_string();
    let shared = Shared::new(&place, &spec, boot.clone()).map_err(|e| failed(&e))?;
    let listener = listen(&place).map_err(|e| failed(&e))?;
    let agent = Agent::spawn(&spec, &program, &boot).map_err(|e| {
        (
            StartCode::NoProgram,
            format!("{} cannot be run: {e}.", program.display()),
        )
    })?;
    let state = State {
        version: VERSION,
        session: spec.session,
        boot,
        host,
        agent: agent.process.clone(),
        command: spec.command,
        folder: spec.folder,
        began: now(),
        ended: None,
        last: None,
        cleaned_up: None,
    };
    // The agent dies with us if this fails.
    place.write_state(&state).map_err(|e| failed(&e))?;
    Ok(Host {
        place,
        idle: spec.idle,
        shared: Rc::new(shared),
        agent,
        listener: Some(listener),
        state,
        folder_lock,
        _locks: [own, folder],
    })
}

fn read_spec() -> Result<Spec, Failed> {
    let bad = |why: String| (StartCode::BadSpec, why);
    let mut text = Vec::new();
    std::io::stdin()
        .lock()
        .take(SPEC_MOST)
        .read_to_end(&mut text)
        .map_err(|e| bad(format!("What to run could not be read ({e}).")))?;
    let spec: Spec = serde_json::from_slice(&text)
        .map_err(|e| bad(format!("What to run is not understood ({e}).")))?;
    spec.check().map_err(bad)?;
    Ok(spec)
}

/// Whoever holds it may be about to end, or only looking.
fn acquire(path: &Path, code: StartCode, patience: Duration) -> Result<Lock, Failed> {
    let begun = Instant::now();
    loop {
        match Lock::try_acquire(path) {
            Ok(lock) => return Ok(lock),
            Err(LockError::Held { .. }) if begun.elapsed() < patience => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(LockError::Held { pid, .. }) => {
                let who = pid.map_or(String::new(), |pid| format!(" (process {pid})"));
                let message = match code {
                    StartCode::HostRunning => format!("The session has a host already{who}."),
                    _ => format!(
                        "Another agent works in this folder, or has left something running there{who}."
                    ),
                };
                return Err((code, message));
            }
            Err(LockError::Files(e)) => return Err((StartCode::Failed, format!("{e}."))),
        }
    }
}

/// A host that was killed cannot clean up after its agent.
fn sweep_earlier(place: &Place) -> Result<(), Failed> {
    let earlier = place.read_state().unwrap_or_else(|e| {
        // The lock says that nobody is there, and what it holds is about to be replaced.
        complain!("What an earlier host left is not understood: {e}");
        None
    });
    let Some(state) = earlier else {
        return Ok(());
    };
    if !place.has_socket() || state.is_clean(procs::system()) {
        return Ok(());
    }
    match end_leftovers(&[DeadHost::new(&state, place)], PATIENCE).contains(&None) {
        false => Ok(()),
        true => Err((
            StartCode::NotSwept,
            "What an earlier agent of this session left running cannot be ended.".into(),
        )),
    }
}

fn listen(place: &Place) -> Result<tokio::net::UnixListener, HostError> {
    use std::os::unix::fs::PermissionsExt as _;
    let listener = place.with_socket(|path| {
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        tokio::net::UnixListener::from_std(listener)
    })?;
    Ok(listener)
}
