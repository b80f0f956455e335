//! The second shape: rows × time, for each of some layers. Rows are numbered things, such as
//! CPUs or steps of a latency; a layer is what a cell may show, such as a component.
//!
//! A cell is one byte, so that a column of many rows is long rather than the grid large.

use std::collections::VecDeque;

use super::times::Times;
use super::{LEAST_COVERED_NS, POINTS, is_due, whole_periods};
use crate::sections::Columns;
use crate::snapshot::Snapshot;

/// What the columns of a grid may take, one byte for each row and layer. Sixteen columns there
/// are at the least.
pub const COLUMN_BYTES: usize = 3 << 20;

/// What a section keeps for each cell of a column under way, bytes at the most: a time, a count
/// and a number of samples.
const UNDER_WAY_CELL_BYTES: usize = 20;
const FEWEST_COLUMNS: usize = 16;
/// Where a cell is 1, the largest code.
const FULL: f64 = 126.0;
/// The code of a cell that was not measured, or whose row was not there.
pub(super) const ABSENT: u8 = 127;

/// The grid of one section; see the head of this file.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Whose it is.
    pub(super) section: &'static str,
    pub(super) layers: Vec<String>,
    /// Number of each row, ascending.
    pub(super) rows: Vec<u32>,
    pub(super) column_ns: u64,
    pub(super) times: Times,
    /// Of each column: one code for each layer and row, layer by layer.
    pub(super) columns: VecDeque<Vec<u8>>,
    /// What has been added since the last whole column, of this section alone.
    pub(super) under_way: Snapshot,
}

impl Grid {
    /// A grid without a row.
    pub(super) fn new(section: &'static str, layers: Vec<String>, column_ns: u64) -> Self {
        Grid {
            section,
            layers,
            rows: Vec::new(),
            column_ns,
            times: Times::default(),
            columns: VecDeque::new(),
            under_way: Snapshot::default(),
        }
    }

    /// Adds a snapshot; a point of the history lasts `point_ns`.
    pub(super) fn push(&mut self, snapshot: &Snapshot, point_ns: u64) {
        if let Some(section) = snapshot.sections.recorded(self.section) {
            self.meet(section.rows(&snapshot.cpus), point_ns);
        }
        let sum = &mut self.under_way;
        if sum.interval_ns == 0
            && is_due(snapshot.interval_ns, self.column_ns, snapshot.interval_ns)
        {
            self.times.push(snapshot.time_unix_ns, snapshot.interval_ns);
            self.columns.push_back(self.codes(snapshot));
            self.trim();
            return;
        }
        let columns = Columns::join(&mut sum.cpus, &snapshot.cpus);
        sum.sections
            .add_one(self.section, &snapshot.sections, &columns);
        sum.interval_ns = sum.interval_ns.saturating_add(snapshot.interval_ns);
        if is_due(sum.interval_ns, self.column_ns, snapshot.interval_ns) {
            let sum = std::mem::take(&mut self.under_way);
            self.times.push(snapshot.time_unix_ns, sum.interval_ns);
            self.columns.push_back(self.codes(&sum));
        }
        self.trim();
    }

    fn codes(&self, sum: &Snapshot) -> Vec<u8> {
        let width = self.rows.len();
        let mut codes = vec![ABSENT; self.layers.len() * width];
        let Some(section) = sum.sections.recorded(self.section) else {
            return codes;
        };
        let interval_ns = sum.interval_ns.max(1);
        for (index, row) in section.rows(&sum.cpus).iter().enumerate() {
            let Ok(place) = self.rows.binary_search(row) else {
                continue;
            };
            for layer in 0..self.layers.len() {
                if let Some(share) = section.share(layer, index, interval_ns) {
                    codes[layer * width + place] = code(share);
                }
            }
        }
        codes
    }

    /// Makes room for rows that were not there before.
    fn meet(&mut self, rows: &[u32], point_ns: u64) {
        if rows.iter().all(|row| self.rows.binary_search(row).is_ok()) {
            return;
        }
        let mut all: Vec<u32> = self.rows.iter().chain(rows).copied().collect();
        all.sort_unstable();
        all.dedup();
        let before = std::mem::replace(&mut self.rows, all);
        let moved = Moved {
            layers: (0..self.layers.len()).map(Some).collect(),
            rows: places(&self.rows, &before),
            width: before.len(),
        };
        for codes in &mut self.columns {
            *codes = moved.codes(codes);
        }
        let cells = (self.layers.len() * self.rows.len()).max(1);
        let columns = (COLUMN_BYTES / cells).clamp(FEWEST_COLUMNS, POINTS);
        let column_ns = LEAST_COVERED_NS.div_ceil(columns as u64);
        self.column_ns = whole_periods(column_ns.max(point_ns), point_ns);
    }

    /// Puts the columns of an older grid in front, as far as its layers have the same names.
    pub(super) fn prepend(&mut self, mut older: Grid, point_ns: u64) {
        if let Some(begin) = self.times.begin_unix_ms() {
            older.forget_from(begin.saturating_add(1));
        }
        self.meet(&older.rows, point_ns);
        let moved = Moved {
            layers: places(&self.layers, &older.layers),
            rows: places(&self.rows, &older.rows),
            width: older.rows.len(),
        };
        let mut columns: VecDeque<_> = older.columns.iter().map(|c| moved.codes(c)).collect();
        columns.append(&mut self.columns);
        self.columns = columns;
        self.times.prepend(older.times);
        self.trim();
    }

    pub(super) fn forget_from(&mut self, unix_ms: u64) {
        let keep = self.times.before(unix_ms);
        self.times.truncate(keep);
        self.columns.truncate(keep);
    }

    fn trim(&mut self) {
        let most = LEAST_COVERED_NS.div_ceil(self.column_ns) as usize;
        let surplus = self.columns.len().saturating_sub(most);
        self.times.drop_oldest(surplus);
        self.columns.drain(..surplus);
    }

    /// Number of each row: of the CPU, say.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Place of a layer, such as a component, by its name.
    pub fn layer(&self, name: &str) -> Option<usize> {
        self.layers.iter().position(|layer| layer == name)
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
        self.times.ms(column)
    }

    /// What a cell shows, 0 to 1, by the row's place in [`Grid::rows`]; rounded, to 1.6 per
    /// cent points at the most. `None` if it was not measured.
    pub fn cell(&self, column: usize, layer: usize, row: usize) -> Option<f64> {
        if layer >= self.layers.len() || row >= self.rows.len() {
            return None;
        }
        match self.columns.get(column)?.get(layer * self.rows.len() + row) {
            None | Some(&ABSENT) => None,
            Some(&code) => Some((f64::from(code) / FULL).powi(2)),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(|c| c.capacity() + 24).sum();
        let under_way = self.under_way.cpus.len() * self.layers.len() * UNDER_WAY_CELL_BYTES;
        self.times.memory_bytes() + columns + under_way
    }
}

/// What stands for a share of 0 to 1.
fn code(share: f64) -> u8 {
    match share {
        // Most cells.
        0.0 => 0,
        _ => (share.min(1.0).sqrt() * FULL + 0.5) as u8,
    }
}

/// Where each of these stood before.
pub(super) fn places<T: PartialEq>(now: &[T], before: &[T]) -> Vec<Option<usize>> {
    let place = |own: &T| before.iter().position(|old| old == own);
    now.iter().map(place).collect()
}

/// A column whose layers or rows have changed their places.
pub(super) struct Moved {
    /// For each layer and row, where it was.
    pub(super) layers: Vec<Option<usize>>,
    pub(super) rows: Vec<Option<usize>>,
    /// Number of rows that there were.
    pub(super) width: usize,
}

impl Moved {
    /// The codes of a column at their new places.
    pub(super) fn codes(&self, before: &[u8]) -> Vec<u8> {
        let mut codes = Vec::with_capacity(self.layers.len() * self.rows.len());
        for layer in &self.layers {
            codes.extend(self.rows.iter().map(|row| {
                let at = layer.zip(*row).map(|(layer, row)| layer * self.width + row);
                at.and_then(|at| before.get(at))
                    .map_or(ABSENT, |code| *code)
            }));
        }
        codes
    }
}
