//! The files of one host as one series of intervals, in the order of time. Owns which file is read
//! next and what is counted only once; what the intervals mean, it does not ask.
//!
//! A file is read once, from its beginning, by intervals or, where somebody wants nothing but sums,
//! by digests where there are some, and each interval is handed on before the next is
//! read, so that memory does not grow with the files. Intervals that several files hold count
//! once:
//!
//! - of one run of netto, each sequence number counts once;
//! - of different runs, an interval of which more than half lies before the end of what another
//!   file has brought already does not count. Within a file, a later run always counts: it is
//!   there because the clock was set back.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;

use metrics_common::codec::{Gap, ServerMessage, Stacks};
use metrics_common::log::{Beginning, Digest, Item};
use metrics_common::{COMPONENTS, Info, Snapshot};

pub use super::findings::Findings;

use super::file::{self, Opened};
use super::findings::undescribed;
use netto_questions::times::Span;

/// Longer intervals are damage, nanoseconds: a week.
const LONGEST_INTERVAL_NS: u64 = 7 * 86_400 * 1_000_000_000;
/// So many runs' last sequence numbers are remembered.
const MOST_RUNS: usize = 4_096;
/// Entries that are read ahead while others are worked on.
const AHEAD: usize = 16;

/// What a series consists of.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// What the rows of the following intervals mean, and whose they are.
    Described(Arc<Info>),
    /// One interval.
    Interval(Box<Snapshot>),
    /// Intervals that follow one another, of which nothing but what they come to was read; only of
    /// a series that is read by digests.
    Digest(Box<Digest>),
    /// Snapshots that could not be written.
    Missing(Gap),
    /// Sampled stacks of a time that lies within the span as a whole.
    Stacks(Box<Stacks>),
}

/// A file as far as it was read.
struct Head {
    path: PathBuf,
    reader: Option<Opened>,
    info: Option<Arc<Info>>,
    next: Option<Next>,
}

#[derive(Debug)]
enum Next {
    Interval(Box<Snapshot>),
    Digest(Box<Digest>),
    Missing(Gap),
    Stacks(Box<Stacks>),
}

/// The intervals of several files, one after the other.
pub struct Series {
    heads: Vec<Head>,
    /// The files that have more, the one with the earliest first.
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    span: Span,
    by_digests: bool,
    /// The description that was handed on last.
    told: Option<Arc<Info>>,
    ready: VecDeque<Entry>,
    /// The last sequence number that was counted of each run, by when the run began.
    last_sequences: HashMap<u64, u64>,
    covered_until_unix_ns: u64,
    /// File and run of the interval that was counted last.
    last: Option<(usize, u64)>,
    last_gap: Option<Gap>,
    /// Time of the stacks that were handed on last.
    last_stacks_unix_ns: u64,
    findings: Findings,
    read_bytes: Arc<AtomicU64>,
}

impl Series {
    /// Files with the ends of their first intervals, in that order.
    pub(super) fn of(
        files: impl Iterator<Item = (PathBuf, u64)>,
        span: Span,
        by_digests: bool,
        findings: Findings,
        read_bytes: Arc<AtomicU64>,
    ) -> Series {
        let (mut heads, mut queue) = (Vec::new(), BinaryHeap::new());
        for (path, first_end_unix_ns) in files {
            queue.push(Reverse((first_end_unix_ns, heads.len())));
            heads.push(Head {
                path,
                reader: None,
                info: None,
                next: None,
            });
        }
        Series {
            heads,
            queue,
            span,
            by_digests,
            told: None,
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

    /// Hands on every entry, while a thread of its own reads those that follow.
    ///
    /// # Errors
    /// The first that `each` gives; nothing is read after that.
    pub fn for_each<E>(
        mut self,
        mut each: impl FnMut(Entry) -> Result<(), E>,
    ) -> Result<Findings, E> {
        std::thread::scope(|scope| {
            let (sender, receiver) = mpsc::sync_channel(AHEAD);
            let reader = scope.spawn(move || {
                for entry in self.by_ref() {
                    // Nobody wants the rest.
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

    /// What was wrong so far.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Reads on in a file, up to its next interval or gap, and gives the time of that.
    fn advance(&mut self, index: usize) -> Option<u64> {
        let head = self.heads.get_mut(index)?;
        if head.reader.is_none() {
            let open = match self.by_digests {
                true => Opened::for_digests,
                false => Opened::for_messages,
            };
            match open(&head.path, self.span, &self.read_bytes) {
                Ok(reader) => {
                    if matches!(reader.beginning(), Beginning::Damaged { .. }) {
                        let path = head.path.display();
                        let problem = format!("{path} has lost its beginning");
                        self.findings.problems.push(problem);
                    }
                    head.reader = Some(reader);
                }
                Err(reason) => {
                    let path = head.path.display();
                    self.findings.problems.push(format!("{path} {reason}"));
                    return None;
                }
            }
        }
        let reader = head.reader.as_mut()?;
        loop {
            let message = match reader.next() {
                Some(Ok(Item::Message(message))) => message,
                Some(Ok(Item::Digest(digest))) => {
                    let first = digest.course.times_unix_ns.first().copied();
                    head.next = Some(Next::Digest(digest));
                    return first;
                }
                Some(Err(error)) => {
                    let (path, reason) = (head.path.display(), file::wording(&error));
                    let problem = format!("{path} could not be read to its end: {reason}");
                    self.findings.problems.push(problem);
                    self.close(index);
                    return None;
                }
                None => {
                    self.close(index);
                    return None;
                }
            };
            let (time, next) = match message {
                ServerMessage::Hello(info) => {
                    head.info = Some(Arc::new(*info));
                    continue;
                }
                ServerMessage::History(_) | ServerMessage::Bye(_) => continue,
                ServerMessage::Snapshot(own) => (own.time_unix_ns, Next::Interval(own)),
                ServerMessage::Gap(gap) => (gap.last_time_unix_ns, Next::Missing(gap)),
                ServerMessage::Stacks(own) => (own.time_unix_ns, Next::Stacks(own)),
            };
            head.next = Some(next);
            return Some(time);
        }
    }

    fn close(&mut self, index: usize) {
        let Some(reader) = self
            .heads
            .get_mut(index)
            .and_then(|head| head.reader.take())
        else {
            return;
        };
        let (damaged_stretches, unknown_messages, is_cut) = reader.wrong();
        self.findings.damaged_stretches += damaged_stretches;
        self.findings.unknown_messages += unknown_messages;
        self.findings.cut_files += u64::from(is_cut);
    }

    /// Hands on an interval, with its description where that is another one; not one that was
    /// counted already, cannot be, or is not wanted.
    fn take(&mut self, index: usize, snapshot: Box<Snapshot>) {
        if snapshot.interval_ns == 0
            || snapshot.interval_ns > LONGEST_INTERVAL_NS
            || snapshot.cpus.is_empty()
        {
            self.findings.implausible_intervals += 1;
            return;
        }
        let Some(info) = self.heads.get(index).and_then(|head| head.info.clone()) else {
            self.findings.undescribed_intervals += 1;
            if snapshot.cost().components.len() != COMPONENTS.len() {
                return;
            }
            let info = Arc::new(undescribed());
            if let Some(head) = self.heads.get_mut(index) {
                head.info = Some(info.clone());
            }
            return self.take_described(index, snapshot, info);
        };
        self.take_described(index, snapshot, info);
    }

    fn take_described(&mut self, index: usize, snapshot: Box<Snapshot>, info: Arc<Info>) {
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
        self.ready.push_back(Entry::Interval(snapshot));
    }

    /// Hands on a digest, if each of its intervals would be handed on; else reads these.
    fn take_digest(&mut self, index: usize, digest: Box<Digest>) {
        let Some(head) = self.heads.get_mut(index) else {
            return;
        };
        let (course, sum) = (&digest.course, &digest.sum);
        let first_unix_ns = course.times_unix_ns.first().copied().unwrap_or(0);
        let first_ns = course.intervals_ns.first().copied().unwrap_or(0);
        let run = head.info.as_ref().map(|info| info.started_unix_ns);
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
        match head.info.clone() {
            Some(info) if is_new && is_alone && is_plausible && is_inside => {
                self.count(index, info.started_unix_ns, sum);
                self.tell(info);
                self.ready.push_back(Entry::Digest(digest));
            }
            _ => {
                if let Some(reader) = &mut head.reader {
                    reader.read_instead();
                }
            }
        }
    }

    /// Remembers that everything up to this interval of a run is counted.
    fn count(&mut self, index: usize, run: u64, last: &Snapshot) {
        if self.last_sequences.len() == MOST_RUNS && !self.last_sequences.contains_key(&run) {
            self.last_sequences.clear();
        }
        self.last_sequences.insert(run, last.sequence);
        self.last = Some((index, run));
        self.covered_until_unix_ns = self.covered_until_unix_ns.max(last.time_unix_ns);
    }

    /// Hands on the description of what follows, where that is another one.
    fn tell(&mut self, info: Arc<Info>) {
        let is_told = self.told.as_ref().is_some_and(|told| {
            // Comparing is for the first interval of a file only.
            Arc::ptr_eq(told, &info) || **told == *info
        });
        if !is_told {
            self.ready.push_back(Entry::Described(info.clone()));
        }
        self.told = Some(info);
    }
}

impl Iterator for Series {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Some(entry);
            }
            let Reverse((_, index)) = self.queue.pop()?;
            let next = self.heads.get_mut(index).and_then(|head| head.next.take());
            match next {
                Some(Next::Interval(snapshot)) => self.take(index, snapshot),
                Some(Next::Digest(digest)) => self.take_digest(index, digest),
                Some(Next::Missing(gap)) => {
                    let is_new = self.last_gap.as_ref() != Some(&gap);
                    if is_new && self.span.holds(gap.last_time_unix_ns) {
                        self.ready.push_back(Entry::Missing(gap.clone()));
                    }
                    self.last_gap = Some(gap);
                }
                Some(Next::Stacks(stacks)) => {
                    let end_unix_ns = stacks.time_unix_ns;
                    let begin_unix_ns = end_unix_ns.saturating_sub(stacks.window_ns);
                    // Those that several files hold count once.
                    if end_unix_ns > self.last_stacks_unix_ns
                        && self.span.holds_all(begin_unix_ns, end_unix_ns)
                    {
                        self.last_stacks_unix_ns = end_unix_ns;
                        self.ready.push_back(Entry::Stacks(stacks));
                    }
                }
                None => {}
            }
            if let Some(time) = self.advance(index) {
                self.queue.push(Reverse((time, index)));
            }
        }
    }
}

#[cfg(test)]
mod tests;
