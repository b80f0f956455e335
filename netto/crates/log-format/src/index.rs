//! The layout of a log: from its indices, or from the heads of its blocks, without reading
//! payloads.
//!
//! ```text
//! index = a block of kind 2 with the payload: offset of its part of the file, number of blocks,
//!         for each: bytes since the last one's end, its length, 2 × messages + (1 with a Hello),
//!         first time, last time - first time            (integers of variable length, see `packed`)
//!         followed by: offset of the index itself u64, "NTTOIDX
//! "
//! ```
//!
//! An index lists the blocks from some offset up to itself. If another index ends at that offset,
//! it lists the blocks before it; thus, starting at the end of the file, each index leads to the
//! previous one. A file that was cut or damaged, or is being written, has no index at its end; then
//! the heads of its blocks are searched. A digest (`digest`) is listed as a block without messages
//! but with times.

use std::io::{self, Read, Seek, SeekFrom};

use super::between::Between;
use super::block::{self, BlockHead};
use super::pieces::Pieces;
use super::reader::LogReader;
use super::{HEADER_BYTES, LogError};
use metrics_common::packed::{Damaged, Reader, put};

/// The last bytes of every index.
const END: &[u8; 8] = b"NTTOIDX\n";
const END_BYTES: usize = 16;
/// Most blocks of an index, which bounds the writer's memory: six hours of blocks of five seconds.
const MOST_BLOCKS: usize = 4096;
/// An index of more blocks is damaged or hostile.
const MOST_BLOCKS_READ: u64 = 16 * MOST_BLOCKS as u64;
/// Most parts kept separately; in a larger file neighbours are joined, so that memory does not grow
/// with the file.
const MOST_PARTS: usize = 1 << 16;
/// Bytes read at once when searching heads: few at first, since the next head is near in most
/// files, then more.
const FIRST_CHUNK_BYTES: u64 = 512;
const CHUNK_BYTES: u64 = 64 << 10;

/// A block of a file; or a range without blocks, which may be damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Its length, bytes.
    pub bytes: u64,
    /// Number of messages; `None` if unknown without reading it.
    pub messages: Option<u16>,
    /// Times of the first and last snapshot in it, nanoseconds since the Unix epoch; `None` if
    /// unknown, or if it has none.
    pub times_unix_ns: Option<(u64, u64)>,
    /// Whether it contains, or may contain, a Hello.
    pub has_hello: bool,
    /// Number of blocks joined into this part.
    pub blocks: u32,
}

impl Part {
    fn of_block(offset: u64, head: &BlockHead) -> Part {
        let times = (head.first_time_unix_ns, head.last_time_unix_ns);
        Part {
            offset,
            bytes: head.block_bytes(),
            messages: Some(head.messages),
            times_unix_ns: Some(times).filter(|times| *times != (0, 0)),
            has_hello: head.has_hello(),
            blocks: 1,
        }
    }

    fn unknown(offset: u64, end: u64) -> Part {
        Part {
            offset,
            bytes: end - offset,
            messages: None,
            times_unix_ns: None,
            has_hello: true,
            blocks: 1,
        }
    }

    /// Whether it is a digest instead of messages.
    pub fn is_digest(&self) -> bool {
        self.messages == Some(0) && self.times_unix_ns.is_some() && self.blocks == 1
    }

    pub(super) fn end(&self) -> u64 {
        self.offset + self.bytes
    }

    /// This part and the next as one, including the bytes between them.
    fn joined(self, next: Part) -> Part {
        let offset = self.offset.min(next.offset);
        let messages = self.messages.zip(next.messages);
        Part {
            offset,
            bytes: self.end().max(next.end()) - offset,
            messages: messages.map(|(messages, next)| messages.saturating_add(next)),
            times_unix_ns: join(self.times_unix_ns, next.times_unix_ns),
            has_hello: self.has_hello || next.has_hello,
            blocks: self.blocks.saturating_add(next.blocks),
        }
    }

    /// Whether it may hold messages of this time span.
    fn may_hold(&self, from_unix_ns: u64, to_unix_ns: u64) -> bool {
        match self.times_unix_ns {
            Some((first, last)) => first <= to_unix_ns && last >= from_unix_ns,
            None => self.messages.is_none(),
        }
    }
}

/// Collects the blocks being written for the next index.
#[derive(Debug, Default)]
pub struct IndexBuilder {
    from: u64,
    parts: Vec<Part>,
}

impl IndexBuilder {
    /// Starts at the current end of the file, in bytes.
    pub fn new(from: u64) -> IndexBuilder {
        IndexBuilder {
            from,
            parts: Vec::new(),
        }
    }

    /// Records that these bytes, whole blocks, were written at this offset.
    pub fn wrote(&mut self, offset: u64, bytes: &[u8]) {
        for (at, head) in block::heads(bytes) {
            self.parts.push(Part::of_block(offset + at, &head));
        }
    }

    /// Whether an index should be written.
    pub fn is_full(&self) -> bool {
        self.parts.len() >= MOST_BLOCKS
    }

    /// The index of the blocks so far, to be written at this offset; no bytes if there are none.
    pub fn index(&self, offset: u64) -> Vec<u8> {
        if self.parts.is_empty() {
            return Vec::new();
        }
        let mut payload = Vec::new();
        put(&mut payload, self.from);
        put(&mut payload, self.parts.len() as u64);
        let mut end = self.from;
        let mut span: Option<(u64, u64)> = None;
        for part in &self.parts {
            put(&mut payload, part.offset.saturating_sub(end));
            put(&mut payload, part.bytes);
            let messages = u64::from(part.messages.unwrap_or(0));
            put(&mut payload, 2 * messages + u64::from(part.has_hello));
            let (first, last) = part.times_unix_ns.unwrap_or_default();
            put(&mut payload, first);
            put(&mut payload, last - first);
            end = part.end();
            span = join(span, part.times_unix_ns);
        }
        payload.extend(offset.to_le_bytes());
        payload.extend(END);
        block::index_block(&payload, span.unwrap_or_default())
    }
}

pub(super) fn join(a: Option<(u64, u64)>, b: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (one, other) => one.or(other),
    }
}

/// The layout of a log; see the head of this file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogIndex {
    parts: Vec<Part>,
    is_complete: bool,
}

impl LogIndex {
    /// Finds the parts of a log by its indices, or else by the heads of its blocks.
    ///
    /// # Errors
    /// If the file cannot be read. A file that is not a log has one part of unknown content.
    pub fn of(source: &mut (impl Read + Seek)) -> Result<LogIndex, LogError> {
        let length = source.seek(SeekFrom::End(0))?;
        let mut end = length;
        // Last index first.
        let mut found = Vec::new();
        while let Some((from, parts)) = index_before(source, end)? {
            parts
                .into_iter()
                .rev()
                .for_each(|part| keep(&mut found, part));
            end = from;
        }
        // The header is not a part.
        let is_complete = end == 0;
        let mut parts = if is_complete {
            Vec::new()
        } else {
            scan(source, end)?
        };
        found
            .into_iter()
            .rev()
            .for_each(|part| keep(&mut parts, part));
        Ok(LogIndex { parts, is_complete })
    }

    /// Its parts, in the order of the file.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Whether indices list all parts, so that none had to be searched.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether the contents of all parts are known, that is, without damage.
    pub fn is_known(&self) -> bool {
        self.parts.iter().all(|part| part.messages.is_some())
    }

    /// Times of the first and last snapshot in all blocks, nanoseconds since the Unix epoch;
    /// `None` if there are none.
    pub fn span_unix_ns(&self) -> Option<(u64, u64)> {
        let times = self.parts.iter().map(|part| part.times_unix_ns);
        times.fold(None, join)
    }

    /// The messages of a time, both ends included, with the Hello that they need before them: of
    /// blocks, only those that hold some are read.
    pub fn messages_between<'a, S: Read + Seek>(
        &self,
        source: &'a mut S,
        from_unix_ns: u64,
        to_unix_ns: u64,
    ) -> Between<'a, S> {
        let pieces = self.pieces_between(source, from_unix_ns, to_unix_ns);
        Between::new(LogReader::of_pieces(pieces), from_unix_ns, to_unix_ns)
    }

    /// The bytes of the blocks that hold messages of a time span, both ends included, and of the
    /// Hello that they need; for [`LogReader::of_pieces`].
    pub fn pieces_between<S: Read + Seek>(
        &self,
        source: S,
        from_unix_ns: u64,
        to_unix_ns: u64,
    ) -> Pieces<S> {
        let parts = self.parts_between(from_unix_ns, to_unix_ns);
        let ranges = parts.map(|part| (part.offset, part.end())).collect();
        Pieces::new(source, ranges)
    }

    /// The parts with the messages of a time span, both ends included, and the Hello that they
    /// need.
    pub(super) fn parts_between(
        &self,
        from_unix_ns: u64,
        to_unix_ns: u64,
    ) -> impl Iterator<Item = &Part> {
        let is_wanted =
            move |part: &Part| !part.is_digest() && part.may_hold(from_unix_ns, to_unix_ns);
        let first = self.parts.iter().position(is_wanted);
        // Messages without a time, such as stacks in a block of their own, belong to the time
        // before.
        let has_no_time = |part: &Part| part.times_unix_ns.is_none();
        let last = self.parts.iter().rposition(is_wanted).map(|last| {
            let behind = self.parts[last + 1..].iter();
            last + behind
                .take_while(|part| has_no_time(part) || part.is_digest())
                .count()
        });
        let (before, some) = match first.zip(last) {
            Some((first, last)) => (&self.parts[..first], &self.parts[first..=last]),
            None => Default::default(),
        };
        let hello = before.iter().rev().find(|part| part.has_hello);
        let some = some
            .iter()
            .filter(move |part| is_wanted(part) || has_no_time(part) || part.has_hello);
        hello.into_iter().chain(some)
    }
}

/// Adds the next part.
fn keep(parts: &mut Vec<Part>, part: Part) {
    if parts.len() >= MOST_PARTS {
        // Digests and the parts between them stay separate as long as possible.
        halve(parts, |part| !part.is_digest() && !part.has_hello);
        if parts.len() > MOST_PARTS / 4 * 3 {
            halve(parts, |_| true);
        }
    }
    parts.push(part);
}

/// Joins pairs of neighbours where allowed.
fn halve(parts: &mut Vec<Part>, may_be_joined: impl Fn(&Part) -> bool) {
    let mut halved: Vec<Part> = Vec::with_capacity(parts.len() / 2 + 1);
    let mut is_pair = false;
    for &part in parts.iter() {
        match halved.last_mut() {
            Some(last) if !is_pair && may_be_joined(last) && may_be_joined(&part) => {
                *last = last.joined(part);
                is_pair = true;
            }
            _ => {
                halved.push(part);
                is_pair = false;
            }
        }
    }
    *parts = halved;
}

/// The index that ends here, with the offset of its part of the file.
fn index_before(
    source: &mut (impl Read + Seek),
    end: u64,
) -> Result<Option<(u64, Vec<Part>)>, LogError> {
    let Some(tail_at) = end.checked_sub(END_BYTES as u64) else {
        return Ok(None);
    };
    let tail = read_at(source, tail_at, END_BYTES)?;
    let (Some((at, _)), true) = (tail.split_first_chunk::<8>(), tail.ends_with(END)) else {
        return Ok(None);
    };
    let at = u64::from_le_bytes(*at);
    if at > tail_at {
        return Ok(None);
    }
    let Some(head) = BlockHead::of(&read_at(source, at, block::HEAD_BYTES)?) else {
        return Ok(None);
    };
    if !head.is_index() || at.checked_add(head.block_bytes()) != Some(end) {
        return Ok(None);
    }
    let payload_at = at + block::HEAD_BYTES as u64;
    let payload = read_at(source, payload_at, head.payload_bytes as usize)?;
    if crc32fast::hash(&payload) != head.payload_crc {
        return Ok(None);
    }
    Ok(parse(&payload, at).ok())
}

fn parse(payload: &[u8], index_at: u64) -> Result<(u64, Vec<Part>), Damaged> {
    let mut reader = Reader(payload);
    let from = reader.number()?;
    let mut end = from;
    let mut parts = Vec::new();
    let count = reader.number()?;
    if count > MOST_BLOCKS_READ {
        return Err(Damaged);
    }
    for _ in 0..count {
        let offset = end.checked_add(reader.number()?).ok_or(Damaged)?;
        let bytes = reader.number()?;
        let flags = reader.number()?;
        let first = reader.number()?;
        let last = first.checked_add(reader.number()?).ok_or(Damaged)?;
        end = offset.checked_add(bytes).ok_or(Damaged)?;
        if end > index_at || bytes < block::HEAD_BYTES as u64 {
            return Err(Damaged);
        }
        parts.push(Part {
            offset,
            bytes,
            messages: Some(u16::try_from(flags / 2).map_err(|_| Damaged)?),
            times_unix_ns: Some((first, last)).filter(|times| *times != (0, 0)),
            has_hello: flags % 2 == 1,
            blocks: 1,
        });
    }
    // The offset must decrease, or following the indices would never end.
    (from < index_at).then_some((from, parts)).ok_or(Damaged)
}

/// At most this many bytes from an offset on; fewer at the end of the file.
pub(super) fn read_at(
    source: &mut (impl Read + Seek),
    at: u64,
    bytes: usize,
) -> io::Result<Vec<u8>> {
    source.seek(SeekFrom::Start(at))?;
    let mut found = Vec::new();
    source.take(bytes as u64).read_to_end(&mut found)?;
    Ok(found)
}

/// The parts of a file up to this offset, by their heads.
fn scan(source: &mut (impl Read + Seek), end: u64) -> Result<Vec<Part>, LogError> {
    let mut parts = Vec::new();
    let header = read_at(source, 0, HEADER_BYTES.min(end as usize))?;
    let mut at = if header.starts_with(super::MAGIC) {
        HEADER_BYTES as u64
    } else {
        0
    };
    while at < end {
        let head = BlockHead::of(&read_at(source, at, block::HEAD_BYTES)?);
        match head.filter(|head| head.block_bytes() <= end - at) {
            Some(head) => {
                if !head.is_index() {
                    keep(&mut parts, Part::of_block(at, &head));
                }
                at += head.block_bytes();
            }
            None => {
                let next = next_head(source, at + 1, end)?;
                keep(&mut parts, Part::unknown(at, next));
                at = next;
            }
        }
    }
    Ok(parts)
}

/// Offset of the next whole block, or the end.
fn next_head(source: &mut (impl Read + Seek), from: u64, end: u64) -> Result<u64, LogError> {
    let mut at = from;
    let mut chunk = FIRST_CHUNK_BYTES;
    while at < end {
        let bytes = read_at(source, at, (end - at).min(chunk) as usize)?;
        chunk = CHUNK_BYTES.min(2 * chunk);
        let markers = bytes.windows(block::MARKER.len()).enumerate();
        for (place, _) in markers.filter(|(_, window)| *window == block::MARKER) {
            let here = at + place as u64;
            let head =
                BlockHead::of(&bytes[place..]).filter(|head| head.block_bytes() <= end - here);
            if head.is_some() {
                return Ok(here);
            }
        }
        if bytes.len() <= block::HEAD_BYTES {
            break;
        }
        // A head may begin in the last bytes.
        at += (bytes.len() - (block::HEAD_BYTES - 1)) as u64;
    }
    Ok(end)
}

#[cfg(test)]
mod tests;
