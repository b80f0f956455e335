//! Reads several ranges of a file as one stream. Does not know their contents.

use std::io::{self, Read, Seek, SeekFrom};

use super::MAX_PAYLOAD_BYTES;

/// Ranges of a file, read one after the other.
#[derive(Debug)]
pub struct Pieces<S> {
    source: S,
    ranges: std::vec::IntoIter<(u64, u64)>,
    /// Bytes left of the current range.
    left: u64,
}

impl<S> Pieces<S> {
    /// Reads these ranges of bytes, in this order.
    pub(super) fn new(source: S, ranges: Vec<(u64, u64)>) -> Self {
        Pieces {
            source,
            ranges: ranges.into_iter(),
            left: 0,
        }
    }

    /// The file itself.
    pub(super) fn into_source(self) -> S {
        self.source
    }
}

impl<S: Read + Seek> Read for Pieces<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.left > 0 {
                let most = buffer
                    .len()
                    .min(self.left.min(MAX_PAYLOAD_BYTES as u64) as usize);
                let count = self.source.read(&mut buffer[..most])?;
                // The file has become shorter meanwhile.
                self.left = if count == 0 && most > 0 {
                    0
                } else {
                    self.left - count as u64
                };
                if count > 0 || most == 0 {
                    return Ok(count);
                }
            }
            let Some((from, to)) = self.ranges.next() else {
                return Ok(0);
            };
            self.source.seek(SeekFrom::Start(from))?;
            self.left = to - from;
        }
    }
}
