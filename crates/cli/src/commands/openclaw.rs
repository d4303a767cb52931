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
use threadline_files::{Access, Reason, Root, atomic, complain};
use tokio::process::Command;

pub(super) use self::settings::{Settings, state_folder};
use self::{
    files::FILES,
    pack::Packed,
    settings::{Compared, exports},
};
use super::Context;
use crate::{
    args::OpenclawInstall,
    exit::Exit,
    owner::{Places, storage},
    programs,
    screen::words,
};
/// How many lines of what the gateway's command said when it refused are shown.
const MOST_LINES: usize = 12;

/// The plugin's name in the gateway.
const PLUGIN: &str = "openclaw-multi-session-plugins";
/// Where the program lies in the plugin's folder.
const PROGRAM: &str = "bin/threadline";
/// The gateway's command takes 5 to 30 s, more on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// How the gateway's command says that a gateway which runs has taken up a change.
const APPLIED: &str = "Applied in Gateway";

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
    /// Its files are others than before.
    new_files: bool,
    /// The gateway runs, and has taken it up.
    loaded: bool,
}

/// What a gateway needs so that it works with what was put into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restart {
    /// Nothing: all was as it is.
    Nothing,
    /// Nothing: it has loaded it.
    Loaded,
    /// A restart.
    Needed,
}

impl Put {
    fn restart(&self) -> Restart {
        let new = self.new_files || self.settings.as_ref().is_none_or(Compared::changed);
        match (self.loaded, new) {
            (true, _) => Restart::Loaded,
            (false, false) => Restart::Nothing,
            (false, true) => Restart::Needed,
        }
    }

    /// What was done, for people.
    pub(super) fn said(&self) -> String {
        let settings = self.settings.as_ref();
        format!(
            "The plugin lies in {} and is switched on.\n{}{}",
            self.folder.display(),
            settings.map_or_else(String::new, Compared::said),
            self.restart().said()
        )
    }
}

impl Restart {
    fn said(self) -> &'static str {
        match self {
            Self::Nothing => "All was as it should be: a gateway that runs needs no restart.\n",
            Self::Loaded => "The gateway runs and has loaded it; it needs no restart.\n",
            Self::Needed => {
                "\nStart the gateway, or restart it, so that it loads it:\n  openclaw gateway restart\n"
            }
        }
    }
}

/// Puts the plugin's folder into the data folder, and lets the gateway's own command link it.
pub(super) async fn put(context: &Context, openclaw: &str) -> Result<Put, Fault> {
    let command = programs::find(openclaw).ok_or_else(|| absent(openclaw))?;
    let program = own_program()?;
    let places = Places::new(&context.config.data);
    places.make()?;
    let folder = places.openclaw().join("plugin");
    let new_files = !is_laid_out(&folder, &program);
    if new_files {
        lay_out(&folder, &program)?;
    }
    if !context.json {
        complain!("Asking `{openclaw}` to take the plugin; this can take a minute …");
    }
    let settings = Settings::here();
    let loaded = link(&command.to_string_lossy(), &folder).await?;
    if let Some(now) = Settings::here().filter(|now| !now.has_plugin_on()) {
        let file = now.file().display();
        return Err(unwilling(
            openclaw,
            &format!(
                "says that all went well, but {file} does not switch the plugin on. Name OpenClaw's own command with --openclaw"
            ),
        ));
    }
    Ok(Put {
        folder,
        program,
        settings: settings.map(Settings::compare),
        new_files,
        loaded,
    })
}

async fn for_this_machine(context: &Context, openclaw: &str) -> Result<Exit, Fault> {
    let put = put(context, openclaw).await?;
    let settings = put.settings.as_ref();
    let mut next = Vec::new();
    if put.restart() == Restart::Needed {
        next.push("openclaw gateway restart".to_owned());
    }
    let now = settings.and_then(Compared::now);
    let exports = exports(now, |name| programs::find(name).is_some());
    next.extend(exports.iter().cloned());
    next.push("threadline doctor".to_owned());
    let told = json!({
        "plugin": PLUGIN, "folder": put.folder, "program": put.program,
        "settings": settings.map(Compared::told), "loaded": put.loaded, "next": next,
    });
    context.print(&told, || {
        format!(
            "{}\nTell Threadline where the gateway is, and look whether all is in order:\n  {}\n  threadline doctor\n",
            put.said(),
            exports.join("\n  ")
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
    atomic::write(&file, &packed.finish(), Access::Shared).map_err(|e| not_packed(&file, &e))?;
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

/// Why the archive cannot be where it was wanted.
fn not_packed(file: &Path, error: &threadline_files::Error) -> Fault {
    let code = match error.reason() {
        Reason::NoSpace => Code::StorageFull,
        _ => Code::InvalidRequest,
    };
    let shown = words::clean(&file.display().to_string());
    Fault::new(
        code,
        format!("--pack: {shown} cannot be written ({error}). Choose another place for it."),
    )
}

/// Whether the plugin's folder is already as [`lay_out`] makes it.
fn is_laid_out(folder: &Path, program: &Path) -> bool {
    let is = |(name, text): &(&str, &str)| {
        std::fs::read(folder.join(name)).is_ok_and(|found| found == text.as_bytes())
    };
    let sources = std::fs::read_dir(folder.join("src")).map_or(0, Iterator::count);
    let ours = FILES.iter().filter(|(name, _)| name.starts_with("src/"));
    FILES.iter().all(is)
        && sources == ours.count()
        && std::fs::read_link(folder.join(PROGRAM)).is_ok_and(|found| found == program)
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
/// Whether a running gateway has taken it up.
async fn link(openclaw: &str, folder: &Path) -> Result<bool, Fault> {
    let folder = folder.as_os_str();
    let [plugins, accept] = ["plugins", "--accept-capabilities"].map(OsStr::new);
    let install = ["install", "--link"].map(OsStr::new);
    let said = ask(
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
    .await?;
    Ok(said.contains(APPLIED))
}

/// Has the gateway's own command change one of its settings.
pub(super) async fn set(openclaw: &str, name: &str, value: &Path) -> Result<(), Fault> {
    let [config, set] = ["config", "set"].map(OsStr::new);
    ask(
        openclaw,
        &[config, set, OsStr::new(name), value.as_os_str()],
    )
    .await?;
    Ok(())
}

/// What it said.
async fn ask(openclaw: &str, arguments: &[&OsStr]) -> Result<String, Fault> {
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
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    if output.status.success() {
        return Ok(said.into_owned());
    }
    let words = words_of(&said);
    Err(unwilling(
        openclaw,
        &match words.as_str() {
            "" => format!("refused without a word ({})", output.status),
            words => format!("refused: {words}"),
        },
    ))
}

/// What a program said, in one line: what went wrong can stand first or last.
fn words_of(said: &str) -> String {
    let lines = said.lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let skipped = lines.len().saturating_sub(MOST_LINES);
    let half = MOST_LINES / 2;
    let told = match skipped {
        0 => lines.join(" | "),
        _ => {
            let (first, last) = (&lines[..half], &lines[half + skipped..]);
            format!("{} | … | {}", first.join(" | "), last.join(" | "))
        }
    };
    told.trim_end_matches('.').to_owned()
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
