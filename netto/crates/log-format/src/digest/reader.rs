//! Reads a log by its digests: the digest of a stretch, where it is valid and wanted, and messages
//! elsewhere. The index must know all blocks that a digest covers; their contents are not read.

use std::collections::VecDeque;
use std::io::{Read, Seek};

use super::{Coverage, Digest, MOST_COVER_BYTES};
use crate::block::{self, BlockHead, Unpacker};
use crate::index::{join, read_at};
use crate::pieces::Pieces;
use crate::{LogError, LogIndex, LogReader, Part};
use metrics_common::codec::ServerMessage;
use metrics_common::packed;

/// An item of a log that is read by its digests.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A message that no yielded digest covers.
    Message(ServerMessage),
    /// The sums of a stretch.
    Digest(Box<Digest>),
}

/// Ranges of a file, read in this order.
type Ranges = Vec<(u64, u64)>;

/// A segment of the file to be read.
#[derive(Debug)]
enum Segment {
    Messages(Ranges),
    Stretch {
        digest: Part,
        cover: Coverage,
        /// The blocks that it covers.
        instead: Ranges,
    },
}

/// A stretch with known blocks.
struct Stretch {
    from: u64,
    to: u64,
    digest: Part,
    cover: Coverage,
}

/// The items of a log, see the head of this file.
#[derive(Debug)]
pub struct Digested<S> {
    /// Present while `reader` is not.
    source: Option<S>,
    reader: Option<LogReader<Pieces<S>>>,
    segments: VecDeque<Segment>,
    /// The blocks covered by the digest yielded last.
    instead: Ranges,
    unpacker: Unpacker,
    damaged: u64,
    unknown: u64,
    cut: bool,
}

impl LogIndex {
    /// Reads a time span, both ends included, with the preceding messages that it needs. Where
    /// `is_wanted` accepts the times of a stretch's first and last snapshot, its digest is read
    /// instead of its blocks.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn digested<S: Read + Seek>(
        &self,
        mut source: S,
        from_unix_ns: u64,
        to_unix_ns: u64,
        is_wanted: impl Fn(u64, u64) -> bool,
    ) -> Result<Digested<S>, LogError> {
        let mut stretches = self
            .stretches(&mut source, is_wanted)?
            .into_iter()
            .peekable();
        let mut segments: VecDeque<Segment> = VecDeque::new();
        for part in self.parts_between(from_unix_ns, to_unix_ns) {
            while stretches
                .next_if(|stretch| stretch.to <= part.offset)
                .is_some()
            {}
            let range = (part.offset, part.end());
            let stretch = stretches
                .peek()
                .filter(|stretch| stretch.from <= part.offset);
            match (stretch, segments.back_mut()) {
                (None, Some(Segment::Messages(ranges))) => ranges.push(range),
                (None, _) => segments.push_back(Segment::Messages(vec![range])),
                (
                    Some(stretch),
                    Some(Segment::Stretch {
                        digest, instead, ..
                    }),
                ) if *digest == stretch.digest => {
                    instead.push(range);
                }
                (Some(stretch), _) => segments.push_back(Segment::Stretch {
                    digest: stretch.digest,
                    cover: stretch.cover,
                    instead: vec![range],
                }),
            }
        }
        Ok(Digested {
            source: Some(source),
            reader: None,
            segments,
            instead: Ranges::new(),
            unpacker: Unpacker::default(),
            damaged: 0,
            unknown: 0,
            cut: false,
        })
    }

    /// The stretches with a wanted digest whose blocks are all known, in order.
    fn stretches(
        &self,
        source: &mut (impl Read + Seek),
        is_wanted: impl Fn(u64, u64) -> bool,
    ) -> Result<Vec<Stretch>, LogError> {
        let mut stretches: Vec<Stretch> = Vec::new();
        for digest in self.parts().iter().filter(|part| part.is_digest()) {
            let Some((first, last)) = digest.times_unix_ns else {
                continue;
            };
            if !is_wanted(first, last) {
                continue;
            }
            let beginning = read_at(source, digest.offset, block::HEAD_BYTES + MOST_COVER_BYTES)?;
            let found = beginning.split_at_checked(block::HEAD_BYTES);
            let cover =
                found.and_then(|(_, payload)| Coverage::of(&mut packed::Reader(payload)).ok());
            let stretch = cover.and_then(|cover| self.stretch(*digest, cover));
            // If two digests claim the same blocks, the first counts.
            let end = stretches.last().map_or(0, |stretch| stretch.to);
            stretches.extend(stretch.filter(|stretch| stretch.from >= end));
        }
        Ok(stretches)
    }

    /// The stretch of a digest, if all of its blocks are present and have its times.
    fn stretch(&self, digest: Part, cover: Coverage) -> Option<Stretch> {
        let from = digest.offset.checked_sub(cover.bytes)?;
        let first = self.parts().partition_point(|part| part.offset < from);
        let behind = self.parts().get(first..)?.iter();
        let (mut blocks, mut times, mut to) = (0, None, from);
        for part in behind.filter(|part| !part.is_digest()) {
            if blocks >= cover.blocks {
                break;
            }
            let is_known = part.messages.is_some() && !part.has_hello;
            if !is_known || part.end() > digest.offset || (blocks == 0 && part.offset != from) {
                return None;
            }
            blocks += u64::from(part.blocks);
            times = join(times, part.times_unix_ns);
            to = part.end();
        }
        let is_all = blocks == cover.blocks && times == digest.times_unix_ns;
        is_all.then_some(Stretch {
            from,
            to,
            digest,
            cover,
        })
    }
}

impl<S: Read + Seek> Digested<S> {
    /// Reads every message covered by the digest yielded last, too.
    pub fn read_instead(&mut self) {
        let instead = std::mem::take(&mut self.instead);
        self.segments.push_front(Segment::Messages(instead));
    }

    /// Number of damaged stretches and invalid digests so far.
    pub fn damaged_stretches(&self) -> u64 {
        self.damaged + self.reader.as_ref().map_or(0, LogReader::damaged_stretches)
    }

    /// Messages of a newer netto so far.
    pub fn unknown_messages(&self) -> u64 {
        self.unknown + self.reader.as_ref().map_or(0, LogReader::unknown_messages)
    }

    /// Whether the file ends in the middle of a block.
    pub fn is_cut(&self) -> bool {
        self.cut || self.reader.as_ref().is_some_and(LogReader::is_cut)
    }

    /// Ends a segment after its last message.
    fn leave(&mut self, reader: LogReader<Pieces<S>>) {
        self.damaged += reader.damaged_stretches();
        self.unknown += reader.unknown_messages();
        if reader.is_cut() {
            // A cut in the middle of the file is damage.
            if self.segments.is_empty() {
                self.cut = true;
            } else {
                self.damaged += 1;
            }
        }
        self.source = Some(reader.into_source().into_source());
    }

    fn enter(&mut self, ranges: Ranges) {
        let source = self.source.take();
        self.reader = source.map(|source| LogReader::of_pieces(Pieces::new(source, ranges)));
    }

    fn next_item(&mut self) -> Result<Option<Item>, LogError> {
        loop {
            if let Some(mut reader) = self.reader.take() {
                match reader.next() {
                    Some(message) => {
                        self.reader = Some(reader);
                        return Ok(Some(Item::Message(message?)));
                    }
                    None => self.leave(reader),
                }
            }
            match self.segments.pop_front() {
                None => return Ok(None),
                Some(Segment::Messages(ranges)) => self.enter(ranges),
                Some(Segment::Stretch {
                    digest,
                    cover,
                    instead,
                }) => match self.digest(&digest, cover)? {
                    Some(digest) => {
                        self.instead = instead;
                        return Ok(Some(Item::Digest(Box::new(digest))));
                    }
                    None => {
                        self.damaged += 1;
                        self.enter(instead);
                    }
                },
            }
        }
    }

    /// Reads the digest of a part; `None` if it is invalid, or covers other blocks.
    fn digest(&mut self, part: &Part, cover: Coverage) -> Result<Option<Digest>, LogError> {
        let Some(source) = &mut self.source else {
            return Ok(None);
        };
        let head = BlockHead::of(&read_at(source, part.offset, block::HEAD_BYTES)?);
        let Some(head) = head.filter(|head| head.is_digest() && head.block_bytes() == part.bytes)
        else {
            return Ok(None);
        };
        let payload_at = part.offset + block::HEAD_BYTES as u64;
        let payload = read_at(source, payload_at, head.payload_bytes as usize)?;
        if crc32fast::hash(&payload) != head.payload_crc {
            return Ok(None);
        }
        let found = Digest::of(&head, &payload, &mut self.unpacker).ok();
        Ok(found.and_then(|(found, digest)| (found == cover).then_some(digest)))
    }
}

impl<S: Read + Seek> Iterator for Digested<S> {
    type Item = Result<Item, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.next_item().transpose();
        if matches!(item, Some(Err(_))) {
            // An error would repeat for ever.
            self.segments.clear();
            self.reader = None;
        }
        item
    }
}
