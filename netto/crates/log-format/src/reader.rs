//! Reads every block of a log with valid checksums, regardless of the bytes between them.
//!
//! Files may come from crashed hosts, full disks or strangers. The work is therefore bounded for
//! any file: at most [`WORK_PER_BYTE`] times its length, plus the unpacking that the blocks' heads
//! allow. Memory is bounded by twice the largest block.

use std::collections::VecDeque;
use std::io::{self, Read};

use serde::Serialize;

use super::ahead::{Ahead, Decoded, Opened};
use super::block::{BlockHead, HEAD_BYTES, MARKER, Unpacker};
use super::checksums::{PrefixChecksums, STEP};
use super::columns::{self, Wanted};
use super::{HEADER_BYTES, LOG_VERSION, LogError, MAGIC};
use metrics_common::codec::ServerMessage;
use metrics_common::packed::Damaged;

/// How often a byte of a file is processed, at most and on average: once for searching, once for
/// moving, once for hashing. The rest is for false claims: every four bytes may claim to begin a
/// head of 40 bytes, and every twelve may begin one with a valid checksum, which costs up to 126
/// bytes more for its payload's checksum.
pub const WORK_PER_BYTE: u64 = 20;

const CHUNK_BYTES: usize = 16 << 10;

/// How a log file begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// With a header.
    Header,
    /// With a block, or with zeros before a block or header: the file was truncated while it was
    /// being written, or the host lost power.
    Damaged {
        /// Bytes of zeros before the first block.
        zero_bytes: u64,
    },
}

/// A range of a file without readable messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Offset from the beginning of the reading, bytes.
    pub offset: u64,
    /// Its length, bytes.
    pub bytes: u64,
}

/// Most damaged ranges kept; further ones are only counted.
const MOST_PLACES: usize = 100;

/// What was read so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ReadCounts {
    /// Blocks of messages.
    pub blocks: u64,
    /// Those of them that are compressed.
    pub compressed_blocks: u64,
    /// Indices, which sequential readers skip.
    pub indices: u64,
    /// Digests, which they skip, too.
    pub digests: u64,
    /// Bytes of blocks, heads included.
    pub stored_bytes: u64,
    /// Bytes of the messages in them, not compressed.
    pub message_bytes: u64,
    /// Unreadable bytes.
    #[serde(skip)]
    pub lost_bytes: u64,
}

/// Reads the messages of a log, as an iterator; damage is skipped and counted.
#[derive(Debug)]
pub struct LogReader<R> {
    source: R,
    /// Bytes read; those before index `at` are consumed.
    bytes: Vec<u8>,
    at: usize,
    /// Number of bytes dropped before `bytes`.
    gone_bytes: u64,
    checksums: PrefixChecksums,
    unpacker: Unpacker,
    ahead: Option<Ahead>,
    /// Blocks with unread messages.
    blocks: VecDeque<Unread>,
    /// How the search for blocks ended.
    end: Option<Result<(), LogError>>,
    counts: ReadCounts,
    places: Vec<Damage>,
    /// No marker begins between `at` and this index.
    searched: usize,
    beginning: Beginning,
    version: Option<(u16, u16)>,
    /// Offset of the last block.
    offset: u64,
    at_end: bool,
    skipping: bool,
    damaged_stretches: u64,
    unknown_messages: u64,
    cut: bool,
    work_bytes: u64,
}

/// A block with unread messages.
#[derive(Debug)]
struct Unread {
    offset: u64,
    head: BlockHead,
    /// Number of messages taken.
    taken: usize,
    messages: Messages,
}

#[derive(Debug)]
enum Messages {
    /// Decoded when they are taken.
    Here(std::vec::IntoIter<columns::Decoded>),
    /// Decoded on another thread.
    Ahead(Opened),
}

impl Messages {
    fn next(&mut self) -> Option<Result<Decoded, Damaged>> {
        match self {
            Messages::Here(messages) => Some(Ok(Decoded::of(&messages.next()?))),
            Messages::Ahead(opened) => opened.recv().ok(),
        }
    }
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

    /// Reads ranges of a file, which need not start with a header.
    pub fn of_pieces(source: R) -> Self {
        LogReader {
            source,
            bytes: Vec::new(),
            at: 0,
            gone_bytes: 0,
            checksums: PrefixChecksums::new(),
            unpacker: Unpacker::default(),
            ahead: None,
            blocks: VecDeque::new(),
            end: None,
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
            work_bytes: 0,
        }
    }

    /// Decodes on all CPUs, some blocks ahead of the one being read, if the system allows threads.
    /// Damage is then found ahead, too. Of snapshots only what is wanted is decoded; without
    /// threads, they may have more.
    pub fn read_ahead(&mut self, wanted: &Wanted) {
        self.ahead = Ahead::start(wanted);
    }

    /// The source; a part of it may have been read ahead.
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

    /// Offset of the last message's block, bytes from the beginning of the reading.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Stretches of damage skipped so far; each cost at least one block.
    pub fn damaged_stretches(&self) -> u64 {
        self.damaged_stretches
    }

    /// Number of skipped messages of a newer netto.
    pub fn unknown_messages(&self) -> u64 {
        self.unknown_messages
    }

    /// Whether the file ended in the middle of a block.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// The damaged ranges, at most the first hundred.
    pub fn damage(&self) -> &[Damage] {
        &self.places
    }

    /// What was read so far.
    pub fn counts(&self) -> ReadCounts {
        self.counts
    }

    /// Counts unreadable bytes.
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

    /// Makes at least this many bytes available; `false` at the end of the file.
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

    /// Drops consumed bytes once they are more than those that must be moved.
    fn compact(&mut self) {
        let steps = self.at / STEP;
        let consumed = steps * STEP;
        if consumed < CHUNK_BYTES || consumed < self.bytes.len() - consumed {
            return;
        }
        self.work_bytes += (self.bytes.len() - consumed) as u64;
        self.bytes.drain(..consumed);
        self.gone_bytes += consumed as u64;
        self.checksums.forget(steps);
        self.at -= consumed;
        self.searched = self.searched.saturating_sub(consumed);
    }

    /// Skips a header; `false` if there is none here.
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

    /// Whether a marker begins after the next byte; sets `searched` to it, or to the end.
    fn marker_follows(&mut self) -> bool {
        let from = self.searched.max(self.at + 1);
        let rest = self.bytes.get(from..).unwrap_or_default();
        let found = rest
            .windows(MARKER.len())
            .position(|window| window == MARKER);
        // The last bytes may be the beginning of a marker.
        let passed = found.unwrap_or(rest.len().saturating_sub(MARKER.len() - 1));
        self.work_bytes += passed as u64;
        self.searched = from + passed;
        found.is_some()
    }

    /// Drops bytes up to the next possible beginning of a block.
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

    /// Classifies the bytes at an expected beginning of a block.
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

    /// Opens the block at this position.
    fn open_block(&mut self, head: BlockHead) {
        let from = self.at + HEAD_BYTES;
        let to = from + head.payload_bytes as usize;
        let offset = self.gone_bytes + self.at as u64;
        let payload = &self.bytes[from..to];
        let messages = match &self.ahead {
            Some(ahead) => Ok(Messages::Ahead(ahead.open(head, payload))),
            None => {
                let messages = self.unpacker.messages(&head, payload);
                messages.map(|messages| Messages::Here(messages.into_iter()))
            }
        };
        self.at = to;
        self.skipping = false;
        match messages {
            Ok(messages) => self.blocks.push_back(Unread {
                offset,
                head,
                taken: 0,
                messages,
            }),
            Err(Damaged) => self.lose_block(offset, &head),
        }
    }

    /// Counts a block whose checksum is valid, so that its content was made on purpose.
    fn lose_block(&mut self, offset: u64, head: &BlockHead) {
        self.damaged_stretches += 1;
        self.lose(offset, head.block_bytes());
    }

    /// Counts a block of which everything was read.
    fn count(&mut self, head: &BlockHead) {
        self.counts.stored_bytes += head.block_bytes();
        let has_messages = !head.is_index() && !head.is_digest();
        self.counts.indices += u64::from(head.is_index());
        self.counts.digests += u64::from(head.is_digest());
        self.counts.blocks += u64::from(has_messages);
        self.counts.compressed_blocks += u64::from(head.is_compressed());
    }

    fn next_message(&mut self) -> Option<ServerMessage> {
        loop {
            let wanted = self.ahead.as_ref().map_or(1, Ahead::blocks);
            while self.end.is_none() && self.blocks.len() < wanted {
                self.end = self.search().transpose();
            }
            let block = self.blocks.front_mut()?;
            match block.messages.next() {
                Some(Ok(Decoded {
                    bytes,
                    messages,
                    message,
                })) => {
                    block.taken += messages;
                    self.offset = block.offset;
                    self.counts.message_bytes += bytes as u64;
                    if message.is_some() {
                        return message;
                    }
                    // The checksum was valid, so it is of a newer minor version.
                    self.unknown_messages += 1;
                }
                Some(Err(Damaged)) | None => {
                    let block = self.blocks.pop_front()?;
                    if block.taken == usize::from(block.head.messages) {
                        self.count(&block.head)
                    } else {
                        self.lose_block(block.offset, &block.head)
                    }
                }
            }
        }
    }

    /// Searches for the next block and opens it; `Some` at the end of the file.
    fn search(&mut self) -> Result<Option<()>, LogError> {
        // Another log was appended to this one.
        if self.header()? {
            self.skipping = false;
            return Ok(None);
        }
        match self.next_here()? {
            Next::Block(head) => self.open_block(head),
            Next::End => {
                // The rest of a damaged range has been counted already.
                self.cut |= self.at < self.bytes.len() && !self.skipping;
                self.lose_the_rest();
                return Ok(Some(()));
            }
            // Either the file was cut here, or the length is damaged and whole blocks follow.
            Next::Beyond if !self.marker_follows() => {
                self.cut = true;
                self.lose_the_rest();
                return Ok(Some(()));
            }
            Next::Beyond | Next::Damage => self.resynchronise(),
        }
        Ok(None)
    }

    /// Counts the rest of the file, which ends inside a block, as lost.
    fn lose_the_rest(&mut self) {
        let rest = self.bytes.len() - self.at;
        self.lose(self.gone_bytes + self.at as u64, rest as u64);
    }
}

/// The bytes at an expected beginning of a block.
enum Next {
    /// A whole block.
    Block(BlockHead),
    /// Something else.
    Damage,
    /// A head whose block extends beyond the end of the file.
    Beyond,
    /// Too few bytes for a block.
    End,
}

impl<R: Read> Iterator for LogReader<R> {
    type Item = Result<ServerMessage, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next_message() {
            Some(message) => Some(Ok(message)),
            // An error would repeat for ever.
            None => match self.end.replace(Ok(())) {
                Some(Err(error)) => Some(Err(error)),
                _ => None,
            },
        }
    }
}
