//! Reading a log: every frame whose checksum holds, whatever is between them.
//!
//! A reader is given files that crashed hosts, full disks and strangers have
//! left. So its work is bounded whatever a file holds: at most
//! [`WORK_PER_BYTE`] times its length, and never more memory than the largest
//! frame takes and as much again.

use std::io::{self, Read};

use super::sums::{STEP, Sums};
use super::{HEAD_BYTES, HEADER_BYTES, LogError, MAGIC, MARKER, MAX_PAYLOAD_BYTES};
use crate::codec::{self, FORMAT_VERSION, ServerMessage};

/// How often a byte of a file is looked at, at most and on average: once to be
/// searched, once to be moved, once to be hashed, and 16 times because every
/// eight bytes may claim to begin a frame, which costs up to 126 bytes and the
/// four of the length.
pub const WORK_PER_BYTE: u64 = 20;

const CHUNK_BYTES: usize = 16 << 10;

/// How a file that is a log begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// With a header, as it was made.
    Header,
    /// With a frame, or with so many zeros and then a frame or a header: it was
    /// emptied while somebody wrote, or the host lost power.
    Damaged {
        /// Bytes of zeros before the first frame.
        zero_bytes: u64,
    },
}

/// Reads the messages of a log, as an iterator; damage is skipped and counted.
#[derive(Debug)]
pub struct LogReader<R> {
    source: R,
    /// Bytes read; those before `at` are consumed.
    bytes: Vec<u8>,
    at: usize,
    sums: Sums,
    /// No marker begins before this index, but at or before `at`.
    searched: usize,
    beginning: Beginning,
    at_end: bool,
    skipping: bool,
    damaged_frames: u64,
    unknown_messages: u64,
    cut: bool,
    failed: bool,
    work_bytes: u64,
}

impl<R: Read> LogReader<R> {
    /// Reads up to the first frame.
    ///
    /// # Errors
    /// [`LogError::NotALog`] and [`LogError::TooNew`] for foreign files, [`LogError::Io`] otherwise.
    pub fn new(source: R) -> Result<Self, LogError> {
        let mut reader = LogReader {
            source,
            bytes: Vec::new(),
            at: 0,
            sums: Sums::new(),
            searched: 0,
            beginning: Beginning::Header,
            at_end: false,
            skipping: false,
            damaged_frames: 0,
            unknown_messages: 0,
            cut: false,
            failed: false,
            work_bytes: 0,
        };
        if !reader.header()? {
            let zero_bytes = reader.skip_zeros()?;
            reader.beginning = Beginning::Damaged { zero_bytes };
            if !reader.header()? && !matches!(reader.frame_here()?, Place::Frame(_)) {
                return Err(LogError::NotALog);
            }
            reader.damaged_frames += 1;
        }
        Ok(reader)
    }

    /// How the file begins.
    pub fn beginning(&self) -> Beginning {
        self.beginning
    }

    /// Stretches of damage skipped so far; each cost at least one frame.
    pub fn damaged_frames(&self) -> u64 {
        self.damaged_frames
    }

    /// Whole frames passed over because they hold nothing that this netto knows:
    /// a newer one wrote them.
    pub fn unknown_messages(&self) -> u64 {
        self.unknown_messages
    }

    /// Whether the file ended in the middle of a frame.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Bytes searched, moved and hashed so far: at most [`WORK_PER_BYTE`] times those read.
    pub fn work_bytes(&self) -> u64 {
        self.work_bytes + self.sums.hashed_bytes
    }

    /// Has at least so many bytes ready; `false` at the end of the file.
    fn fill(&mut self, wanted: usize) -> Result<bool, LogError> {
        while self.bytes.len() - self.at < wanted && !self.at_end {
            self.compact();
            let mut chunk = [0_u8; CHUNK_BYTES];
            match self.source.read(&mut chunk) {
                Ok(0) => self.at_end = true,
                Ok(count) => self.bytes.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.bytes.len() - self.at >= wanted)
    }

    /// Forgets what is consumed, once that is more than what would have to be moved.
    fn compact(&mut self) {
        let steps = self.at / STEP;
        let gone = steps * STEP;
        if gone < CHUNK_BYTES || gone < self.bytes.len() - gone {
            return;
        }
        self.work_bytes += (self.bytes.len() - gone) as u64;
        self.bytes.drain(..gone);
        self.sums.forget(steps);
        self.at -= gone;
        self.searched = self.searched.saturating_sub(gone);
    }

    /// Passes over a header; `false` if there is none here.
    fn header(&mut self) -> Result<bool, LogError> {
        if !self.fill(HEADER_BYTES)? || !self.bytes[self.at..].starts_with(MAGIC) {
            return Ok(false);
        }
        let version = &self.bytes[self.at + MAGIC.len()..];
        let major = u16::from_le_bytes([version[0], version[1]]);
        let minor = u16::from_le_bytes([version[2], version[3]]);
        if major > FORMAT_VERSION.0 {
            return Err(LogError::TooNew { major, minor });
        }
        self.at += HEADER_BYTES;
        Ok(true)
    }

    fn skip_zeros(&mut self) -> Result<u64, LogError> {
        let mut skipped = 0;
        while self.fill(1)? {
            let rest = &self.bytes[self.at..];
            let zeros = rest.iter().take_while(|byte| **byte == 0).count();
            let all = zeros == rest.len();
            self.at += zeros;
            skipped += zeros as u64;
            self.work_bytes += zeros as u64;
            if !all {
                break;
            }
        }
        Ok(skipped)
    }

    /// Whether a marker begins anywhere after the next byte; leaves `searched` at it, or at the end.
    fn marker_follows(&mut self) -> bool {
        let from = self.searched.max(self.at + 1);
        let rest = self.bytes.get(from..).unwrap_or_default();
        let found = rest
            .windows(MARKER.len())
            .position(|window| window == MARKER);
        // The last bytes may be the beginning of one.
        let passed = found.unwrap_or(rest.len().saturating_sub(MARKER.len() - 1));
        self.work_bytes += passed as u64;
        self.searched = from + passed;
        found.is_some()
    }

    /// Drops bytes up to the next place that may begin a frame.
    fn resynchronise(&mut self) {
        if !self.skipping {
            self.skipping = true;
            self.damaged_frames += 1;
        }
        self.marker_follows();
        self.at = self.searched.min(self.bytes.len());
    }

    /// What stands here, where a frame should begin.
    fn frame_here(&mut self) -> Result<Place, LogError> {
        if !self.fill(HEAD_BYTES)? {
            return Ok(Place::End);
        }
        let head = &self.bytes[self.at..self.at + HEAD_BYTES];
        let length_bytes = [head[4], head[5], head[6], head[7]];
        let expected = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        let length = u32::from_le_bytes(length_bytes) as usize;
        if !head.starts_with(MARKER) || length > MAX_PAYLOAD_BYTES {
            return Ok(Place::Damage);
        }
        if !self.fill(HEAD_BYTES + length)? {
            return Ok(Place::Beyond);
        }
        let from = self.at + HEAD_BYTES;
        let sum = self
            .sums
            .of(&length_bytes, &self.bytes, from, from + length);
        Ok(if sum == expected {
            Place::Frame(length)
        } else {
            Place::Damage
        })
    }

    fn next_message(&mut self) -> Result<Option<ServerMessage>, LogError> {
        loop {
            // Another log was appended to this one.
            if self.header()? {
                self.skipping = false;
                continue;
            }
            let length = match self.frame_here()? {
                Place::Frame(length) => length,
                Place::End => {
                    // What is left of a damaged stretch was counted as damage already.
                    self.cut |= self.at < self.bytes.len() && !self.skipping;
                    return Ok(None);
                }
                // Either the file was cut here, or the length is damaged and whole frames follow.
                Place::Beyond if !self.marker_follows() => {
                    self.cut = true;
                    return Ok(None);
                }
                Place::Beyond | Place::Damage => {
                    self.resynchronise();
                    continue;
                }
            };
            let from = self.at + HEAD_BYTES;
            let message = codec::decode(&self.bytes[from..from + length]);
            self.at = from + length;
            self.skipping = false;
            match message {
                Ok(message) => return Ok(Some(message)),
                // The checksum holds, so this is a kind of message from a newer minor version.
                Err(_) => self.unknown_messages += 1,
            }
        }
    }
}

enum Place {
    /// A whole frame with a payload of so many bytes.
    Frame(usize),
    /// No frame.
    Damage,
    /// What may be a frame, but for its end, which the file does not have.
    Beyond,
    /// Too little for a frame.
    End,
}

impl<R: Read> Iterator for LogReader<R> {
    type Item = Result<ServerMessage, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let message = self.next_message().transpose();
        // An error would come again and again.
        self.failed = matches!(message, Some(Err(_)));
        message
    }
}
