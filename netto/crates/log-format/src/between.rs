//! The messages of a time span, from a log whose index is known. Does not know offsets in the file.

use std::io::{Read, Seek};

use super::LogError;
use super::pieces::Pieces;
use super::reader::LogReader;
use metrics_common::codec::ServerMessage;

/// The messages of a time span, see
/// [`LogIndex::messages_between`](super::LogIndex::messages_between).
#[derive(Debug)]
pub struct Between<'a, S> {
    reader: LogReader<Pieces<&'a mut S>>,
    from_unix_ns: u64,
    to_unix_ns: u64,
    is_inside: bool,
}

impl<'a, S: Read + Seek> Between<'a, S> {
    /// `reader` yields at least the messages of that span, both ends included.
    pub(super) fn new(
        reader: LogReader<Pieces<&'a mut S>>,
        from_unix_ns: u64,
        to_unix_ns: u64,
    ) -> Self {
        Between {
            reader,
            from_unix_ns,
            to_unix_ns,
            is_inside: false,
        }
    }

    /// The underlying reader, which counts damage.
    pub fn reader(&self) -> &LogReader<Pieces<&'a mut S>> {
        &self.reader
    }

    fn is_wanted(&mut self, message: &ServerMessage) -> bool {
        let times = self.from_unix_ns..=self.to_unix_ns;
        match message {
            ServerMessage::Hello(_) => true,
            ServerMessage::Snapshot(snapshot) => {
                self.is_inside = times.contains(&snapshot.time_unix_ns);
                self.is_inside
            }
            ServerMessage::Gap(gap) => {
                gap.first_time_unix_ns <= self.to_unix_ns
                    && gap.last_time_unix_ns >= self.from_unix_ns
            }
            ServerMessage::Stacks(stacks) => times.contains(&stacks.time_unix_ns),
            ServerMessage::Bye(_) => self.is_inside,
            ServerMessage::History(_) => false,
        }
    }
}

impl<S: Read + Seek> Iterator for Between<'_, S> {
    type Item = Result<ServerMessage, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.reader.next()? {
                Ok(message) if !self.is_wanted(&message) => {}
                other => return Some(other),
            }
        }
    }
}
