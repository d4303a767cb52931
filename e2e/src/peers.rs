//! Real peers: agents and a gateway in exact versions, which `./dev setup` puts into a cache.
//!
//! Under `./dev test` a peer must be there, unless the command said that it cannot be installed. Anybody
//! else may do without: tests that need one say that they were skipped.

use std::path::{Path, PathBuf};

/// What `./dev setup` installs.
const PEERS: &str = include_str!("../peers");

/// A peer that is installed.
#[derive(Clone, Debug)]
pub struct Peer {
    folder: PathBuf,
}

impl Peer {
    /// Finds a peer by its name in `e2e/peers`. `None`: not here, and that was said.
    pub fn find(name: &str) -> Option<Self> {
        let root = std::env::var_os("THREADLINE_TEST_PEERS");
        let without = std::env::var("THREADLINE_TEST_WITHOUT").unwrap_or_default();
        let demanded = root.is_some() && !without.split_whitespace().any(|w| w == name);
        let root = root.map_or_else(cache, PathBuf::from);
        let folder = root.join(folder_of(name));
        if folder.join("complete").exists() {
            return Some(Self { folder });
        }
        assert!(
            !demanded,
            "{name} is not installed in {}: ./dev setup",
            folder.display()
        );
        eprintln!("skipped: {name} is not installed (./dev setup installs it)");
        None
    }

    /// The folder of one of its packages.
    pub fn package(&self, name: &str) -> PathBuf {
        self.folder.join("node_modules").join(name)
    }

    /// The folder of its commands.
    pub fn commands(&self) -> PathBuf {
        let of_python = self.folder.join("venv/bin");
        match of_python.is_dir() {
            true => of_python,
            false => self.package(".bin"),
        }
    }
}

/// A search path with the commands of these peers first.
pub fn path(peers: &[&Peer]) -> std::ffi::OsString {
    let own = peers.iter().map(|peer| peer.commands());
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let rest: Vec<PathBuf> = std::env::split_paths(&rest).collect();
    std::env::join_paths(own.chain(rest)).expect("folders without a colon")
}

fn cache() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").unwrap_or_default();
    let cache = cache.unwrap_or_else(|| Path::new(&home).join(".cache"));
    cache.join("threadline/peers")
}

/// The name of a peer's folder, as `./dev` makes it.
fn folder_of(name: &str) -> String {
    let mut lines = PEERS.lines().map(str::split_whitespace);
    let version = lines.find_map(|mut words| {
        let package = (words.next() == Some(name))
            .then(|| words.next())
            .flatten()?;
        Some(package.rsplit_once('@')?.1)
    });
    format!("{name}-{}", version.expect("a name in e2e/peers"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_folder_carries_the_version_of_the_first_package() {
        let folders = ["codex", "hermes"].map(super::folder_of);
        assert_eq!(folders, ["codex-2.6.0", "hermes-0.19.0"]);
    }
}
