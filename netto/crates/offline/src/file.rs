//! One log file: opening it, for all that it holds or for a span of time, so that what was read of
//! it is counted; and what to say if it is none.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics_common::log::{Beginning, Digested, Item, LogError, LogIndex, LogReader};

use netto_questions::times::Span;

/// What is read before a span, and after it, nanoseconds: intervals of another file may reach
/// into it, and the clock may have been set.
const MARGIN_NS: u64 = 60_000_000_000;

/// A file that counts what is read of it.
#[derive(Debug)]
pub(super) struct Counted {
    file: File,
    read_bytes: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(into)?;
        self.read_bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl Seek for Counted {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// Length of a file, bytes.
///
/// # Errors
/// What is wrong with it, for people, without its name.
pub(super) fn length_bytes(path: &Path) -> Result<u64, String> {
    let about = std::fs::metadata(path).map_err(|error| unopened(&error))?;
    if !about.is_file() {
        return Err("is no regular file: only files can be read more than once".to_owned());
    }
    match about.len() {
        0 => Err("is empty: nothing was written to it yet".to_owned()),
        length => Ok(length),
    }
}

/// What a series reads from.
pub(super) type Source = Box<dyn Read + Send>;

/// Opens a log for what it holds of a span, and perhaps more. Blocks of other times are passed
/// over.
///
/// # Errors
/// What is wrong with it, for people, without its name.
pub(super) fn open(
    path: &Path,
    span: Span,
    read_bytes: &Arc<AtomicU64>,
) -> Result<LogReader<Source>, String> {
    let mut counted = counted(path, read_bytes)?;
    if span == Span::EVER {
        return LogReader::new(Box::new(counted) as Source).map_err(|error| wording(&error));
    }
    let index = LogIndex::of(&mut counted).map_err(|error| wording(&error))?;
    let (from_unix_ns, to_unix_ns) = with_margin(span);
    let pieces = index.pieces_between(counted, from_unix_ns, to_unix_ns);
    Ok(LogReader::of_pieces(Box::new(pieces) as Source))
}

/// A log that is read for a span.
pub(super) enum Opened {
    /// For all messages.
    Messages(Box<LogReader<Source>>),
    /// For digests, where there are some, and for messages elsewhere.
    Digests(Box<Digested<Counted>>, Beginning),
}

impl Opened {
    /// For every message.
    ///
    /// # Errors
    /// As for [`open`].
    pub(super) fn for_messages(
        path: &Path,
        span: Span,
        read_bytes: &Arc<AtomicU64>,
    ) -> Result<Opened, String> {
        Ok(Opened::Messages(Box::new(open(path, span, read_bytes)?)))
    }

    /// By its digests: of those stretches that lie in the span as a whole.
    ///
    /// # Errors
    /// As for [`open`].
    pub(super) fn for_digests(
        path: &Path,
        span: Span,
        read_bytes: &Arc<AtomicU64>,
    ) -> Result<Opened, String> {
        let mut counted = counted(path, read_bytes)?;
        let mut beginning = Beginning::Header;
        if span == Span::EVER {
            let reader = LogReader::new(&mut counted).map_err(|error| wording(&error))?;
            beginning = reader.beginning();
        }
        let index = LogIndex::of(&mut counted).map_err(|error| wording(&error))?;
        let (from_unix_ns, to_unix_ns) = with_margin(span);
        let is_wanted = |first, last| span.holds(first) && span.holds(last);
        let items = index
            .digested(counted, from_unix_ns, to_unix_ns, is_wanted)
            .map_err(|error| wording(&error))?;
        Ok(Opened::Digests(Box::new(items), beginning))
    }

    /// How the file begins.
    pub(super) fn beginning(&self) -> Beginning {
        match self {
            Opened::Messages(reader) => reader.beginning(),
            Opened::Digests(_, beginning) => *beginning,
        }
    }

    /// Reads every message of the stretch whose digest was given last, too.
    pub(super) fn read_instead(&mut self) {
        match self {
            Opened::Messages(_) => {}
            Opened::Digests(items, _) => items.read_instead(),
        }
    }

    /// What was wrong with the file so far: damaged stretches, unknown messages, whether it is cut.
    pub(super) fn wrong(&self) -> (u64, u64, bool) {
        match self {
            Opened::Messages(of) => (of.damaged_stretches(), of.unknown_messages(), of.is_cut()),
            Opened::Digests(of, _) => (of.damaged_stretches(), of.unknown_messages(), of.is_cut()),
        }
    }
}

impl Iterator for Opened {
    type Item = Result<Item, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Opened::Messages(reader) => Some(reader.next()?.map(Item::Message)),
            Opened::Digests(items, _) => items.next(),
        }
    }
}

fn with_margin(span: Span) -> (u64, u64) {
    (
        span.after_unix_ns.unwrap_or(0).saturating_sub(MARGIN_NS),
        span.until_unix_ns.saturating_add(MARGIN_NS),
    )
}

/// Time of the last snapshot of a log, nanoseconds since the Unix epoch, where the heads of its
/// blocks tell; `None` where it must be read.
///
/// # Errors
/// What is wrong with it, for people, without its name.
pub(super) fn end_unix_ns(path: &Path, read_bytes: &Arc<AtomicU64>) -> Result<Option<u64>, String> {
    let index = LogIndex::of(&mut counted(path, read_bytes)?).map_err(|error| wording(&error))?;
    let span = index.span_unix_ns().filter(|_| index.is_known());
    Ok(span.map(|(_, last)| last))
}

fn counted(path: &Path, read_bytes: &Arc<AtomicU64>) -> Result<Counted, String> {
    let file = File::open(path).map_err(|error| unopened(&error))?;
    Ok(Counted {
        file,
        read_bytes: read_bytes.clone(),
    })
}

fn unopened(error: &io::Error) -> String {
    format!("cannot be opened: {error}")
}

/// What is wrong with a log, behind its name.
pub(super) fn wording(error: &LogError) -> String {
    match error {
        LogError::NotALog => {
            "is no log of netto's: it does not begin with \"NETTOLOG\", nor with a frame".to_owned()
        }
        other => other.to_string(),
    }
}
