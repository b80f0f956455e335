//! The recent past in bounded memory, in three shapes: named series of the whole host at the
//! full rate ([`series`]); grids of rows × time in coarser columns ([`grid`]), such as every
//! CPU's share of every component; and the largest of many named things with the sum of all
//! others ([`top`]). Sections define their contents ([`crate::sections::Recorded`]).
//!
//! Daemon and dashboard keep the same history: the daemon sends its own to a dashboard that
//! connects, which then continues it from the snapshots it receives.
//!
//! Memory, for 78 components: a series holds [`POINTS`] values of 4 bytes once it has one, and some
//! 100 series take 0.8 MB on any host; the errors from which their intervals follow, two of each
//! component that appears, 0.3 MB with twenty of them. The columns of all CPUs together hold at most [`COLUMN_BYTES`]: on 2
//! CPUs a column is one interval; on 128 it is about 3 seconds, on 1024 about 25. A ranking takes
//! 0.4 MB, and at most as much again for its names. Pure; the time is that of the snapshots.

use crate::info::Info;
use crate::sections::{Columns, Sections};
use crate::snapshot::Snapshot;

pub mod grid;
mod message;
pub mod series;
mod stretch;
mod times;
pub mod top;

#[cfg(test)]
mod tests;

pub use grid::{COLUMN_BYTES, Grid};
pub use message::HistoryMessage;
pub use series::Series;
pub use stretch::Stretch;
use times::Times;
pub use top::{Ranking, Top};

/// Points in a series: 16 minutes at the default period, more at longer ones.
pub const POINTS: usize = 1920;
/// Least time that a full history covers.
pub const LEAST_COVERED_NS: u64 = 16 * 60 * 1_000_000_000;

/// Sections that readers query by the index of a component or mode.
const COST: &str = "cost";
const MODES: &str = "modes";
const POWER: &str = "power";

/// The recent past; see the head of this file.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    point_ns: u64,
    last_sequence: u64,
    /// The times of the points of series and rankings.
    times: Times,
    series: Series,
    /// What the intervals of the series follow from.
    errors: Series,
    tops: Vec<Top>,
    grids: Vec<Grid>,
    /// The sum since the last complete point, with all CPUs in one column.
    under_way: Snapshot,
}

impl History {
    /// An empty history for the snapshots of this daemon.
    pub fn new(info: &Info) -> Self {
        let period_ns = info.user_period_ms.max(1) * 1_000_000;
        let point_ns = whole_periods(LEAST_COVERED_NS.div_ceil(POINTS as u64), period_ns);
        let (mut grids, mut tops) = (Vec::new(), Vec::new());
        for records in Sections::RECORDS {
            let layers = (records.layers)(info);
            if !layers.is_empty() {
                grids.push(Grid::new(records.section, layers, point_ns));
            }
            let names = (records.tops)().iter().enumerate();
            tops.extend(names.map(|(index, name)| Top::new(records.section, index, name)));
        }
        History {
            point_ns,
            last_sequence: 0,
            times: Times::default(),
            series: Series::new(&|records| (records.series)(info)),
            errors: Series::new(&|records| (records.errors)(info)),
            tops,
            grids,
            under_way: Snapshot::default(),
        }
    }

    /// Adds a snapshot; one that was already added has no effect.
    pub fn push(&mut self, snapshot: &Snapshot) {
        if snapshot.sequence <= self.last_sequence {
            return;
        }
        self.last_sequence = snapshot.sequence;
        self.forget_from(snapshot.time_unix_ns / 1_000_000);
        let nothing_waits = self.under_way.interval_ns == 0;
        if nothing_waits && is_due(snapshot.interval_ns, self.point_ns, snapshot.interval_ns) {
            // The usual case: an interval is a point, without addition.
            self.push_point(snapshot);
        } else {
            add_host_wide(&mut self.under_way, snapshot);
            if is_due(
                self.under_way.interval_ns,
                self.point_ns,
                snapshot.interval_ns,
            ) {
                let whole = std::mem::take(&mut self.under_way);
                self.push_point(&whole);
            }
        }
        for grid in &mut self.grids {
            grid.push(snapshot, self.point_ns);
        }
        self.trim();
    }

    fn push_point(&mut self, whole: &Snapshot) {
        self.times.push(whole.time_unix_ns, whole.interval_ns);
        let interval_ns = whole.interval_ns.max(1);
        let recorded = |name: &str| whole.sections.recorded(name);
        let value = |name: &str, index| recorded(name)?.value(index, interval_ns);
        self.series.push(&value);
        let error = |name: &str, index| recorded(name)?.error(index, interval_ns);
        self.errors.push(&error);
        for top in &mut self.tops {
            top.push(&whole.sections);
        }
    }

    /// Prepends the part of `older` that lies before this history, for things with the same
    /// names in both. The unfinished point of `older` is dropped: it belongs to a stopped daemon,
    /// or is in this history too.
    pub fn continue_from(&mut self, mut older: History) {
        if let Some(begin) = self.times.begin_unix_ms() {
            older.forget_from(begin.saturating_add(1));
        }
        for grid in &mut self.grids {
            let same = |old: &Grid| old.section == grid.section;
            if let Some(at) = older.grids.iter().position(same) {
                grid.prepend(older.grids.swap_remove(at), self.point_ns);
            }
        }
        let points = older.times.len();
        self.series.prepend(older.series, points);
        self.errors.prepend(older.errors, points);
        for top in &mut self.tops {
            let same = |old: &Top| old.name == top.name;
            let at = older.tops.iter().position(same);
            top.prepend(at.map(|at| older.tops.swap_remove(at)), points);
        }
        self.times.prepend(older.times);
        self.trim();
    }

    /// Removes points from this time on: after the clock was set back, they would lie in the
    /// future.
    fn forget_from(&mut self, unix_ms: u64) {
        let keep = self.times.before(unix_ms);
        if keep < self.times.len() {
            self.times.truncate(keep);
            self.series.truncate(keep);
            self.errors.truncate(keep);
            for top in &mut self.tops {
                top.truncate(keep);
            }
        }
        for grid in &mut self.grids {
            grid.forget_from(unix_ms);
        }
    }

    fn trim(&mut self) {
        let surplus = self.times.len().saturating_sub(POINTS);
        self.times.drop_oldest(surplus);
        self.series.drop_oldest(surplus);
        self.errors.drop_oldest(surplus);
        for top in &mut self.tops {
            top.drop_oldest(surplus);
        }
    }

    /// Number of the last snapshot; 0 if there is none.
    pub fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    /// Restarts the numbering, for a history that a restarted daemon continues.
    pub fn restart_sequence(&mut self) {
        self.last_sequence = 0;
    }

    /// Number of points in the series.
    pub fn points(&self) -> usize {
        self.times.len()
    }

    /// Begin and end of a point, milliseconds since the Unix epoch.
    pub fn point_ms(&self, point: usize) -> (f64, f64) {
        self.times.ms(point)
    }

    /// The part of this time that it covers: begin and end, milliseconds since the Unix epoch.
    pub fn known_ms(&self, from_ms: f64, to_ms: f64) -> (f64, f64) {
        match self.points().checked_sub(1) {
            None => (to_ms, from_ms),
            Some(last) => (
                self.point_ms(0).0.max(from_ms),
                self.point_ms(last).1.min(to_ms),
            ),
        }
    }

    /// The first point that ends after this time.
    pub fn point_after(&self, unix_ms: f64) -> usize {
        let ends = &self.times.ends_unix_ms;
        ends.partition_point(|&end| end as f64 <= unix_ms)
    }

    /// Length of a point, milliseconds.
    pub fn resolution_ms(&self) -> f64 {
        self.point_ns as f64 / 1e6
    }

    /// The series of all sections, a value for each point.
    pub fn series(&self) -> &Series {
        &self.series
    }

    /// The grid of a section.
    pub fn grid(&self, section: &str) -> Option<&Grid> {
        self.grids.iter().find(|grid| grid.section == section)
    }

    /// A ranking by section and name, with an entry for each point: `owners/processes`.
    pub fn top(&self, name: &str) -> Option<&Top> {
        self.tops.iter().find(|top| top.name == name)
    }

    /// How many CPUs a component kept busy; `None` if it was not measured.
    pub fn component_cpus(&self, component: usize, point: usize) -> Option<f64> {
        self.series.value(COST, component, point)
    }

    /// How many CPUs were in a mode, by its index in [`crate::CpuModes::NAMES`].
    pub fn mode_cpus(&self, mode: usize, point: usize) -> Option<f64> {
        self.series.value(MODES, mode, point)
    }

    /// What is kept of errors, by its place in [`crate::sections::error`].
    fn error(&self, place: usize, point: usize) -> Option<f64> {
        self.errors.value(COST, place, point)
    }

    /// Networking's power in watts; `None` if it was not measured.
    pub fn network_watts(&self, point: usize) -> Option<f64> {
        self.series.value(POWER, 0, point)
    }

    /// Number of each CPU in the columns.
    pub fn cpus(&self) -> &[u32] {
        self.grid(COST).map_or(&[], Grid::rows)
    }

    /// Number of columns of the CPUs.
    pub fn columns(&self) -> usize {
        self.grid(COST).map_or(0, Grid::columns)
    }

    /// Length of a column, milliseconds.
    pub fn column_length_ms(&self) -> f64 {
        let grid = self.grid(COST);
        grid.map_or(self.resolution_ms(), Grid::column_length_ms)
    }

    /// Begin and end of a column, milliseconds since the Unix epoch.
    pub fn column_ms(&self, column: usize) -> (f64, f64) {
        let grid = self.grid(COST);
        grid.map_or((0.0, 0.0), |grid| grid.column_ms(column))
    }

    /// A component's share of a CPU, 0 to 1, by the CPU's place in
    /// [`History::cpus`]; rounded as in [`Grid::cell`].
    pub fn cell(&self, column: usize, component: usize, cpu: usize) -> Option<f64> {
        self.grid(COST)?.cell(column, component, cpu)
    }

    /// Current memory use, bytes, approximately.
    pub fn memory_bytes(&self) -> usize {
        let grids: usize = self.grids.iter().map(Grid::memory_bytes).sum();
        let tops: usize = self.tops.iter().map(Top::memory_bytes).sum();
        let series = self.series.memory_bytes() + self.errors.memory_bytes();
        self.times.memory_bytes() + series + grids + tops
    }
}

/// Adds an interval to the unfinished point, with all CPUs in one column.
fn add_host_wide(sum: &mut Snapshot, snapshot: &Snapshot) {
    if sum.cpus.is_empty() {
        sum.cpus.push(0);
    }
    sum.sequence = snapshot.sequence;
    sum.time_unix_ns = snapshot.time_unix_ns;
    sum.interval_ns = sum.interval_ns.saturating_add(snapshot.interval_ns);
    sum.sections.add(&snapshot.sections, &Columns::folded());
}

/// The least number of whole periods that covers this length.
fn whole_periods(length_ns: u64, period_ns: u64) -> u64 {
    length_ns.div_ceil(period_ns).max(1) * period_ns
}

/// Whether another interval would move the sum further from this length.
fn is_due(sum_ns: u64, length_ns: u64, interval_ns: u64) -> bool {
    sum_ns.saturating_add(interval_ns / 2) >= length_ns
}
