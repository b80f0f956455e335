//! The files of one host as one series of intervals, in the order of time. Decides which file is
//! read next and what is counted only once; the meaning of intervals is not its concern.
//!
//! A file is read once, from its beginning, by intervals or, if only sums are needed, by digests
//! where they exist. Each interval is passed on before the next is read, so that memory does not
//! grow with the files. Intervals that are in several files count once:
//!
//! - within one run of netto, each sequence number counts once;
//! - of different runs, an interval of which more than half lies before the end of another file's
//!   intervals so far does not count. Within a file, a later run always counts: it is there because
//!   the clock was set back.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;

use metrics_common::codec::{Gap, Stacks};
use metrics_common::{ComponentInfo, Info, Snapshot};
use netto_log_format::{Beginning, Digest, LogIndex, Sums, Wanted};

use super::decoder::Event;
use super::file::{Events, KnownFile, LogFile};
use super::findings::{Findings, wording};
use netto_questions::times::Span;

/// Longest plausible interval, nanoseconds: a week. Longer ones are damage.
const LONGEST_INTERVAL_NS: u64 = 7 * 86_400 * 1_000_000_000;
/// Number of runs whose last sequence number is remembered.
const MOST_RUNS: usize = 4_096;
/// Entries that are read ahead while others are processed.
const AHEAD: usize = 16;

/// An entry of a series.
#[derive(Debug, Clone, PartialEq)]
pub enum SeriesItem {
    /// The description of the rows and the host of the following intervals.
    Described(Arc<Info>),
    /// One interval.
    Interval(Box<Snapshot>),
    /// Consecutive intervals of which only the sums were read; only in a series that is read by
    /// digests.
    Digest(Box<Digest>),
    /// Snapshots that could not be written.
    Missing(Gap),
    /// Sampled stacks whose time lies entirely within the span.
    Stacks(Box<Stacks>),
}

/// The read state of a file.
struct Head {
    known: KnownFile,
    events: Option<Events>,
    next: Option<Event>,
}

impl Head {
    fn index(&self) -> Option<LogIndex> {
        let file = LogFile::open(&self.known.path, &Arc::default()).ok()?;
        file.index().ok()
    }
}

/// The intervals of several files in order.
pub struct Series {
    heads: Vec<Head>,
    /// The files with unread events, the earliest first.
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    span: Span,
    by_digests: bool,
    wanted: Wanted,
    /// The description that was passed on last.
    last_info: Option<Arc<Info>>,
    ready: VecDeque<SeriesItem>,
    /// For each run, by its start, the last sequence number that was counted.
    last_sequences: HashMap<u64, u64>,
    covered_until_unix_ns: u64,
    /// File and run of the last counted interval.
    last: Option<(usize, u64)>,
    last_gap: Option<Gap>,
    /// Time of the last stacks passed on.
    last_stacks_unix_ns: u64,
    findings: Findings,
    read_bytes: Arc<AtomicU64>,
}

impl Series {
    /// Files in the order of the ends of their first intervals.
    pub(super) fn of(
        files: impl Iterator<Item = KnownFile>,
        span: Span,
        by_digests: bool,
        findings: Findings,
        read_bytes: Arc<AtomicU64>,
    ) -> Series {
        let (mut heads, mut queue) = (Vec::new(), BinaryHeap::new());
        for known in files {
            queue.push(Reverse((known.first_end_unix_ns, heads.len())));
            heads.push(Head {
                known,
                events: None,
                next: None,
            });
        }
        Series {
            heads,
            queue,
            span,
            by_digests,
            wanted: Wanted::default(),
            last_info: None,
            ready: VecDeque::new(),
            last_sequences: HashMap::new(),
            covered_until_unix_ns: 0,
            last: None,
            last_gap: None,
            last_stacks_unix_ns: 0,
            findings,
            read_bytes,
        }
    }

    /// Reads only these sections of intervals, as far as that is quicker.
    #[must_use]
    pub fn only(mut self, sections: Vec<&'static str>) -> Series {
        self.wanted.sections = Some(sections);
        self
    }

    /// Reads intervals of a step of this length as one, as far as that is quicker: of the CPU time
    /// of components alone, and of these perhaps only some, which `are_wanted` picks by their
    /// description. Only where no file or block has times of another one: what is there twice is
    /// found interval by interval.
    #[must_use]
    pub fn summed(
        mut self,
        step_ns: u64,
        are_wanted: impl Fn(&[ComponentInfo]) -> Option<Vec<bool>>,
    ) -> Series {
        let indices: Option<Vec<LogIndex>> = self.heads.iter().map(Head::index).collect();
        let indices = indices.filter(|indices| self.are_disjoint(indices));
        self.wanted.sums = indices.map(|indices| Sums {
            step_ns,
            after_unix_ns: self.span.after_unix_ns.unwrap_or(0),
            until_unix_ns: self.span.until_unix_ns,
            rows: self.only_components(&indices).and_then(are_wanted),
        });
        self
    }

    /// Whether the first interval of each file begins after the one before, and each block ends
    /// before the next one begins.
    fn are_disjoint(&self, indices: &[LogIndex]) -> bool {
        let mut end_unix_ns = 0;
        self.heads.iter().zip(indices).all(|(head, index)| {
            let is_later = end_unix_ns <= head.known.first_begin_unix_ns;
            let mut blocks = index.parts().iter().filter(|part| !part.is_digest());
            is_later
                && index.is_known()
                && blocks.all(|part| {
                    part.blocks == 1
                        && part.times_unix_ns.is_none_or(|(first, last)| {
                            let begin_unix_ns = std::mem::replace(&mut end_unix_ns, last);
                            begin_unix_ns < first
                        })
                })
        })
    }

    /// The rows of all intervals, if no file has more than one description and all are the same.
    fn only_components(&self, indices: &[LogIndex]) -> Option<&[ComponentInfo]> {
        let mut all = self.heads.iter().zip(indices).map(|(head, index)| {
            let descriptions = index.parts().iter().filter(|part| part.has_hello);
            let info = head
                .known
                .info
                .as_deref()
                .filter(|_| descriptions.count() == 1);
            info.map(|info| info.components.as_slice())
        });
        let first = all.next()??;
        all.all(|next| next == Some(first)).then_some(first)
    }

    /// Passes every entry to `each`, while another thread reads ahead.
    ///
    /// # Errors
    /// The first error of `each`; nothing is read after that.
    pub fn for_each<E>(
        mut self,
        mut each: impl FnMut(SeriesItem) -> Result<(), E>,
    ) -> Result<Findings, E> {
        std::thread::scope(|scope| {
            let (sender, receiver) = mpsc::sync_channel(AHEAD);
            let reader = scope.spawn(move || {
                for entry in self.by_ref() {
                    // Receiver dropped; stop reading.
                    if sender.send(entry).is_err() {
                        break;
                    }
                }
                self.findings
            });
            for entry in receiver {
                each(entry)?;
            }
            match reader.join() {
                Ok(findings) => Ok(findings),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// The problems so far.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Reads a file up to its next event, and returns the event's time.
    fn advance(&mut self, index: usize) -> Option<u64> {
        let head = self.heads.get_mut(index)?;
        let path = head.known.path.display();
        if head.events.is_none() {
            let opened = LogFile::open(&head.known.path, &self.read_bytes);
            let events = opened.map_err(|error| error.to_string()).and_then(|file| {
                let events = if self.by_digests {
                    file.events_by_digests(self.span)
                } else {
                    let events = file.events(self.span);
                    events.map(|events| events.ahead(&self.wanted))
                };
                events.map_err(|error| wording(&error))
            });
            match events {
                Ok(events) => {
                    if matches!(events.beginning(), Beginning::Damaged { .. }) {
                        let problem = format!("{path} has lost its beginning");
                        self.findings.problems.push(problem);
                    }
                    head.events = Some(events);
                }
                Err(reason) => {
                    self.findings.problems.push(format!("{path} {reason}"));
                    return None;
                }
            }
        }
        match head.events.as_mut()?.next() {
            Some(Ok(event)) => {
                let time = match &event {
                    Event::Interval(_, snapshot) | Event::Undescribed(snapshot) => {
                        snapshot.time_unix_ns
                    }
                    Event::Digest(digest) => digest.course.times_unix_ns.first().copied()?,
                    Event::Gap(gap) => gap.last_time_unix_ns,
                    Event::Stacks(stacks) => stacks.time_unix_ns,
                };
                head.next = Some(event);
                Some(time)
            }
            Some(Err(error)) => {
                let reason = wording(&error);
                let problem = format!("{path} could not be read to its end: {reason}");
                self.findings.problems.push(problem);
                self.close(index);
                None
            }
            None => {
                self.close(index);
                None
            }
        }
    }

    fn close(&mut self, index: usize) {
        let head = self.heads.get_mut(index);
        let Some(events) = head.and_then(|head| head.events.take()) else {
            return;
        };
        self.findings.damaged_stretches += events.damaged_stretches();
        self.findings.unknown_messages += events.unknown_messages();
        self.findings.cut_files += u64::from(events.is_cut());
        self.findings.undescribed_intervals += events.decoder().undescribed();
    }

    /// Passes on an interval, and its description if that has changed; drops an interval that is
    /// already counted, implausible, or outside the span.
    fn take(&mut self, index: usize, info: Arc<Info>, snapshot: Box<Snapshot>) {
        if snapshot.interval_ns == 0
            || snapshot.interval_ns > LONGEST_INTERVAL_NS
            || snapshot.cpus.is_empty()
        {
            self.findings.implausible_intervals += 1;
            return;
        }
        let run = info.started_unix_ns;
        let last = self.last_sequences.get(&run);
        if last.is_some_and(|&last| snapshot.sequence <= last) {
            self.findings.repeated_intervals += 1;
            return;
        }
        let follows = self
            .last
            .is_some_and(|(head, last_run)| head == index || last_run == run);
        let middle = snapshot
            .time_unix_ns
            .saturating_sub(snapshot.interval_ns / 2);
        if middle < self.covered_until_unix_ns && !follows {
            self.findings.overlapping_intervals += 1;
            return;
        }
        self.count(index, run, &snapshot);
        if !self.span.holds(snapshot.time_unix_ns) {
            return;
        }
        self.tell(info);
        self.ready.push_back(SeriesItem::Interval(snapshot));
    }

    /// Passes on a digest if each of its intervals would be passed on; else reads the intervals.
    fn take_digest(&mut self, index: usize, digest: Box<Digest>) {
        let head = self.heads.get_mut(index);
        let Some(events) = head.and_then(|head| head.events.as_mut()) else {
            return;
        };
        let info = events.decoder().info().cloned();
        let (course, sum) = (&digest.course, &digest.sum);
        let first_unix_ns = course.times_unix_ns.first().copied().unwrap_or(0);
        let first_ns = course.intervals_ns.first().copied().unwrap_or(0);
        let run = info.as_ref().map(|info| info.started_unix_ns);
        let is_new = run.is_some_and(|run| {
            let last = self.last_sequences.get(&run);
            let is_later = last.is_none_or(|&last| digest.first_sequence() > last);
            let follows = self
                .last
                .is_some_and(|last| last.0 == index || last.1 == run);
            let middle = first_unix_ns.saturating_sub(first_ns / 2);
            is_later && (follows || middle >= self.covered_until_unix_ns)
        });
        let is_alone = match self.queue.peek() {
            Some(Reverse((time, _))) => *time > sum.time_unix_ns,
            None => true,
        };
        let is_plausible = course
            .intervals_ns
            .iter()
            .all(|ns| *ns <= LONGEST_INTERVAL_NS);
        let is_inside = self.span.holds(first_unix_ns) && self.span.holds(sum.time_unix_ns);
        match info {
            Some(info) if is_new && is_alone && is_plausible && is_inside => {
                self.count(index, info.started_unix_ns, sum);
                self.tell(info);
                self.ready.push_back(SeriesItem::Digest(digest));
            }
            _ => events.read_instead(),
        }
    }

    /// Marks everything up to this interval of a run as counted.
    fn count(&mut self, index: usize, run: u64, last: &Snapshot) {
        if self.last_sequences.len() == MOST_RUNS && !self.last_sequences.contains_key(&run) {
            self.last_sequences.clear();
        }
        self.last_sequences.insert(run, last.sequence);
        self.last = Some((index, run));
        self.covered_until_unix_ns = self.covered_until_unix_ns.max(last.time_unix_ns);
    }

    /// Passes on the description of the following intervals, if it has changed.
    fn tell(&mut self, info: Arc<Info>) {
        let is_known = self.last_info.as_ref().is_some_and(|known| {
            // Compared by value only at the first interval of a file.
            Arc::ptr_eq(known, &info) || **known == *info
        });
        if !is_known {
            self.ready.push_back(SeriesItem::Described(info.clone()));
        }
        self.last_info = Some(info);
    }
}

impl Iterator for Series {
    type Item = SeriesItem;

    fn next(&mut self) -> Option<SeriesItem> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Some(entry);
            }
            let Reverse((_, index)) = self.queue.pop()?;
            let next = self.heads.get_mut(index).and_then(|head| head.next.take());
            match next {
                Some(Event::Interval(info, snapshot)) => self.take(index, info, snapshot),
                Some(Event::Digest(digest)) => self.take_digest(index, digest),
                Some(Event::Gap(gap)) => {
                    let is_new = self.last_gap.as_ref() != Some(&gap);
                    if is_new && self.span.holds(gap.last_time_unix_ns) {
                        self.ready.push_back(SeriesItem::Missing(gap.clone()));
                    }
                    self.last_gap = Some(gap);
                }
                Some(Event::Stacks(stacks)) => {
                    let end_unix_ns = stacks.time_unix_ns;
                    let begin_unix_ns = end_unix_ns.saturating_sub(stacks.window_ns);
                    // Stacks that are in several files count once.
                    if end_unix_ns > self.last_stacks_unix_ns
                        && self.span.holds_all(begin_unix_ns, end_unix_ns)
                    {
                        self.last_stacks_unix_ns = end_unix_ns;
                        self.ready.push_back(SeriesItem::Stacks(stacks));
                    }
                }
                Some(Event::Undescribed(_)) | None => {}
            }
            if let Some(time) = self.advance(index) {
                self.queue.push(Reverse((time, index)));
            }
        }
    }
}

#[cfg(test)]
mod tests;
