//! Blocks for tests of several crates.

use metrics_common::codec::{self, ServerMessage};

use crate::{Block, LogError};

/// A message as an uncompressed block of its own.
///
/// # Errors
/// If it is too large for any log.
pub fn block(message: &ServerMessage) -> Result<Vec<u8>, LogError> {
    let mut block = Block::default();
    let encoded = codec::encode(message)?;
    match message {
        ServerMessage::Hello(_) => block.push_hello(encoded)?,
        ServerMessage::Snapshot(of) => block.push_snapshot(encoded, of.time_unix_ns)?,
        _ => block.push(encoded)?,
    }
    Ok(block.close_plain())
}
