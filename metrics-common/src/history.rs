//! The recent past in bounded memory: host-wide series at the full rate, and
//! every CPU's share of every component in coarser columns.
//!
//! Daemon and dashboard keep the same thing: the daemon sends its own to a
//! dashboard that connects, which goes on from there by itself.
//!
//! What it takes, for 78 components: a series holds [`POINTS`] values of 4
//! bytes in 87 rows, 0.7 MB whatever the host. The columns of all CPUs together
//! hold at most [`COLUMN_BYTES`]: on 2 CPUs a column is one interval; on 128 it
//! is some 3 seconds, on 1024 some 25. Pure; the time is that of the snapshots.

use std::collections::VecDeque;

use crate::sections::CpuModes;
use crate::snapshot::{Info, Snapshot};

pub use message::HistoryMessage;

/// Points in a series: 16 minutes at the default period, more at longer ones.
pub const POINTS: usize = 1920;
/// What a history covers at the least, once it is full.
pub const LEAST_COVERED_NS: u64 = 16 * 60 * 1_000_000_000;
/// What all columns together may take, one byte for each CPU and component.
pub const COLUMN_BYTES: usize = 3 << 20;

/// Where a cell's share of its CPU is written as the largest code.
const FULL: f64 = 126.0;
/// The code of a cell that was not measured, or whose CPU was not there.
const ABSENT: u8 = 127;
/// The same in a series.
const NO_VALUE: u32 = u32::MAX;

/// Host-wide values over time, in CPUs (or watts).
#[derive(Debug, Clone, PartialEq)]
struct Series {
    /// End of each point and its length, milliseconds.
    ends_unix_ms: VecDeque<u64>,
    spans_ms: VecDeque<u32>,
    /// Millionths of a CPU, by row; the last row is milliwatts.
    rows: Vec<VecDeque<u32>>,
}

/// One stretch of time of all CPUs.
#[derive(Debug, Clone, PartialEq)]
struct Column {
    end_unix_ms: u64,
    span_ms: u32,
    /// One code for each component and CPU, component by component.
    codes: Vec<u8>,
}

/// What has been added since the last whole point or column.
#[derive(Debug, Clone, Default, PartialEq)]
struct Sum {
    interval_ns: u64,
    /// CPU time; `None` if it was not measured.
    ns: Vec<Option<u64>>,
    network_joules: Option<f64>,
}

/// The recent past; see the head of this file.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    components: usize,
    point_ns: u64,
    column_ns: u64,
    last_sequence: u64,
    cpus: Vec<u32>,
    series: Series,
    columns: VecDeque<Column>,
    point: Sum,
    column: Sum,
}

impl History {
    /// An empty history for the snapshots of this daemon.
    pub fn new(info: &Info) -> Self {
        let period_ns = info.user_period_ms.max(1) * 1_000_000;
        let point_ns = whole_periods(LEAST_COVERED_NS.div_ceil(POINTS as u64), period_ns);
        History {
            components: info.components.len(),
            point_ns,
            column_ns: point_ns,
            last_sequence: 0,
            cpus: Vec::new(),
            series: Series::empty(info.components.len()),
            columns: VecDeque::new(),
            point: Sum::default(),
            column: Sum::default(),
        }
    }

    /// Adds a snapshot; one that is in it already makes no difference.
    pub fn push(&mut self, snapshot: &Snapshot) {
        if snapshot.sequence <= self.last_sequence {
            return;
        }
        self.last_sequence = snapshot.sequence;
        let end_unix_ms = snapshot.time_unix_ns / 1_000_000;
        self.forget_from(end_unix_ms);
        self.meet_cpus(&snapshot.cpus);

        let modes = snapshot
            .sections
            .modes
            .as_ref()
            .map(|modes| modes.host.values());
        let modes = (0..CpuModes::NAMES.len()).map(|mode| modes.map(|values| values[mode]));
        let host = (0..self.components)
            .map(|row| snapshot.total_ns(row))
            .chain(modes);
        let joules = snapshot
            .sections
            .power
            .as_ref()
            .map(|p| p.network_energy_joules);
        self.point.add(snapshot.interval_ns, host, joules);
        if self.point.is_due(self.point_ns, snapshot.interval_ns) {
            let point = std::mem::take(&mut self.point);
            self.series.push(end_unix_ms, &point);
        }

        let (cpus, columns) = (&self.cpus, &snapshot.cpus);
        let cells = (0..self.components).flat_map(|row| {
            let row = snapshot.cost().cpu_ns(row);
            cpus.iter().map(move |cpu| {
                let at = columns.binary_search(cpu).ok()?;
                row?.get(at).copied()
            })
        });
        self.column.add(snapshot.interval_ns, cells, None);
        if self.column.is_due(self.column_ns, snapshot.interval_ns) {
            let sum = std::mem::take(&mut self.column);
            self.columns.push_back(Column {
                end_unix_ms,
                span_ms: (sum.interval_ns / 1_000_000) as u32,
                codes: sum.codes(),
            });
        }
        self.trim();
    }

    /// Puts what `older` knows of the time before this history in front of it.
    ///
    /// Both must be of daemons with the same components.
    pub fn continue_from(&mut self, older: History) {
        if older.components != self.components {
            return;
        }
        let mut joined = older;
        // The point under way belongs to a daemon that is gone, or is in this history too.
        joined.point = Sum::default();
        joined.column = Sum::default();
        let first = self
            .series
            .ends_unix_ms
            .front()
            .zip(self.series.spans_ms.front());
        if let Some((end, span)) = first {
            joined.forget_from(end - u64::from(*span) + 1);
        }
        joined.meet_cpus(&self.cpus);
        self.meet_cpus(&joined.cpus);
        if let Some(column) = self.columns.front() {
            let from = column.end_unix_ms.saturating_sub(u64::from(column.span_ms));
            joined.columns.retain(|older| older.end_unix_ms <= from);
        }
        joined.columns.append(&mut self.columns);
        self.columns = joined.columns;
        for (own, mut older) in self.series.all_rows().zip(joined.series.rows) {
            older.append(own);
            *own = older;
        }
        joined
            .series
            .ends_unix_ms
            .append(&mut self.series.ends_unix_ms);
        joined.series.spans_ms.append(&mut self.series.spans_ms);
        self.series.ends_unix_ms = joined.series.ends_unix_ms;
        self.series.spans_ms = joined.series.spans_ms;
        self.trim();
    }

    /// Forgets points from this time on: the clock was set back, and time that
    /// has not come yet cannot have a past.
    fn forget_from(&mut self, unix_ms: u64) {
        let keep = self
            .series
            .ends_unix_ms
            .partition_point(|&end| end < unix_ms);
        self.series.ends_unix_ms.truncate(keep);
        self.series.spans_ms.truncate(keep);
        self.series
            .rows
            .iter_mut()
            .for_each(|row| row.truncate(keep));
        let keep = self
            .columns
            .partition_point(|column| column.end_unix_ms < unix_ms);
        self.columns.truncate(keep);
    }

    /// Makes room for CPUs that were not there before.
    fn meet_cpus(&mut self, cpus: &[u32]) {
        if cpus.iter().all(|cpu| self.cpus.binary_search(cpu).is_ok()) {
            return;
        }
        let mut all: Vec<u32> = self.cpus.iter().chain(cpus).copied().collect();
        all.sort_unstable();
        all.dedup();
        let places: Vec<Option<usize>> = all
            .iter()
            .map(|cpu| self.cpus.binary_search(cpu).ok())
            .collect();
        let width = self.cpus.len();
        for column in &mut self.columns {
            column.codes = (0..self.components)
                .flat_map(|row| places.iter().map(move |place| (row, place)))
                .map(|(row, place)| place.map_or(ABSENT, |at| column.codes[row * width + at]))
                .collect();
        }
        self.cpus = all;
        self.column = Sum::default();
        let cells = (self.components * self.cpus.len()).max(1);
        let columns = (COLUMN_BYTES / cells).clamp(16, POINTS);
        let column_ns = LEAST_COVERED_NS.div_ceil(columns as u64);
        self.column_ns = whole_periods(column_ns.max(self.point_ns), self.point_ns);
    }

    fn trim(&mut self) {
        let surplus = self.series.ends_unix_ms.len().saturating_sub(POINTS);
        self.series.ends_unix_ms.drain(..surplus);
        self.series.spans_ms.drain(..surplus);
        for row in &mut self.series.rows {
            row.drain(..surplus);
        }
        let most = LEAST_COVERED_NS.div_ceil(self.column_ns) as usize;
        let surplus = self.columns.len().saturating_sub(most);
        self.columns.drain(..surplus);
    }

    /// Number of the last snapshot in it; 0 if there is none.
    pub fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    /// A history that a restarted daemon goes on with counts from 1 again.
    pub fn restart_sequence(&mut self) {
        self.last_sequence = 0;
    }

    /// Number of points in the series.
    pub fn points(&self) -> usize {
        self.series.ends_unix_ms.len()
    }

    /// Begin and end of a point, milliseconds since the Unix epoch.
    pub fn point_ms(&self, point: usize) -> (f64, f64) {
        let end = self.series.ends_unix_ms[point];
        let span = u64::from(self.series.spans_ms[point]);
        (end.saturating_sub(span) as f64, end as f64)
    }

    /// The first point that ends after this time.
    pub fn point_after(&self, unix_ms: f64) -> usize {
        let ends = &self.series.ends_unix_ms;
        ends.partition_point(|&end| end as f64 <= unix_ms)
    }

    /// How many CPUs a component kept busy; `None` if it was not measured.
    pub fn component_cpus(&self, component: usize, point: usize) -> Option<f64> {
        (component < self.components)
            .then(|| self.series.value(component, point))
            .flatten()
            .map(|value| value / 1e6)
    }

    /// How many CPUs were in a mode, by its index in [`CpuModes::NAMES`].
    pub fn mode_cpus(&self, mode: usize, point: usize) -> Option<f64> {
        self.series
            .value(self.components + mode, point)
            .map(|value| value / 1e6)
    }

    /// Networking's power in watts, where it was measured.
    pub fn network_watts(&self, point: usize) -> Option<f64> {
        let row = self.components + CpuModes::NAMES.len();
        self.series.value(row, point).map(|value| value / 1e3)
    }

    /// Length of a point, milliseconds.
    pub fn resolution_ms(&self) -> f64 {
        self.point_ns as f64 / 1e6
    }

    /// Number of each CPU that the columns know.
    pub fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Length of a column, milliseconds.
    pub fn column_length_ms(&self) -> f64 {
        self.column_ns as f64 / 1e6
    }

    /// Begin and end of a column, milliseconds since the Unix epoch.
    pub fn column_ms(&self, column: usize) -> (f64, f64) {
        let column = &self.columns[column];
        let begin = column.end_unix_ms.saturating_sub(u64::from(column.span_ms));
        (begin as f64, column.end_unix_ms as f64)
    }

    /// A component's share of a CPU, 0 to 1, by the CPU's place in
    /// [`History::cpus`]; rounded, to 1.6 per cent points at the most.
    pub fn cell(&self, column: usize, component: usize, cpu: usize) -> Option<f64> {
        let codes = &self.columns.get(column)?.codes;
        if component >= self.components || cpu >= self.cpus.len() {
            return None;
        }
        match codes.get(component * self.cpus.len() + cpu) {
            None | Some(&ABSENT) => None,
            Some(&code) => Some((f64::from(code) / FULL).powi(2)),
        }
    }

    /// What it takes at this moment, bytes, but for some small change.
    pub fn memory_bytes(&self) -> usize {
        let points: usize = self.series.rows.iter().map(|row| row.capacity() * 4).sum();
        let columns: usize = self.columns.iter().map(|c| c.codes.capacity() + 40).sum();
        points + self.series.ends_unix_ms.capacity() * 12 + columns + self.column.ns.capacity() * 16
    }
}

/// The least number of whole periods that lasts so long.
fn whole_periods(length_ns: u64, period_ns: u64) -> u64 {
    length_ns.div_ceil(period_ns).max(1) * period_ns
}

impl Series {
    fn empty(components: usize) -> Self {
        Series {
            ends_unix_ms: VecDeque::new(),
            spans_ms: VecDeque::new(),
            rows: vec![VecDeque::new(); components + CpuModes::NAMES.len() + 1],
        }
    }

    fn all_rows(&mut self) -> impl Iterator<Item = &mut VecDeque<u32>> {
        self.rows.iter_mut()
    }

    fn push(&mut self, end_unix_ms: u64, sum: &Sum) {
        self.ends_unix_ms.push_back(end_unix_ms);
        self.spans_ms
            .push_back((sum.interval_ns / 1_000_000) as u32);
        let interval_ns = sum.interval_ns.max(1) as f64;
        let millionths = |ns: &Option<u64>| ns.map(|ns| ns as f64 / interval_ns * 1e6);
        let milliwatts = sum.network_joules.map(|joules| joules / interval_ns * 1e12);
        let values = sum.ns.iter().map(millionths).chain([milliwatts]);
        for (row, value) in self.rows.iter_mut().zip(values) {
            let value = value.map_or(NO_VALUE, |v| (v.round() as u32).min(NO_VALUE - 1));
            row.push_back(value);
        }
    }

    fn value(&self, row: usize, point: usize) -> Option<f64> {
        match self.rows.get(row)?.get(point) {
            None | Some(&NO_VALUE) => None,
            Some(&value) => Some(f64::from(value)),
        }
    }
}

impl Sum {
    fn add(
        &mut self,
        interval_ns: u64,
        values: impl Iterator<Item = Option<u64>>,
        joules: Option<f64>,
    ) {
        self.interval_ns += interval_ns;
        if let Some(joules) = joules {
            *self.network_joules.get_or_insert(0.0) += joules;
        }
        if self.ns.is_empty() {
            self.ns.extend(values);
            return;
        }
        for (sum, value) in self.ns.iter_mut().zip(values) {
            if let Some(value) = value {
                let sum = sum.get_or_insert(0);
                *sum = sum.saturating_add(value);
            }
        }
    }

    /// Whether one more interval would lead further from this length.
    fn is_due(&self, length_ns: u64, interval_ns: u64) -> bool {
        self.interval_ns + interval_ns / 2 >= length_ns
    }

    fn codes(&self) -> Vec<u8> {
        let interval_ns = self.interval_ns.max(1) as f64;
        let code = |ns: u64| ((ns as f64 / interval_ns).min(1.0).sqrt() * FULL).round() as u8;
        self.ns.iter().map(|ns| ns.map_or(ABSENT, code)).collect()
    }
}

mod message;
#[cfg(test)]
mod tests;
