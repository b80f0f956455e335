//! The framing of the log file, which keeps a cut or damaged file readable.
//!
//! ```text
//! file    = magic "NETTOLOG", major u16, minor u16, (block | index | digest)…   (little-endian)
//! block   = one or several messages, compressed or not: `block`
//! index   = offsets of the blocks, at the end and at times in between: `index`; not needed to read
//! digest  = sums of some hundred intervals: `digest`; not needed to read
//! message = ServerMessage as MessagePack (`codec`): first Hello, then Snapshot…, at a clean end Bye;
//!           another Hello when the meaning of rows has changed, or another run was appended;
//!           a Gap where snapshots could not be written;
//!           Stacks if enabled
//! ```
//!
//! A file that was cut is readable up to the cut. A damaged block is skipped
//! and counted: the reader looks for the next marker whose checksum holds. A
//! log may be appended to another, including its header. A log without a header, or with zeros
//! in its place, is read from its first block on.
//! docs/LOG.md is the description for users.

mod ahead;
mod between;
mod block;
mod builder;
mod checksums;
mod columns;
mod compress;
mod digest;
#[doc(hidden)]
pub mod fixture;
mod index;
mod pieces;
mod reader;
mod rounding;
mod sums;
mod walk;

use std::io;

use metrics_common::codec::CodecError;

pub use between::Between;
pub use block::{Block, BlockHead, MOST_BLOCK_WORK, Packer, WORK_PER_STORED_BYTE, heads};
pub use builder::LogBuilder;
pub use columns::Wanted;
pub use digest::{Digest, DigestBuilder, Digested, Extremes, IMPLAUSIBLE, IntervalTotals, Item};
pub use index::{IndexBuilder, LogIndex, Part};
pub use reader::{Beginning, Damage, LogReader, ReadCounts, WORK_PER_BYTE};
pub use rounding::Rounding;
pub use sums::{Sums, step_number};

/// Version of the file format, major and minor. A reader skips unknown messages and reads files
/// of a newer minor version; it refuses a newer major version, which it would misread. The version
/// of the messages is [`metrics_common::codec::FORMAT_VERSION`].
pub const LOG_VERSION: (u16, u16) = (1, 0);

/// The first bytes of every log file.
pub const MAGIC: &[u8; 8] = b"NETTOLOG";
/// Length of the header, bytes.
pub const HEADER_BYTES: usize = 12;

/// Larger blocks are damage; 4096 CPUs × 60 components × 5 bytes fit ten times.
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

/// The first bytes of a log file.
pub fn file_header() -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&LOG_VERSION.0.to_le_bytes());
    bytes.extend_from_slice(&LOG_VERSION.1.to_le_bytes());
    bytes
}
