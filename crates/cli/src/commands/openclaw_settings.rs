//! The gateway's settings, as they were before its command changed them, and after.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Its file, where the gateway's command would look for it too.
pub(super) struct Settings {
    file: PathBuf,
    before: Vec<u8>,
}

/// What came of the file.
pub(super) struct Compared {
    file: PathBuf,
    changed: bool,
}

/// Where a gateway on this machine keeps what it has.
pub(in crate::commands) fn state_folder(
    variable: impl Fn(&str) -> Option<PathBuf>,
) -> Option<PathBuf> {
    let home = || variable("OPENCLAW_HOME").or_else(|| variable("HOME"));
    variable("OPENCLAW_STATE_DIR").or_else(|| Some(home()?.join(".openclaw")))
}

impl Settings {
    /// Finds them by the variables that the gateway's command goes by.
    pub(super) fn find(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<Self> {
        let file = match variable("OPENCLAW_CONFIG_PATH") {
            Some(file) => file,
            None => state_folder(variable)?.join("openclaw.json"),
        };
        let before = std::fs::read(&file).ok()?;
        Some(Self { file, before })
    }

    /// Whether they are others now.
    pub(super) fn compare(self) -> Compared {
        let after = std::fs::read(&self.file).ok();
        Compared {
            changed: after.is_none_or(|after| after != self.before),
            file: self.file,
        }
    }
}

impl Compared {
    /// For programs.
    pub(super) fn told(&self) -> Value {
        json!({"file": self.file, "changed": self.changed, "before": self.before()})
    }

    /// For people.
    pub(super) fn said(&self) -> String {
        let file = self.file.display();
        match self.before() {
            Some(before) => format!(
                "In {file} it was added to `plugins.load.paths`, `plugins.entries` and, where there is such a list, `plugins.allow`. The gateway's command keeps no comments; what was there before is in {}.\n",
                before.display()
            ),
            None if self.changed => format!("{file} was changed for it.\n"),
            None => format!("Nothing had to be changed in {file}.\n"),
        }
    }

    /// Where the gateway's command put the settings of before.
    fn before(&self) -> Option<PathBuf> {
        let mut name = self.file.clone().into_os_string();
        name.push(".bak");
        let kept = Some(PathBuf::from(name)).filter(|kept| Path::exists(kept));
        kept.filter(|_| self.changed)
    }
}

#[cfg(test)]
#[path = "openclaw_settings_tests.rs"]
mod tests;
