//! Which folder is the workspace: five sources in order, and the answer says which one spoke.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
};

use threadline_contract::plugin::WorkspaceSource;
use threadline_files::{Reason, Root};

use crate::Error;

/// Where apps keep their own references to a thread. They look like paths and are none: used as a
/// workspace, one would make a folder that nobody looks at, or fail far from its cause.
const HINTS: &str = "/owners";

/// What may name the workspace, beside the request itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkspaceSources {
    /// The plugin's own settings.
    pub plugin_config: Option<String>,
    /// `OPENCLAW_WORKSPACE_DIR`.
    pub workspace_dir: Option<String>,
    /// `OPENCLAW_STATE_DIR`: the workspace lies in it.
    pub state_dir: Option<String>,
    /// `OPENCLAW_PROFILE`; `default` is none.
    pub profile: Option<String>,
    /// What `~` stands for.
    pub home: PathBuf,
    /// What other relative paths begin at.
    pub current_dir: PathBuf,
}

/// A workspace that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Where it really lies.
    pub path: PathBuf,
    /// Who named it.
    pub source: WorkspaceSource,
    /// What was named and not taken.
    pub warnings: Vec<String>,
}

impl WorkspaceSources {
    /// What the environment of this process says, given a way to ask it.
    pub fn from_env(env: impl Fn(&str) -> Option<String>, current_dir: PathBuf) -> Self {
        Self {
            plugin_config: None,
            workspace_dir: env("OPENCLAW_WORKSPACE_DIR"),
            state_dir: env("OPENCLAW_STATE_DIR"),
            profile: env("OPENCLAW_PROFILE"),
            home: env("HOME").unwrap_or_default().into(),
            current_dir,
        }
    }

    /// Finds the workspace: the request, the plugin's settings, the agent's settings, the profile
    /// in the environment, `~/.openclaw/workspace`. The first that is said counts, and must exist:
    /// to go on to the next would put files where nobody expects them. Only a reference of an app
    /// is passed over, with a warning.
    pub fn resolve(
        &self,
        request: Option<&str>,
        agent_config: Option<&str>,
    ) -> Result<Resolved, Error> {
        use WorkspaceSource as S;
        let said = |text: Option<&str>| {
            let text = text.map(str::trim).filter(|text| !text.is_empty());
            text.map(|text| vec![self.absolute(text)])
        };
        let sources = [
            (S::Params, said(request)),
            (S::PluginConfig, said(self.plugin_config.as_deref())),
            (S::AgentConfig, said(agent_config)),
            (S::Profile, self.of_profile()),
            (S::Default, Some(vec![self.state().join("workspace")])),
        ];
        let mut warnings = Vec::new();
        for (source, places) in sources {
            let Some(places) = places else { continue };
            match real(&places, source)? {
                Some(path) => {
                    return Ok(Resolved {
                        path,
                        source,
                        warnings,
                    });
                }
                None => warnings.push(format!(
                    "`{}` is an app's reference to a thread, not a workspace; it was not used.",
                    places
                        .first()
                        .map(|p| p.display().to_string())
                        .unwrap_or_default(),
                )),
            }
        }
        Err(Error::NoWorkspace {
            folder: self.state().join("workspace"),
            named_by: S::Default,
        })
    }

    /// `~/.openclaw`.
    fn state(&self) -> PathBuf {
        self.home.join(".openclaw")
    }

    fn of_profile(&self) -> Option<Vec<PathBuf>> {
        let set = |text: &Option<String>| {
            let text = text.as_deref().map(str::trim);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        if let Some(folder) = set(&self.workspace_dir) {
            return Some(vec![self.absolute(&folder)]);
        }
        if let Some(state) = set(&self.state_dir) {
            return Some(vec![self.absolute(&state).join("workspace")]);
        }
        let profile = set(&self.profile).filter(|name| !name.eq_ignore_ascii_case("default"))?;
        // One name, not a way to somewhere else.
        let mut parts = Path::new(&profile).components();
        if !matches!((parts.next(), parts.next()), (Some(Component::Normal(name)), None) if name == OsStr::new(&profile))
        {
            return None;
        }
        // Gateways put it beside the default one, older ones next to its workspace.
        Some(vec![
            self.home.join(format!(".openclaw-{profile}/workspace")),
            self.state().join(format!("workspace-{profile}")),
        ])
    }

    fn absolute(&self, text: &str) -> PathBuf {
        match text.strip_prefix('~') {
            Some("") => self.home.clone(),
            Some(rest) if rest.starts_with('/') => self.home.join(rest.trim_start_matches('/')),
            _ => self.current_dir.join(text),
        }
    }
}

/// The first of some places that is there; `None` if it is no workspace but an app's reference.
fn real(places: &[PathBuf], source: WorkspaceSource) -> Result<Option<PathBuf>, Error> {
    let bad = |why| Error::BadWorkspace {
        named_by: source,
        why,
    };
    if places
        .iter()
        .any(|place| place.as_os_str().as_bytes().contains(&0))
    {
        return Err(bad("its path holds a NUL character"));
    }
    if places.iter().any(|place| is_hint(&by_name(place))) {
        return Ok(None);
    }
    for place in places {
        match Root::open(place) {
            Ok(root) => return Ok(Some(root.real_path()).filter(|path| !is_hint(path))),
            Err(e) if matches!(e.reason(), Reason::NotFound | Reason::NotDirectory) => {}
            Err(e) if e.reason() == Reason::NameTooLong => return Err(bad("its path is too long")),
            Err(e) if e.reason() == Reason::Symlink => {
                return Err(bad("its path goes through links without end"));
            }
            Err(e) => return Err(e.into()),
        }
    }
    Err(Error::NoWorkspace {
        folder: places.first().cloned().unwrap_or_default(),
        named_by: source,
    })
}

fn is_hint(path: &Path) -> bool {
    path.starts_with(HINTS)
}

/// The path without `.` and `..`, by names alone: what it would be if there were no links.
fn by_name(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
