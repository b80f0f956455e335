//! Some pieces of a file, one after the other, as if they were all of it. Does not ask what they hold.

use std::io::{self, Read, Seek, SeekFrom};

use super::MAX_PAYLOAD_BYTES;

/// Stretches of a file, one behind the other.
#[derive(Debug)]
pub struct Pieces<S> {
    source: S,
    ranges: std::vec::IntoIter<(u64, u64)>,
    /// Of the range that is being read.
    left: u64,
}

impl<S> Pieces<S> {
    /// These ranges of bytes, in this order.
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
                // A file that has become shorter meanwhile.
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
