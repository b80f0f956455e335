//! The second shape: rows × time in several layers. Rows are numbered things, such as CPUs or
//! steps of a latency; a layer is a value of each cell, such as a component's share.
//!
//! A cell is one byte, so that a grid covers a long time rather than taking much memory.

use std::collections::VecDeque;

use super::times::Times;
use super::{LEAST_COVERED_NS, POINTS, is_due, whole_periods};
use crate::sections::Columns;
use crate::snapshot::Snapshot;
use crate::sort::sort_by_key;

/// Most bytes of a grid's columns, one byte for each row and layer. There are at least sixteen
/// columns.
pub const COLUMN_BYTES: usize = 3 << 20;

/// Most bytes that a section keeps for each cell of the unfinished column: a time, a count and
/// a number of samples.
const UNDER_WAY_CELL_BYTES: usize = 20;
const FEWEST_COLUMNS: usize = 16;
/// The largest code, for a cell of 1.
const FULL: f64 = 126.0;
/// The code of a cell that was not measured, or whose row did not exist.
pub(super) const ABSENT: u8 = 127;

/// The grid of one section; see the head of this file.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// The name of the section.
    pub(super) section: &'static str,
    pub(super) layers: Vec<String>,
    /// Number of each row, ascending.
    pub(super) rows: Vec<u32>,
    pub(super) column_ns: u64,
    pub(super) times: Times,
    /// For each column, the codes by layer and row.
    pub(super) columns: VecDeque<Vec<u8>>,
    /// The sum since the last complete column, of this section alone.
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

    /// Adds a snapshot; `point_ns` is the length of a point of the history.
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

    /// Adds new rows.
    fn meet(&mut self, rows: &[u32], point_ns: u64) {
        if rows.iter().all(|row| self.rows.binary_search(row).is_ok()) {
            return;
        }
        let mut all: Vec<u32> = self.rows.iter().chain(rows).copied().collect();
        sort_by_key(&mut all, |row| *row);
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

    /// Prepends the columns of an older grid, for the layers with the same names.
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

    /// The number of each row, such as that of a CPU.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Index of a layer by its name.
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

    /// The value of a cell, 0 to 1, by the row's index in [`Grid::rows`], rounded to at most
    /// 1.6 percentage points. `None` if it was not measured.
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

/// The code of a share of 0 to 1.
fn code(share: f64) -> u8 {
    match share {
        // Most cells.
        0.0 => 0,
        _ => (share.min(1.0).sqrt() * FULL + 0.5) as u8,
    }
}

/// The former index of each item.
pub(super) fn places<T: PartialEq>(now: &[T], before: &[T]) -> Vec<Option<usize>> {
    let place = |item: &T| before.iter().position(|old| old == item);
    now.iter().map(place).collect()
}

/// The mapping of a column whose layers or rows have moved.
pub(super) struct Moved {
    /// The former index of each layer and row.
    pub(super) layers: Vec<Option<usize>>,
    pub(super) rows: Vec<Option<usize>>,
    /// The former number of rows.
    pub(super) width: usize,
}

impl Moved {
    /// The codes of a column in the new order.
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
