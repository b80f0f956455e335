//! The messages of the WebSocket, as MessagePack.
//!
//! Structs are written with their field names, so that a reader may skip fields
//! that it does not know; the arrays inside outweigh the names by far.

use serde::{Deserialize, Serialize};

use crate::snapshot::{Info, Snapshot};

/// Version of the wire and log formats. The major part changes when an older
/// reader would misread; the minor part when something was added.
pub const FORMAT_VERSION: (u16, u16) = (1, 0);

/// What the daemon sends on `/ws`, one message per frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerMessage {
    /// The first message: what the rows of the following snapshots mean.
    Hello(Box<Info>),
    /// One interval.
    Snapshot(Box<Snapshot>),
    /// The last message, with the reason why the daemon hangs up.
    Bye(String),
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

/// Reads a value written by [`encode`].
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, CodecError> {
    rmp_serde::from_slice(bytes).map_err(|source| CodecError::Decode {
        length: bytes.len(),
        source,
    })
}
