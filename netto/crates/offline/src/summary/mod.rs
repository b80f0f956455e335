//! Summarizes a series of intervals: networking's share of a host, its parts, times and CPUs, and
//! the basis of the figures. Pure, and bounded in memory: it is given one interval, or the sum of
//! many, after the other.
//!
//! Every figure of a span is a sum over its intervals, divided at the end: a mean is CPU time
//! divided by time, so that intervals are weighted by their length.

mod components;
mod headline;
mod quantiles;
mod soundness;
mod stretch;
mod timeline;

use std::sync::Arc;

use metrics_common::Info;
use metrics_common::codec::Gap;
use metrics_common::confidence::UNWEIGHTED;
use serde::Serialize;

pub use components::{ComponentSummary, Measured, Outcome, Table};
pub use headline::{CpuSummary, Headline, MOST_CPUS, Peak, PowerSummary, Spread, Strip};
pub use soundness::{Gaps, Losses, Missed, OwnSummary, Unwritten};
pub use stretch::Stretch;
pub use timeline::{Step, Timeline};

use self::headline::Subject;
use self::soundness::Soundness;

/// Most notes kept.
const MOST_NOTES: usize = 50;

/// The host of a log.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Host {
    /// Host name.
    pub hostname: String,
    /// Kernel release, of the last interval.
    pub kernel: String,
    /// netto's version, of the last interval.
    pub version: String,
    /// Whether the values are made up.
    pub is_demonstration: bool,
}

/// The time that is covered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Covered {
    /// Begin of the first interval, nanoseconds since the Unix epoch.
    pub from_unix_ns: u64,
    /// End of the last interval, nanoseconds since the Unix epoch.
    pub to_unix_ns: u64,
    /// Length of all intervals together, nanoseconds.
    pub measured_ns: u64,
    /// Total time of all CPUs in them, nanoseconds.
    pub capacity_ns: u64,
    /// Number of intervals.
    pub intervals: u64,
    /// Number of these left out because of implausible values.
    pub implausible_intervals: u64,
}

/// The content of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// The host.
    pub host: Host,
    /// The time that is covered.
    pub covered: Covered,
    /// How much of the host it was: networking, or the component that was asked for.
    pub headline: Headline,
    /// Every component, in the order of the table.
    pub components: Vec<ComponentSummary>,
    /// Every CPU, by its share, in descending order.
    pub cpus: Vec<CpuSummary>,
    /// The times of the largest shares, with a minimum distance.
    pub peaks: Vec<Peak>,
    /// Energy.
    pub power: PowerSummary,
    /// What netto itself cost; null if the log does not have it.
    pub own: Option<OwnSummary>,
    /// Lost data.
    pub losses: Losses,
    /// Times without data.
    pub gaps: Gaps,
    /// netto's remarks for the user.
    pub notes: Vec<String>,
}

/// Sums up intervals.
#[derive(Debug, Clone)]
pub struct Summarizer {
    subject: Subject,
    table: Table,
    soundness: Soundness,
    covered: Covered,
    info: Option<Arc<Info>>,
    notes: Vec<String>,
}

impl Summarizer {
    /// A summary of the component with this slug, `network` for all of networking.
    pub fn of(slug: &str) -> Self {
        Summarizer {
            subject: Subject::of(slug),
            table: Table::default(),
            soundness: Soundness::default(),
            covered: Covered::default(),
            info: None,
            notes: Vec::new(),
        }
    }

    /// Sets the meaning of the rows of the following intervals.
    pub fn describe(&mut self, info: &Arc<Info>) {
        self.table.describe(info);
        self.soundness.describe(info);
        self.subject.describe(&self.table);
        for note in &info.notes {
            if self.notes.len() < MOST_NOTES && !self.notes.contains(note) {
                self.notes.push(note.clone());
            }
        }
        self.info = Some(info.clone());
    }

    /// Records missing snapshots.
    pub fn missing(&mut self, gap: &Gap) {
        self.soundness.missing(gap);
    }

    /// Adds an interval, or the sum of several: a [`Snapshot`](metrics_common::Snapshot) or a
    /// [`Digest`](netto_log_format::Digest).
    pub fn add(&mut self, stretch: &impl Stretch) {
        let sum = stretch.sum();
        let mut intervals = 0..stretch.intervals();
        if sum.capacity_ns() == 0
            || !intervals.all(|interval| self.table.is_plausible(stretch, interval))
            || !self.subject.has_room(sum)
        {
            self.covered.implausible_intervals += stretch.intervals() as u64;
            return;
        }
        let covered = &mut self.covered;
        for interval in 0..stretch.intervals() {
            let end = stretch.end_unix_ns(interval);
            let begin = end.saturating_sub(stretch.length_ns(interval));
            covered.from_unix_ns = match covered.intervals {
                0 => begin,
                _ => covered.from_unix_ns.min(begin),
            };
            covered.to_unix_ns = covered.to_unix_ns.max(end);
            covered.intervals += 1;
        }
        covered.measured_ns = covered.measured_ns.saturating_add(sum.interval_ns);
        covered.capacity_ns = covered.capacity_ns.saturating_add(sum.capacity_ns());
        self.table.add(stretch);
        self.soundness.add(stretch);
        self.subject.add(stretch);
    }

    /// The summary, and the parts over time; `None` without intervals.
    pub fn finish(self) -> Option<(Summary, Strip)> {
        let info = self.info?;
        if self.covered.intervals == 0 {
            return None;
        }
        let components = self.table.finish();
        let span_ns = self
            .covered
            .to_unix_ns
            .saturating_sub(self.covered.from_unix_ns);
        let found = self
            .subject
            .finish(&self.table, &info, &components, span_ns);
        let (gaps, losses, own_cost) = self.soundness.finish();
        let mut notes = self.notes;
        if self.table.lacks_weights() {
            notes.push(format!(
                "Estimates have no 95 % intervals: a part of this was {UNWEIGHTED}."
            ));
        }
        let summary = Summary {
            host: Host {
                hostname: info.hostname.clone(),
                kernel: info.kernel.clone(),
                version: info.version.clone(),
                is_demonstration: info.is_demonstration(),
            },
            covered: self.covered,
            headline: found.headline,
            components,
            cpus: found.cpus,
            peaks: found.peaks,
            power: found.power,
            own: own_cost,
            losses,
            gaps,
            notes,
        };
        Some((summary, found.strip))
    }
}

#[cfg(test)]
mod tests;
