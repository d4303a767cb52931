//! `openclaw install`: puts the plugin into a gateway on this machine, or packs it for another.

#[path = "openclaw_files.rs"]
mod files;
#[path = "openclaw_pack.rs"]
mod pack;
#[path = "openclaw_settings.rs"]
mod settings;

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde_json::json;
use threadline_contract::{Code, Fault};
use threadline_files::{Access, Reason, Root, atomic};
use tokio::process::Command;

pub(super) use self::settings::state_folder;
use self::{
    files::FILES,
    pack::Packed,
    settings::{Compared, Settings},
};
use super::Context;
use crate::{
    args::OpenclawInstall,
    exit::Exit,
    owner::{Places, storage},
};

/// The plugin's name in the gateway.
const PLUGIN: &str = "openclaw-multi-session-plugins";
/// Where the program lies in the plugin's folder.
const PROGRAM: &str = "bin/threadline";
/// The gateway's command takes 5 to 30 s, more on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

pub(super) async fn install(context: &Context, args: OpenclawInstall) -> Result<Exit, Fault> {
    match args.pack {
        Some(file) => for_another_machine(context, &file),
        None => for_this_machine(context, &args.openclaw).await,
    }
}

/// This program's own file.
fn own_program() -> Result<PathBuf, Fault> {
    std::env::current_exe()
        .and_then(|path| path.canonicalize())
        .map_err(|e| broken(&format!("This program cannot be found on the disk ({e})")))
}

/// A plugin that was put into a gateway.
pub(super) struct Put {
    /// Where it lies.
    pub(super) folder: PathBuf,
    program: PathBuf,
    settings: Option<Compared>,
}

/// Puts the plugin's folder into the data folder, and lets the gateway's own command link it.
pub(super) async fn put(context: &Context, openclaw: &str) -> Result<Put, Fault> {
    let program = own_program()?;
    let places = Places::new(&context.config.data);
    places.make()?;
    let folder = places.openclaw().join("plugin");
    lay_out(&folder, &program)?;
    if !context.json {
        eprintln!("Asking `{openclaw}` to take the plugin; this can take a minute …");
    }
    let settings = Settings::find(|name| std::env::var_os(name).map(PathBuf::from));
    link(openclaw, &folder).await?;
    Ok(Put {
        folder,
        program,
        settings: settings.map(Settings::compare),
    })
}

async fn for_this_machine(context: &Context, openclaw: &str) -> Result<Exit, Fault> {
    let put = put(context, openclaw).await?;
    let told = json!({
        "plugin": PLUGIN, "folder": put.folder, "program": put.program,
        "settings": put.settings.as_ref().map(Compared::told),
        "next": ["openclaw gateway restart", "threadline doctor"],
    });
    context.print(&told, || {
        format!(
            "The plugin lies in {} and is switched on.\n{}\n\
             Restart the gateway, so that it loads it:\n  openclaw gateway restart\n\n\
             Then tell Threadline where the gateway is, and look whether all is in order:\n  \
             export THREADLINE_OPENCLAW_URL=ws://127.0.0.1:18789\n  \
             export THREADLINE_OPENCLAW_TOKEN=…    (gateway.auth.token in openclaw.json)\n  \
             threadline doctor\n",
            put.folder.display(),
            put.settings
                .as_ref()
                .map_or_else(String::new, Compared::said)
        )
    });
    Ok(Exit::Done)
}

fn for_another_machine(context: &Context, file: &Path) -> Result<Exit, Fault> {
    let program = own_program()?;
    let bytes = std::fs::read(&program)
        .map_err(|e| broken(&format!("{} cannot be read ({e})", program.display())))?;
    let mut packed = Packed::default();
    for (name, text) in FILES {
        packed.add(&format!("package/{name}"), text.as_bytes(), 0o644);
    }
    packed.add(&format!("package/{PROGRAM}"), &bytes, 0o755);
    let file = std::path::absolute(file)
        .map_err(|e| broken(&format!("{} is no file name ({e})", file.display())))?;
    atomic::write(&file, &packed.finish(), Access::Shared).map_err(storage)?;
    let name = file
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let next = [
        format!("openclaw plugins install npm-pack:./{name} --force --accept-capabilities"),
        "openclaw gateway restart".to_owned(),
    ];
    let made_for = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    let told = json!({"plugin": PLUGIN, "file": file, "madeFor": made_for, "next": next});
    context.print(&told, || {
        format!(
            "Plugin and program ({made_for}) are in {}.\n\n\
             Copy it to the gateway's machine, and there run:\n  {}\n  {}\n",
            file.display(),
            next[0],
            next[1]
        )
    });
    Ok(Exit::Done)
}

/// Writes the plugin's files; those of an earlier version that are no more go.
fn lay_out(folder: &Path, program: &Path) -> Result<(), Fault> {
    let root = atomic::create_dir_all(folder, Access::Private).map_err(storage)?;
    clear(&root, "src")?;
    for inner in ["src", "bin"] {
        root.create_dir_all(inner, Access::Private)
            .map_err(storage)?;
    }
    for (name, text) in FILES {
        root.write_atomic(name, text.as_bytes(), Access::Private)
            .map_err(storage)?;
    }
    // A link, so that a new version of the program is used as soon as it is there.
    let link = folder.join(PROGRAM);
    let fresh = link.with_extension("new");
    let linked = remove(&fresh)
        .and_then(|()| std::os::unix::fs::symlink(program, &fresh))
        .and_then(|()| std::fs::rename(&fresh, &link));
    linked.map_err(|e| broken(&format!("{} cannot be made ({e})", link.display())))
}

fn clear(root: &Root, inner: &str) -> Result<(), Fault> {
    match root.remove_dir_all(inner) {
        Err(e) if e.reason() != Reason::NotFound => Err(storage(e)),
        _ => Ok(()),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Has the gateway's own command link the folder: it knows the gateway's settings, and adds the
/// plugin to the list of those that are allowed. It does not switch on what somebody switched off.
async fn link(openclaw: &str, folder: &Path) -> Result<(), Fault> {
    let folder = folder.as_os_str();
    let [plugins, accept] = ["plugins", "--accept-capabilities"].map(OsStr::new);
    let install = ["install", "--link"].map(OsStr::new);
    ask(
        openclaw,
        &[
            plugins,
            install[0],
            install[1],
            folder,
            OsStr::new("--force"),
            accept,
        ],
    )
    .await?;
    ask(
        openclaw,
        &[plugins, OsStr::new("enable"), OsStr::new(PLUGIN), accept],
    )
    .await
}

/// Has the gateway's own command change one of its settings.
pub(super) async fn set(openclaw: &str, name: &str, value: &Path) -> Result<(), Fault> {
    let [config, set] = ["config", "set"].map(OsStr::new);
    ask(
        openclaw,
        &[config, set, OsStr::new(name), value.as_os_str()],
    )
    .await
}

async fn ask(openclaw: &str, arguments: &[&OsStr]) -> Result<(), Fault> {
    let mut command = Command::new(openclaw);
    command
        .args(arguments)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = match tokio::time::timeout(PATIENCE, command.output()).await {
        Err(_) => return Err(unwilling(openclaw, "did not finish in five minutes")),
        Ok(Err(e)) if e.kind() == io::ErrorKind::NotFound => return Err(absent(openclaw)),
        Ok(Err(e)) => return Err(unwilling(openclaw, &format!("cannot be started ({e})"))),
        Ok(Ok(output)) => output,
    };
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    Err(unwilling(
        openclaw,
        &format!("refused: {}", last_words(&said)),
    ))
}

/// The end of what a program said: there it tells what went wrong.
fn last_words(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).collect();
    let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join(" ")
}

fn absent(openclaw: &str) -> Fault {
    Fault::new(
        Code::ProviderUnavailable,
        format!(
            "There is no `{openclaw}` here. If OpenClaw is installed elsewhere on this machine, name its command with --openclaw; if the gateway is on another machine, use --pack."
        ),
    )
}

fn unwilling(openclaw: &str, what: &str) -> Fault {
    Fault::new(Code::ProviderUnavailable, format!("`{openclaw}` {what}."))
}

fn broken(what: &str) -> Fault {
    Fault::new(Code::Internal, format!("{what}."))
}

#[cfg(test)]
#[path = "openclaw_tests.rs"]
mod tests;
