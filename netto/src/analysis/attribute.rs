//! Time by clock kind × samples by component → CPU time by component.
//!
//! A timed component gets what the clock charged to it. Its sampled parts get
//! the share of that time that they have of the samples taken meanwhile, and a
//! remainder row the rest, so that parts always sum to the whole. Where socket
//! calls cannot be timed, each sample found in one stands for one sampling period.

use metrics_common::component::{CLOCK_KINDS, children_of, index_of_source};
use metrics_common::{COMPONENTS, Kind, Source};

use super::delta::Totals;

/// Samples of one CPU in one interval.
#[derive(Debug, Clone)]
pub struct Tally {
    /// By clock kind, attributed or not.
    kinds: [u32; CLOCK_KINDS],
    /// By sampled component, of samples taken while its whole was running.
    parts: Vec<u32>,
    /// By timed component found in the stack of a task without a kind.
    tasks: Vec<u32>,
    /// By timed component found in the stack of an io_uring thread.
    workers: Vec<u32>,
}

impl Default for Tally {
    fn default() -> Self {
        let none = vec![0; COMPONENTS.len()];
        Tally {
            kinds: [0; CLOCK_KINDS],
            parts: none.clone(),
            tasks: none.clone(),
            workers: none,
        }
    }
}

const IO_WORKER: u8 = Source::IoWorker.clock_kind();

impl Tally {
    /// Counts a sample taken in clock kind `kind` and classified as `found`.
    pub fn add(&mut self, kind: u8, found: Option<usize>) {
        if let Some(count) = self.kinds.get_mut(usize::from(kind)) {
            *count += 1;
        }
        let counts = match kind {
            0 => &mut self.tasks,
            IO_WORKER => &mut self.workers,
            _ => &mut self.parts,
        };
        if let Some(count) = found.and_then(|component| counts.get_mut(component)) {
            *count += 1;
        }
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.kinds = [0; CLOCK_KINDS];
        for counts in [&mut self.parts, &mut self.tasks, &mut self.workers] {
            counts.fill(0);
        }
    }

    /// Samples in all.
    pub fn taken(&self) -> u64 {
        self.kinds.iter().map(|&count| u64::from(count)).sum()
    }
}

/// What the host's means allow: see `support::Plan`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Means {
    /// By component: whether it is measured at all.
    pub available: Vec<bool>,
    /// Whether socket calls are found by sampling rather than timed.
    pub sockets_are_sampled: bool,
    /// Time that one sample stands for, nanoseconds.
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
pub fn attribute(means: &Means, interval_ns: u64, clock: &Totals, tally: &Tally) -> Split {
    let mut time_ns: Vec<u64> = vec![0; COMPONENTS.len()];
    let mut samples: Vec<Option<u32>> = vec![None; COMPONENTS.len()];

    for source in Source::ALL {
        if let Some(component) = index_of_source(source) {
            time_ns[component] = clock[usize::from(source.clock_kind())];
        }
    }
    if means.sockets_are_sampled {
        add_sampled_sockets(means, interval_ns, tally, &mut time_ns, &mut samples);
    }
    for (component, row) in COMPONENTS.iter().enumerate() {
        if let Kind::Timed(source, _) = row.kind {
            split(row.slug, time_ns[component], tally, source, &mut time_ns);
            if children_of(row.slug).next().is_some() {
                samples[component] = Some(tally.kinds[usize::from(source.clock_kind())]);
            }
        }
    }
    // Children stand after their parents, so going backwards sums them up first.
    for component in (0..COMPONENTS.len()).rev() {
        if COMPONENTS[component].kind == Kind::Sum {
            let children =
                children_of(COMPONENTS[component].slug).filter(|&child| means.available[child]);
            time_ns[component] = children.map(|child| time_ns[child]).sum();
        }
    }
    Split {
        time_ns: time_ns
            .into_iter()
            .zip(&means.available)
            .map(|(ns, &available)| available.then_some(ns))
            .collect(),
        samples: samples
            .into_iter()
            .zip(&means.available)
            .map(|(n, &available)| n.filter(|_| available))
            .collect(),
    }
}

/// How often each timed component was entered, from the growth of the clock's
/// counters; `None` where probes do not count it.
pub fn entries(means: &Means, growth: &[u64; CLOCK_KINDS]) -> Vec<Option<u64>> {
    COMPONENTS
        .iter()
        .zip(&means.available)
        .map(|(row, &available)| match row.kind {
            // An io_uring thread is found running; it does not enter anything.
            Kind::Timed(Source::IoWorker, _) => None,
            Kind::Timed(Source::Softirq(vector), _) if available => {
                Some(growth[usize::from(Source::Softirq(vector).clock_kind())])
            }
            Kind::Timed(source, _) if available && !means.sockets_are_sampled => {
                Some(growth[usize::from(source.clock_kind())])
            }
            _ => None,
        })
        .collect()
}

/// Time of socket calls from samples: within an io_uring thread's time as a
/// share of it, elsewhere one period per sample within what the clock left over.
fn add_sampled_sockets(
    means: &Means,
    interval_ns: u64,
    tally: &Tally,
    time_ns: &mut [u64],
    samples: &mut [Option<u32>],
) {
    let free_ns = interval_ns.saturating_sub(time_ns.iter().sum());
    let estimate_ns = u64::from(tally.tasks.iter().sum::<u32>()) * means.sample_period_ns;
    let worker = index_of_source(Source::IoWorker);
    let worker_ns = worker.map_or(0, |w| time_ns[w]);
    for source in [Source::SocketSend, Source::SocketReceive, Source::LocalIpc] {
        let Some(component) = index_of_source(source) else {
            continue;
        };
        let of_tasks_ns = share(
            estimate_ns.min(free_ns),
            u64::from(tally.tasks[component]) * means.sample_period_ns,
            estimate_ns,
        );
        let of_workers_ns = share(
            worker_ns,
            u64::from(tally.workers[component]),
            u64::from(tally.kinds[usize::from(IO_WORKER)]),
        );
        time_ns[component] += of_tasks_ns + of_workers_ns;
        if let Some(w) = worker {
            time_ns[w] -= of_workers_ns;
        }
        samples[component] = Some(tally.tasks[component] + tally.workers[component]);
    }
}

/// Splits a whole among its sampled parts; the remainder row takes the rest.
fn split(whole: &str, whole_ns: u64, tally: &Tally, source: Source, time_ns: &mut [u64]) {
    let all = u64::from(tally.kinds[usize::from(source.clock_kind())]);
    let mut left_ns = whole_ns;
    let mut remainder = None;
    for part in children_of(whole) {
        match COMPONENTS[part].kind {
            Kind::Sampled(_) => {
                time_ns[part] = share(whole_ns, u64::from(tally.parts[part]), all);
                left_ns -= time_ns[part];
            }
            Kind::Remainder => remainder = Some(part),
            Kind::Sum | Kind::Timed(..) => {}
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
mod tests {
    use super::*;
    use metrics_common::component::index_of;
    use proptest::prelude::*;

    const RX: usize = Source::Softirq(3).clock_kind() as usize;

    fn means(sockets_are_sampled: bool) -> Means {
        Means {
            available: vec![true; COMPONENTS.len()],
            sockets_are_sampled,
            sample_period_ns: 1_000,
        }
    }

    fn clock(kind: usize, ns: u64) -> Totals {
        let mut totals = [0; CLOCK_KINDS];
        totals[kind] = ns;
        totals
    }

    fn tally(samples: &[(u8, Option<&str>, u32)]) -> Tally {
        let mut tally = Tally::default();
        for (kind, slug, count) in samples {
            for _ in 0..*count {
                tally.add(*kind, slug.map(|s| index_of(s).unwrap()));
            }
        }
        tally
    }

    fn of(split: &Split, slug: &str) -> Option<u64> {
        split.time_ns[index_of(slug).unwrap()]
    }

    #[test]
    fn the_parts_of_a_softirq_share_its_time_as_their_samples_do() {
        let kind = RX as u8;
        let samples = tally(&[
            (kind, Some("bridging"), 3),
            (kind, Some("gro"), 1),
            (kind, None, 1),
        ]);
        let result = attribute(&means(false), 1_000_000, &clock(RX, 500), &samples);
        assert_eq!(of(&result, "bridging"), Some(300));
        assert_eq!(of(&result, "gro"), Some(100));
        assert_eq!(of(&result, "rx_unattributed"), Some(100));
        assert_eq!(of(&result, "network"), Some(500));
        assert_eq!(result.samples[index_of("rx_softirq").unwrap()], Some(5));
    }

    #[test]
    fn time_without_any_sample_is_unattributed_not_spread() {
        let result = attribute(&means(false), 1_000, &clock(RX, 7), &Tally::default());
        assert_eq!(of(&result, "rx_unattributed"), Some(7));
        assert_eq!(of(&result, "driver_poll"), Some(0));
    }

    #[test]
    fn a_sampled_socket_call_counts_one_period_per_sample() {
        let samples = tally(&[
            (0, Some("tx_syscall"), 30),
            (0, Some("local_ipc"), 5),
            (0, None, 100),
        ]);
        let result = attribute(&means(true), 1_000_000, &clock(RX, 500), &samples);
        assert_eq!(of(&result, "tx_syscall"), Some(30_000));
        assert_eq!(of(&result, "local_ipc"), Some(5_000));
        assert_eq!(
            of(&result, "network"),
            Some(30_500),
            "local IPC stays outside"
        );
    }

    #[test]
    fn sampled_calls_fit_into_what_the_clock_left_over() {
        let samples = tally(&[(0, Some("tx_syscall"), 600), (0, Some("rx_syscall"), 600)]);
        let result = attribute(&means(true), 1_000_000, &clock(RX, 400_000), &samples);
        assert_eq!(of(&result, "tx_syscall"), Some(300_000));
        assert_eq!(of(&result, "network"), Some(1_000_000));
    }

    #[test]
    fn a_send_by_an_io_uring_thread_is_a_send() {
        let samples = tally(&[(IO_WORKER, Some("tx_syscall"), 1), (IO_WORKER, None, 3)]);
        let result = attribute(
            &means(true),
            1_000_000,
            &clock(usize::from(IO_WORKER), 4_000),
            &samples,
        );
        assert_eq!(of(&result, "tx_syscall"), Some(1_000));
        assert_eq!(of(&result, "io_worker"), Some(3_000));
        assert_eq!(of(&result, "network"), Some(4_000));
    }

    #[test]
    fn what_is_not_measured_is_absent_and_in_no_sum() {
        let mut means = means(false);
        means.available[index_of("tx_syscall").unwrap()] = false;
        let result = attribute(
            &means,
            1_000,
            &clock(usize::from(Source::SocketSend.clock_kind()), 10),
            &Tally::default(),
        );
        assert_eq!(of(&result, "tx_syscall"), None);
        assert_eq!(of(&result, "network"), Some(0));
    }

    #[test]
    fn calls_are_counted_only_where_they_are_timed() {
        let growth = std::array::from_fn(|kind| kind as u64);
        let sends = index_of("tx_syscall").unwrap();
        assert_eq!(entries(&means(false), &growth)[sends], Some(11));
        assert_eq!(entries(&means(true), &growth)[sends], None);
        assert_eq!(
            entries(&means(true), &growth)[index_of("rx_softirq").unwrap()],
            Some(4)
        );
        assert_eq!(
            entries(&means(false), &growth)[index_of("gro").unwrap()],
            None
        );
    }

    proptest! {
        #[test]
        fn parts_sum_to_their_whole_and_no_cpu_exceeds_its_time(
            raw in proptest::array::uniform15(0_u64..100_000),
            samples in proptest::collection::vec((0_u8..CLOCK_KINDS as u8, proptest::option::of(0_usize..COMPONENTS.len())), 0..300),
            sampled in any::<bool>(),
        ) {
            let mut tally = Tally::default();
            let mut clock: Totals = raw;
            if sampled {
                // Sockets that are sampled are not timed as well.
                for source in [Source::SocketSend, Source::SocketReceive, Source::LocalIpc] {
                    clock[usize::from(source.clock_kind())] = 0;
                }
            }
            for (kind, found) in samples {
                // The classifier finds parts for wholes and sockets for tasks.
                let walk_is_task = kind == 0 || kind == IO_WORKER;
                let fits = |i: &usize| match COMPONENTS[*i].kind {
                    Kind::Timed(_, rules) => walk_is_task && !rules.is_empty(),
                    Kind::Sampled(_) => !walk_is_task && kind as usize == RX,
                    _ => false,
                };
                tally.add(kind, found.filter(fits));
            }
            let interval_ns = clock[1..].iter().sum::<u64>() + 50_000;
            let result = attribute(&means(sampled), interval_ns, &clock, &tally);
            let ns = |i: usize| result.time_ns[i].unwrap();
            for (index, row) in COMPONENTS.iter().enumerate() {
                let children: Vec<usize> = children_of(row.slug).collect();
                if !children.is_empty() {
                    prop_assert_eq!(ns(index), children.iter().map(|&c| ns(c)).sum::<u64>(), "{}", row.slug);
                }
            }
            let roots: u64 = (0..COMPONENTS.len()).filter(|&i| COMPONENTS[i].parent.is_none()).map(ns).sum();
            prop_assert!(roots <= interval_ns);
        }
    }
}
