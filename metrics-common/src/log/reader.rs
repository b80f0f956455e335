//! Reading a log: every block whose checksums hold, whatever is between them.
//!
//! A reader is given files that crashed hosts, full disks and strangers have
//! left. So its work is bounded whatever a file holds: at most
//! [`WORK_PER_BYTE`] times its length, and what the blocks' heads allow to be
//! unpacked; and never more memory than the largest block takes and as much
//! again.

use std::collections::VecDeque;
use std::io::{self, Read};

use serde::Serialize;

use super::block::{BlockHead, HEAD_BYTES, MARKER, Unpacker};
use super::checksums::{PrefixChecksums, STEP};
use super::{HEADER_BYTES, LOG_VERSION, LogError, MAGIC};
use crate::codec::{self, ServerMessage};

/// How often a byte of a file is looked at, at most and on average: once to be
/// searched, once to be moved, once to be hashed, and the rest because every
/// four bytes may claim to begin a head of 40 bytes, and every twelve to begin
/// one whose checksum holds, which costs up to 126 bytes more for its payload's.
pub const WORK_PER_BYTE: u64 = 20;

const CHUNK_BYTES: usize = 16 << 10;

/// How a file that is a log begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// With a header, as it was made.
    Header,
    /// With a block, or with so many zeros and then a block or a header: it was
    /// emptied while somebody wrote, or the host lost power.
    Damaged {
        /// Bytes of zeros before the first block.
        zero_bytes: u64,
    },
}

/// A stretch of a file that holds no message that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Where it begins, bytes from where reading began.
    pub offset: u64,
    /// Its length, bytes.
    pub bytes: u64,
}

/// Places of damage that are kept; more are only counted.
const MOST_PLACES: usize = 100;

/// What was read so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ReadCounts {
    /// Blocks of messages.
    pub blocks: u64,
    /// Those of them that are compressed.
    pub compressed_blocks: u64,
    /// Indices, which readers in order pass over.
    pub indices: u64,
    /// Digests, likewise.
    pub digests: u64,
    /// Bytes of blocks, heads included.
    pub stored_bytes: u64,
    /// Bytes of the messages in them, not compressed.
    pub message_bytes: u64,
    /// Bytes in which nothing could be read.
    #[serde(skip)]
    pub lost_bytes: u64,
}

/// Reads the messages of a log, as an iterator; damage is skipped and counted.
#[derive(Debug)]
pub struct LogReader<R> {
    source: R,
    /// Bytes read; those before `at` are consumed.
    bytes: Vec<u8>,
    at: usize,
    /// Bytes that were before `bytes`.
    gone_bytes: u64,
    checksums: PrefixChecksums,
    unpacker: Unpacker,
    /// The messages of the block that was read last.
    unpacked: VecDeque<Vec<u8>>,
    counts: ReadCounts,
    places: Vec<Damage>,
    /// No marker begins before this index, but at or before `at`.
    searched: usize,
    beginning: Beginning,
    version: Option<(u16, u16)>,
    /// Where the frame or block begins that was read last.
    offset: u64,
    at_end: bool,
    skipping: bool,
    damaged_stretches: u64,
    unknown_messages: u64,
    cut: bool,
    failed: bool,
    work_bytes: u64,
}

impl<R: Read> LogReader<R> {
    /// Reads up to the first block.
    ///
    /// # Errors
    /// [`LogError::NotALog`] and [`LogError::TooNew`] for foreign files, [`LogError::Io`] otherwise.
    pub fn new(source: R) -> Result<Self, LogError> {
        let mut reader = Self::of_pieces(source);
        if !reader.header()? {
            let zero_bytes = reader.skip_zeros()?;
            reader.beginning = Beginning::Damaged { zero_bytes };
            if !reader.header()? && !matches!(reader.next_here()?, Next::Block(_)) {
                return Err(LogError::NotALog);
            }
            reader.damaged_stretches += 1;
            reader.lose(0, zero_bytes);
        }
        Ok(reader)
    }

    /// Reads pieces of a file, from its middle perhaps: whatever stands there first.
    pub fn of_pieces(source: R) -> Self {
        LogReader {
            source,
            bytes: Vec::new(),
            at: 0,
            gone_bytes: 0,
            checksums: PrefixChecksums::new(),
            unpacker: Unpacker::default(),
            unpacked: VecDeque::new(),
            counts: ReadCounts::default(),
            places: Vec::new(),
            searched: 0,
            beginning: Beginning::Header,
            version: None,
            offset: 0,
            at_end: false,
            skipping: false,
            damaged_stretches: 0,
            unknown_messages: 0,
            cut: false,
            failed: false,
            work_bytes: 0,
        }
    }

    /// What was read from; a part of it may have been read ahead.
    pub(super) fn into_source(self) -> R {
        self.source
    }

    /// How the file begins.
    pub fn beginning(&self) -> Beginning {
        self.beginning
    }

    /// Version in the first header that was read.
    pub fn version(&self) -> Option<(u16, u16)> {
        self.version
    }

    /// Where the block of the last message begins, bytes from where reading began.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Stretches of damage skipped so far; each cost at least one block.
    pub fn damaged_stretches(&self) -> u64 {
        self.damaged_stretches
    }

    /// Messages passed over because this netto does not know them: a newer one wrote them.
    pub fn unknown_messages(&self) -> u64 {
        self.unknown_messages
    }

    /// Whether the file ended in the middle of a block.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Where damage was found, the first hundred places.
    pub fn damage(&self) -> &[Damage] {
        &self.places
    }

    /// What was read so far.
    pub fn counts(&self) -> ReadCounts {
        self.counts
    }

    /// Counts bytes in which nothing could be read.
    fn lose(&mut self, offset: u64, bytes: u64) {
        self.counts.lost_bytes += bytes;
        let has_room = self.places.len() < MOST_PLACES && bytes > 0;
        match self.places.last_mut() {
            Some(last) if last.offset + last.bytes == offset => last.bytes += bytes,
            _ if has_room => {
                self.places.push(Damage { offset, bytes });
            }
            _ => {}
        }
    }

    /// Bytes searched, moved and hashed so far: at most [`WORK_PER_BYTE`] times those read.
    pub fn work_bytes(&self) -> u64 {
        self.work_bytes + self.checksums.hashed_bytes
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
        self.gone_bytes += gone as u64;
        self.checksums.forget(steps);
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
        if major > LOG_VERSION.0 {
            return Err(LogError::TooNew { major, minor });
        }
        self.version.get_or_insert((major, minor));
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

    /// Drops bytes up to the next place that may begin a block.
    fn resynchronise(&mut self) {
        if !self.skipping {
            self.skipping = true;
            self.damaged_stretches += 1;
        }
        self.marker_follows();
        let from = self.at;
        self.at = self.searched.min(self.bytes.len());
        self.lose(self.gone_bytes + from as u64, (self.at - from) as u64);
    }

    /// What stands here, where a block should begin.
    fn next_here(&mut self) -> Result<Next, LogError> {
        if !self.fill(HEAD_BYTES)? {
            let rest = &self.bytes[self.at..];
            return Ok(match rest.len() {
                0..HEADER_BYTES => Next::End,
                _ if rest.starts_with(MARKER) => Next::Beyond,
                _ => Next::Damage,
            });
        }
        if !self.bytes[self.at..].starts_with(MARKER) {
            return Ok(Next::Damage);
        }
        self.work_bytes += HEAD_BYTES as u64;
        let Some(head) = BlockHead::of(&self.bytes[self.at..]) else {
            return Ok(Next::Damage);
        };
        let length = head.payload_bytes as usize;
        if !self.fill(HEAD_BYTES + length)? {
            return Ok(Next::Beyond);
        }
        let from = self.at + HEAD_BYTES;
        let sum = self.checksums.of(&self.bytes, from, from + length);
        Ok(if sum == head.payload_crc {
            Next::Block(head)
        } else {
            Next::Damage
        })
    }

    /// Takes the messages out of the block that stands here.
    fn open_block(&mut self, head: &BlockHead) {
        let from = self.at + HEAD_BYTES;
        let to = from + head.payload_bytes as usize;
        let offset = self.gone_bytes + self.at as u64;
        self.offset = offset;
        let messages = self.unpacker.messages(head, &self.bytes[from..to]);
        self.at = to;
        self.skipping = false;
        let Ok(messages) = messages else {
            // Its checksum holds: somebody has made it so.
            self.damaged_stretches += 1;
            self.lose(offset, head.block_bytes());
            return;
        };
        self.counts.stored_bytes += head.block_bytes();
        let has_messages = !head.is_index() && !head.is_digest();
        self.counts.indices += u64::from(head.is_index());
        self.counts.digests += u64::from(head.is_digest());
        self.counts.blocks += u64::from(has_messages);
        self.counts.compressed_blocks += u64::from(head.is_compressed());
        self.unpacked = messages.into();
    }

    fn next_message(&mut self) -> Result<Option<ServerMessage>, LogError> {
        loop {
            if let Some(message) = self.unpacked.pop_front() {
                self.counts.message_bytes += message.len() as u64;
                // Its checksum held, so that what is not understood is of a newer minor version.
                if let Ok(message) = codec::decode(&message) {
                    return Ok(Some(message));
                }
                self.unknown_messages += 1;
                continue;
            }
            // Another log was appended to this one.
            if self.header()? {
                self.skipping = false;
                continue;
            }
            match self.next_here()? {
                Next::Block(head) => self.open_block(&head),
                Next::End => {
                    // What is left of a damaged stretch was counted as damage already.
                    self.cut |= self.at < self.bytes.len() && !self.skipping;
                    self.lose_the_rest();
                    return Ok(None);
                }
                // Either the file was cut here, or the length is damaged and whole blocks follow.
                Next::Beyond if !self.marker_follows() => {
                    self.cut = true;
                    self.lose_the_rest();
                    return Ok(None);
                }
                Next::Beyond | Next::Damage => self.resynchronise(),
            }
        }
    }

    /// The file ends in the middle of something.
    fn lose_the_rest(&mut self) {
        let rest = self.bytes.len() - self.at;
        self.lose(self.gone_bytes + self.at as u64, rest as u64);
    }
}

/// What stands where a block should begin.
enum Next {
    /// A whole block.
    Block(BlockHead),
    /// Something else.
    Damage,
    /// What may be a block, but for its end, which the file does not have.
    Beyond,
    /// Too little for a block.
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
