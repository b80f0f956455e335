//! A log to be played: read once for an index, then from any time.
//!
//! Memory is bounded for any file: the index and its descriptions are bounded.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail};
use metrics_common::Info;
use metrics_common::component::NETWORK;

use super::index::{Index, Point, key_of};
use super::timeline::{Frame, MonotonicTimeline};
use netto_log::read::{Event, Events, LogFile, OpenError};
use netto_pipeline::overview::Overview;
use netto_pipeline::playback::Facts;
use netto_questions::times::Span;
use netto_questions::words::{self, Missing};

/// Most events between the beginning of a block and its snapshot.
const MOST_PASSED_OVER: usize = 4096;
/// Points tried before the file is read from its beginning.
const TRIES: usize = 3;

/// A log that can be played; see the head of this file.
#[derive(Debug)]
pub struct Recording {
    file: LogFile,
    points: Vec<Point>,
    infos: Vec<Arc<Info>>,
    /// Recorded begin and end, nanoseconds since the Unix epoch.
    span_unix_ns: (u64, u64),
    missing: Vec<String>,
    facts: Facts,
}

impl Recording {
    /// Reads a whole log; calls `progress` with the number of bytes read and the total.
    ///
    /// # Errors
    /// If it is not a log, has no snapshots, or cannot be read.
    pub fn open(path: &Path, progress: &mut dyn FnMut(u64, u64)) -> anyhow::Result<Recording> {
        let shown = path.display();
        let read_bytes = Arc::<AtomicU64>::default();
        let file = match LogFile::open(path, &read_bytes) {
            Ok(file) => file,
            Err(OpenError::NotRegular) => bail!(
                "{shown} is not a regular file, and a replay seeks in it; copy it to one first"
            ),
            Err(OpenError::Io(error)) => {
                return Err(error).with_context(|| format!("cannot open the log {shown}"));
            }
        };
        let length_bytes = file.length_bytes();
        Self::of(file, &mut || {
            progress(read_bytes.load(Ordering::Relaxed), length_bytes);
        })
        .with_context(|| format!("cannot replay {shown}"))
    }

    fn of(file: LogFile, progress: &mut dyn FnMut()) -> anyhow::Result<Recording> {
        let mut events = file.events(Span::EVER)?;
        let mut timeline = MonotonicTimeline::default();
        let mut index = Index::default();
        let mut missing = Missing::default();
        let mut seen: Option<FileSummary> = None;
        while let Some(event) = events.next() {
            match event {
                Ok(Event::Interval(info, snapshot)) => {
                    let before = timeline;
                    let frame = timeline.frame(info, *snapshot);
                    if let Some(offset) = events.offset() {
                        index.add(&frame, offset, before);
                    }
                    seen.get_or_insert_with(|| FileSummary::new(&frame))
                        .add(&frame);
                }
                Ok(Event::Undescribed(_)) => missing.unexplained_snapshots += 1,
                Ok(Event::Gap(gap)) => missing.add_gap(&gap),
                Ok(Event::Stacks(_) | Event::Digest(_)) => {}
                Err(error) => missing.stopped = Some(error.to_string()),
            }
            progress();
        }
        missing.damaged_stretches = events.damaged_stretches();
        missing.unknown_messages = events.unknown_messages();
        missing.is_cut = events.is_cut();
        let undescribed = events.decoder().undescribed();
        missing.description_is_lost = undescribed > missing.unexplained_snapshots;
        let missing = missing.notes();
        let Some(seen) = seen else {
            match missing.first() {
                Some(cause) => bail!("it holds no snapshot that could be shown; {cause}"),
                None => bail!("it holds no snapshot; netto had not finished an interval yet"),
            }
        };
        Ok(Recording {
            file,
            points: index.points,
            infos: index.infos,
            span_unix_ns: seen.unix_ns,
            missing,
            facts: Facts {
                span_ns: seen.span_ns,
                snapshots: seen.snapshots,
                overview: seen.overview.view(),
            },
        })
    }

    /// The facts about it for viewers.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The missing data, one sentence each.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// A description for viewers: with notes on the recording before its own.
    pub fn presented(&self, info: &Info) -> Info {
        let (begin, end) = self.span_unix_ns;
        let label = words::label(&info.hostname, begin, end);
        let notes = [label].into_iter().chain(self.missing.iter().cloned());
        Info {
            notes: notes.chain(info.notes.iter().cloned()).collect(),
            ..info.clone()
        }
    }

    /// Starts reading at a time of its timeline: the first interval may end some time before it.
    pub fn read_from(&self, at_ns: u64) -> Reading {
        let until = self.points.partition_point(|point| point.at_ns <= at_ns);
        let near = self.points[..until].iter().rev().take(TRIES);
        near.filter_map(|point| self.read_at(point))
            .next()
            .unwrap_or_else(|| Reading {
                // It could be read before: this fails only if the file has changed.
                events: self.file.events(Span::EVER).ok(),
                timeline: MonotonicTimeline::default(),
                first: None,
            })
    }

    /// Starts reading at the snapshot of an index point, if it is found there.
    fn read_at(&self, point: &Point) -> Option<Reading> {
        let info = self.infos.get(point.info)?.clone();
        let mut events = self.file.events_from(point.offset, info);
        let found = events.by_ref().take(MOST_PASSED_OVER);
        let (info, snapshot) = found.filter_map(Result::ok).find_map(|event| match event {
            Event::Interval(info, snapshot) if key_of(&snapshot) == point.key => {
                Some((info, snapshot))
            }
            _ => None,
        })?;
        let mut timeline = point.before;
        Some(Reading {
            first: Some(timeline.frame(info, *snapshot)),
            events: Some(events),
            timeline,
        })
    }
}

/// Consecutive intervals of a recording.
pub struct Reading {
    events: Option<Events>,
    timeline: MonotonicTimeline,
    first: Option<Frame>,
}

impl Iterator for Reading {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            match self.events.as_mut()?.next()? {
                Ok(Event::Interval(info, snapshot)) => {
                    return Some(self.timeline.frame(info, *snapshot));
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!("the recording ends here: {error}");
                    self.events = None;
                    return None;
                }
            }
        }
    }
}

/// The result of the first reading of a file.
struct FileSummary {
    span_ns: (u64, u64),
    unix_ns: (u64, u64),
    snapshots: u64,
    overview: Overview,
    /// The row of networking in this description.
    network: Option<(Arc<Info>, Option<usize>)>,
}

impl FileSummary {
    fn new(first: &Frame) -> Self {
        let begin_ns = first.begin_ns();
        let time_ns = first.snapshot.time_unix_ns;
        FileSummary {
            span_ns: (begin_ns, first.at_ns),
            unix_ns: (time_ns.saturating_sub(first.snapshot.interval_ns), time_ns),
            snapshots: 0,
            overview: Overview::new(begin_ns),
            network: None,
        }
    }

    fn add(&mut self, frame: &Frame) {
        let network = self.network.take();
        let network = network.filter(|(info, _)| Arc::ptr_eq(info, &frame.info));
        let (info, row) =
            network.unwrap_or_else(|| (frame.info.clone(), frame.info.row_of(NETWORK)));
        let network_ns = row.and_then(|row| frame.snapshot.total_ns(row));
        self.network = Some((info, row));
        self.overview.add(frame.at_ns, &frame.snapshot, network_ns);
        self.span_ns.1 = frame.at_ns;
        self.unix_ns.1 = frame.snapshot.time_unix_ns;
        self.snapshots += 1;
    }
}
