//! Packets in a file: pcap with nanoseconds, which every reader of packets understands.

use std::io::{self, Write};

/// Marks times in nanoseconds and this byte order.
const MAGIC: u32 = 0xa1b2_3c4d;
const MOST_BYTES: u32 = 262_144;
const ETHERNET: u32 = 1;

/// A file that is being written.
pub struct Pcap<W> {
    file: W,
}

impl<W: Write> Pcap<W> {
    /// Begins the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin(mut file: W) -> io::Result<Self> {
        file.write_all(&MAGIC.to_le_bytes())?;
        // Version 2.4, times in UTC.
        file.write_all(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0])?;
        file.write_all(&MOST_BYTES.to_le_bytes())?;
        file.write_all(&ETHERNET.to_le_bytes())?;
        Ok(Pcap { file })
    }

    /// Adds a frame.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, at_ns: u64, frame: &[u8]) -> io::Result<()> {
        // The format has 32 bits for seconds: until 2106. A frame has 18 bits.
        let seconds = (at_ns / 1_000_000_000) as u32;
        let nanoseconds = (at_ns % 1_000_000_000) as u32;
        let length = (frame.len() as u32).to_le_bytes();
        let mut header = [0; 16];
        header[..4].copy_from_slice(&seconds.to_le_bytes());
        header[4..8].copy_from_slice(&nanoseconds.to_le_bytes());
        header[8..12].copy_from_slice(&length);
        header[12..].copy_from_slice(&length);
        self.file.write_all(&header)?;
        self.file.write_all(frame)
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.flush()
    }
}
