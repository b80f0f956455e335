//! The files of one host as one series of intervals, in the order of time. Owns which file is read
//! next and what is counted only once; what the intervals mean, it does not ask.
//!
//! A file is read once, from its beginning, and each interval is handed on before the next is
//! read, so that memory does not grow with the files. Intervals that several files hold count
//! once:
//!
//! - of one run of netto, each sequence number counts once;
//! - of different runs, an interval of which more than half lies before the end of what another
//!   file has brought already does not count. Within a file, a later run always counts: it is
//!   there because the clock was set back.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use metrics_common::codec::{Gap, ServerMessage, Stacks};
use metrics_common::log::{Beginning, LogReader};
use metrics_common::{COMPONENTS, Info, Snapshot};

pub use super::findings::{Findings, SeriesError};

use super::file::{self, Source};
use super::findings::undescribed;
use super::times::Span;

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
    /// Snapshots that could not be written.
    Missing(Gap),
    /// Sampled stacks of a time that lies within the span as a whole.
    Stacks(Box<Stacks>),
}

/// Log files of one host, in the order of their first intervals.
#[derive(Debug)]
pub struct Files {
    files: Vec<Known>,
    problems: Vec<String>,
    length_bytes: u64,
    read_bytes: Arc<AtomicU64>,
}

/// A file that holds an interval.
#[derive(Debug)]
struct Known {
    path: PathBuf,
    /// End and beginning of its first interval, nanoseconds since the Unix epoch.
    first_end_unix_ns: u64,
    first_begin_unix_ns: u64,
    hostname: Option<String>,
}

impl Files {
    /// Looks at the beginning of each file.
    ///
    /// # Errors
    /// If none of them holds an interval, or they are of different hosts. A file that holds none
    /// beside others that do is a finding.
    pub fn look(paths: &[PathBuf]) -> Result<Files, SeriesError> {
        let mut files = Files {
            files: Vec::new(),
            problems: Vec::new(),
            length_bytes: 0,
            read_bytes: Arc::default(),
        };
        for path in paths {
            match files.look_at(path) {
                Ok(known) => files.files.push(known),
                Err(reason) => files.problems.push(format!("{} {reason}", path.display())),
            }
        }
        if files.files.is_empty() {
            return Err(SeriesError::Nothing(files.problems.join("; ")));
        }
        files.files.sort_by_key(|file| file.first_end_unix_ns);
        let mut named = files
            .files
            .iter()
            .filter_map(|file| Some((file.path.display(), file.hostname.as_deref()?)));
        if let Some((first_path, first)) = named.next()
            && let Some((other_path, other)) = named.find(|(_, other)| *other != first)
        {
            return Err(SeriesError::DifferentHosts {
                first_path: first_path.to_string(),
                first: first.to_owned(),
                other_path: other_path.to_string(),
                other: other.to_owned(),
            });
        }
        files.read_bytes.store(0, Ordering::Relaxed);
        Ok(files)
    }

    fn look_at(&mut self, path: &Path) -> Result<Known, String> {
        self.length_bytes += file::length_bytes(path)?;
        let mut hostname = None;
        for message in file::open(path, Span::EVER, &self.read_bytes)? {
            match message.map_err(|error| file::wording(&error))? {
                ServerMessage::Hello(info) => {
                    hostname.get_or_insert(info.hostname);
                }
                ServerMessage::Snapshot(first) => {
                    return Ok(Known {
                        path: path.to_owned(),
                        first_end_unix_ns: first.time_unix_ns,
                        first_begin_unix_ns: first.time_unix_ns.saturating_sub(first.interval_ns),
                        hostname,
                    });
                }
                _ => {}
            }
        }
        Err("holds no interval".to_owned())
    }

    /// Where the first interval begins, nanoseconds since the Unix epoch.
    pub fn begin_unix_ns(&self) -> u64 {
        let begins = self.files.iter().map(|file| file.first_begin_unix_ns);
        begins.min().unwrap_or(0)
    }

    /// Where the last interval ends, nanoseconds since the Unix epoch. Reads files whose blocks do
    /// not tell.
    pub fn end_unix_ns(&self) -> u64 {
        let mut end = self.begin_unix_ns();
        for known in &self.files {
            // What is wrong with a file is found when it is read for what it holds.
            if let Ok(Some(last)) = file::end_unix_ns(&known.path, &self.read_bytes) {
                end = end.max(last);
                continue;
            }
            let Ok(reader) = file::open(&known.path, Span::EVER, &self.read_bytes) else {
                continue;
            };
            for message in reader.map_while(Result::ok) {
                if let ServerMessage::Snapshot(snapshot) = message {
                    end = end.max(snapshot.time_unix_ns);
                }
            }
        }
        self.read_bytes.store(0, Ordering::Relaxed);
        end
    }

    /// Length of all files, bytes.
    pub fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// Counts the bytes that a series of them has read.
    pub fn read_bytes(&self) -> Arc<AtomicU64> {
        self.read_bytes.clone()
    }

    /// The intervals of a span.
    pub fn series(&self, span: Span) -> Series {
        let heads = self.files.iter().map(|known| Head {
            path: known.path.clone(),
            reader: None,
            info: None,
            next: None,
        });
        let keys = self.files.iter().enumerate();
        Series {
            heads: heads.collect(),
            queue: keys
                .map(|(head, known)| Reverse((known.first_end_unix_ns, head)))
                .collect(),
            span,
            told: None,
            ready: VecDeque::new(),
            last_sequences: HashMap::new(),
            covered_until_unix_ns: 0,
            last: None,
            last_gap: None,
            last_stacks_unix_ns: 0,
            findings: Findings {
                problems: self.problems.clone(),
                ..Findings::default()
            },
            read_bytes: self.read_bytes.clone(),
        }
    }
}

/// A file as far as it was read.
struct Head {
    path: PathBuf,
    reader: Option<LogReader<Source>>,
    info: Option<Arc<Info>>,
    next: Option<Next>,
}

#[derive(Debug)]
enum Next {
    Interval(Box<Snapshot>),
    Missing(Gap),
    Stacks(Box<Stacks>),
}

/// The intervals of several files, one after the other.
pub struct Series {
    heads: Vec<Head>,
    /// The files that have more, the one with the earliest first.
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    span: Span,
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
            match file::open(&head.path, self.span, &self.read_bytes) {
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
            match reader.next() {
                Some(Ok(ServerMessage::Hello(info))) => head.info = Some(Arc::new(*info)),
                Some(Ok(ServerMessage::Snapshot(snapshot))) => {
                    let time = snapshot.time_unix_ns;
                    head.next = Some(Next::Interval(snapshot));
                    return Some(time);
                }
                Some(Ok(ServerMessage::Gap(gap))) => {
                    let time = gap.last_time_unix_ns;
                    head.next = Some(Next::Missing(gap));
                    return Some(time);
                }
                Some(Ok(ServerMessage::Stacks(stacks))) => {
                    let time = stacks.time_unix_ns;
                    head.next = Some(Next::Stacks(stacks));
                    return Some(time);
                }
                Some(Ok(ServerMessage::History(_) | ServerMessage::Bye(_))) => {}
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
            }
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
        self.findings.damaged_stretches += reader.damaged_frames();
        self.findings.unknown_messages += reader.unknown_messages();
        self.findings.cut_files += u64::from(reader.is_cut());
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
        if self.last_sequences.len() == MOST_RUNS && !self.last_sequences.contains_key(&run) {
            self.last_sequences.clear();
        }
        self.last_sequences.insert(run, snapshot.sequence);
        self.last = Some((index, run));
        self.covered_until_unix_ns = self.covered_until_unix_ns.max(snapshot.time_unix_ns);
        if !self.span.holds(snapshot.time_unix_ns) {
            return;
        }
        let is_told = self.told.as_ref().is_some_and(|told| {
            // Comparing is for the first interval of a file only.
            Arc::ptr_eq(told, &info) || **told == *info
        });
        if !is_told {
            self.ready.push_back(Entry::Described(info.clone()));
        }
        self.told = Some(info);
        self.ready.push_back(Entry::Interval(snapshot));
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
