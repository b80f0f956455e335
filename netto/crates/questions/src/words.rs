//! A recording's notes about itself, for people. Pure.

use metrics_common::codec::Gap;
use metrics_common::info::RECORDING_NOTE_PREFIX;

use super::utc::text;

/// Most gaps named; of further ones only the number is given.
const NAMED_GAPS: usize = 5;

/// Problems of a file, as far as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Missing {
    /// Number of damaged stretches.
    pub damaged_stretches: u64,
    /// Messages of a newer netto.
    pub unknown_messages: u64,
    /// Whether the file ends in the middle of a block.
    pub is_cut: bool,
    /// Snapshots before the first description.
    pub unexplained_snapshots: u64,
    /// Whether the description is this netto's own, because the file's is lost.
    pub description_is_lost: bool,
    /// Why the rest was not read.
    pub stopped: Option<String>,
    gaps: Vec<String>,
    more_gaps: u64,
}

impl Missing {
    /// Adds snapshots that the file reports as missing.
    pub fn add_gap(&mut self, gap: &Gap) {
        if self.gaps.len() == NAMED_GAPS {
            self.more_gaps += 1;
            return;
        }
        let reason: String = gap.reason.chars().take(200).collect();
        self.gaps.push(format!(
            "{} snapshots from {} to {} are missing: {reason}.",
            gap.snapshots,
            utc(gap.first_time_unix_ns),
            utc(gap.last_time_unix_ns),
        ));
    }

    /// One sentence for each problem.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut say = |is_so: bool, text: String| {
            if is_so {
                notes.push(text);
            }
        };
        say(
            self.damaged_stretches > 0,
            format!(
                "The file is damaged in {} places; the data there is missing.",
                self.damaged_stretches
            ),
        );
        say(
            self.is_cut,
            "The file ends in the middle of a block: it was cut, or is still being written."
                .to_owned(),
        );
        say(
            self.unknown_messages > 0,
            format!(
                "{} messages are of a newer netto and are not shown.",
                self.unknown_messages
            ),
        );
        say(
            self.unexplained_snapshots > 0,
            format!(
                "{} snapshots precede any description of their rows, and are not shown.",
                self.unexplained_snapshots
            ),
        );
        say(
            self.description_is_lost,
            "The beginning of the file is lost, including the host's name and the methods of \
             measurement; components are named as in this version of netto."
                .to_owned(),
        );
        if let Some(cause) = &self.stopped {
            notes.push(format!("The rest of the file cannot be read: {cause}."));
        }
        notes.extend(self.gaps.iter().cloned());
        if self.more_gaps > 0 {
            notes.push(format!(
                "Snapshots are missing in {} more places.",
                self.more_gaps
            ));
        }
        notes
    }
}

/// The label of a recording.
pub fn label(hostname: &str, begin_unix_ns: u64, end_unix_ns: u64) -> String {
    format!(
        "{RECORDING_NOTE_PREFIX} host {hostname}, from {} to {}. Nothing on this page is live.",
        utc(begin_unix_ns),
        utc(end_unix_ns)
    )
}

/// A time as `2026-11-22 09:24:33 UTC`.
pub fn utc(unix_ns: u64) -> String {
    text(unix_ns, "%Y-%m-%d %H:%M:%S UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_said_in_utc() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(1_700_000_000_999_999_999), "2023-11-14 22:13:20 UTC");
        assert!(utc(u64::MAX).contains("2554"));
    }

    #[test]
    fn a_whole_file_has_nothing_to_say_and_of_many_gaps_few_are_named() {
        let mut missing = Missing::default();
        assert!(missing.notes().is_empty());
        let gap = Gap {
            snapshots: 3,
            first_sequence: 1,
            last_sequence: 3,
            first_time_unix_ns: 0,
            last_time_unix_ns: 1_000_000_000,
            reason: "the disk was full".to_owned(),
        };
        (0..7).for_each(|_| missing.add_gap(&gap));
        let notes = missing.notes();
        assert_eq!(notes.len(), NAMED_GAPS + 1);
        assert_eq!(
            notes[0],
            "3 snapshots from 1970-01-01 00:00:00 UTC to 1970-01-01 00:00:01 UTC are missing: \
             the disk was full."
        );
        assert!(notes[NAMED_GAPS].contains("2 more"), "{notes:?}");
    }
}
