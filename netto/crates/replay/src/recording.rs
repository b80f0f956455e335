//! A log that is played: read once for an index, then from any place of it.
//!
//! It owns the file and what is known of it. Memory is bounded whatever the file holds: the
//! index is bounded, and so are the descriptions that it keeps (`index`). The reader of logs tells no offsets, so an index has places from which
//! its snapshot surely follows; what comes before that one is passed over.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail, ensure};
use metrics_common::Info;
use metrics_common::codec::ServerMessage;
use metrics_common::log::{self, LogReader};

use super::index::{Floors, Index, Point, key_of};
pub use super::narration::Frame;
use super::narration::{Heard, Narration, Notes};
use netto_pipeline::course::Course;
use netto_pipeline::playback::Facts;
use netto_questions::words::Missing;

/// Messages that may stand between a place and its snapshot.
const MOST_PASSED_OVER: usize = 4096;
/// Places that are tried before the file is read from its beginning.
const TRIES: usize = 3;
/// The component whose share is the course.
const NETWORK: &str = "network";

/// A log that can be played; see the head of this file.
#[derive(Debug)]
pub struct Recording {
    file: Arc<File>,
    length_bytes: u64,
    header: Vec<u8>,
    points: Vec<Point>,
    infos: Vec<Arc<Info>>,
    notes: Notes,
    facts: Facts,
}

impl Recording {
    /// Reads a log from its beginning to its end; `progress` is told how many bytes are read,
    /// of how many.
    ///
    /// # Errors
    /// If this is no log, holds no snapshot, or cannot be read at all.
    pub fn open(path: &Path, progress: &mut dyn FnMut(u64, u64)) -> anyhow::Result<Recording> {
        let shown = path.display();
        let file = File::open(path).with_context(|| format!("cannot open the log {shown}"))?;
        let about = file
            .metadata()
            .with_context(|| format!("cannot read the log {shown}"))?;
        ensure!(
            about.is_file(),
            "{shown} is no regular file: a replay goes back and forth in it; copy it to one first"
        );
        Self::of(file, about.len(), progress).with_context(|| format!("cannot replay {shown}"))
    }

    fn of(
        file: File,
        length_bytes: u64,
        progress: &mut dyn FnMut(u64, u64),
    ) -> anyhow::Result<Recording> {
        let file = Arc::new(file);
        let header = header_of(&file)?;
        let read_bytes = Arc::new(AtomicU64::new(0));
        let mut reader =
            LogReader::new(Source::new(Vec::new(), &file, 0..length_bytes, &read_bytes))?;
        let mut narration = Narration::default();
        let mut index = Index::default();
        let mut missing = Missing::default();
        let mut floors = Floors::default();
        let mut seen: Option<Seen> = None;
        for message in reader.by_ref() {
            let message = match message {
                Ok(message) => message,
                Err(error) => {
                    missing.stopped = Some(error.to_string());
                    break;
                }
            };
            let (clock, before) = (narration.clock, floors.surely_before);
            if let ServerMessage::Gap(gap) = &message {
                missing.add_gap(gap);
            }
            match narration.hear(message) {
                Heard::Frame(frame) => {
                    index.add(&frame, before, clock);
                    seen.get_or_insert_with(|| Seen::new(&frame)).add(&frame);
                }
                Heard::Unexplained => missing.unexplained_snapshots += 1,
                Heard::Nothing => {}
            }
            let read = read_bytes.load(Ordering::Relaxed);
            floors.message_ended(read);
            progress(read, length_bytes);
        }
        missing.damaged_stretches = reader.damaged_stretches();
        missing.unknown_messages = reader.unknown_messages();
        missing.is_cut = reader.is_cut();
        missing.description_is_lost = narration.has_guessed;
        let Some(seen) = seen else {
            match missing.notes().first() {
                Some(cause) => bail!("it holds no snapshot that could be shown; {cause}"),
                None => bail!("it holds no snapshot; netto had not finished an interval yet"),
            }
        };
        let notes = Notes {
            span_unix_ns: Some(seen.unix_ns),
            missing: missing.notes().into(),
        };
        let presented = |info: Arc<Info>| Arc::new(notes.added_to((*info).clone()));
        Ok(Recording {
            file,
            length_bytes,
            header,
            points: index.points,
            infos: index.infos.into_iter().map(presented).collect(),
            notes,
            facts: Facts {
                span_ns: seen.span_ns,
                snapshots: seen.snapshots,
                course: seen.course.view(),
            },
        })
    }

    /// What a viewer wants to know of it.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What the recording says is missing, one sentence each.
    pub fn missing(&self) -> &[String] {
        &self.notes.missing
    }

    /// Reads on from a place on its axis: the first interval may end some time before that.
    pub fn read_from(&self, at_ns: u64) -> Reading {
        let until = self.points.partition_point(|point| point.at_ns <= at_ns);
        let near = self.points[..until].iter().rev().take(TRIES);
        near.filter(|point| point.offset > 0)
            .find_map(|point| self.read_at(point))
            .unwrap_or_else(|| self.read_from_start())
    }

    fn read_from_start(&self) -> Reading {
        let read = Arc::default();
        let source = Source::new(Vec::new(), &self.file, 0..self.length_bytes, &read);
        Reading {
            // The same bytes have been read before; only a file that has changed since fails here.
            reader: LogReader::new(source).ok(),
            narration: Narration {
                notes: self.notes.clone(),
                ..Narration::default()
            },
            first: None,
        }
    }

    /// Reads on from the snapshot of an index's place, if it is found there.
    fn read_at(&self, point: &Point) -> Option<Reading> {
        let read = Arc::default();
        let bytes = point.offset..self.length_bytes;
        let source = Source::new(self.header.clone(), &self.file, bytes, &read);
        let mut reader = LogReader::new(source).ok()?;
        let found = reader.by_ref().take(MOST_PASSED_OVER).find_map(|message| {
            let snapshot = match message {
                Ok(ServerMessage::Snapshot(snapshot)) => snapshot,
                _ => return None,
            };
            (key_of(&snapshot) == point.key).then_some(snapshot)
        })?;
        let mut narration = Narration {
            info: self.infos.get(point.info).cloned(),
            clock: point.clock,
            notes: self.notes.clone(),
            ..Narration::default()
        };
        let Heard::Frame(first) = narration.hear(ServerMessage::Snapshot(found)) else {
            return None;
        };
        Some(Reading {
            reader: Some(reader),
            narration,
            first: Some(*first),
        })
    }
}

/// The file's own header, or what would be one.
fn header_of(file: &File) -> io::Result<Vec<u8>> {
    let usual = log::file_header();
    let mut own = vec![0; usual.len()];
    match file.read_exact_at(&mut own, 0) {
        Ok(()) if own.starts_with(log::MAGIC) => Ok(own),
        Ok(()) => Ok(usual),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(usual),
        Err(error) => Err(error),
    }
}

/// Intervals of a recording, one after the other.
#[derive(Debug)]
pub struct Reading {
    reader: Option<LogReader<Source>>,
    narration: Narration,
    first: Option<Frame>,
}

impl Iterator for Reading {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            let message = match self.reader.as_mut()?.next()? {
                Ok(message) => message,
                Err(error) => {
                    tracing::warn!("the recording ends here: {error}");
                    self.reader = None;
                    return None;
                }
            };
            if let Heard::Frame(frame) = self.narration.hear(message) {
                return Some(*frame);
            }
        }
    }
}

/// What the first reading of a file adds up to.
struct Seen {
    span_ns: (u64, u64),
    unix_ns: (u64, u64),
    snapshots: u64,
    course: Course,
    /// The row of networking, of this description.
    network: Option<(Arc<Info>, Option<usize>)>,
}

impl Seen {
    fn new(first: &Frame) -> Self {
        let begin_ns = first.begin_ns();
        let time_ns = first.snapshot.time_unix_ns;
        Seen {
            span_ns: (begin_ns, first.at_ns),
            unix_ns: (time_ns.saturating_sub(first.snapshot.interval_ns), time_ns),
            snapshots: 0,
            course: Course::new(begin_ns),
            network: None,
        }
    }

    fn add(&mut self, frame: &Frame) {
        let known = self.network.take();
        let known = known.filter(|(info, _)| Arc::ptr_eq(info, &frame.info));
        let (info, row) = known.unwrap_or_else(|| {
            let mut rows = frame.info.components.iter();
            (frame.info.clone(), rows.position(|c| c.slug == NETWORK))
        });
        let network_ns = row.and_then(|row| frame.snapshot.total_ns(row));
        self.network = Some((info, row));
        self.course.add(frame.at_ns, &frame.snapshot, network_ns);
        self.span_ns.1 = frame.at_ns;
        self.unix_ns.1 = frame.snapshot.time_unix_ns;
        self.snapshots += 1;
    }
}

/// Bytes of a file behind some others, read without a place that others share.
#[derive(Debug)]
struct Source {
    before: Cursor<Vec<u8>>,
    file: Arc<File>,
    bytes: std::ops::Range<u64>,
    read: Arc<AtomicU64>,
}

impl Source {
    fn new(
        before: Vec<u8>,
        file: &Arc<File>,
        bytes: std::ops::Range<u64>,
        read: &Arc<AtomicU64>,
    ) -> Self {
        Source {
            before: Cursor::new(before),
            file: file.clone(),
            bytes,
            read: read.clone(),
        }
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let own = self.before.read(buffer)?;
        if own > 0 || buffer.is_empty() {
            return Ok(own);
        }
        let left = self.bytes.end.saturating_sub(self.bytes.start);
        let wanted = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let count = self.file.read_at(&mut buffer[..wanted], self.bytes.start)?;
        self.bytes.start += count as u64;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
