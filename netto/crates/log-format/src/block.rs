//! Blocks: several consecutive messages with a common head, compressed.
//!
//! ```text
//! block   = marker "NTBK", payload's length u32, work u32, kind u8, flags u8, messages u16,
//!           first time u64, last time u64, crc32(head so far) u32, crc32(payload) u32, payload
//! payload = kind 0: for each message its length as varint, and the message
//!           kind 1: number of streams, for each: length, compressed length or 0; then the
//!                   streams (`columns`), compressed or as they are
//!           kind 2: no messages but an index, see `index`, or, with flag 2, a digest, see
//!                   `digest`; sequential readers skip it
//! ```
//!
//! Numbers in the head are little-endian; times are nanoseconds since the Unix epoch, of the first
//! and last snapshot in the block, or 0 without snapshots. The head has a checksum of its own, so
//! that blocks are found without reading payloads. *Work* is the number of bytes and values
//! processed when unpacking the payload: at most [`WORK_PER_STORED_BYTE`] for each of its bytes and
//! [`MOST_BLOCK_WORK`] in all, so that a small file cannot cause much work.

use std::borrow::Cow;

use super::columns::{self, Decoded, Form};
use super::compress::{Compressor, Decompressor};
use super::{LogError, MAX_PAYLOAD_BYTES};
use metrics_common::packed::{Damaged, Reader, put};

/// The first bytes of every block.
pub(super) const MARKER: &[u8; 4] = b"NTBK";
/// Length of a block's head, bytes.
pub(super) const HEAD_BYTES: usize = 40;
/// Length of the part of the head that its checksum covers.
const SUMMED_BYTES: usize = 32;
/// Most work of unpacking a block, for each stored byte.
pub const WORK_PER_STORED_BYTE: u64 = 1024;
/// Most work of unpacking a block, bytes and values.
pub const MOST_BLOCK_WORK: u64 = 8 << 20;
/// Size of messages from which a block is full.
const FULL_BYTES: usize = 1 << 20;
/// Most messages of a block.
const MOST_MESSAGES: usize = 4096;

const PLAIN: u8 = 0;
const COLUMNS: u8 = 1;
const NO_MESSAGES: u8 = 2;
/// Flag: at least one of the messages is a Hello.
const HAS_HELLO: u8 = 1;
/// Flag: a block of kind 2 is a digest.
const IS_DIGEST: u8 = 2;

/// The fields of a block's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHead {
    /// Length of the payload, bytes.
    pub payload_bytes: u32,
    work: u32,
    kind: u8,
    flags: u8,
    /// Number of messages.
    pub messages: u16,
    /// Time of the first snapshot, nanoseconds since the Unix epoch; 0 without snapshots.
    pub first_time_unix_ns: u64,
    /// Time of the last snapshot.
    pub last_time_unix_ns: u64,
    pub(super) payload_crc: u32,
}

impl BlockHead {
    /// Decodes a head; `None` if the bytes are not a head, or exceed a limit.
    pub(super) fn of(bytes: &[u8]) -> Option<BlockHead> {
        let mut bytes = bytes.get(..HEAD_BYTES)?;
        if !bytes.starts_with(MARKER) {
            return None;
        }
        let sum = crc32fast::hash(&bytes[..SUMMED_BYTES]);
        bytes = &bytes[MARKER.len()..];
        let head = BlockHead {
            payload_bytes: u32::from_le_bytes(take(&mut bytes)?),
            work: u32::from_le_bytes(take(&mut bytes)?),
            kind: u8::from_le_bytes(take(&mut bytes)?),
            flags: u8::from_le_bytes(take(&mut bytes)?),
            messages: u16::from_le_bytes(take(&mut bytes)?),
            first_time_unix_ns: u64::from_le_bytes(take(&mut bytes)?),
            last_time_unix_ns: u64::from_le_bytes(take(&mut bytes)?),
            payload_crc: {
                if u32::from_le_bytes(take(&mut bytes)?) != sum {
                    return None;
                }
                u32::from_le_bytes(take(&mut bytes)?)
            },
        };
        let allowed = WORK_PER_STORED_BYTE * u64::from(head.payload_bytes);
        (head.payload_bytes as usize <= MAX_PAYLOAD_BYTES
            && u64::from(head.work) <= allowed.min(MOST_BLOCK_WORK))
        .then_some(head)
    }

    /// Whether it is an index rather than messages.
    pub fn is_index(&self) -> bool {
        self.kind == NO_MESSAGES && self.flags & IS_DIGEST == 0
    }

    /// Whether it is a digest rather than messages.
    pub fn is_digest(&self) -> bool {
        self.kind == NO_MESSAGES && self.flags & IS_DIGEST != 0
    }

    /// Whether it contains a Hello.
    pub fn has_hello(&self) -> bool {
        self.kind != NO_MESSAGES && self.flags & HAS_HELLO != 0
    }

    /// Whether the messages are compressed.
    pub fn is_compressed(&self) -> bool {
        self.kind == COLUMNS
    }

    /// The declared work of unpacking it.
    pub(super) fn work(&self) -> u64 {
        u64::from(self.work)
    }

    /// Length of the block including its head, bytes.
    pub fn block_bytes(&self) -> u64 {
        HEAD_BYTES as u64 + u64::from(self.payload_bytes)
    }

    fn write(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = Vec::with_capacity(HEAD_BYTES);
        bytes.extend(MARKER);
        bytes.extend(self.payload_bytes.to_le_bytes());
        bytes.extend(self.work.to_le_bytes());
        bytes.extend([self.kind, self.flags]);
        bytes.extend(self.messages.to_le_bytes());
        bytes.extend(self.first_time_unix_ns.to_le_bytes());
        bytes.extend(self.last_time_unix_ns.to_le_bytes());
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes.extend(self.payload_crc.to_le_bytes());
        let mut head = [0; HEAD_BYTES];
        head.copy_from_slice(&bytes);
        head
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

/// The messages collected for a block.
#[derive(Default)]
pub struct Block {
    messages: Vec<Vec<u8>>,
    bytes: usize,
    has_hello: bool,
    snapshots: usize,
    /// Times of the first and last snapshot.
    times: Option<(u64, u64)>,
}

impl Block {
    /// Adds a snapshot, encoded, with its time (nanoseconds since the Unix epoch).
    ///
    /// # Errors
    /// If it is too large for any block.
    pub fn push_snapshot(&mut self, message: Vec<u8>, time_unix_ns: u64) -> Result<(), LogError> {
        self.push(message)?;
        self.snapshots += 1;
        let (first, last) = self.times.unwrap_or((time_unix_ns, time_unix_ns));
        // The clock may have been set back.
        self.times = Some((first.min(time_unix_ns), last.max(time_unix_ns)));
        Ok(())
    }

    /// Adds a Hello, encoded.
    ///
    /// # Errors
    /// If it is too large for any block.
    pub fn push_hello(&mut self, message: Vec<u8>) -> Result<(), LogError> {
        self.push(message)?;
        self.has_hello = true;
        Ok(())
    }

    /// Adds any other message, encoded.
    ///
    /// # Errors
    /// If it is too large for any block.
    pub fn push(&mut self, message: Vec<u8>) -> Result<(), LogError> {
        // It must fit with its length, as the only message of a block.
        if message.len() > MAX_PAYLOAD_BYTES - 16 {
            return Err(LogError::TooLarge(message.len()));
        }
        self.bytes += message.len();
        self.messages.push(message);
        Ok(())
    }

    /// Whether it should be closed because of its size.
    pub fn is_full(&self) -> bool {
        self.bytes >= FULL_BYTES || self.messages.len() >= MOST_MESSAGES
    }

    /// Whether a message of this size should start the next block.
    pub fn is_full_with(&self, more: usize) -> bool {
        !self.is_empty() && self.bytes + more > FULL_BYTES
    }

    /// Whether it has no messages.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Number of snapshots.
    pub fn snapshots(&self) -> usize {
        self.snapshots
    }

    /// Time from its first snapshot to its last, nanoseconds.
    pub fn span_ns(&self) -> u64 {
        self.times.map_or(0, |(first, last)| last - first)
    }

    /// Returns the block's bytes and empties it; no bytes if it is empty.
    pub fn close(&mut self, packer: &mut Packer) -> Vec<u8> {
        self.close_as(|messages| packer.pack(messages))
    }

    /// The same without compression: larger, but almost without cost.
    pub fn close_plain(&mut self) -> Vec<u8> {
        self.close_as(plain)
    }

    fn close_as(&mut self, pack: impl FnOnce(&[Vec<u8>]) -> (u8, u64, Vec<u8>)) -> Vec<u8> {
        let block = std::mem::take(self);
        if block.is_empty() {
            return Vec::new();
        }
        let (kind, work, payload) = pack(&block.messages);
        let (first_time_unix_ns, last_time_unix_ns) = block.times.unwrap_or_default();
        let head = BlockHead {
            payload_bytes: payload.len() as u32,
            work: work as u32,
            kind,
            flags: if block.has_hello { HAS_HELLO } else { 0 },
            messages: block.messages.len() as u16,
            first_time_unix_ns,
            last_time_unix_ns,
            payload_crc: crc32fast::hash(&payload),
        };
        [&head.write()[..], &payload].concat()
    }
}

/// Encodes an index as a block.
pub(super) fn index_block(payload: &[u8], times: (u64, u64)) -> Vec<u8> {
    without_messages(0, 0, payload, times)
}

/// Encodes a digest as a block, with its work of unpacking.
pub(super) fn digest_block(work: u64, payload: &[u8], times: (u64, u64)) -> Vec<u8> {
    without_messages(IS_DIGEST, work, payload, times)
}

fn without_messages(flags: u8, work: u64, payload: &[u8], times: (u64, u64)) -> Vec<u8> {
    let head = BlockHead {
        payload_bytes: payload.len() as u32,
        work: work as u32,
        kind: NO_MESSAGES,
        flags,
        messages: 0,
        first_time_unix_ns: times.0,
        last_time_unix_ns: times.1,
        payload_crc: crc32fast::hash(payload),
    };
    [&head.write()[..], payload].concat()
}

fn plain(messages: &[Vec<u8>]) -> (u8, u64, Vec<u8>) {
    let mut payload = Vec::new();
    for message in messages {
        put(&mut payload, message.len() as u64);
        payload.extend_from_slice(message);
    }
    (PLAIN, 0, payload)
}

/// The compressor's memory, reused for each block.
#[derive(Default)]
pub struct Packer {
    compressor: Compressor,
}

impl Packer {
    /// Encodes messages as a payload; returns its kind and the work of unpacking it.
    pub(super) fn pack(&mut self, messages: &[Vec<u8>]) -> (u8, u64, Vec<u8>) {
        self.columns(messages).unwrap_or_else(|| plain(messages))
    }

    /// Encodes messages as kind 1; `None` if its work exceeds the limit, or it is larger than kind
    /// 0.
    fn columns(&mut self, messages: &[Vec<u8>]) -> Option<(u8, u64, Vec<u8>)> {
        let columns = columns::encode(messages);
        let mut work = columns.work;
        let (mut heads, mut bodies) = (Vec::new(), Vec::new());
        put(&mut heads, columns.streams.len() as u64);
        for stream in &columns.streams {
            work += stream.len() as u64;
            put(&mut heads, stream.len() as u64);
            let compressed = self.compressor.compress(stream);
            match compressed.filter(|shorter| shorter.len() < stream.len()) {
                Some(compressed) => {
                    put(&mut heads, compressed.len() as u64);
                    bodies.extend(compressed);
                }
                None => {
                    put(&mut heads, 0);
                    bodies.extend_from_slice(stream);
                }
            }
        }
        heads.extend(bodies);
        let allowed = (WORK_PER_STORED_BYTE * heads.len() as u64).min(MOST_BLOCK_WORK);
        let as_they_are: usize = messages.iter().map(Vec::len).sum();
        (work <= allowed && heads.len() <= as_they_are).then_some((COLUMNS, work, heads))
    }
}

/// The inverse of [`Packer`].
#[derive(Debug, Default)]
pub(super) struct Unpacker {
    decompressor: Decompressor,
    form: Form,
}

impl Unpacker {
    /// Makes messages of this form.
    pub(super) fn of(form: Form) -> Self {
        Unpacker {
            form,
            ..Self::default()
        }
    }

    /// The messages of a block with valid checksums; none for an index or a digest.
    ///
    /// # Errors
    /// If the payload contradicts the head.
    pub(super) fn messages(
        &mut self,
        head: &BlockHead,
        payload: &[u8],
    ) -> Result<Vec<Decoded>, Damaged> {
        let messages = match head.kind {
            NO_MESSAGES => Vec::new(),
            kind => self.unpack(kind, head.work(), payload)?,
        };
        let count: usize = messages.iter().map(|message| message.messages).sum();
        let is_complete = count == usize::from(head.messages);
        is_complete.then_some(messages).ok_or(Damaged)
    }

    /// The inverse of [`Packer::pack`].
    ///
    /// # Errors
    /// If the payload was not made by it.
    pub(super) fn unpack(
        &mut self,
        kind: u8,
        work: u64,
        payload: &[u8],
    ) -> Result<Vec<Decoded>, Damaged> {
        match kind {
            PLAIN => {
                let mut reader = Reader(payload);
                let mut messages = Vec::new();
                while !reader.0.is_empty() {
                    let length = usize::try_from(reader.number()?).map_err(|_| Damaged)?;
                    messages.push(Decoded::of(reader.bytes(length)?.to_vec()));
                }
                Ok(messages)
            }
            COLUMNS => self.columns(work, payload),
            _ => Err(Damaged),
        }
    }

    fn columns(&mut self, mut work: u64, payload: &[u8]) -> Result<Vec<Decoded>, Damaged> {
        let mut reader = Reader(payload);
        let count = reader.number()?;
        let mut lengths = Vec::new();
        for _ in 0..count {
            let (length, stored) = (reader.number()?, reader.number()?);
            work = work.checked_sub(length).ok_or(Damaged)?;
            lengths.push((length as usize, stored));
        }
        let mut streams = Vec::with_capacity(lengths.len());
        for (length, stored) in lengths {
            let stored = usize::try_from(stored).map_err(|_| Damaged)?;
            streams.push(match stored {
                0 => (reader.bytes(length)?, None),
                _ => (reader.bytes(stored)?, Some(length)),
            });
        }
        let open = |index: usize| -> Result<Cow<'_, [u8]>, Damaged> {
            Ok(match *streams.get(index).ok_or(Damaged)? {
                (bytes, None) => bytes.into(),
                (bytes, Some(length)) => self.decompressor.decompress(bytes, length)?.into(),
            })
        };
        columns::decode(streams.len(), open, work, &self.form)
    }
}

/// The heads of consecutive whole blocks, with their offsets; ends at the first other bytes.
pub fn heads(bytes: &[u8]) -> impl Iterator<Item = (u64, BlockHead)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let head = BlockHead::of(bytes.get(at..)?)?;
        let from = at as u64;
        at += head.block_bytes() as usize;
        (at <= bytes.len()).then_some((from, head))
    })
}
