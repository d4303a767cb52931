//! A disk that can be filled.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A small file system of its own at a folder, gone when this is dropped.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Makes one of so many MiB. `None`: only root can, which was said.
    pub fn at(folder: &Path, mib: u32) -> Option<Self> {
        fs::create_dir_all(folder).unwrap();
        let size = format!("size={mib}m");
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(folder);
        if !mount.output().unwrap().status.success() {
            println!("skipped: only root can mount a small disk");
            return None;
        }
        Some(Self(folder.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: what runs in it may still be ending.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
