//! The contents of a log, what is missing in it, and why: found by reading all of it once, in
//! memory that does not grow with its length.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use metrics_common::codec::{Gap, ServerMessage};
use metrics_common::{Info, Snapshot};
use netto_log_format::{Damage, LogError, LogReader, ReadCounts};
use serde::Serialize;

use super::file::{LogFile, OpenError};

/// Number of hosts, gaps and damaged places that are listed.
const MOST_LISTED: usize = 20;

/// A host that wrote into a log, and its version of netto.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Host {
    /// Its name.
    pub hostname: String,
    /// Kernel release.
    pub kernel: String,
    /// netto's version.
    pub version: String,
    /// The kernel's id of this boot; empty if unknown.
    pub boot_id: String,
    /// CPUs that the kernel can have.
    pub possible_cpus: u32,
}

/// Missing snapshots, and the cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToldGap {
    /// Their number.
    pub snapshots: u64,
    /// Time of the first, nanoseconds since the Unix epoch.
    pub first_time_unix_ns: u64,
    /// Time of the last.
    pub last_time_unix_ns: u64,
    /// The cause, for people.
    pub reason: String,
}

/// The damage in a log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Damages {
    /// Stretches that cannot be read.
    pub stretches: u64,
    /// The first of them.
    pub places: Vec<Damage>,
    /// Bytes in all of them.
    pub lost_bytes: u64,
    /// Whether the file ends in the middle of a block.
    pub is_cut: bool,
    /// Snapshots missing without a record, as sequence numbers show. Losses before the first and
    /// after the last snapshot of a run are not included.
    pub lost_snapshots: u64,
    /// Snapshots that occur more than once.
    pub repeated_snapshots: u64,
}

impl Damages {
    /// Whether there is any damage.
    pub fn is_any(&self) -> bool {
        self.stretches > 0
            || self.is_cut
            || self.lost_bytes > 0
            || self.lost_snapshots > 0
            || self.repeated_snapshots > 0
    }
}

/// The contents of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Contents {
    /// The file's name.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// Version in its header; `None` if there is no header.
    pub format: Option<String>,
    /// Whether indexes cover every block.
    pub is_indexed: bool,
    /// How messages are stored.
    pub stored: ReadCounts,
    /// The hosts that wrote it.
    pub hosts: Vec<Host>,
    /// Earliest and latest time of a snapshot, nanoseconds since the Unix epoch.
    pub span_unix_ns: Option<(u64, u64)>,
    /// Requested lengths of intervals, milliseconds.
    pub periods_ms: Vec<u64>,
    /// Number of snapshots.
    pub snapshots: u64,
    /// Number of times stacks were written.
    pub stacks: u64,
    /// Number of restarts of netto.
    pub restarts: u64,
    /// The first recorded gaps.
    pub gaps: Vec<ToldGap>,
    /// Number of all gaps.
    pub gaps_total: u64,
    /// Snapshots missing in them.
    pub gap_snapshots: u64,
    /// Messages of a newer netto.
    pub unknown_messages: u64,
    /// Whether the last message says that netto ended.
    pub is_ended: bool,
    /// The damage.
    pub damage: Damages,
}

/// The position in a run.
#[derive(Default)]
struct Run {
    /// Identifies a run: boot and start.
    id: Option<(String, u64)>,
    /// Number and time of the last snapshot, written or recorded as missing.
    last: Option<(u64, u64)>,
}

impl Contents {
    /// Reads all of a log, which may be a pipe.
    ///
    /// # Errors
    /// If the file cannot be read, or continues in a newer format.
    pub fn of_file(path: &Path) -> anyhow::Result<Contents> {
        let mut contents;
        match LogFile::open(path, &Arc::default()) {
            Ok(file) => {
                contents = Contents::of(LogReader::new(file.bytes())?)?;
                contents.bytes = file.length_bytes();
                contents.is_indexed = file.index()?.is_complete();
            }
            Err(OpenError::NotRegular) => {
                contents = Contents::of(LogReader::new(File::open(path)?)?)?;
            }
            Err(OpenError::Io(error)) => return Err(error.into()),
        }
        contents.file = path.display().to_string();
        Ok(contents)
    }

    /// Reads all of a log.
    ///
    /// # Errors
    /// If the source cannot be read, or continues in a newer format.
    fn of<R: Read>(mut reader: LogReader<R>) -> Result<Contents, LogError> {
        let mut contents = Contents::default();
        let mut run = Run::default();
        for message in reader.by_ref() {
            contents.add(message?, &mut run);
        }
        let counts = reader.counts();
        contents.stored = counts;
        let version = reader.version();
        contents.format = version.map(|(major, minor)| format!("{major}.{minor}"));
        contents.unknown_messages = reader.unknown_messages();
        let damage = &mut contents.damage;
        damage.stretches = reader.damaged_stretches() + u64::from(reader.is_cut());
        damage.is_cut = reader.is_cut();
        damage.lost_bytes = counts.lost_bytes;
        let places = reader.damage().iter().take(MOST_LISTED);
        damage.places = places.copied().collect();
        Ok(contents)
    }

    fn add(&mut self, message: ServerMessage, run: &mut Run) {
        self.is_ended = matches!(message, ServerMessage::Bye(_));
        match message {
            ServerMessage::Hello(info) => self.hello(&info, run),
            ServerMessage::Snapshot(snapshot) => self.snapshot(&snapshot, run),
            ServerMessage::Gap(gap) => self.gap(gap, run),
            ServerMessage::Stacks(_) => self.stacks += 1,
            ServerMessage::Bye(_) | ServerMessage::History(_) => {}
        }
    }

    fn hello(&mut self, info: &Info, run: &mut Run) {
        let id = (info.boot_id.clone(), info.started_unix_ns);
        if run.id.as_ref() != Some(&id) {
            self.restarts += u64::from(run.id.is_some());
            *run = Run {
                id: Some(id),
                last: None,
            };
        }
        let host = Host {
            hostname: info.hostname.clone(),
            kernel: info.kernel.clone(),
            version: info.version.clone(),
            boot_id: info.boot_id.clone(),
            possible_cpus: info.possible_cpus,
        };
        push_new(&mut self.hosts, host);
        push_new(&mut self.periods_ms, info.user_period_ms);
    }

    fn snapshot(&mut self, snapshot: &Snapshot, run: &mut Run) {
        let now = (snapshot.sequence, snapshot.time_unix_ns);
        if let Some(last) = run.last {
            if now.0 <= last.0 && now.1 <= last.1 {
                self.damage.repeated_snapshots += 1;
                return;
            }
            if now.0 <= last.0 {
                // Later, and counted from the beginning: its Hello is lost.
                self.restarts += 1;
            } else {
                self.damage.lost_snapshots += now.0 - last.0 - 1;
            }
        }
        run.last = Some(now);
        self.snapshots += 1;
        let (first, last) = self.span_unix_ns.unwrap_or((now.1, now.1));
        self.span_unix_ns = Some((first.min(now.1), last.max(now.1)));
    }

    fn gap(&mut self, gap: Gap, run: &mut Run) {
        if let Some(last) = run.last {
            if gap.last_sequence <= last.0 {
                return;
            }
            let between = gap.first_sequence.saturating_sub(last.0 + 1);
            self.damage.lost_snapshots += between;
        }
        run.last = Some((gap.last_sequence, gap.last_time_unix_ns));
        self.gaps_total += 1;
        self.gap_snapshots += gap.snapshots;
        if self.gaps.len() < MOST_LISTED {
            self.gaps.push(ToldGap {
                snapshots: gap.snapshots,
                first_time_unix_ns: gap.first_time_unix_ns,
                last_time_unix_ns: gap.last_time_unix_ns,
                reason: gap.reason,
            });
        }
    }
}

/// Adds a new item, while the list has room.
fn push_new<T: PartialEq>(list: &mut Vec<T>, one: T) {
    if list.len() < MOST_LISTED && !list.contains(&one) {
        list.push(one);
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::fixture;
    use netto_log_format as log;

    use super::*;

    fn snapshot(sequence: u64, time_unix_ns: u64) -> ServerMessage {
        ServerMessage::Snapshot(Box::new(Snapshot {
            sequence,
            time_unix_ns,
            ..Snapshot::default()
        }))
    }

    fn hello(started_unix_ns: u64) -> ServerMessage {
        ServerMessage::Hello(Box::new(Info {
            started_unix_ns,
            ..fixture::info()
        }))
    }

    fn gap(first: u64, last: u64) -> ServerMessage {
        ServerMessage::Gap(Gap {
            snapshots: last - first + 1,
            first_sequence: first,
            last_sequence: last,
            first_time_unix_ns: first,
            last_time_unix_ns: last,
            reason: "the disk was full".to_owned(),
        })
    }

    fn contents(messages: &[ServerMessage]) -> Contents {
        let mut bytes = log::file_header();
        for message in messages {
            bytes.extend(netto_log_format::fixture::block(message).unwrap());
        }
        Contents::of(LogReader::new(bytes.as_slice()).unwrap()).unwrap()
    }

    #[test]
    fn gaps_that_are_told_are_no_damage_and_others_are() {
        let found = contents(&[
            hello(1),
            snapshot(1, 1),
            gap(2, 4),
            snapshot(5, 5),
            snapshot(6, 6),
        ]);
        assert_eq!((found.gap_snapshots, found.snapshots), (3, 3));
        assert!(!found.damage.is_any(), "{found:?}");
        let found = contents(&[hello(1), snapshot(1, 1), gap(3, 4), snapshot(7, 7)]);
        assert_eq!(found.damage.lost_snapshots, 1 + 2);
        assert!(found.damage.is_any());
    }

    #[test]
    fn a_restart_counts_anew_and_loses_nothing() {
        let found = contents(&[
            hello(1),
            snapshot(1, 1),
            snapshot(2, 2),
            // The meaning of rows has changed.
            hello(1),
            snapshot(3, 3),
            hello(9),
            snapshot(1, 10),
            snapshot(2, 11),
        ]);
        assert_eq!((found.restarts, found.snapshots), (1, 5));
        assert_eq!(found.span_unix_ns, Some((1, 11)));
        assert!(!found.damage.is_any(), "{found:?}");
        // The same with the Hello lost.
        let found = contents(&[hello(1), snapshot(5, 5), snapshot(1, 10), snapshot(2, 11)]);
        assert_eq!((found.restarts, found.damage.repeated_snapshots), (1, 0));
    }

    #[test]
    fn what_is_there_twice_is_counted_once() {
        let found = contents(&[
            hello(1),
            snapshot(1, 1),
            snapshot(2, 2),
            snapshot(1, 1),
            snapshot(2, 2),
            snapshot(3, 3),
        ]);
        assert_eq!((found.snapshots, found.damage.repeated_snapshots), (3, 2));
        assert_eq!(found.damage.lost_snapshots, 0);
    }
}
