//! A whole log in memory: header, blocks, digests, index.
//!
//! It defines their order. A log that grows on a disk is written by `log_writer`.

use super::block::{Block, Packer};
use super::digest::DigestBuilder;
use super::index::IndexBuilder;
use super::{LogError, file_header};
use metrics_common::codec::{self, ServerMessage};

/// Snapshots of a block: about as many as in a log written at the default intervals.
const SNAPSHOTS_OF_A_BLOCK: usize = 8;

/// Makes a log of messages.
pub struct LogBuilder {
    bytes: Vec<u8>,
    block: Block,
    packer: Packer,
    index: IndexBuilder,
    digests: DigestBuilder,
}

impl Default for LogBuilder {
    fn default() -> Self {
        LogBuilder {
            bytes: file_header(),
            block: Block::default(),
            packer: Packer::default(),
            index: IndexBuilder::new(0),
            digests: DigestBuilder::default(),
        }
    }
}

impl LogBuilder {
    /// Adds a message.
    ///
    /// # Errors
    /// If it is too large for any log.
    pub fn push(&mut self, message: &ServerMessage) -> Result<(), LogError> {
        let encoded = codec::encode(message)?;
        match message {
            ServerMessage::Snapshot(snapshot) => self.push_snapshot(encoded, snapshot.time_unix_ns),
            ServerMessage::Hello(_) => self.push_hello(encoded),
            _ => {
                self.make_room(encoded.len());
                self.block.push(encoded)
            }
        }
    }

    /// Adds a snapshot, encoded, with its time (nanoseconds since the Unix epoch).
    ///
    /// # Errors
    /// If it is too large for any log.
    pub fn push_snapshot(&mut self, message: Vec<u8>, time_unix_ns: u64) -> Result<(), LogError> {
        self.make_room(message.len());
        self.block.push_snapshot(message, time_unix_ns)
    }

    /// Adds a Hello, encoded.
    ///
    /// # Errors
    /// If it is too large for any log.
    pub fn push_hello(&mut self, message: Vec<u8>) -> Result<(), LogError> {
        // In a block of its own, as in a written log.
        self.close_block();
        self.block.push_hello(message)?;
        self.close_block();
        Ok(())
    }

    fn make_room(&mut self, more: usize) {
        if self.block.snapshots() >= SNAPSHOTS_OF_A_BLOCK
            || self.block.is_full()
            || self.block.is_full_with(more)
        {
            self.close_block();
        }
    }

    fn close_block(&mut self) {
        let block = self.block.close(&mut self.packer);
        if block.is_empty() {
            return;
        }
        self.write_digests();
        let offset = self.bytes.len() as u64;
        self.index.wrote(offset, &block);
        self.digests.wrote(offset, &block);
        self.bytes.extend(block);
        if self.index.is_full() {
            self.close_index();
        }
    }

    fn write_digests(&mut self) {
        let offset = self.bytes.len() as u64;
        let digests = self.digests.due(offset);
        self.index.wrote(offset, &digests);
        self.bytes.extend(digests);
        self.digests.written();
    }

    fn close_index(&mut self) {
        self.bytes.extend(self.index.index(self.bytes.len() as u64));
        self.index = IndexBuilder::new(self.bytes.len() as u64);
    }

    /// The log.
    pub fn finish(mut self) -> Vec<u8> {
        self.close_block();
        self.digests.end();
        self.write_digests();
        self.close_index();
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::{LogIndex, LogReader};
    use metrics_common::Snapshot;
    use metrics_common::fixture;

    #[test]
    fn what_went_in_comes_out_and_the_index_tells_of_all_of_it() {
        let hello = ServerMessage::Hello(Box::new(fixture::info()));
        let snapshots = (1..=20).map(|sequence| {
            ServerMessage::Snapshot(Box::new(Snapshot {
                sequence,
                time_unix_ns: sequence * 500_000_000,
                ..Snapshot::default()
            }))
        });
        let messages: Vec<_> = std::iter::once(hello).chain(snapshots).collect();
        let mut builder = LogBuilder::default();
        for message in &messages {
            builder.push(message).unwrap();
        }
        let bytes = builder.finish();
        let read: Result<Vec<_>, _> = LogReader::new(&bytes[..]).unwrap().collect();
        assert_eq!(read.unwrap(), messages);
        let index = LogIndex::of(&mut Cursor::new(&bytes)).unwrap();
        assert!(index.is_complete());
        // The Hello, and three blocks of snapshots.
        assert_eq!(index.parts().len(), 4);
        assert_eq!(index.span_unix_ns(), Some((500_000_000, 10_000_000_000)));
    }
}
