//! The messages of WebSocket and log, as MessagePack.
//!
//! Structs are written with their field names, so that a reader may skip fields
//! and sections that it does not know; the tables inside outweigh the names by far.

mod decoder;

pub use decoder::DecodeError;

use serde::{Deserialize, Serialize};

use crate::history::HistoryMessage;
use crate::info::Info;
use crate::snapshot::Snapshot;

/// Version of the messages, major and minor, on the WebSocket and in logs; every Hello carries
/// it. The minor part grows when messages, sections or fields are added: a reader skips unknown
/// ones and treats missing ones as absent. The major part grows when an older reader would misread
/// a message; a reader refuses a newer major version.
pub const FORMAT_VERSION: (u16, u16) = (1, 4);

/// A message from the daemon on `/ws`, one per frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerMessage {
    /// The first message: the meaning of the rows of the following snapshots. Repeated before
    /// the first snapshot with another meaning, which changes when a kernel module is loaded or
    /// unloaded.
    Hello(#[serde(with = "hello")] Box<Info>),
    /// The recent past, for clients that request it (`/ws?history`).
    History(Box<HistoryMessage>),
    /// One interval.
    Snapshot(Box<Snapshot>),
    /// The last message, with the reason for closing.
    Bye(String),
    /// Snapshots that are missing here (only in logs).
    Gap(Gap),
    /// CPU time by function (only in logs, if enabled).
    Stacks(Box<Stacks>),
}

/// A Hello on the wire: the version before its content.
mod hello {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{FORMAT_VERSION, Info};

    pub(super) fn serialize<S: Serializer>(
        info: &impl Serialize,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        (FORMAT_VERSION, info).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Box<Info>, D::Error> {
        let (Readable, info) = Deserialize::deserialize(deserializer)?;
        Ok(info)
    }

    /// Accepts only versions that this netto can read.
    #[derive(Deserialize)]
    #[serde(try_from = "(u16, u16)")]
    struct Readable;

    impl TryFrom<(u16, u16)> for Readable {
        type Error = String;

        fn try_from((major, minor): (u16, u16)) -> Result<Self, String> {
            let newest = FORMAT_VERSION.0;
            if major > newest {
                Err(format!(
                    "these messages have format {major}.{minor}, this netto reads up to \
                     {newest}.x; use a newer netto"
                ))
            } else {
                Ok(Readable)
            }
        }
    }
}

/// Sampled stacks of a time window, counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stacks {
    /// When they were read, nanoseconds since the Unix epoch.
    pub time_unix_ns: u64,
    /// Length of the window in which they were sampled, nanoseconds. Windows of consecutive
    /// messages may overlap or leave gaps.
    pub window_ns: u64,
    /// Samples in `folded`.
    pub samples: u64,
    /// Samples without room for their stack.
    pub left_out: u64,
    /// One line per stack: the event's slug and the functions, outermost first, separated by
    /// semicolons, then a blank and the number of samples (the format of flame graph tools).
    pub folded: String,
}

/// Snapshots that could not be written or are not kept, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// How many are missing.
    pub snapshots: u64,
    /// [`Snapshot::sequence`] of the first.
    pub first_sequence: u64,
    /// [`Snapshot::sequence`] of the last.
    pub last_sequence: u64,
    /// [`Snapshot::time_unix_ns`] of the first.
    pub first_time_unix_ns: u64,
    /// [`Snapshot::time_unix_ns`] of the last.
    pub last_time_unix_ns: u64,
    /// The cause, for people.
    pub reason: String,
}

/// Encoding or decoding failed.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// Encoding failed; only possible when memory runs out.
    #[error("cannot encode a message: {0}")]
    Encode(#[from] rmp_serde::encode::Error),
    /// The bytes are not a message of this version.
    #[error("cannot decode a message of {length} bytes: {source}")]
    Decode {
        /// Length of the input.
        length: usize,
        /// The decoder's error.
        source: DecodeError,
    },
}

/// Writes a value as MessagePack with field names.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, CodecError> {
    Ok(rmp_serde::to_vec_named(value)?)
}

/// Reads a value written by [`encode`].
///
/// # Errors
/// If the bytes are something else, or nested too deeply.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, CodecError> {
    decoder::decode(bytes).map_err(|source| CodecError::Decode {
        length: bytes.len(),
        source,
    })
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum SnapshotMessage<'a> {
    Snapshot(&'a Snapshot),
}

/// Encodes [`ServerMessage::Snapshot`] without copying the snapshot.
///
/// # Errors
/// Only when memory runs out.
pub fn encode_snapshot(snapshot: &Snapshot) -> Result<Vec<u8>, CodecError> {
    encode(&SnapshotMessage::Snapshot(snapshot))
}

#[cfg(test)]
mod tests;
