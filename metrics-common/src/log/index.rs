//! Where in a log what is: from the indices that its writer has left, or from the heads of its
//! blocks, without reading what is in them.
//!
//! ```text
//! index = a block of kind 2 with the payload: where its part of the file begins, number of blocks,
//!         for each: bytes since the last one's end, its length, 2 × messages + (1 with a Hello),
//!         first time, last time - first time            (integers of variable length, see `packed`)
//!         and behind them: where the index itself begins u64, "NTTOIDX\n"
//! ```
//!
//! An index tells of the blocks from some place on up to itself. If another one ends at that
//! place, it tells of those before; so from the last bytes of a file one index leads to the next.
//! A file that was cut, or damaged, or is being written, has no index at its end; its heads are
//! looked for instead.

use std::io::{self, Read, Seek, SeekFrom};

use super::block::{self, BlockHead};
use super::pieces::Pieces;
use super::reader::LogReader;
use super::{HEADER_BYTES, LogError};
use crate::codec::ServerMessage;
use crate::packed::{Damaged, Reader, put};

/// The last bytes of every index.
const END: &[u8; 8] = b"NTTOIDX\n";
const END_BYTES: usize = 16;
/// So many blocks at most are in one index, so that a writer needs little memory however long it
/// runs: six hours of blocks of five seconds.
const MOST_BLOCKS: usize = 4096;
/// How much is read at once where heads are looked for: little at first, since the next is near
/// in most files, and at most.
const FIRST_CHUNK_BYTES: u64 = 512;
const CHUNK_BYTES: u64 = 64 << 10;

/// A block in its file; or a stretch in which there is none, but perhaps frames of the first
/// version, or damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Where it begins, bytes from the beginning of the file.
    pub offset: u64,
    /// Its length, bytes.
    pub bytes: u64,
    /// Number of messages; `None` if that is not known without reading it.
    pub messages: Option<u16>,
    /// Times of the first and last snapshot in it, nanoseconds since the Unix epoch; `None` if
    /// that is not known, or there are none.
    pub times_unix_ns: Option<(u64, u64)>,
    /// Whether there is, or may be, a Hello in it.
    pub has_hello: bool,
}

impl Part {
    fn of_block(offset: u64, head: &BlockHead) -> Part {
        let times = (head.first_time_unix_ns, head.last_time_unix_ns);
        Part {
            offset,
            bytes: head.block_bytes(),
            messages: Some(head.messages),
            times_unix_ns: Some(times).filter(|times| *times != (0, 0)),
            has_hello: head.has_hello,
        }
    }

    fn unknown(offset: u64, end: u64) -> Part {
        Part {
            offset,
            bytes: end - offset,
            messages: None,
            times_unix_ns: None,
            has_hello: true,
        }
    }

    fn end(&self) -> u64 {
        self.offset + self.bytes
    }

    /// Whether something of this time may be in it.
    fn may_hold(&self, from_unix_ns: u64, to_unix_ns: u64) -> bool {
        match self.times_unix_ns {
            Some((first, last)) => first <= to_unix_ns && last >= from_unix_ns,
            None => self.messages.is_none(),
        }
    }
}

/// Remembers the blocks that are written, until they stand in an index.
#[derive(Debug, Default)]
pub struct IndexBuilder {
    from: u64,
    parts: Vec<Part>,
}

impl IndexBuilder {
    /// Begins where the file ends now, in bytes.
    pub fn new(from: u64) -> IndexBuilder {
        IndexBuilder {
            from,
            parts: Vec::new(),
        }
    }

    /// These bytes, whole blocks, were written at this place.
    pub fn wrote(&mut self, offset: u64, bytes: &[u8]) {
        for (at, head) in block::heads(bytes) {
            self.parts.push(Part::of_block(offset + at, &head));
        }
    }

    /// Whether it is time for an index.
    pub fn is_full(&self) -> bool {
        self.parts.len() >= MOST_BLOCKS
    }

    /// The index of the blocks so far, to be written at this place; nothing if there are none.
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

fn join(a: Option<(u64, u64)>, b: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (one, other) => one.or(other),
    }
}

/// Where in a log what is; see the head of this file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogIndex {
    parts: Vec<Part>,
    is_complete: bool,
}

impl LogIndex {
    /// Finds the parts of a log: by its indices, or else by the heads of its blocks.
    ///
    /// # Errors
    /// If the file cannot be read. One that is no log has one part of unknown content.
    pub fn of(source: &mut (impl Read + Seek)) -> Result<LogIndex, LogError> {
        let length = source.seek(SeekFrom::End(0))?;
        let mut end = length;
        // The last index first.
        let mut found = Vec::new();
        while let Some((from, parts)) = index_before(source, end)? {
            found.push(parts);
            end = from;
        }
        // The header is no part.
        let is_complete = end == 0;
        let mut parts = match is_complete {
            true => Vec::new(),
            false => scan(source, end)?,
        };
        parts.extend(found.into_iter().rev().flatten());
        Ok(LogIndex { parts, is_complete })
    }

    /// Its parts, in the order of the file.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Whether indices told of all of them, so that none was looked for.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether it is known of all parts what is in them: there is neither a frame of the first
    /// version nor damage.
    pub fn is_known(&self) -> bool {
        self.parts.iter().all(|part| part.messages.is_some())
    }

    /// Times of the first and last snapshot in all blocks, nanoseconds since the Unix epoch;
    /// `None` if that is not known: the log is of the first version, or has none.
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
        Between {
            reader: LogReader::of_pieces(self.pieces_between(source, from_unix_ns, to_unix_ns)),
            from_unix_ns,
            to_unix_ns,
            is_inside: false,
        }
    }

    /// The bytes of the blocks that hold some of a time, both ends included, with the Hello that
    /// they need before them; for [`LogReader::of_pieces`].
    pub fn pieces_between<S: Read + Seek>(
        &self,
        source: S,
        from_unix_ns: u64,
        to_unix_ns: u64,
    ) -> Pieces<S> {
        let is_wanted = |part: &Part| part.may_hold(from_unix_ns, to_unix_ns);
        let first = self.parts.iter().position(is_wanted);
        // What has no time, as stacks in a block of their own, is of the time before it.
        let has_no_time = |part: &&Part| part.times_unix_ns.is_none();
        let follow = |last: usize| {
            self.parts[last + 1..]
                .iter()
                .take_while(has_no_time)
                .count()
        };
        let last = self.parts.iter().rposition(is_wanted);
        let last = last.map(|last| last + follow(last));
        let mut ranges = Vec::new();
        if let (Some(first), Some(last)) = (first, last) {
            let hello = self.parts[..first].iter().rev().find(|part| part.has_hello);
            let others = self.parts[first..=last]
                .iter()
                .filter(|part| is_wanted(part) || part.times_unix_ns.is_none() || part.has_hello);
            ranges = hello
                .into_iter()
                .chain(others)
                .map(|part| (part.offset, part.end()))
                .collect();
        }
        Pieces::new(source, ranges)
    }
}

/// The index that ends here, with where its part of the file begins.
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
    for _ in 0..reader.number()? {
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
        });
    }
    // Anything before itself: an index that leads nowhere would never end.
    (from < index_at).then_some((from, parts)).ok_or(Damaged)
}

/// At most so many bytes from this place on: fewer at the end of the file.
fn read_at(source: &mut (impl Read + Seek), at: u64, bytes: usize) -> io::Result<Vec<u8>> {
    source.seek(SeekFrom::Start(at))?;
    let mut found = Vec::new();
    source.take(bytes as u64).read_to_end(&mut found)?;
    Ok(found)
}

/// The parts of a file up to this place, by their heads.
fn scan(source: &mut (impl Read + Seek), end: u64) -> Result<Vec<Part>, LogError> {
    let mut parts = Vec::new();
    let header = read_at(source, 0, HEADER_BYTES.min(end as usize))?;
    let mut at = match header.starts_with(super::MAGIC) {
        true => HEADER_BYTES as u64,
        false => 0,
    };
    while at < end {
        let head = BlockHead::of(&read_at(source, at, block::HEAD_BYTES)?);
        match head.filter(|head| head.block_bytes() <= end - at) {
            Some(head) => {
                if !head.is_index() {
                    parts.push(Part::of_block(at, &head));
                }
                at += head.block_bytes();
            }
            None => {
                let next = next_head(source, at + 1, end)?;
                parts.push(Part::unknown(at, next));
                at = next;
            }
        }
    }
    Ok(parts)
}

/// Where the next whole block begins, or the end.
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

/// The messages of a time, see [`LogIndex::messages_between`].
#[derive(Debug)]
pub struct Between<'a, S> {
    reader: LogReader<Pieces<&'a mut S>>,
    from_unix_ns: u64,
    to_unix_ns: u64,
    is_inside: bool,
}

impl<'a, S: Read + Seek> Between<'a, S> {
    /// The reader beneath, which knows what was damaged.
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
