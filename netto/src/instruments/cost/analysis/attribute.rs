//! Time by clock kind × samples by owner → CPU time by component.
//!
//! A timed component gets what the clock charged to it, less the share of its
//! samples that were found to be somebody else's work. Work that no clock
//! times gets one sampling period per sample. Sampled parts then get the share
//! of their whole's time that they have of its samples (or, where these are few,
//! of those before: `shares`), and a remainder row the rest, so that parts
//! always sum to the whole.

use metrics_common::component::{CLOCK_KINDS, children_of, index_of_source};
use metrics_common::{COMPONENTS, Kind, Source, SplitBasis};

use self::shares::{HostPool, Pool, Whole};
use super::delta::Totals;
use crate::analysis::classify::Owner;
use crate::analysis::plan::Capabilities;

pub use self::shares::Basis;

/// Samples of one CPU in one interval.
#[derive(Debug, Clone)]
pub struct StackCounts {
    /// By clock kind, whoever owns them.
    kinds: [u32; CLOCK_KINDS],
    /// By clock kind and event.
    events: Vec<u32>,
    /// By sampled part.
    parts: Vec<u32>,
    /// Of io_uring threads, by [`Request`].
    requests: [u32; 2],
}

impl Default for StackCounts {
    fn default() -> Self {
        StackCounts {
            kinds: [0; CLOCK_KINDS],
            events: vec![0; CLOCK_KINDS * COMPONENTS.len()],
            parts: vec![0; COMPONENTS.len()],
            requests: [0; 2],
        }
    }
}

impl StackCounts {
    /// Counts a sample taken in clock kind `kind`.
    pub fn add(&mut self, kind: u8, owner: Option<Owner>) {
        let Some(count) = self.kinds.get_mut(usize::from(kind)) else {
            return;
        };
        *count += 1;
        if let Some(Owner { event, part }) = owner {
            self.events[usize::from(kind) * COMPONENTS.len() + event] += 1;
            if let Some(part) = part {
                self.parts[part] += 1;
            }
        }
    }

    /// Counts a sample of an io_uring thread that has been counted as such already.
    pub fn add_request(&mut self, request: Request) {
        self.requests[request as usize] += 1;
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.kinds = [0; CLOCK_KINDS];
        self.events.fill(0);
        self.parts.fill(0);
        self.requests = [0; 2];
    }

    /// Samples in all.
    pub fn taken(&self) -> u64 {
        self.kinds.iter().map(|&count| u64::from(count)).sum()
    }

    /// Samples in one clock kind, by event.
    fn of_kind(&self, kind: usize) -> &[u32] {
        &self.events[kind * COMPONENTS.len()..][..COMPONENTS.len()]
    }

    /// Samples of one event, in whichever clock kind.
    fn of_event(&self, event: usize) -> u32 {
        (0..CLOCK_KINDS).map(|kind| self.of_kind(kind)[event]).sum()
    }
}

/// What an io_uring thread is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Sends, receives, connections and the like.
    Network,
    /// Anything else.
    Other,
}

impl Request {
    /// What a sample of an io_uring thread says that belongs to this event: nothing, if
    /// it is of a softirq or of the thread's own work, which serves all requests.
    pub fn of(event: usize) -> Option<Self> {
        match COMPONENTS[event].kind {
            Kind::Timed(Source::Softirq(_) | Source::NicInterrupt | Source::IoWorker, _)
            | Kind::Carved(Source::Softirq(_), _) => None,
            Kind::Carved(Source::IoWorker, _) if is_networking(event) => None,
            _ if is_networking(event) => Some(Request::Network),
            _ => Some(Request::Other),
        }
    }
}

/// Whether an event's time is networking's.
pub fn is_networking(event: usize) -> bool {
    COMPONENTS[event].parent == Some("network")
}

/// The stretch of time that is attributed, on one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Its length, nanoseconds.
    pub length_ns: u64,
    /// Time that one sample stands for, nanoseconds; any if there are no samples.
    pub sample_period_ns: u64,
}

/// CPU time and samples by component, of one CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Nanoseconds by component; `None` where not measured.
    pub time_ns: Vec<Option<u64>>,
    /// Samples by component on which its time or its split rests.
    pub samples: Vec<Option<u32>>,
    /// By component that is split: on what the split rests.
    pub basis: Vec<Option<Basis>>,
}

/// Everything that is divided by samples: the time of each clock kind among events,
/// and that of each event among its parts.
#[derive(Debug, Clone)]
struct Wholes {
    /// By clock kind, the event that takes what nobody else gets; `None` for kind 0.
    owns: [Option<usize>; CLOCK_KINDS],
    /// Events that have parts.
    events: Vec<Event>,
}

/// An event that has parts.
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
            let (parts, others): (Vec<usize>, Vec<usize>) = children_of(COMPONENTS[row].slug)
                .partition(|&child| matches!(COMPONENTS[child].kind, Kind::Sampled(_)));
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

    /// How many there are, kind 0 counted although it is no whole.
    fn count(&self) -> usize {
        CLOCK_KINDS + self.events.len()
    }
}

/// Makes time of samples, interval by interval.
#[derive(Debug, Clone)]
pub struct Attribution {
    wholes: Wholes,
    /// By whole.
    host: Vec<HostPool>,
    /// By CPU and whole.
    cpus: Vec<Vec<Pool>>,
    /// All intervals so far.
    now_ns: u64,
    counts: Vec<(usize, u32)>,
}

impl Default for Attribution {
    fn default() -> Self {
        let wholes = Wholes::of_table();
        Attribution {
            host: vec![HostPool::default(); wholes.count()],
            cpus: Vec::new(),
            now_ns: 0,
            counts: Vec::new(),
            wholes,
        }
    }
}

impl Attribution {
    /// Begins an interval of this length, in which these samples were taken, by CPU.
    pub fn begin(&mut self, interval_ns: u64, by_cpu: &[StackCounts]) {
        self.now_ns += interval_ns;
        self.host.iter_mut().for_each(|pool| pool.age(interval_ns));
        for stacks in by_cpu.iter().filter(|stacks| stacks.taken() > 0) {
            for whole in 1..self.wholes.count() {
                count(&self.wholes, stacks, whole, &mut self.counts);
                for &(row, count) in &self.counts {
                    self.host[whole].add(row, count);
                }
            }
        }
    }

    /// Attributes the interval of one CPU.
    pub fn attribute(
        &mut self,
        cpu: usize,
        capabilities: &Capabilities,
        interval: Interval,
        clock: &Totals,
        stacks: &StackCounts,
    ) -> Split {
        if self.cpus.len() <= cpu {
            self.cpus.resize(cpu + 1, Vec::new());
        }
        self.cpus[cpu].resize(self.wholes.count(), Pool::default());
        let mut time_ns: Vec<u64> = vec![0; COMPONENTS.len()];
        let mut basis: Vec<Option<Basis>> = vec![None; COMPONENTS.len()];
        for (kind, &clock_ns) in clock.iter().enumerate().skip(1) {
            if let Some(own) = self.wholes.owns[kind] {
                let whole = (cpu, kind, own);
                let rests_on = self.divide(whole, interval, clock_ns, stacks, &mut time_ns);
                basis[own] = is_carved(capabilities, own).then_some(rests_on);
            }
        }
        let timed_ns = clock[1..].iter().sum();
        estimate(
            interval.sample_period_ns,
            interval.length_ns.saturating_sub(timed_ns),
            stacks.of_kind(0),
            &mut time_ns,
        );
        share_requests(stacks.requests, &mut time_ns);
        for event in 0..self.wholes.events.len() {
            let Event { row, remainder, .. } = self.wholes.events[event];
            let whole_ns = time_ns[row];
            let whole = (cpu, CLOCK_KINDS + event, remainder);
            let rests_on = self.divide(whole, interval, whole_ns, stacks, &mut time_ns);
            basis[row] = capabilities.available[remainder].then_some(rests_on);
        }
        // Children stand after their parents, so going backwards sums them up first.
        for component in (0..COMPONENTS.len()).rev() {
            if COMPONENTS[component].kind == Kind::Sum {
                let children = children_of(COMPONENTS[component].slug)
                    .filter(|&child| capabilities.available[child]);
                time_ns[component] = children.map(|child| time_ns[child]).sum();
            }
        }
        let available = |component: usize| capabilities.available[component];
        Split {
            time_ns: (0..COMPONENTS.len())
                .map(|row| available(row).then_some(time_ns[row]))
                .collect(),
            samples: (0..COMPONENTS.len())
                .map(|row| {
                    (available(row) && rests_on_samples(capabilities, row))
                        .then(|| stacks.of_event(row))
                })
                .collect(),
            basis,
        }
    }

    /// Divides the time of a whole (CPU, number of the whole, row that takes the rest).
    fn divide(
        &mut self,
        (cpu, whole, rest): (usize, usize, usize),
        interval: Interval,
        whole_ns: u64,
        stacks: &StackCounts,
        time_ns: &mut [u64],
    ) -> Basis {
        count(&self.wholes, stacks, whole, &mut self.counts);
        let divided = Whole {
            time_ns: whole_ns,
            period_ns: interval.sample_period_ns,
            counts: &self.counts,
            rest,
            now_ns: self.now_ns,
        };
        let add = |row: usize, ns: u64| time_ns[row] += ns;
        self.cpus[cpu][whole].divide(divided, &self.host[whole], add)
    }
}

/// The samples of a whole by row, those that are nobody else's with its own row.
fn count(wholes: &Wholes, stacks: &StackCounts, whole: usize, counts: &mut Vec<(usize, u32)>) {
    counts.clear();
    let (rest, all) = match whole.checked_sub(CLOCK_KINDS) {
        None => {
            let Some(own) = wholes.owns[whole] else {
                return;
            };
            if stacks.kinds[whole] > 0 {
                let events = stacks.of_kind(whole).iter().copied().enumerate();
                counts.extend(events.filter(|&(row, count)| row != own && count > 0));
            }
            (own, stacks.kinds[whole])
        }
        Some(event) => {
            let event = &wholes.events[event];
            let parts = event.parts.iter().map(|&part| (part, stacks.parts[part]));
            counts.extend(parts.filter(|&(_, count)| count > 0));
            (event.remainder, stacks.of_event(event.row))
        }
    };
    let others: u32 = counts.iter().map(|(_, count)| count).sum();
    if all > others {
        counts.push((rest, all - others));
    }
}

/// Whether an event's time, or its split, comes from samples.
fn rests_on_samples(capabilities: &Capabilities, row: usize) -> bool {
    let has_parts = children_of(COMPONENTS[row].slug)
        .any(|child| matches!(COMPONENTS[child].kind, Kind::Sampled(_)));
    match COMPONENTS[row].kind {
        Kind::Estimated(_) | Kind::Carved(..) => true,
        Kind::Timed(..) => has_parts || !capabilities.timed[row] || is_carved(capabilities, row),
        Kind::Sum | Kind::Sampled(_) | Kind::Remainder => false,
    }
}

/// Whether networking is taken out of what this row times.
fn is_carved(capabilities: &Capabilities, row: usize) -> bool {
    let Kind::Timed(source, _) = COMPONENTS[row].kind else {
        return false;
    };
    let from = |kind: Kind| matches!(kind, Kind::Carved(from, _) if from == source);
    let mut rows = COMPONENTS.iter().zip(&capabilities.available);
    rows.any(|(component, available)| *available && from(component.kind))
}

/// Of what io_uring threads spend on taking and completing requests, networking keeps the
/// share that it has of the requests; the rest is that of the others.
fn share_requests(requests: [u32; 2], time_ns: &mut [u64]) {
    let [network, other] = requests.map(u64::from);
    let of_threads =
        |row: &usize| matches!(COMPONENTS[*row].kind, Kind::Carved(Source::IoWorker, _));
    let (ours, others): (Vec<usize>, Vec<usize>) = (0..COMPONENTS.len())
        .filter(of_threads)
        .partition(|&row| is_networking(row));
    if let ([ours], [others]) = (&ours[..], &others[..]) {
        let kept_ns = share(time_ns[*ours], network, network + other);
        time_ns[*others] += time_ns[*ours] - kept_ns;
        time_ns[*ours] = kept_ns;
    }
}

/// Gives one period per sample to what no clock times, within what the clock left over.
fn estimate(period_ns: u64, free_ns: u64, by_event: &[u32], time_ns: &mut [u64]) {
    let wanted_ns = by_event.iter().map(|&count| u64::from(count)).sum::<u64>() * period_ns;
    for (event, &count) in by_event.iter().enumerate() {
        time_ns[event] += share(
            wanted_ns.min(free_ns),
            u64::from(count) * period_ns,
            wanted_ns,
        );
    }
}

/// On what the splits of these CPUs rest, for each component that is split.
pub fn basis_of<'a>(cpus: impl Iterator<Item = &'a Split> + Clone) -> Vec<SplitBasis> {
    let of_row = |row: usize| {
        let cells = cpus.clone().filter_map(|split| split.basis[row]);
        let sum = |ns: fn(&Basis) -> u64| cells.clone().map(|basis| ns(&basis)).sum();
        cells.clone().next().map(|_| SplitBasis {
            component: row as u32,
            stacks_ns: sum(|basis| basis.stacks_ns),
            past_ns: sum(|basis| basis.past_ns),
            host_ns: sum(|basis| basis.host_ns),
            nothing_ns: sum(|basis| basis.nothing_ns),
        })
    };
    (0..COMPONENTS.len()).filter_map(of_row).collect()
}

/// How often each timed component was entered, from the growth of the clock's
/// counters; `None` where probes do not count it.
pub fn entries(capabilities: &Capabilities, growth: &[u64; CLOCK_KINDS]) -> Vec<Option<u64>> {
    let count = |row: usize| match COMPONENTS[row].kind {
        Kind::Timed(source, _) if capabilities.counted[row] => {
            Some(growth[usize::from(source.clock_kind())])
        }
        _ => None,
    };
    (0..COMPONENTS.len()).map(count).collect()
}

/// `whole × part / all`, rounded down; 0 of nothing.
fn share(whole: u64, part: u64, all: u64) -> u64 {
    let product = u128::from(whole) * u128::from(part.min(all));
    // At most `whole`, so it fits.
    product.checked_div(u128::from(all)).unwrap_or(0) as u64
}

#[cfg(test)]
mod long_run;
mod shares;
#[cfg(test)]
mod tests;
