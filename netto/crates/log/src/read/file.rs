//! One log file: opened safely, and read in whole, for a span, or from an offset.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics_common::Info;
use netto_log_format::{Beginning, Digested, Item, LogError, LogIndex, LogReader, Wanted};

use super::decoder::{Event, MessageDecoder};
use netto_questions::times::Span;

/// Time that is read before and after a span, nanoseconds: intervals of another file may reach into
/// it, and the clock may have been set.
const MARGIN_NS: u64 = 60_000_000_000;

/// Why a file cannot be read as a log, in words that follow its name.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system refuses to open it.
    #[error("cannot be opened: {0}")]
    Io(#[from] io::Error),
    /// A pipe, a device, a directory.
    #[error("is not a regular file: only those can be read more than once")]
    NotRegular,
}

/// A file that holds an interval.
#[derive(Debug, Clone)]
pub(super) struct KnownFile {
    pub(super) path: PathBuf,
    /// End and beginning of its first interval, nanoseconds since the Unix epoch.
    pub(super) first_end_unix_ns: u64,
    pub(super) first_begin_unix_ns: u64,
    /// The description of its first interval; `None` if that is lost.
    pub(super) info: Option<Arc<Info>>,
}

/// An open log. Its readers share the file but not their offsets; data appended after it was opened
/// is not read.
#[derive(Debug, Clone)]
pub struct LogFile {
    file: Arc<File>,
    length_bytes: u64,
    read_bytes: Arc<AtomicU64>,
}

impl LogFile {
    /// Opens a regular file; bytes read from it are added to `read_bytes`.
    ///
    /// # Errors
    /// If it cannot be opened, or is no regular file.
    pub fn open(path: &Path, read_bytes: &Arc<AtomicU64>) -> Result<LogFile, OpenError> {
        // Opening a pipe would wait for its writer.
        if !std::fs::metadata(path)?.is_file() {
            return Err(OpenError::NotRegular);
        }
        let file = File::open(path)?;
        let about = file.metadata()?;
        Ok(LogFile {
            file: Arc::new(file),
            length_bytes: about.len(),
            read_bytes: read_bytes.clone(),
        })
    }

    /// Its length, bytes.
    pub fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// Its bytes.
    pub fn bytes(&self) -> impl Read + Seek + Send + use<> {
        self.from(0)
    }

    fn from(&self, at: u64) -> Bytes {
        Bytes {
            file: self.clone(),
            at,
        }
    }

    /// The index of its blocks.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn index(&self) -> Result<LogIndex, LogError> {
        LogIndex::of(&mut self.bytes())
    }

    /// The events of a span, and possibly more: blocks of other times are skipped.
    ///
    /// # Errors
    /// If it is no log, or cannot be read.
    pub fn events(&self, span: Span) -> Result<Events, LogError> {
        let reader = if span == Span::EVER {
            LogReader::new(Box::new(self.bytes()) as Source)?
        } else {
            let (from_unix_ns, to_unix_ns) = with_margin(span);
            let pieces = self
                .index()?
                .pieces_between(self.bytes(), from_unix_ns, to_unix_ns);
            LogReader::of_pieces(Box::new(pieces) as Source)
        };
        Ok(Events::of(Reader::Messages(Box::new(reader))))
    }

    /// The events by digests, where their stretches lie entirely in the span.
    ///
    /// # Errors
    /// If it is no log, or cannot be read.
    pub fn events_by_digests(&self, span: Span) -> Result<Events, LogError> {
        let mut beginning = Beginning::Header;
        if span == Span::EVER {
            beginning = LogReader::new(self.bytes())?.beginning();
        }
        let (from_unix_ns, to_unix_ns) = with_margin(span);
        let is_wanted = |first, last| span.holds(first) && span.holds(last);
        let items = self
            .index()?
            .digested(self.from(0), from_unix_ns, to_unix_ns, is_wanted)?;
        Ok(Events::of(Reader::Digests(Box::new(items), beginning)))
    }

    /// The events from an offset on, where this description applies.
    pub fn events_from(&self, offset: u64, info: Arc<Info>) -> Events {
        let reader = LogReader::of_pieces(Box::new(self.from(offset)) as Source);
        Events {
            decoder: MessageDecoder::within(info),
            ..Events::of(Reader::Messages(Box::new(reader)))
        }
    }
}

fn with_margin(span: Span) -> (u64, u64) {
    (
        span.after_unix_ns.unwrap_or(0).saturating_sub(MARGIN_NS),
        span.until_unix_ns.saturating_add(MARGIN_NS),
    )
}

/// The bytes of a file from an offset on.
#[derive(Debug)]
struct Bytes {
    file: LogFile,
    at: u64,
}

impl Read for Bytes {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.file.length_bytes.saturating_sub(self.at);
        let most = into.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let count = self.file.file.read_at(&mut into[..most], self.at)?;
        self.at += count as u64;
        let read_bytes = &self.file.read_bytes;
        read_bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl Seek for Bytes {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.file.length_bytes.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = to.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

type Source = Box<dyn Read + Send>;

enum Reader {
    /// All messages.
    Messages(Box<LogReader<Source>>),
    /// Digests where they exist, and messages elsewhere.
    Digests(Box<Digested<Bytes>>, Beginning),
}

/// The events of a log, in the order of the file; damage is skipped and counted.
pub struct Events {
    reader: Reader,
    decoder: MessageDecoder,
}

impl Events {
    fn of(reader: Reader) -> Self {
        Events {
            reader,
            decoder: MessageDecoder::default(),
        }
    }

    /// Decodes messages on all CPUs, ahead of the reader, and of snapshots only what is wanted.
    #[must_use]
    pub fn ahead(mut self, wanted: &Wanted) -> Self {
        if let Reader::Messages(reader) = &mut self.reader {
            reader.read_ahead(wanted);
        }
        self
    }

    /// The decoder, with the known descriptions.
    pub fn decoder(&self) -> &MessageDecoder {
        &self.decoder
    }

    /// The beginning of the file.
    pub fn beginning(&self) -> Beginning {
        match &self.reader {
            Reader::Messages(reader) => reader.beginning(),
            Reader::Digests(_, beginning) => *beginning,
        }
    }

    /// Offset of the last event's block; unknown for digests.
    pub fn offset(&self) -> Option<u64> {
        match &self.reader {
            Reader::Messages(reader) => Some(reader.offset()),
            Reader::Digests(..) => None,
        }
    }

    /// Reads every message of the stretch whose digest was returned last, too.
    pub fn read_instead(&mut self) {
        if let Reader::Digests(items, _) = &mut self.reader {
            items.read_instead();
        }
    }

    /// Stretches of damage so far.
    pub fn damaged_stretches(&self) -> u64 {
        match &self.reader {
            Reader::Messages(of) => of.damaged_stretches(),
            Reader::Digests(of, _) => of.damaged_stretches(),
        }
    }

    /// Messages of a newer netto so far.
    pub fn unknown_messages(&self) -> u64 {
        match &self.reader {
            Reader::Messages(of) => of.unknown_messages(),
            Reader::Digests(of, _) => of.unknown_messages(),
        }
    }

    /// Whether the file ends in the middle of a block.
    pub fn is_cut(&self) -> bool {
        match &self.reader {
            Reader::Messages(of) => of.is_cut(),
            Reader::Digests(of, _) => of.is_cut(),
        }
    }
}

impl Iterator for Events {
    type Item = Result<Event, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let item = match &mut self.reader {
                Reader::Messages(reader) => reader.next()?.map(Item::Message),
                Reader::Digests(items, _) => items.next()?,
            };
            match item {
                Ok(Item::Message(message)) => {
                    if let Some(event) = self.decoder.decode(message) {
                        return Some(Ok(event));
                    }
                }
                Ok(Item::Digest(digest)) => return Some(Ok(Event::Digest(digest))),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
