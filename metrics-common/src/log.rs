//! The framing of the log file: what makes it survive being cut or damaged.
//!
//! ```text
//! file    = magic "NETTOLOG", major u16, minor u16, (block | index | digest)…   (little-endian)
//! block   = one or several messages, compressed or not: `block`
//! index   = where the blocks are, at the end and now and then: `index`; not needed to read
//! digest  = what some hundred intervals come to: `digest`; not needed to read
//! message = ServerMessage as MessagePack (`codec`): first Hello, then Snapshot…, at a clean end Bye;
//!           another Hello where what the rows mean has changed, or another run was appended;
//!           a Gap where snapshots are missing, because they could not be written;
//!           Stacks where somebody wants them
//! ```
//!
//! A file that was cut is readable up to the cut. A damaged block is skipped
//! and counted: the reader looks for the next marker whose checksum holds. A
//! log may be appended to another, header and all. A log that has lost its
//! header, or begins with zeros instead, is read from its first block on.
//! docs/LOG.md has what users need to know of it.

mod between;
mod block;
mod builder;
mod checksums;
mod columns;
mod compress;
mod digest;
mod index;
mod pieces;
mod reader;
mod rounding;
mod walk;

use std::io;

use crate::codec::CodecError;

pub use between::Between;
pub use block::{Block, BlockHead, MOST_BLOCK_WORK, Packer, WORK_PER_STORED_BYTE, heads};
pub use builder::LogBuilder;
pub use digest::{Digest, DigestBuilder, Digested, Extremes, IMPLAUSIBLE, IntervalTotals, Item};
pub use index::{IndexBuilder, LogIndex, Part};
pub use reader::{Beginning, Damage, LogReader, ReadCounts, WORK_PER_BYTE};
pub use rounding::Rounding;

/// Version of the file format, major and minor. A reader passes over messages that it does not
/// know and reads files of a newer minor version; it refuses a newer major version, which it would
/// misread. What is in the messages has [`crate::codec::FORMAT_VERSION`].
pub const LOG_VERSION: (u16, u16) = (1, 0);

/// The first bytes of every log file.
pub const MAGIC: &[u8; 8] = b"NETTOLOG";
/// Length of the header, bytes.
pub const HEADER_BYTES: usize = 12;

/// Larger blocks are taken for damage; 4096 CPUs × 60 components × 5 bytes fit ten times.
pub const MAX_PAYLOAD_BYTES: usize = 16 << 20;

/// A log could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file does not begin with [`MAGIC`].
    #[error("this is not a netto log: it does not begin with \"NETTOLOG\"")]
    NotALog,
    /// The file was written by a netto with a newer major format version.
    #[error("this log has format {major}.{minor}, this netto reads up to {}.x; use a newer netto", LOG_VERSION.0)]
    TooNew {
        /// Major version found.
        major: u16,
        /// Minor version found.
        minor: u16,
    },
    /// A message too large for any block.
    #[error("a message of {0} bytes does not fit into a log")]
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
    bytes.extend_from_slice(&LOG_VERSION.0.to_le_bytes());
    bytes.extend_from_slice(&LOG_VERSION.1.to_le_bytes());
    bytes
}
