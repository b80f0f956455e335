//! CPU time of networking by component and CPU, with the basis of its figures.

use std::sync::LazyLock;

use netto_estimate::{Correction, Figure};
use serde::{Deserialize, Serialize};

use super::columns::{Columns, Rows};
use super::recorded::{Quantity, Recorded, Unit};
use super::section::Section;
use crate::component::{self, COMPONENTS};
use crate::confidence::variance;
use crate::info::Info;
use crate::packed::{self, Damaged, MOST_ROWS, Packed};
use crate::rounding::{Carry, TIME_UNIT_NS};

/// The samples on which the split of a component's time among its parts rests, nanoseconds over
/// all CPUs. The four sum to the component's time, including the parts carved out of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitBasis {
    /// Row of the component.
    pub component: u32,
    /// Stacks taken in the interval.
    pub stacks_ns: u64,
    /// Stacks taken on the same CPU within about the last half minute.
    pub past_ns: u64,
    /// Stacks of the host's other CPUs, from the interval and the half minute before.
    pub host_ns: u64,
    /// No stacks: the remainder has all of this time.
    pub nothing_ns: u64,
}

impl SplitBasis {
    /// Its fields, in order.
    pub fn values(&self) -> [u64; 5] {
        [
            u64::from(self.component),
            self.stacks_ns,
            self.past_ns,
            self.host_ns,
            self.nothing_ns,
        ]
    }

    /// The inverse of [`SplitBasis::values`]; `None` if there is no such row.
    pub fn from_values(values: [u64; 5]) -> Option<Self> {
        let [component, stacks_ns, past_ns, host_ns, nothing_ns] = values;
        Some(SplitBasis {
            component: u32::try_from(component).ok()?,
            stacks_ns,
            past_ns,
            host_ns,
            nothing_ns,
        })
    }

    /// Total time that was split, nanoseconds.
    pub fn total_ns(&self) -> u64 {
        let times = &self.values()[1..];
        times.iter().fold(0, |sum, &ns| sum.saturating_add(ns))
    }

    fn add(&mut self, more: &SplitBasis) {
        for (sum, more) in [
            (&mut self.stacks_ns, more.stacks_ns),
            (&mut self.past_ns, more.past_ns),
            (&mut self.host_ns, more.host_ns),
            (&mut self.nothing_ns, more.nothing_ns),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// CPU time of networking in an interval. Rows are in the order of [`crate::Info::components`],
/// columns in that of [`crate::Snapshot::cpus`].
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Cost {
    /// CPU time in nanoseconds by component and CPU.
    /// `None`: not measured; [`crate::Info::components`] says why.
    pub components: Rows<u64>,
    /// Stack samples by component and CPU on which the split of this row rests; `None` if the
    /// row is neither split nor found by sampling.
    pub samples: Rows<u32>,
    /// For each component that is split by stacks, the basis of the split.
    pub split_basis: Vec<SplitBasis>,
    /// Entries of a timed component (sends, receives, softirqs), by component and CPU; `None`
    /// if they are not counted.
    pub entries: Rows<u64>,
    /// Part of the RX softirq's time in ksoftirqd, not on top of an interrupted task,
    /// nanoseconds per CPU; `None` if not measured.
    pub ksoftirqd_rx_ns: Option<Vec<u64>>,
    /// Stacks taken in the interval, per CPU.
    pub stacks_taken: Vec<u64>,
    /// Stacks that did not fit into the buffer in the interval, per CPU.
    pub stacks_lost: Vec<u64>,
    /// Events missed by probes in the interval, on all CPUs, by the rows of
    /// [`crate::Info::missable`]; some are read only every five seconds.
    pub probe_missed: Vec<u64>,
    /// Already applied to the time of softirqs; `None` if they are timed, or it is unknown.
    pub softirq_correction: Option<Correction>,
    /// The variance of the RX softirq's time, nanoseconds × milliseconds, as far as it was found by
    /// the number of softirqs and the mean length of those that were timed in windows; `None` if
    /// all or none were timed.
    pub received_ns_ms: Option<u64>,
    /// The standard deviation of that time's error that all intervals share, nanoseconds.
    pub received_shared_ns: Option<u64>,
    /// By component: its time × the time for which one of its samples stands, nanoseconds × milliseconds:
    /// of work that samples alone show, the sum of their squared weights; of a part, its variance by the
    /// others' share. CPUs are sampled at different rates, and parts are not in the same proportion on
    /// all of them. `None` in what an older netto has written, and in a sum that contains it.
    pub sample_ns_ms: Option<Vec<u64>>,
    /// By component: the standard deviation of an error that all intervals share, nanoseconds, as far as its
    /// time rests on samples by the scheduler's tick, which meets some work more often than other. `None` if
    /// it takes none.
    pub ticks_shared_ns: Option<Vec<u64>>,
    /// Number of sample times in the interval on the least sampled CPU. CPUs without networking
    /// for long, which are sampled little or not at all, do not count. `None` if no other CPU was
    /// sampled, or it is unknown.
    pub fewest_due: Option<u64>,
    /// The same with those of the tick, which comes where tasks run; `None` if it takes no samples.
    pub fewest_due_in_tasks: Option<u64>,
}

impl Cost {
    /// No component was measured.
    pub const NOTHING: Cost = Cost {
        components: Vec::new(),
        samples: Vec::new(),
        split_basis: Vec::new(),
        entries: Vec::new(),
        ksoftirqd_rx_ns: None,
        stacks_taken: Vec::new(),
        stacks_lost: Vec::new(),
        probe_missed: Vec::new(),
        softirq_correction: None,
        received_ns_ms: None,
        received_shared_ns: None,
        sample_ns_ms: None,
        ticks_shared_ns: None,
        fewest_due: None,
        fewest_due_in_tasks: None,
    };

    /// CPU time of a component by CPU, nanoseconds; `None` if not measured.
    pub fn cpu_ns(&self, component: usize) -> Option<&[u64]> {
        self.components.get(component)?.as_deref()
    }

    /// CPU time of a component over all CPUs, nanoseconds; `None` if not measured.
    pub fn total_ns(&self, component: usize) -> Option<u64> {
        let row = self.cpu_ns(component)?;
        Some(row.iter().fold(0_u64, |sum, &ns| sum.saturating_add(ns)))
    }

    /// Samples on which the split of a component rests, by CPU.
    pub fn samples_of(&self, component: usize) -> Option<&[u32]> {
        self.samples.get(component)?.as_deref()
    }

    /// The errors of the RX softirq's time, as far as it was found by the number of softirqs.
    pub fn received(&self) -> Option<Figure> {
        Some(Figure {
            variance: variance(self.received_ns_ms?),
            shared: self.received_shared_ns? as f64,
            ..Figure::default()
        })
    }

    /// How often a component was entered, by CPU.
    pub fn entries_of(&self, component: usize) -> Option<&[u64]> {
        self.entries.get(component)?.as_deref()
    }
}

/// [`Cost`] on the wire.
#[derive(Debug, Serialize, Deserialize)]
pub struct CostWire {
    components: Packed,
    samples: Packed,
    /// A row of [`SplitBasis::values`] for each component.
    split_basis: Packed,
    entries: Packed,
    /// Rows: `ksoftirqd_rx_ns`, `stacks_taken`, `stacks_lost`.
    counts: Packed,
    probe_missed: Vec<u64>,
    softirq_correction: Option<Correction>,
    #[serde(default)]
    received_ns_ms: Option<u64>,
    #[serde(default)]
    received_shared_ns: Option<u64>,
    /// One row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sample_ns_ms: Option<Packed>,
    /// One row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ticks_shared_ns: Option<Packed>,
    fewest_due: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fewest_due_in_tasks: Option<u64>,
}

const _: () = assert!(COMPONENTS.len() <= MOST_ROWS);

/// The rows of the table that are sums of others, parts before their wholes.
pub static SUMS: LazyLock<Vec<(usize, Vec<usize>)>> = LazyLock::new(|| {
    let parts = |row: usize| component::children(row).to_vec();
    (0..COMPONENTS.len())
        .rev()
        .map(|row| (row, parts(row)))
        .filter(|(row, parts)| parts.iter().any(|part| part > row))
        .collect()
});

/// A square millisecond, in nanoseconds × milliseconds: the square of the time for which a sample stands
/// at the highest rate.
const SQUARE_MS: u64 = 1_000_000;

impl Section for Cost {
    type Wire = CostWire;

    fn to_wire(&self) -> CostWire {
        let sums = if self.components.len() == COMPONENTS.len() {
            SUMS.as_slice()
        } else {
            &[]
        };
        let bases: Vec<[u64; 5]> = self.split_basis.iter().map(SplitBasis::values).collect();
        let counts = [
            self.ksoftirqd_rx_ns.as_deref(),
            Some(self.stacks_taken.as_slice()),
            Some(self.stacks_lost.as_slice()),
        ];
        CostWire {
            components: packed::pack_with_sums(rows_of(&self.components), sums),
            samples: packed::pack(rows_of(&self.samples)),
            split_basis: packed::pack(bases.iter().map(|basis| Some(basis.as_slice()))),
            entries: packed::pack(rows_of(&self.entries)),
            counts: packed::pack(counts.into_iter()),
            probe_missed: self.probe_missed.clone(),
            softirq_correction: self.softirq_correction,
            received_ns_ms: self.received_ns_ms,
            received_shared_ns: self.received_shared_ns,
            sample_ns_ms: one_row(self.sample_ns_ms.as_deref()),
            ticks_shared_ns: one_row(self.ticks_shared_ns.as_deref()),
            fewest_due: self.fewest_due,
            fewest_due_in_tasks: self.fewest_due_in_tasks,
        }
    }

    fn from_wire(wire: CostWire, cpus: usize) -> Result<Self, Damaged> {
        let counts = packed::unpack(&wire.counts, cpus)?;
        let [ksoftirqd_rx_ns, Some(stacks_taken), Some(stacks_lost)] =
            <[_; 3]>::try_from(counts).map_err(|_| Damaged)?
        else {
            return Err(Damaged);
        };
        let components: Rows<u64> = packed::unpack(&wire.components, cpus)?;
        let by_component = |row: Option<Packed>| match row {
            Some(row) => packed::unpack(&row, components.len())?.pop().ok_or(Damaged),
            None => Ok(None),
        };
        let sample_ns_ms = by_component(wire.sample_ns_ms)?;
        let ticks_shared_ns = by_component(wire.ticks_shared_ns)?;
        let cost = Cost {
            components,
            samples: narrow(packed::unpack(&wire.samples, cpus)?)?,
            split_basis: bases(packed::unpack(
                &wire.split_basis,
                SplitBasis::default().values().len(),
            )?)?,
            entries: packed::unpack(&wire.entries, cpus)?,
            ksoftirqd_rx_ns,
            stacks_taken,
            stacks_lost,
            probe_missed: wire.probe_missed,
            softirq_correction: wire.softirq_correction,
            received_ns_ms: wire.received_ns_ms,
            received_shared_ns: wire.received_shared_ns,
            sample_ns_ms,
            ticks_shared_ns,
            fewest_due: wire.fewest_due,
            fewest_due_in_tasks: wire.fewest_due_in_tasks,
        };
        Ok(cost)
    }

    fn round(&mut self, carry: &mut Carry) {
        let sums = if self.components.len() == COMPONENTS.len() {
            SUMS.as_slice()
        } else {
            &[]
        };
        // Wholes precede their parts, and their own time is rounded first. A whole is then the
        // sum of its rounded parts and its own rounded rest.
        let is_sum: Vec<bool> = sums
            .iter()
            .rev()
            .map(|(whole, parts)| with_parts(&mut self.components, *whole, parts, u64::checked_sub))
            .collect();
        carry.round_rows("components", &mut self.components, TIME_UNIT_NS);
        for ((whole, parts), is_sum) in sums.iter().zip(is_sum.into_iter().rev()) {
            if is_sum {
                with_parts(&mut self.components, *whole, parts, u64::checked_add);
            }
        }
        carry.round_rows("entries", &mut self.entries, 1);
        let mut samples = [self.sample_ns_ms.take()];
        carry.round_rows("sample_ns_ms", &mut samples, SQUARE_MS);
        [self.sample_ns_ms] = samples;
        let mut ticks = [self.ticks_shared_ns.take()];
        carry.round_rows("ticks_shared_ns", &mut ticks, TIME_UNIT_NS);
        [self.ticks_shared_ns] = ticks;
        if let Some(row) = self.ksoftirqd_rx_ns.take() {
            let mut rows = vec![Some(row)];
            carry.round_rows("ksoftirqd_rx", &mut rows, TIME_UNIT_NS);
            self.ksoftirqd_rx_ns = rows.pop().flatten();
        }
    }

    fn layout(&self) -> Vec<Vec<bool>> {
        fn rows<T>(rows: &Rows<T>) -> Vec<bool> {
            rows.iter().map(Option::is_some).collect()
        }
        vec![
            rows(&self.components),
            rows(&self.samples),
            rows(&self.entries),
        ]
    }

    fn add(&mut self, later: &Self, columns: &Columns) {
        let Cost {
            components,
            samples,
            split_basis,
            entries,
            ksoftirqd_rx_ns,
            stacks_taken,
            stacks_lost,
            probe_missed,
            softirq_correction,
            received_ns_ms,
            received_shared_ns,
            sample_ns_ms,
            ticks_shared_ns,
            fewest_due,
            fewest_due_in_tasks,
        } = self;
        // A sum begins without any row, and so is an interval that was not measured.
        match (components.is_empty(), later.components.is_empty()) {
            (_, true) => {}
            (true, false) => sample_ns_ms.clone_from(&later.sample_ns_ms),
            (false, false) => match (sample_ns_ms.as_mut(), &later.sample_ns_ms) {
                (Some(sums), Some(more)) if sums.len() == more.len() => {
                    let sums = sums.iter_mut().zip(more);
                    sums.for_each(|(sum, more)| *sum = sum.saturating_add(*more));
                }
                _ => *sample_ns_ms = None,
            },
        }
        if let Some(more) = &later.ticks_shared_ns {
            let sums = ticks_shared_ns.get_or_insert_default();
            // No table is longer; a hostile log must not exhaust the memory.
            sums.resize(sums.len().max(more.len()).min(MOST_ROWS), 0);
            let sums = sums.iter_mut().zip(more);
            sums.for_each(|(sum, more)| *sum = sum.saturating_add(*more));
        }
        columns.add_rows(components, &later.components);
        columns.add_rows(samples, &later.samples);
        columns.add_rows(entries, &later.entries);
        // No table is longer; a hostile log must not exhaust the memory.
        let is_row = |basis: &&SplitBasis| (basis.component as usize) < MOST_ROWS;
        for more in later.split_basis.iter().filter(is_row) {
            match split_basis
                .iter_mut()
                .find(|b| b.component == more.component)
            {
                Some(basis) => basis.add(more),
                None => split_basis.push(*more),
            }
        }
        match (ksoftirqd_rx_ns, &later.ksoftirqd_rx_ns) {
            (None, None) => {}
            (sum, Some(later)) => columns.add(sum.get_or_insert_default(), later),
            (Some(sum), None) => columns.add(sum, &[]),
        }
        columns.add(stacks_taken, &later.stacks_taken);
        columns.add(stacks_lost, &later.stacks_lost);
        *softirq_correction = later.softirq_correction.or(*softirq_correction);
        let is_first = received_ns_ms.is_none();
        *received_ns_ms = sum_of_known(*received_ns_ms, later.received_ns_ms);
        *received_shared_ns = match (is_first, later.received_ns_ms) {
            (_, None) => *received_shared_ns,
            (true, Some(_)) => later.received_shared_ns,
            (false, Some(_)) => (received_shared_ns.zip(later.received_shared_ns))
                .map(|(sum, more)| sum.saturating_add(more)),
        };
        *fewest_due = sum_of_known(*fewest_due, later.fewest_due);
        *fewest_due_in_tasks = sum_of_known(*fewest_due_in_tasks, later.fewest_due_in_tasks);
        if probe_missed.len() < later.probe_missed.len() {
            probe_missed.resize(later.probe_missed.len(), 0);
        }
        for (sum, more) in probe_missed.iter_mut().zip(&later.probe_missed) {
            *sum = sum.saturating_add(*more);
        }
    }
}

/// Places of what is kept of errors in the history ([`Recorded::errors`]): of the host, then two of each
/// component. Deviations are in CPUs.
pub(crate) mod error {
    /// Whether it is recorded for how much time samples stand.
    pub const IS_WEIGHTED: usize = 0;
    /// The deviation of the RX softirq's time, as far as it was found by the number of softirqs.
    pub const RECEIVED: usize = 1;
    /// The same of the error that all intervals share.
    pub const RECEIVED_SHARED: usize = 2;
    /// The error of the correction of sampled softirqs, as a ratio.
    pub const CORRECTION: usize = 3;
    /// Samples a second on the least sampled CPU.
    pub const DUE: usize = 4;
    /// The same with those of the tick.
    pub const DUE_IN_TASKS: usize = 5;

    /// The deviation of a component's time by its samples.
    pub const fn deviation(component: usize) -> usize {
        super::HOST_ERRORS.len() + 2 * component
    }

    /// The deviation of its error that all intervals share.
    pub const fn shared(component: usize) -> usize {
        deviation(component) + 1
    }
}

/// Name and unit of those of the host, by their places.
const HOST_ERRORS: [(&str, Unit); 6] = [
    ("is_weighted", Unit::Ratio),
    ("received/deviation", Unit::Ratio),
    ("received/shared", Unit::Ratio),
    ("correction", Unit::Ratio),
    ("due", Unit::PerSecond),
    ("due_in_tasks", Unit::PerSecond),
];

/// A series for each component, and a grid of CPUs with a layer for each.
impl Recorded for Cost {
    fn series(info: &Info) -> Vec<Quantity> {
        let quantity = |name| Quantity {
            name,
            unit: Unit::Cpus,
        };
        Self::layers(info).into_iter().map(quantity).collect()
    }

    fn value(&self, series: usize, interval_ns: u64) -> Option<f64> {
        Some(self.total_ns(series)? as f64 / interval_ns as f64)
    }

    fn errors(info: &Info) -> Vec<Quantity> {
        let of_host = HOST_ERRORS
            .iter()
            .map(|(name, unit)| ((*name).to_owned(), *unit));
        let of_components = info.components.iter().flat_map(|component| {
            ["deviation", "shared"].map(|name| (format!("{}/{name}", component.slug), Unit::Ratio))
        });
        let errors = of_host.chain(of_components);
        errors.map(|(name, unit)| Quantity { name, unit }).collect()
    }

    fn error(&self, error: usize, interval_ns: u64) -> Option<f64> {
        let of_interval = |value: f64| value / interval_ns as f64;
        let per_second = |count: u64| of_interval(count as f64 * 1e9);
        let deviation = |ns_ms: u64| of_interval(variance(ns_ms).sqrt());
        let value = match error {
            error::IS_WEIGHTED => self.sample_ns_ms.as_ref().map(|_| 1.0),
            error::RECEIVED => self.received_ns_ms.map(deviation),
            error::RECEIVED_SHARED => self.received_shared_ns.map(|ns| of_interval(ns as f64)),
            error::CORRECTION => self.softirq_correction.map(|known| known.error_ratio),
            error::DUE => self.fewest_due.map(per_second),
            error::DUE_IN_TASKS => self.fewest_due_in_tasks.map(per_second),
            of_component => {
                let place = of_component - HOST_ERRORS.len();
                let row = [&self.sample_ns_ms, &self.ticks_shared_ns][place % 2].as_ref();
                let value = row.and_then(|row| row.get(place / 2)).copied();
                // What has no error takes no memory.
                let value = value.filter(|value| *value > 0);
                match place % 2 {
                    0 => value.map(deviation),
                    _ => value.map(|ns| of_interval(ns as f64)),
                }
            }
        };
        value.filter(|_| !self.components.is_empty())
    }

    fn layers(info: &Info) -> Vec<String> {
        info.components.iter().map(|c| c.slug.clone()).collect()
    }

    fn rows<'a>(&'a self, cpus: &'a [u32]) -> &'a [u32] {
        cpus
    }

    fn share(&self, layer: usize, row: usize, interval_ns: u64) -> Option<f64> {
        let ns = *self.cpu_ns(layer)?.get(row)?;
        Some(ns as f64 / interval_ns as f64)
    }
}

/// The sum of the known values; `None` if there are none.
pub fn sum_of_known(sum: Option<u64>, more: Option<u64>) -> Option<u64> {
    match (sum, more) {
        (Some(sum), Some(more)) => Some(sum.saturating_add(more)),
        (sum, more) => sum.or(more),
    }
}

fn one_row(row: Option<&[u64]>) -> Option<Packed> {
    row.map(|row| packed::pack([Some(row)].into_iter()))
}

fn rows_of<T>(rows: &Rows<T>) -> impl Iterator<Item = Option<&[T]>> {
    rows.iter().map(Option::as_deref)
}

/// Rows of samples.
fn narrow(rows: Rows<u64>) -> Result<Rows<u32>, Damaged> {
    let narrow = |row: Vec<u64>| -> Result<Vec<u32>, Damaged> {
        row.into_iter()
            .map(|count| u32::try_from(count).map_err(|_| Damaged))
            .collect()
    };
    rows.into_iter()
        .map(|row| row.map(narrow).transpose())
        .collect()
}

/// Rows of [`SplitBasis::values`].
fn bases(rows: Rows<u64>) -> Result<Vec<SplitBasis>, Damaged> {
    let basis = |row: Option<Vec<u64>>| SplitBasis::from_values(row?.try_into().ok()?);
    rows.into_iter()
        .map(|row| basis(row).ok_or(Damaged))
        .collect()
}

/// Subtracts the parts from a whole, or adds them; returns `false`, without a change, if that
/// is not possible.
fn with_parts(
    rows: &mut [Option<Vec<u64>>],
    whole: usize,
    parts: &[usize],
    with: fn(u64, u64) -> Option<u64>,
) -> bool {
    let row = (|| {
        let mut row = rows.get(whole)?.clone()?;
        for part in parts.iter().filter_map(|&part| rows.get(part)?.as_ref()) {
            if part.len() != row.len() {
                return None;
            }
            for (value, part) in row.iter_mut().zip(part) {
                *value = with(*value, *part)?;
            }
        }
        Some(row)
    })();
    let is_done = row.is_some();
    if is_done {
        rows[whole] = row;
    }
    is_done
}
