//! Bytes that the system holds in memory already.

use std::{fs::File, io};

/// Reads at a place without waiting for the disk, so that it may be done where nothing may block.
/// `None`: that cannot be had here now, and somebody who may wait has to read. Like any read it may
/// give less than there is room for; zero bytes are the end of the file.
pub fn read_held_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
    imp::read(file, buffer, offset)
}

#[cfg(target_os = "linux")]
mod imp {
    use std::{
        fs::File,
        io::{self, IoSliceMut},
    };

    use rustix::io::{Errno, ReadWriteFlags, preadv2};

    pub(super) fn read(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        let mut room = [IoSliceMut::new(buffer)];
        match preadv2(file, &mut room, offset, ReadWriteFlags::NOWAIT) {
            Ok(got) => Ok(Some(got)),
            // Not held, or not a thing that this kernel or file system can tell.
            Err(Errno::AGAIN | Errno::INTR | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                Ok(None)
            }
            Err(e) => Err(e.into()),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::{fs::File, io};

    pub(super) fn read(_: &File, _: &mut [u8], _: u64) -> io::Result<Option<usize>> {
        Ok(None)
    }
}
