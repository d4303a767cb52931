//! Where settings are looked for on this machine.

use std::path::{Path, PathBuf};

use threadline_files::{Reason, atomic};

use super::{SourceFile, SourceFlag, Sources};

/// The name of our file.
const NAME: &str = "threadline.toml";
/// A file of settings is small; anything else is not one.
const LARGEST: u64 = 1 << 20;

impl Sources {
    /// The home folder, if it is known.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.folder("HOME")
    }

    /// Where the data lies unless somebody says otherwise.
    pub(crate) fn data_default(&self) -> Option<PathBuf> {
        self.based("XDG_DATA_HOME", ".local/share")
            .map(|base| base.join("threadline"))
    }

    /// The data folder, where nothing else is set that every command has.
    pub(crate) fn only_data(&self) -> Option<PathBuf> {
        let ours = |name: &String| name.starts_with("THREADLINE_");
        if !self.files.is_empty() || self.env.keys().any(ours) {
            return None;
        }
        match self.flags.as_slice() {
            [] => self.data_default(),
            [flag] if flag.key == "data" => flag.value.as_ref().map(PathBuf::from),
            _ => None,
        }
        .filter(|data| data.is_absolute())
    }

    fn own_file(&self) -> Option<PathBuf> {
        self.based("XDG_CONFIG_HOME", ".config")
            .map(|base| base.join("threadline").join(NAME))
    }

    /// What no task may reach, beside the data folder: the settings with their keys, the folders of threads,
    /// what the hosts of agents keep, a database that lies elsewhere, and the environment of processes, where
    /// keys are too.
    pub(crate) fn protected(&self, threads: &Path, hosts: &Path, database: &str) -> Vec<PathBuf> {
        let folder = self
            .own_file()
            .and_then(|own| own.parent().map(Path::to_owned));
        let files = self.files.iter().map(|file| file.path.clone());
        let database = database.strip_prefix("sqlite:").map(|rest| {
            let path = rest.split('?').next().unwrap_or(rest);
            path.strip_prefix("//").unwrap_or(path)
        });
        let database = database.into_iter().flat_map(|path| {
            ["", "-wal", "-shm", "-journal"].map(|end| PathBuf::from(format!("{path}{end}")))
        });
        let mut all: Vec<PathBuf> = folder.into_iter().chain(files).chain(database).collect();
        let kept = [threads, hosts].into_iter();
        let kept = kept.filter(|path| !path.as_os_str().is_empty());
        all.extend(kept.map(Path::to_owned));
        all.push("/proc".into());
        all
    }

    /// A base folder: a relative one counts as unset, as its standard wants it.
    fn based(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        self.folder(variable)
            .or_else(|| Some(self.home()?.join(below_home)))
    }

    fn folder(&self, variable: &str) -> Option<PathBuf> {
        let path = PathBuf::from(self.env.get(variable)?);
        path.is_absolute().then_some(path)
    }
}

/// Reads the environment and the files of this machine.
pub(crate) fn gather(flags: Vec<SourceFlag>) -> std::io::Result<Sources> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((
            name.into_string().ok()?,
            value.to_string_lossy().into_owned(),
        ))
    };
    let mut sources = Sources {
        files: vec![],
        env: std::env::vars_os().filter_map(text).collect(),
        flags,
        cwd: std::env::current_dir()?,
    };
    let own = sources.own_file();
    let folders = sources.cwd.join(NAME);
    if let Some(path) = own.as_ref() {
        sources.files.extend(read(path, false));
    }
    if own.as_ref() != Some(&folders) {
        sources.files.extend(read(&folders, true));
    }
    Ok(sources)
}

fn read(path: &Path, of_folder: bool) -> Option<SourceFile> {
    let text = match atomic::read_limited(path, LARGEST) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned()),
        Err(e) if matches!(e.reason(), Reason::NotFound | Reason::NotDirectory) => return None,
        // A person's own file may well be a link into a folder of dotfiles.
        Err(e) if e.reason() == Reason::Symlink => match std::fs::read_to_string(path) {
            Ok(text) => Ok(text),
            Err(e) => Err(e.to_string()),
        },
        Err(e) => Err(e.to_string()),
    };
    Some(SourceFile {
        path: path.to_owned(),
        text,
        of_folder,
    })
}
