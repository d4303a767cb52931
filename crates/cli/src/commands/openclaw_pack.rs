//! An archive as `npm pack` makes it: a tar inside a gzip. The bytes are stored, not compressed, which
//! every reader takes; what is in it is small, or a program that hardly gets smaller.

/// Tar files consist of blocks.
const BLOCK: usize = 512;
/// What one stored block of a gzip can hold.
const STORED: usize = 0xffff;

/// An archive in the making.
#[derive(Default)]
pub(super) struct Packed {
    tar: Vec<u8>,
}

impl Packed {
    /// Adds a file. The name must be shorter than 100 bytes.
    pub(super) fn add(&mut self, name: &str, bytes: &[u8], mode: u32) {
        self.tar.extend(header(name, bytes.len(), mode));
        self.tar.extend(bytes);
        let rest = bytes.len().next_multiple_of(BLOCK) - bytes.len();
        self.tar.resize(self.tar.len() + rest, 0);
    }

    /// The archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        // Two empty blocks are the end.
        self.tar.resize(self.tar.len() + 2 * BLOCK, 0);
        gzip(&self.tar)
    }
}

/// The header of a file that belongs to nobody and is as old as time, so that the same files make the
/// same archive.
fn header(name: &str, size: usize, mode: u32) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put =
        |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, &format!("{mode:07o}\0"));
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{size:011o}\0"));
    put(136, "00000000000\0");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    let mut chunks = bytes.chunks(STORED).peekable();
    while let Some(chunk) = chunks.next() {
        let last = chunks.peek().is_none();
        // A chunk is never longer than a u16 can say.
        let length = chunk.len() as u16;
        out.push(u8::from(last));
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend(chunk);
    }
    out.extend(crc(bytes).to_le_bytes());
    // By definition only the last 32 bits of the length.
    out.extend((bytes.len() as u32).to_le_bytes());
    out
}

/// The check sum of a gzip.
fn crc(bytes: &[u8]) -> u32 {
    let mut table = [0u32; 256];
    for (value, entry) in (0u32..).zip(&mut table) {
        *entry = (0..8).fold(value, |crc, _| match crc & 1 {
            0 => crc >> 1,
            _ => (crc >> 1) ^ 0xedb8_8320,
        });
    }
    let step = |crc: u32, byte: &u8| table[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8);
    !bytes.iter().fold(!0, step)
}

#[cfg(test)]
#[path = "openclaw_pack_tests.rs"]
mod tests;
