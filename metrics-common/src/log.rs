//! The framing of the log file: what makes it survive being cut or damaged.
//!
//! ```text
//! file    = magic "NETTOLOG", major u16, minor u16, frame…        (little-endian)
//! frame   = marker "NTFR", length u32, crc32(length ‖ payload) u32, payload
//! payload = ServerMessage as MessagePack (`codec`): first Hello, then Snapshot…, at a clean end Bye;
//!           another Hello where what the rows mean has changed, or another run was appended
//! ```
//!
//! A file that was cut is readable up to the cut. A damaged frame is skipped
//! and counted: the reader looks for the next marker whose checksum holds.

use std::io::{self, Read};

use crate::codec::{self, CodecError, FORMAT_VERSION, ServerMessage};

/// The first bytes of every log file.
pub const MAGIC: &[u8; 8] = b"NETTOLOG";
const MARKER: &[u8; 4] = b"NTFR";
const HEAD_BYTES: usize = 12;

/// Larger frames are taken for damage; 4096 CPUs × 60 components × 5 bytes fit ten times.
pub const MAX_PAYLOAD_BYTES: usize = 16 << 20;

/// A log could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file does not begin with [`MAGIC`].
    #[error("this is not a netto log: it does not begin with \"NETTOLOG\"")]
    NotALog,
    /// The file was written by a netto with a newer major format version.
    #[error("this log has format {major}.{minor}, this netto reads up to {}.x; use a newer netto", FORMAT_VERSION.0)]
    TooNew {
        /// Major version found.
        major: u16,
        /// Minor version found.
        minor: u16,
    },
    /// A message too large for one frame.
    #[error("a message of {0} bytes does not fit into a log frame")]
    TooLarge(usize),
    /// Encoding failed.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The file could not be read.
    #[error("cannot read the log: {0}")]
    Io(#[from] io::Error),
}

/// The bytes with which a log file begins.
pub fn file_header() -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&FORMAT_VERSION.0.to_le_bytes());
    bytes.extend_from_slice(&FORMAT_VERSION.1.to_le_bytes());
    bytes
}

fn checksum(length: [u8; 4], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length);
    hasher.update(payload);
    hasher.finalize()
}

/// One message as a frame.
pub fn frame(message: &ServerMessage) -> Result<Vec<u8>, LogError> {
    let payload = codec::encode(message)?;
    if payload.len() > MAX_PAYLOAD_BYTES {
        return Err(LogError::TooLarge(payload.len()));
    }
    let length = (payload.len() as u32).to_le_bytes();
    let mut bytes = Vec::with_capacity(HEAD_BYTES + payload.len());
    bytes.extend_from_slice(MARKER);
    bytes.extend_from_slice(&length);
    bytes.extend_from_slice(&checksum(length, &payload).to_le_bytes());
    bytes.extend_from_slice(&payload);
    Ok(bytes)
}

/// Reads the messages of a log, as an iterator; damage is skipped and counted.
#[derive(Debug)]
pub struct LogReader<R> {
    source: R,
    /// Bytes read and not yet consumed.
    pending: Vec<u8>,
    at_end: bool,
    skipping: bool,
    damaged_frames: u64,
    cut: bool,
}

impl<R: Read> LogReader<R> {
    /// Reads the file's header.
    ///
    /// # Errors
    /// [`LogError::NotALog`] and [`LogError::TooNew`] for foreign files, [`LogError::Io`] otherwise.
    pub fn new(source: R) -> Result<Self, LogError> {
        let mut reader = LogReader {
            source,
            pending: Vec::new(),
            at_end: false,
            skipping: false,
            damaged_frames: 0,
            cut: false,
        };
        if !reader.fill(12)? || &reader.pending[..8] != MAGIC {
            return Err(LogError::NotALog);
        }
        let major = u16::from_le_bytes([reader.pending[8], reader.pending[9]]);
        let minor = u16::from_le_bytes([reader.pending[10], reader.pending[11]]);
        if major > FORMAT_VERSION.0 {
            return Err(LogError::TooNew { major, minor });
        }
        reader.pending.drain(..12);
        Ok(reader)
    }

    /// Stretches of damage skipped so far; each cost at least one frame.
    pub fn damaged_frames(&self) -> u64 {
        self.damaged_frames
    }

    /// Whether the file ended in the middle of a frame.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Makes at least `wanted` bytes pending; `false` at the end of the file.
    fn fill(&mut self, wanted: usize) -> Result<bool, LogError> {
        while self.pending.len() < wanted && !self.at_end {
            let mut chunk = [0_u8; 16 << 10];
            match self.source.read(&mut chunk) {
                Ok(0) => self.at_end = true,
                Ok(count) => self.pending.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.pending.len() >= wanted)
    }

    /// Drops bytes up to the next place that may begin a frame.
    fn resynchronise(&mut self) {
        if !self.skipping {
            self.skipping = true;
            self.damaged_frames += 1;
        }
        let next = self.pending[1..]
            .windows(MARKER.len())
            .position(|window| window == MARKER);
        // Without a marker in sight the last bytes stay: they may be the beginning of one.
        let drop = next.map_or(
            self.pending.len().saturating_sub(MARKER.len() - 1).max(1),
            |at| at + 1,
        );
        self.pending.drain(..drop);
    }

    fn next_message(&mut self) -> Result<Option<ServerMessage>, LogError> {
        loop {
            if !self.fill(HEAD_BYTES)? {
                // What is left of a damaged stretch was counted as damage already.
                self.cut |= !self.pending.is_empty() && !self.skipping;
                return Ok(None);
            }
            let length_bytes = [
                self.pending[4],
                self.pending[5],
                self.pending[6],
                self.pending[7],
            ];
            let length = u32::from_le_bytes(length_bytes) as usize;
            if &self.pending[..4] != MARKER || length > MAX_PAYLOAD_BYTES {
                self.resynchronise();
                continue;
            }
            if !self.fill(HEAD_BYTES + length)? {
                // Either the file was cut here, or the length is damaged and whole frames follow.
                if self.pending[4..]
                    .windows(MARKER.len())
                    .any(|window| window == MARKER)
                {
                    self.resynchronise();
                    continue;
                }
                self.cut = true;
                return Ok(None);
            }
            let expected = u32::from_le_bytes([
                self.pending[8],
                self.pending[9],
                self.pending[10],
                self.pending[11],
            ]);
            let payload = &self.pending[HEAD_BYTES..HEAD_BYTES + length];
            if checksum(length_bytes, payload) != expected {
                self.resynchronise();
                continue;
            }
            let message = codec::decode(payload);
            self.pending.drain(..HEAD_BYTES + length);
            self.skipping = false;
            match message {
                Ok(message) => return Ok(Some(message)),
                // The checksum holds, so this is a kind of message from a newer minor version.
                Err(_) => self.damaged_frames += 1,
            }
        }
    }
}

impl<R: Read> Iterator for LogReader<R> {
    type Item = Result<ServerMessage, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_message().transpose()
    }
}
