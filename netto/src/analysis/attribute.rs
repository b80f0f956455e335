//! Time by clock kind × samples by owner → CPU time by component.
//!
//! A timed component gets what the clock charged to it, less the share of its
//! samples that were found to be somebody else's work. Work that no clock
//! times gets one sampling period per sample. Sampled parts then get the share
//! of their whole's time that they have of its samples, and a remainder row
//! the rest, so that parts always sum to the whole.

use metrics_common::component::{CLOCK_KINDS, children_of, index_of_source};
use metrics_common::{COMPONENTS, Kind, Source};

use super::classify::Owner;
use super::delta::Totals;

/// Samples of one CPU in one interval.
#[derive(Debug, Clone)]
pub struct Tally {
    /// By clock kind, whoever owns them.
    kinds: [u32; CLOCK_KINDS],
    /// By clock kind and event.
    events: Vec<u32>,
    /// By sampled part.
    parts: Vec<u32>,
    /// Of io_uring threads, by [`Request`].
    requests: [u32; 2],
}

impl Default for Tally {
    fn default() -> Self {
        Tally {
            kinds: [0; CLOCK_KINDS],
            events: vec![0; CLOCK_KINDS * COMPONENTS.len()],
            parts: vec![0; COMPONENTS.len()],
            requests: [0; 2],
        }
    }
}

impl Tally {
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
            Kind::Carved(Source::IoWorker, _) if is_network(event) => None,
            _ if is_network(event) => Some(Request::Network),
            _ => Some(Request::Other),
        }
    }
}

fn is_network(event: usize) -> bool {
    COMPONENTS[event].parent == Some("network")
}

/// What the host's means allow: see `support::Plan`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Means {
    /// By component: whether it is measured at all.
    pub available: Vec<bool>,
    /// By component: whether probes count how often it is entered.
    pub counted: Vec<bool>,
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
}

/// Attributes one interval of one CPU.
pub fn attribute(means: &Means, interval: Interval, clock: &Totals, tally: &Tally) -> Split {
    let mut time_ns: Vec<u64> = vec![0; COMPONENTS.len()];
    for source in Source::ALL {
        let kind = usize::from(source.clock_kind());
        if let Some(own) = index_of_source(source) {
            share_out(
                clock[kind],
                tally.kinds[kind],
                tally.of_kind(kind),
                own,
                &mut time_ns,
            );
        }
    }
    let timed_ns = clock[1..].iter().sum();
    estimate(
        interval.sample_period_ns,
        interval.length_ns.saturating_sub(timed_ns),
        tally.of_kind(0),
        &mut time_ns,
    );
    share_requests(tally.requests, &mut time_ns);

    (0..COMPONENTS.len()).for_each(|whole| split(whole, tally, &mut time_ns));
    // Children stand after their parents, so going backwards sums them up first.
    for component in (0..COMPONENTS.len()).rev() {
        if COMPONENTS[component].kind == Kind::Sum {
            let children =
                children_of(COMPONENTS[component].slug).filter(|&child| means.available[child]);
            time_ns[component] = children.map(|child| time_ns[child]).sum();
        }
    }
    let available = |component: usize| means.available[component];
    Split {
        time_ns: (0..COMPONENTS.len())
            .map(|row| available(row).then_some(time_ns[row]))
            .collect(),
        samples: (0..COMPONENTS.len())
            .map(|row| {
                (available(row) && rests_on_samples(means, row)).then(|| tally.of_event(row))
            })
            .collect(),
    }
}

/// Whether an event's time, or its split, comes from samples.
fn rests_on_samples(means: &Means, row: usize) -> bool {
    let has_parts = children_of(COMPONENTS[row].slug)
        .any(|child| matches!(COMPONENTS[child].kind, Kind::Sampled(_)));
    match COMPONENTS[row].kind {
        Kind::Estimated(_) | Kind::Carved(..) => true,
        Kind::Timed(..) => has_parts || !means.counted[row],
        Kind::Sum | Kind::Sampled(_) | Kind::Remainder => false,
    }
}

/// Divides a clocked time among the events that its samples belong to; what
/// belongs to none, or was not sampled, is its own component's.
fn share_out(clocked_ns: u64, samples: u32, by_event: &[u32], own: usize, time_ns: &mut [u64]) {
    let mut left_ns = clocked_ns;
    for (event, &count) in by_event.iter().enumerate() {
        if event != own && count > 0 {
            let moved_ns = share(clocked_ns, u64::from(count), u64::from(samples));
            time_ns[event] += moved_ns;
            left_ns -= moved_ns;
        }
    }
    time_ns[own] += left_ns;
}

/// Of what io_uring threads spend on taking and completing requests, networking keeps the
/// share that it has of the requests; the rest is that of the others.
fn share_requests(requests: [u32; 2], time_ns: &mut [u64]) {
    let [network, other] = requests.map(u64::from);
    let of_threads =
        |row: &usize| matches!(COMPONENTS[*row].kind, Kind::Carved(Source::IoWorker, _));
    let (ours, others): (Vec<usize>, Vec<usize>) = (0..COMPONENTS.len())
        .filter(of_threads)
        .partition(|&row| is_network(row));
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

/// How often each timed component was entered, from the growth of the clock's
/// counters; `None` where probes do not count it.
pub fn entries(means: &Means, growth: &[u64; CLOCK_KINDS]) -> Vec<Option<u64>> {
    let count = |row: usize| match COMPONENTS[row].kind {
        Kind::Timed(source, _) if means.counted[row] => {
            Some(growth[usize::from(source.clock_kind())])
        }
        _ => None,
    };
    (0..COMPONENTS.len()).map(count).collect()
}

/// Splits a whole among its sampled parts; the remainder row takes the rest.
fn split(whole: usize, tally: &Tally, time_ns: &mut [u64]) {
    let whole_ns = time_ns[whole];
    let all = u64::from(tally.of_event(whole));
    let mut left_ns = whole_ns;
    let mut remainder = None;
    for part in children_of(COMPONENTS[whole].slug) {
        match COMPONENTS[part].kind {
            Kind::Sampled(_) => {
                time_ns[part] = share(whole_ns, u64::from(tally.parts[part]), all);
                left_ns -= time_ns[part];
            }
            Kind::Remainder => remainder = Some(part),
            Kind::Sum | Kind::Timed(..) | Kind::Estimated(_) | Kind::Carved(..) => {}
        }
    }
    if let Some(part) = remainder {
        time_ns[part] = left_ns;
    }
}

/// `whole × part / all`, rounded down; 0 of nothing.
fn share(whole: u64, part: u64, all: u64) -> u64 {
    let product = u128::from(whole) * u128::from(part.min(all));
    // At most `whole`, so it fits.
    product.checked_div(u128::from(all)).unwrap_or(0) as u64
}

#[cfg(test)]
mod tests;
