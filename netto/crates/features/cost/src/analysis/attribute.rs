//! Computes CPU time by component from the clock's times and the samples.
//!
//! A timed component gets the time that the clock charged to it, minus the share of its samples
//! that show other work. Work without a clock gets one sampling period per sample. Sampled parts
//! then get a share of their whole's time in proportion to their samples (or, with few samples, to
//! earlier ones: `shares`), and a remainder row the rest, so that parts always sum to the whole.

use metrics_common::component::{CLOCK_KINDS, children, index_of_source};
use metrics_common::{COMPONENTS, Correction, Cost, Kind, Source};

use super::delta::Totals;
use netto_analysis::plan::Capabilities;
use netto_estimate::design_effect::Mass;
use netto_estimate::mean_length::Estimate;
use netto_estimate::shares::{HostPool, Pool, Whole};
use netto_estimate::two_clocks::Ratios;

mod counts;
mod weights;

use self::weights::SampleWeights;

pub use self::counts::{Request, StackCounts, is_networking};
pub use netto_estimate::shares::Basis;

/// The time to attribute, on one CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Its length, nanoseconds.
    pub length_ns: u64,
    /// Time that a sample of weight 1 stands for, nanoseconds; arbitrary if there are no samples.
    pub sample_period_ns: u64,
    /// Time of RX softirqs that the clock did not charge, where it is known by their number.
    pub received: Option<Estimate>,
}

/// CPU time and samples by component, of one CPU.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Split {
    /// Nanoseconds by component; `None` where not measured.
    pub time_ns: Vec<Option<u64>>,
    /// Samples by component on which its time or its split is based.
    pub samples: Vec<Option<u32>>,
    /// The basis of the split, by component that is split.
    pub basis: Vec<Option<Basis>>,
    /// The time of RX softirqs that is known by their number and by samples.
    pub received: Option<Estimate>,
}

/// Everything that is divided by samples: the time of each clock kind among events, and that of
/// each event among its parts.
#[derive(Debug, Clone)]
struct Wholes {
    /// By clock kind, the event that gets the rest; `None` for kind 0.
    owns: [Option<usize>; CLOCK_KINDS],
    /// Events with parts.
    events: Vec<Event>,
}

/// An event with parts.
#[derive(Debug, Clone)]
struct Event {
    row: usize,
    parts: Vec<usize>,
    remainder: usize,
}

impl Wholes {
    fn of_table() -> Self {
        let mut owns = [None; CLOCK_KINDS];
        for source in Source::ALL {
            owns[usize::from(source.clock_kind())] = index_of_source(source);
        }
        let event = |row: usize| {
            let (parts, others): (Vec<usize>, Vec<usize>) = children(row)
                .iter()
                .partition(|&&child| matches!(COMPONENTS[child].kind, Kind::Sampled(_)));
            let is_remainder = |&child: &usize| COMPONENTS[child].kind == Kind::Remainder;
            Some(Event {
                row,
                parts,
                remainder: others.into_iter().find(is_remainder)?,
            })
        };
        Wholes {
            owns,
            events: (0..COMPONENTS.len()).filter_map(event).collect(),
        }
    }

    /// The number of the event in this row, if it has parts.
    fn event_of(&self, row: usize) -> Option<usize> {
        self.events.iter().position(|event| event.row == row)
    }

    /// The number of the event with this part or remainder.
    fn event_with(&self, row: usize) -> Option<usize> {
        let has_it = |event: &Event| event.remainder == row || event.parts.contains(&row);
        self.events.iter().position(has_it)
    }

    /// Number of wholes, including kind 0, which is none.
    fn count(&self) -> usize {
        CLOCK_KINDS + self.events.len()
    }
}

/// The sources of each row.
#[derive(Debug, Clone, Default)]
struct ShownRows {
    capabilities: Capabilities,
    /// By component: whether its time or its split comes from samples.
    rests_on_samples: Vec<bool>,
    /// By component: whether networking is carved out of it.
    is_carved: Vec<bool>,
    /// Rows that are sums, the innermost first, with their measured parts.
    sums: Vec<(usize, Vec<usize>)>,
}

impl ShownRows {
    fn of(capabilities: &Capabilities) -> ShownRows {
        let rows = 0..COMPONENTS.len();
        let is_available = |row: &usize| capabilities.available[*row];
        let parts = |row| children(row).iter().copied().filter(is_available).collect();
        // Children follow their parents.
        let sums = rows
            .clone()
            .rev()
            .filter(|&row| COMPONENTS[row].kind == Kind::Sum);
        ShownRows {
            sums: sums.map(|row| (row, parts(row))).collect(),
            rests_on_samples: rows
                .clone()
                .map(|row| is_available(&row) && rests_on_samples(capabilities, row))
                .collect(),
            is_carved: rows.map(|row| is_carved(capabilities, row)).collect(),
            capabilities: capabilities.clone(),
        }
    }
}

/// Attributes time to components, interval by interval.
#[derive(Debug, Clone)]
pub struct Attribution {
    wholes: Wholes,
    /// By whole.
    host: Vec<HostPool>,
    /// By CPU and whole.
    cpus: Vec<Vec<Pool>>,
    weights: SampleWeights,
    /// Sum of all intervals so far.
    now_ns: u64,
    /// The factor for softirqs found by samples alone.
    correction: Option<Correction>,
    /// The row of RX softirqs.
    rx: Option<usize>,
    /// Rows of io_uring threads' work for all requests: networking's and the others'.
    of_requests: Option<[usize; 2]>,
    /// The rows for the capabilities of the last interval.
    shown: ShownRows,
    // Scratch.
    samples: Vec<(usize, Mass)>,
    time_ns: Vec<u64>,
    split: Split,
    /// Whether its samples may be other than 0.
    split_has_samples: bool,
}

impl Default for Attribution {
    fn default() -> Self {
        let wholes = Wholes::of_table();
        Attribution {
            host: vec![HostPool::default(); wholes.count()],
            cpus: Vec::new(),
            weights: SampleWeights::new(wholes.count()),
            now_ns: 0,
            correction: None,
            rx: index_of_source(Source::NET_RX),
            of_requests: rows_of_requests(),
            shown: ShownRows::default(),
            samples: Vec::new(),
            time_ns: vec![0; COMPONENTS.len()],
            split: Split::default(),
            split_has_samples: true,
            wholes,
        }
    }
}

impl Attribution {
    /// Begins an interval of this length with these samples by CPU.
    pub fn begin(&mut self, interval_ns: u64, by_cpu: &[StackCounts]) {
        self.now_ns += interval_ns;
        self.host.iter_mut().for_each(|pool| pool.age(interval_ns));
        self.weights.begin(interval_ns);
        for stacks in by_cpu.iter().filter(|stacks| stacks.taken() > 0) {
            for whole in 1..self.wholes.count() {
                collect(&self.wholes, stacks, whole, &mut self.samples);
                for &(row, samples) in &self.samples {
                    self.host[whole].add(row, samples);
                }
            }
        }
    }

    /// Sets the factor for softirqs found by samples alone.
    pub fn correct_softirqs(&mut self, correction: Option<Correction>) {
        self.correction = correction;
    }

    /// Attributes the interval of one CPU.
    pub fn attribute(
        &mut self,
        cpu: usize,
        capabilities: &Capabilities,
        interval: Interval,
        clock: &Totals,
        stacks: &StackCounts,
    ) -> &Split {
        if self.cpus.len() <= cpu {
            let nothing = vec![Pool::default(); self.wholes.count()];
            self.cpus.resize(cpu + 1, nothing);
        }
        if self.shown.capabilities != *capabilities {
            self.shown = ShownRows::of(capabilities);
            self.split_has_samples = true;
        }
        let mut time_ns = std::mem::take(&mut self.time_ns);
        let mut split = std::mem::take(&mut self.split);
        time_ns.fill(0);
        split.basis.clear();
        split.basis.resize(COMPONENTS.len(), None);
        for (kind, &clock_ns) in clock.iter().enumerate().skip(1) {
            if let Some(own_row) = self.wholes.owns[kind] {
                let whole = (cpu, kind, own_row);
                let rests_on = if clock_ns == 0 && stacks.kinds[kind].sum() == 0.0 {
                    Basis::default()
                } else {
                    self.divide(whole, interval, clock_ns, stacks, &mut time_ns)
                };
                split.basis[own_row] = self.shown.is_carved[own_row].then_some(rests_on);
            }
        }
        split.received = self.received(cpu, interval, stacks);
        if stacks.kinds[0].sum() > 0.0 || split.received.is_some() {
            let timed_ns = clock[1..].iter().sum();
            self.weights
                .add_sampled(stacks.of_kind(0), interval.sample_period_ns as f64);
            let of_softirqs = self.correction.map_or(1.0, |correction| correction.ratio);
            estimate(
                interval.sample_period_ns,
                of_softirqs,
                split
                    .received
                    .map(|known| (self.rx, known.figure.value as u64)),
                interval.length_ns.saturating_sub(timed_ns),
                stacks.of_kind(0),
                &mut time_ns,
            );
        }
        if let Some(rows) = self.of_requests {
            share_requests(rows, stacks.requests, &mut time_ns);
        }
        for event in 0..self.wholes.events.len() {
            let Event { row, remainder, .. } = self.wholes.events[event];
            let whole_ns = time_ns[row];
            let whole = (cpu, CLOCK_KINDS + event, remainder);
            let rests_on = if whole_ns == 0 && stacks.numbers[row] == 0 {
                Basis::default()
            } else {
                self.divide(whole, interval, whole_ns, stacks, &mut time_ns)
            };
            split.basis[row] = capabilities.available[remainder].then_some(rests_on);
        }
        for (sum, parts) in &self.shown.sums {
            time_ns[*sum] = parts.iter().map(|&part| time_ns[part]).sum();
        }
        split.time_ns.clear();
        let available = capabilities.available.iter().zip(&time_ns);
        split
            .time_ns
            .extend(available.map(|(available, ns)| available.then_some(*ns)));
        // Most CPUs have no stacks in most intervals, and all values are 0 already.
        let has_stacks = stacks.taken() > 0;
        if has_stacks || self.split_has_samples {
            split.samples.clear();
            let samples = self.shown.rests_on_samples.iter().zip(&stacks.numbers);
            split
                .samples
                .extend(samples.map(|(rests, number)| rests.then_some(*number)));
            self.split_has_samples = has_stacks;
        }
        self.time_ns = time_ns;
        self.split = split;
        &self.split
    }

    /// For how much time samples stand, by component: [`Cost::sample_ns_ms`] of the interval.
    pub fn sample_ns_ms(&self, capabilities: &Capabilities, cost: &Cost) -> Vec<u64> {
        self.weights
            .sample_ns_ms(&self.wholes, &capabilities.timed, cost)
    }

    /// By component, [`Cost::ticks_shared_ns`]. A remainder has the ratio of its event.
    pub fn shared_ns(&self, ratios: &Ratios, capabilities: &Capabilities, cost: &Cost) -> Vec<u64> {
        let total_ns = |row: usize| cost.total_ns(row).unwrap_or(0) as f64;
        let mut shared_ns: Vec<f64> = (0..COMPONENTS.len())
            .map(|row| {
                if rests_on_samples(capabilities, row) {
                    ratios.deviations(row, &[(row, total_ns(row))], false).1
                } else {
                    0.0
                }
            })
            .collect();
        for event in &self.wholes.events {
            let is_known = capabilities.timed[event.row]
                || Some(event.row) == self.rx && cost.received_ns_ms.is_some();
            let mut leaves: Vec<(usize, f64)> = event
                .parts
                .iter()
                .map(|&row| (row, total_ns(row)))
                .collect();
            leaves.push((event.row, total_ns(event.remainder)));
            let (of_parts, of_event) = ratios.deviations(event.row, &leaves, is_known);
            shared_ns[event.row] = of_event;
            let rows = event.parts.iter().chain([&event.remainder]);
            for (row, ns) in rows.zip(of_parts) {
                shared_ns[*row] = ns;
            }
        }
        shared_ns.into_iter().map(|ns| ns.ceil() as u64).collect()
    }

    /// What is known of RX softirqs by their number, and by the samples that show them.
    fn received(
        &mut self,
        cpu: usize,
        interval: Interval,
        stacks: &StackCounts,
    ) -> Option<Estimate> {
        let samples = stacks.of_kind(0)[self.rx?];
        let ratio = self.correction.map_or(1.0, |correction| correction.ratio);
        let period_ns = interval.sample_period_ns as f64;
        let known = interval.received?;
        let [sampled_ns, worth_ns] = [samples.sum(), self.weights.add_received(cpu, samples)]
            .map(|weight| weight * period_ns);
        Some(known.with_samples(sampled_ns * ratio, worth_ns * ratio, self.correction))
    }

    /// Divides the time of a whole (CPU, number of the whole, row that gets the rest).
    fn divide(
        &mut self,
        (cpu, whole, rest): (usize, usize, usize),
        interval: Interval,
        whole_ns: u64,
        stacks: &StackCounts,
        time_ns: &mut [u64],
    ) -> Basis {
        collect(&self.wholes, stacks, whole, &mut self.samples);
        let divided = Whole {
            time_ns: whole_ns,
            period_ns: interval.sample_period_ns,
            samples: &self.samples,
            rest,
            now_ns: self.now_ns,
        };
        let add = |row: usize, ns: u64| time_ns[row] += ns;
        let design = &mut self.weights.designs[whole];
        self.cpus[cpu][whole].divide(divided, &self.host[whole], design, add)
    }
}

/// The samples of a whole by row; those without a row of their own count for the whole's row.
fn collect(wholes: &Wholes, stacks: &StackCounts, whole: usize, samples: &mut Vec<(usize, Mass)>) {
    samples.clear();
    let is_any = |&(_, mass): &(usize, Mass)| mass.sum() > 0.0;
    let (rest, all) = match whole.checked_sub(CLOCK_KINDS) {
        None => {
            let Some(own_row) = wholes.owns[whole] else {
                return;
            };
            if stacks.kinds[whole].sum() > 0.0 {
                let events = stacks.of_kind(whole).iter().copied().enumerate();
                samples.extend(events.filter(|of_row| of_row.0 != own_row && is_any(of_row)));
            }
            (own_row, stacks.kinds[whole])
        }
        Some(event) => {
            let event = &wholes.events[event];
            let parts = event.parts.iter().map(|&part| (part, stacks.parts[part]));
            samples.extend(parts.filter(is_any));
            (event.remainder, stacks.of_event[event.row])
        }
    };
    let mut others = all;
    samples.iter().for_each(|&(_, mass)| others -= mass);
    if others.is_part_of(all) {
        samples.push((rest, others));
    }
}

/// Whether an event's time, or its split, comes from samples.
fn rests_on_samples(capabilities: &Capabilities, row: usize) -> bool {
    let is_sampled = |child: &usize| matches!(COMPONENTS[*child].kind, Kind::Sampled(_));
    let has_parts = children(row).iter().any(is_sampled);
    match COMPONENTS[row].kind {
        Kind::Estimated(_) | Kind::Carved(..) => true,
        Kind::Timed(..) => has_parts || !capabilities.timed[row] || is_carved(capabilities, row),
        Kind::Sum | Kind::Sampled(_) | Kind::Remainder => false,
    }
}

/// Whether networking is carved out of the time of this row.
fn is_carved(capabilities: &Capabilities, row: usize) -> bool {
    let Kind::Timed(source, _) = COMPONENTS[row].kind else {
        return false;
    };
    let from = |kind: Kind| matches!(kind, Kind::Carved(from, _) if from == source);
    let mut rows = COMPONENTS.iter().zip(&capabilities.available);
    rows.any(|(component, available)| *available && from(component.kind))
}

/// The rows of the time that io_uring threads spend on taking and completing requests: networking's
/// and the others'.
fn rows_of_requests() -> Option<[usize; 2]> {
    let of_threads =
        |row: &usize| matches!(COMPONENTS[*row].kind, Kind::Carved(Source::IoWorker, _));
    let (ours, others): (Vec<usize>, Vec<usize>) = (0..COMPONENTS.len())
        .filter(of_threads)
        .partition(|&row| is_networking(row));
    match (&ours[..], &others[..]) {
        ([ours], [others]) => Some([*ours, *others]),
        _ => None,
    }
}

/// Divides that time in proportion to the requests of networking and others.
fn share_requests([ours, others]: [usize; 2], requests: [f64; 2], time_ns: &mut [u64]) {
    let [network, other] = requests;
    let kept_ns = if network > 0.0 {
        (time_ns[ours] as f64 * network / (network + other)) as u64
    } else {
        0
    };
    time_ns[others] += time_ns[ours] - kept_ns;
    time_ns[ours] = kept_ns;
}

/// Gives one period per sample, by its weight, to work without a clock, within the remaining time. Multiplies
/// softirqs by the correction for time that samples miss. Of `known`, a row has this time.
fn estimate(
    period_ns: u64,
    of_softirqs: f64,
    known: Option<(Option<usize>, u64)>,
    free_ns: u64,
    by_event: &[Mass],
    time_ns: &mut [u64],
) {
    let sampled_ns = |mass: &Mass| mass.sum() * period_ns as f64;
    let worth_ns = |(event, mass): (usize, &Mass)| match (COMPONENTS[event].kind, known) {
        (_, Some((row, ns))) if row == Some(event) => ns,
        (Kind::Timed(Source::Softirq(_), _), _) => (sampled_ns(mass) * of_softirqs) as u64,
        _ => sampled_ns(mass) as u64,
    };
    let wanted_ns = by_event.iter().enumerate().map(worth_ns).sum::<u64>();
    for event in by_event.iter().enumerate() {
        time_ns[event.0] += share(wanted_ns.min(free_ns), worth_ns(event), wanted_ns);
    }
}

/// `whole × part / all`, rounded down; 0 if `all` is 0.
fn share(whole: u64, part: u64, all: u64) -> u64 {
    let product = u128::from(whole) * u128::from(part.min(all));
    // At most `whole`, so it fits.
    product.checked_div(u128::from(all)).unwrap_or(0) as u64
}

#[cfg(test)]
mod long_run;
#[cfg(test)]
mod tests;
