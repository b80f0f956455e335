//! The messages of WebSocket and log, as MessagePack.
//!
//! Structs are written with their field names, so that a reader may skip fields
//! and sections that it does not know; the tables inside outweigh the names by far.

use serde::{Deserialize, Serialize};

use crate::history::HistoryMessage;
use crate::info::Info;
use crate::snapshot::Snapshot;

/// Version of the messages, major and minor, on the WebSocket and in logs; every Hello has it. The
/// minor part grows when messages, sections or fields are added: a reader passes over what it does
/// not know, and shows nothing of what it misses. The major part changes when an older reader would
/// misread; a reader refuses a newer one.
pub const FORMAT_VERSION: (u16, u16) = (1, 0);

/// What the daemon sends on `/ws`, one message per frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerMessage {
    /// The first message: what the rows of the following snapshots mean. It comes
    /// again, before the first snapshot that it holds for, when that has changed
    /// because a kernel module came or went.
    Hello(#[serde(with = "hello")] Box<Info>),
    /// What was before, to clients that have asked for it (`/ws?history`).
    History(Box<HistoryMessage>),
    /// One interval.
    Snapshot(Box<Snapshot>),
    /// The last message, with the reason why the daemon hangs up.
    Bye(String),
    /// Snapshots that are missing here (only in logs).
    Gap(Gap),
    /// Where time went, function by function (only in logs, where it is asked for).
    Stacks(Box<Stacks>),
}

/// A Hello on the wire: the version, and then what it is the version of.
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

    /// Stands where a version is that this netto can read.
    #[derive(Deserialize)]
    #[serde(try_from = "(u16, u16)")]
    struct Readable;

    impl TryFrom<(u16, u16)> for Readable {
        type Error = String;

        fn try_from((major, minor): (u16, u16)) -> Result<Self, String> {
            let newest = FORMAT_VERSION.0;
            match major > newest {
                true => Err(format!(
                    "these messages have format {major}.{minor}, this netto reads up to \
                     {newest}.x; use a newer netto"
                )),
                false => Ok(Readable),
            }
        }
    }
}

/// Sampled stacks of some time, counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stacks {
    /// When they were read, nanoseconds since the Unix epoch.
    pub time_unix_ns: u64,
    /// Length of the time before that in which they were sampled, nanoseconds. It may reach into
    /// that of the message before, or leave some of the time between out.
    pub window_ns: u64,
    /// Samples in `folded`.
    pub samples: u64,
    /// Samples for whose stack there was no room.
    pub left_out: u64,
    /// On each line the event's slug and the functions from the outermost to the innermost, with a
    /// semicolon between, then a blank and the number of samples: what flame graph tools read.
    pub folded: String,
}

/// Snapshots that could not be written, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// A message could not be written or understood.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// Writing failed; only possible for lack of memory.
    #[error("cannot encode a message: {0}")]
    Encode(#[from] rmp_serde::encode::Error),
    /// The bytes are not a message of this version.
    #[error("cannot decode a message of {length} bytes: {source}")]
    Decode {
        /// Bytes given.
        length: usize,
        /// What the decoder stumbled on.
        source: rmp_serde::decode::Error,
    },
}

/// Writes a value as MessagePack with field names.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, CodecError> {
    Ok(rmp_serde::to_vec_named(value)?)
}

/// Arrays in arrays and maps in maps that a message may have; none needs ten.
/// Each level takes a reader's stack, and a hostile message has nothing but levels.
const DEEPEST: usize = 32;

/// Reads a value written by [`encode`].
///
/// # Errors
/// If the bytes are something else, or nested too deeply.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, CodecError> {
    let mut decoder = rmp_serde::Deserializer::from_read_ref(bytes);
    decoder.set_max_depth(DEEPEST);
    T::deserialize(&mut decoder).map_err(|source| CodecError::Decode {
        length: bytes.len(),
        source,
    })
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum SnapshotMessage<'a> {
    Snapshot(&'a Snapshot),
}

/// Writes [`ServerMessage::Snapshot`] of a snapshot that stays where it is.
///
/// # Errors
/// Only for lack of memory.
pub fn encode_snapshot(snapshot: &Snapshot) -> Result<Vec<u8>, CodecError> {
    encode(&SnapshotMessage::Snapshot(snapshot))
}
