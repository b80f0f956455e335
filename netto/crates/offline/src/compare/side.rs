//! One side of a comparison: a series of intervals, kept as a bounded number of consecutive cells.
//! Pure.
//!
//! A cell is the sum of several intervals; when there are too many cells, neighbours are merged.

use metrics_common::{Availability, ComponentInfo, Info, Snapshot};
use netto_estimate::difference::Cell as _;
use netto_judges::efficiency::{Work, done};
use serde::Serialize;

/// Kinds of work.
const WORKS: usize = Work::ALL.len();

/// Number of cells at which neighbours are merged.
pub const MOST_CELLS: usize = 1_024;
/// Most components; no netto has more.
const MOST_ROWS: usize = 512;
/// A component's time is damage from this multiple of the time of all CPUs.
const IMPLAUSIBLE: u64 = 2;

/// Some consecutive intervals.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Cell {
    /// Their length together, nanoseconds.
    pub(super) interval_ns: u64,
    /// Total time of all CPUs in them, nanoseconds.
    pub(super) capacity_ns: u64,
    /// CPU time of each component, nanoseconds.
    pub(super) ns: Vec<u64>,
    /// Work done, by kind.
    pub(super) work: [u64; WORKS],
}

impl Cell {
    pub(super) fn ns(&self, row: usize) -> u64 {
        self.ns.get(row).copied().unwrap_or(0)
    }
}

impl netto_estimate::difference::Cell for Cell {
    fn time(&self, row: usize) -> f64 {
        self.ns(row) as f64
    }

    fn add(&mut self, more: &Cell) {
        self.interval_ns = self.interval_ns.saturating_add(more.interval_ns);
        self.capacity_ns = self.capacity_ns.saturating_add(more.capacity_ns);
        if self.ns.len() < more.ns.len() {
            self.ns.resize(more.ns.len(), 0);
        }
        let times = self.ns.iter_mut().zip(&more.ns);
        for (sum, more) in times.chain(self.work.iter_mut().zip(&more.work)) {
            *sum = sum.saturating_add(*more);
        }
    }
}

/// The host and the time of the intervals.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct About {
    /// Host name.
    pub hostname: String,
    /// Kernel release.
    pub kernel: String,
    /// netto's version.
    pub version: String,
    /// Number of CPUs in the last interval.
    pub cpus: usize,
    /// Begin of the first interval, nanoseconds since the Unix epoch.
    pub from_unix_ns: u64,
    /// End of the last interval, nanoseconds since the Unix epoch.
    pub to_unix_ns: u64,
    /// Length of all intervals together, nanoseconds.
    pub measured_ns: u64,
    /// Number of intervals.
    pub intervals: u64,
    /// Number of these left out because of implausible values.
    pub implausible_intervals: u64,
}

/// See the head of this file.
#[derive(Debug, Clone, Default)]
pub struct Side {
    pub(super) about: About,
    pub(super) components: Vec<ComponentInfo>,
    /// Length of the intervals in which each was measured, nanoseconds.
    measured_ns: Vec<u64>,
    /// For each row of the following intervals, its index in `components`.
    places: Vec<Option<usize>>,
    roots: Vec<usize>,
    /// By kind of work: whether it was not counted in some interval.
    uncounted: [bool; WORKS],
    cells: Vec<Cell>,
    per_cell: u64,
    in_last: u64,
}

impl Side {
    /// Sets the meaning of the rows of the following intervals.
    pub fn describe(&mut self, info: &Info) {
        self.about.hostname.clone_from(&info.hostname);
        self.about.kernel.clone_from(&info.kernel);
        self.about.version.clone_from(&info.version);
        let rows = info.components.iter().take(MOST_ROWS);
        self.places = rows
            .map(|component| {
                let mut known = self.components.iter();
                if let Some(place) = known.position(|other| other.slug == component.slug) {
                    return Some(place);
                }
                if self.components.len() == MOST_ROWS {
                    return None;
                }
                self.components.push(component.clone());
                self.measured_ns.push(0);
                Some(self.components.len() - 1)
            })
            .collect();
        let is_root = |row: &usize| info.components[*row].parent.is_none();
        self.roots = (0..self.places.len()).filter(is_root).collect();
    }

    /// Adds an interval.
    pub fn interval(&mut self, snapshot: &Snapshot) {
        let (cost, capacity_ns) = (snapshot.cost(), snapshot.capacity_ns());
        let most_ns = capacity_ns.saturating_mul(IMPLAUSIBLE);
        let is_plausible = |&row: &usize| cost.total_ns(row).is_none_or(|ns| ns <= most_ns);
        if capacity_ns == 0 || !self.roots.iter().all(is_plausible) {
            self.about.implausible_intervals += 1;
            return;
        }
        let interval_ns = snapshot.interval_ns;
        let mut cell = Cell {
            interval_ns,
            capacity_ns,
            ns: vec![0; self.components.len()],
            work: [0; WORKS],
        };
        for work in Work::ALL {
            match done(snapshot, work) {
                Some(count) => cell.work[work as usize] = count,
                None => self.uncounted[work as usize] = true,
            }
        }
        for (row, place) in self.places.iter().enumerate() {
            if let (Some(place), Some(ns)) = (*place, cost.total_ns(row)) {
                // Parts of a plausible whole may still be implausible; they are limited to the
                // total time.
                cell.ns[place] = ns.min(most_ns);
                let measured_ns = &mut self.measured_ns[place];
                *measured_ns = measured_ns.saturating_add(interval_ns);
            }
        }
        let end = snapshot.time_unix_ns;
        let about = &mut self.about;
        if about.intervals == 0 {
            about.from_unix_ns = end.saturating_sub(interval_ns);
        }
        about.cpus = snapshot.cpus.len();
        about.to_unix_ns = about.to_unix_ns.max(end);
        about.measured_ns = about.measured_ns.saturating_add(interval_ns);
        about.intervals += 1;
        self.push(&cell);
    }

    fn push(&mut self, cell: &Cell) {
        self.per_cell = self.per_cell.max(1);
        match self.cells.last_mut() {
            Some(last) if self.in_last < self.per_cell => {
                last.add(cell);
                self.in_last += 1;
            }
            _ => {
                if self.cells.len() == MOST_CELLS {
                    self.halve();
                }
                self.cells.push(cell.clone());
                self.in_last = 1;
            }
        }
    }

    /// Merges pairs of cells; every cell is full when this is called.
    fn halve(&mut self) {
        let pairs = std::mem::take(&mut self.cells);
        self.cells = pairs
            .chunks(2)
            .map(|pair| {
                let mut sum = Cell::default();
                pair.iter().for_each(|cell| sum.add(cell));
                sum
            })
            .collect();
        self.per_cell *= 2;
    }

    /// Cells of equal numbers of intervals, without an incomplete last one.
    pub(super) fn cells(&self) -> &[Cell] {
        match self.cells.split_last() {
            Some((_, full)) if self.in_last < self.per_cell => full,
            _ => &self.cells,
        }
    }

    /// The sum of all intervals.
    pub(super) fn total(&self) -> Cell {
        let mut total = Cell::default();
        self.cells.iter().for_each(|cell| total.add(cell));
        total
    }

    /// Index of this component, or why it cannot be compared.
    pub(super) fn row(&self, slug: &str) -> Result<usize, String> {
        let of_slug = |component: &ComponentInfo| component.slug == slug;
        let Some(row) = self.components.iter().position(of_slug) else {
            return Err("this log does not know it".to_owned());
        };
        match (self.measured_ns[row], &self.components[row].availability) {
            (0, Availability::Unavailable { reason }) => Err(reason.clone()),
            (0, Availability::Available { .. }) => Err("not measured in this span".to_owned()),
            (measured_ns, _) if measured_ns < self.about.measured_ns => {
                Err("not measured all the time".to_owned())
            }
            _ => Ok(row),
        }
    }

    /// Whether this work was counted in every interval.
    pub(super) fn counts(&self, work: Work) -> bool {
        !self.uncounted[work as usize]
    }

    /// The host and the time; `None` without intervals.
    pub fn about(&self) -> Option<&About> {
        (self.about.intervals > 0).then_some(&self.about)
    }
}
