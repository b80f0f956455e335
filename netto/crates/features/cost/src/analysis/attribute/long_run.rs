//! Sums over many intervals of a made-up host with known truth: they converge to it at any rate,
//! and confidence intervals contain it as often as they claim.

use metrics_common::component::{children_of, index_of};
use metrics_common::random::SplitMix64;
use metrics_common::{
    Availability, ComponentInfo, Cost, Info, Method, Sections, Snapshot, confidence, fixture,
};

use super::*;
use netto_analysis::classify::SampleOwner;

const RX: usize = Source::NET_RX.clock_kind() as usize;
const HRTIMER: usize = Source::HRTIMER.clock_kind() as usize;
const INTERVAL_NS: u64 = 500_000_000;
/// A thousand samples a second.
const PERIOD_NS: u64 = 1_000_000;
const MS_PER_SECOND: f64 = 1e6;
/// Three parts of the RX softirq; the last one matches no rule.
const PARTS: [&str; 3] = ["local_delivery_v4", "bridging", "rx_unattributed"];

/// Number of samples that hit this amount of work in many short pieces.
fn samples(random: &mut SplitMix64, work_ns: f64) -> u32 {
    let limit = (-work_ns / PERIOD_NS as f64).exp();
    let mut product = random.ratio();
    let mut count = 0;
    while product > limit {
        product *= random.ratio();
        count += 1;
    }
    count
}

fn capabilities() -> Capabilities {
    Capabilities {
        available: vec![true; COMPONENTS.len()],
        counted: vec![true; COMPONENTS.len()],
        timed: vec![true; COMPONENTS.len()],
    }
}

fn row(slug: &str) -> usize {
    index_of(slug).unwrap()
}

/// Nanoseconds of each part's work on one CPU in one interval.
type Work = [f64; 3];

/// The samples and the clock for this work.
fn observe(random: &mut SplitMix64, work: Work) -> (Totals, StackCounts) {
    let mut stacks = StackCounts::default();
    for (slug, ns) in PARTS.iter().zip(work) {
        let part = row(slug);
        let owner = SampleOwner {
            event: row("rx_softirq"),
            part: (COMPONENTS[part].kind != Kind::Remainder).then_some(part),
        };
        for _ in 0..samples(random, ns) {
            stacks.add(RX as u8, Some(owner), 1.0);
        }
    }
    let mut clock = [0; CLOCK_KINDS];
    clock[RX] = work.iter().sum::<f64>() as u64;
    (clock, stacks)
}

/// A host at work.
struct Host {
    attribution: Attribution,
    random: SplitMix64,
    truth_ns: Work,
    found_ns: Work,
    /// The result from each interval's own samples alone.
    alone_ns: Work,
    taken: u32,
}

impl Host {
    fn new(seed: u64) -> Self {
        Host {
            attribution: Attribution::default(),
            random: SplitMix64(seed),
            truth_ns: [0.0; 3],
            found_ns: [0.0; 3],
            alone_ns: [0.0; 3],
            taken: 0,
        }
    }

    /// One interval of CPUs with this work; returns their splits.
    fn pass(&mut self, work: &[Work]) -> Vec<Split> {
        let seen: Vec<(Totals, StackCounts)> = work
            .iter()
            .map(|&work| observe(&mut self.random, work))
            .collect();
        let by_cpu: Vec<StackCounts> = seen.iter().map(|(_, stacks)| stacks.clone()).collect();
        self.attribution.begin(INTERVAL_NS, &by_cpu);
        let interval = Interval {
            length_ns: INTERVAL_NS,
            sample_period_ns: PERIOD_NS,
            received: None,
        };
        let mut splits = Vec::new();
        for (cpu, ((clock, stacks), work)) in seen.iter().zip(work).enumerate() {
            let split = self
                .attribution
                .attribute(cpu, &capabilities(), interval, clock, stacks)
                .clone();
            let parts: u64 = children_of("rx_softirq")
                .map(|part| split.time_ns[part].unwrap())
                .sum();
            assert_eq!(parts, clock[RX], "to the nanosecond, on each CPU");
            let basis = split.basis[row("rx_softirq")].unwrap();
            assert_eq!(
                basis.stacks_ns + basis.past_ns + basis.host_ns + basis.nothing_ns,
                clock[RX]
            );
            self.add(work, clock, stacks, &split);
            splits.push(split);
        }
        splits
    }

    fn add(&mut self, work: &Work, clock: &Totals, stacks: &StackCounts, split: &Split) {
        let taken = stacks.kinds[RX].sum();
        self.taken += taken as u32;
        for (part, slug) in PARTS.iter().enumerate() {
            self.truth_ns[part] += work[part];
            self.found_ns[part] += split.time_ns[row(slug)].unwrap() as f64;
            let samples = stacks.parts[row(slug)].sum();
            let time_ns = clock[RX] as f64;
            self.alone_ns[part] += match (taken > 0.0, part) {
                (false, 2) => time_ns,
                (false, _) | (true, 2) => 0.0,
                (true, _) => time_ns * samples / taken,
            };
        }
    }

    /// A part's share of all time found, and of all true time.
    fn shares(&self, part: usize) -> (f64, f64) {
        let share = |ns: &Work| ns[part] / ns.iter().sum::<f64>();
        (share(&self.found_ns), share(&self.truth_ns))
    }

    /// Tolerance of a part's share: five standard deviations.
    fn scatter(&self, part: usize) -> f64 {
        let (_, truth) = self.shares(part);
        let samples = f64::from(self.taken);
        5.0 * (truth * (1.0 - truth) / samples).sqrt() + 10.0 / samples
    }
}

fn work(ms_per_second: f64, shares: [f64; 3]) -> Work {
    shares.map(|share| share * ms_per_second * MS_PER_SECOND * INTERVAL_NS as f64 / 1e9)
}

#[test]
fn at_any_rate_the_unattributed_part_is_what_it_is_and_not_what_was_not_sampled() {
    const SHARES: [f64; 3] = [0.62, 0.33, 0.05];
    // The share of unattributed time if each interval were split by its own samples only.
    for (rate, alone_at_least) in [(1.0, 0.58), (5.0, 0.08), (40.0, 0.0)] {
        let mut host = Host::new(7);
        for _ in 0..1_200 {
            host.pass(&[work(rate, SHARES); 4]);
        }
        for (part, slug) in PARTS.iter().enumerate() {
            let (found, truth) = host.shares(part);
            let scatter = host.scatter(part);
            assert!(
                (found - truth).abs() < scatter,
                "{rate} ms/s, {slug}: {found} of {truth} ± {scatter}"
            );
        }
        let alone = host.alone_ns[2] / host.truth_ns.iter().sum::<f64>();
        assert!(alone >= alone_at_least, "{alone}: these seeds show nothing");
    }
}

/// For kinds of work at different rates, neither gets the other's time.
#[test]
fn kinds_of_work_that_take_turns_at_different_rates_are_both_paid_what_they_are_worth() {
    for (many, few, turn) in [
        (20.0, 1.0, 1),
        (10.0, 0.2, 1),
        (20.0, 1.0, 20),
        (400.0, 2.0, 7),
        (5.0, 0.5, 120),
    ] {
        let mut host = Host::new(11);
        for interval in 0..2_400_usize {
            let now = if (interval / turn).is_multiple_of(2) {
                work(many, [1.0, 0.0, 0.0])
            } else {
                work(few, [0.0, 1.0, 0.0])
            };
            host.pass(&[now; 2]);
        }
        let (found, truth) = host.shares(1);
        let scatter = host.scatter(1);
        // By itself, each interval gives a sample the interval's time, however long.
        let alone = host.alone_ns[1] / host.truth_ns.iter().sum::<f64>();
        assert!(alone < 0.7 * truth, "{alone}: these seeds show nothing");
        assert!(
            (found - truth).abs() < scatter,
            "{many} and {few} ms/s in turns of {turn}: {found} of {truth} ± {scatter}"
        );
    }
}

/// One interval of the first CPU of a host with one CPU.
fn split_of(attribution: &mut Attribution, clock: &Totals, stacks: &StackCounts) -> Split {
    attribution.begin(INTERVAL_NS, std::slice::from_ref(stacks));
    let interval = Interval {
        length_ns: INTERVAL_NS,
        sample_period_ns: PERIOD_NS,
        received: None,
    };
    let split = attribution.attribute(0, &capabilities(), interval, clock, stacks);
    split.clone()
}

/// One interval with this time of the HRTIMER softirq, a share of which is networking.
fn hrtimer(
    attribution: &mut Attribution,
    random: &mut SplitMix64,
    time_ns: f64,
    share: f64,
) -> Split {
    let mut stacks = StackCounts::default();
    for (slug, share) in [("net_hrtimer", share), ("softirq_hrtimer", 1.0 - share)] {
        let event = row(slug);
        for _ in 0..samples(random, share * time_ns) {
            stacks.add(HRTIMER as u8, Some(SampleOwner { event, part: None }), 1.0);
        }
    }
    let mut clock = [0; CLOCK_KINDS];
    clock[HRTIMER] = time_ns as u64;
    let split = split_of(attribution, &clock, &stacks);
    let split_ns = |slug: &str| split.time_ns[row(slug)].unwrap();
    assert_eq!(
        split_ns("net_hrtimer") + split_ns("softirq_hrtimer"),
        clock[HRTIMER]
    );
    split
}

#[test]
fn networking_is_carved_out_of_a_softirq_at_low_rates_too() {
    let mut attribution = Attribution::default();
    let mut random = SplitMix64(3);
    let mut net_ns = 0;
    for _ in 0..4_000 {
        let split = hrtimer(&mut attribution, &mut random, 500_000.0, 0.7);
        net_ns += split.time_ns[row("net_hrtimer")].unwrap();
    }
    let share = net_ns as f64 / (4_000.0 * 500_000.0);
    assert!((share - 0.7).abs() < 0.06, "{share}");
}

/// Shares are right even with a sampler that misses four of five samples (on a CPU that is idle in
/// between), or takes too many.
#[test]
fn a_sampler_at_odds_with_the_clock_does_not_bend_shares() {
    for factor in [0.2, 1.3] {
        let mut attribution = Attribution::default();
        let mut random = SplitMix64(5);
        let (mut found_ns, mut all_ns) = (0, 0);
        for _ in 0..6_000 {
            let (mut clock, stacks) = observe(&mut random, work(3.0 * factor, [0.6, 0.4, 0.0]));
            clock[RX] = (clock[RX] as f64 / factor) as u64;
            let split = split_of(&mut attribution, &clock, &stacks);
            found_ns += split.time_ns[row("bridging")].unwrap();
            all_ns += clock[RX];
        }
        let share = found_ns as f64 / all_ns as f64;
        assert!((share - 0.4).abs() < 0.06, "{factor}: {share}");
    }
}

fn info() -> Info {
    Info {
        components: ComponentInfo::table(|row| match COMPONENTS[row].kind {
            Kind::Timed(..) => Availability::by(Method::TpBtf),
            _ => Availability::by(Method::Sampling),
        }),
        ..fixture::info()
    }
}

/// An interval whose splits these are, by this attribution.
fn snapshot(attribution: &Attribution, splits: &[Split]) -> Snapshot {
    let rows = 0..COMPONENTS.len();
    let mut snapshot = Snapshot {
        sequence: 1,
        time_unix_ns: 0,
        interval_ns: INTERVAL_NS,
        cpus: (0..splits.len() as u32).collect(),
        sections: Sections {
            cost: Some(Cost {
                components: rows
                    .clone()
                    .map(|row| splits.iter().map(|split| split.time_ns[row]).collect())
                    .collect(),
                samples: rows
                    .map(|row| splits.iter().map(|split| split.samples[row]).collect())
                    .collect(),
                ..Cost::default()
            }),
            ..Sections::default()
        },
    };
    let cost = snapshot.sections.cost.as_mut().unwrap();
    cost.sample_ns_ms = Some(attribution.sample_ns_ms(&capabilities(), cost));
    snapshot
}

/// Least hits of a 95 % interval in 400 rounds: two standard deviations below the expected number.
const LEAST_COVERED: u32 = 372;
const ROUNDS: usize = 400;

/// Including the remainder, and a rare part without a sample in most intervals.
#[test]
fn the_interval_of_a_share_contains_the_truth_as_often_as_it_says() {
    let info = info();
    for shares in [[0.6, 0.35, 0.05], [0.97, 0.03, 0.0], [0.994, 0.004, 0.002]] {
        for (cpus, rate) in [(1, 0.3), (1, 3.0), (4, 1.0), (4, 20.0), (1, 180.0)] {
            let mut host = Host::new(13);
            let work = work(rate, shares);
            let mut covered = [0; 3];
            for _ in 0..ROUNDS {
                let splits = host.pass(&vec![work; cpus]);
                let snapshot = snapshot(&host.attribution, &splits);
                for (part, slug) in PARTS.iter().enumerate() {
                    let bounds = confidence::of_component(&info, &snapshot, row(slug));
                    let (low, high) = bounds.unwrap();
                    let truth = (work[part] * cpus as f64) as u64;
                    covered[part] += u32::from((low..=high + 1).contains(&truth));
                }
            }
            assert!(
                covered.iter().all(|&rounds| rounds >= LEAST_COVERED),
                "{shares:?} on {cpus} CPUs at {rate} ms/s: {covered:?} of {ROUNDS}"
            );
        }
    }
}

#[test]
fn the_interval_of_work_without_a_clock_contains_the_truth_without_a_sample_too() {
    let info = info();
    let connections = row("connections");
    for samples_expected in [0.05, 0.17, 0.5, 1.0, 3.0, 40.0] {
        let truth_ns = samples_expected * PERIOD_NS as f64;
        let mut random = SplitMix64(17);
        let mut covered = 0;
        for _ in 0..ROUNDS {
            let mut stacks = StackCounts::default();
            let owner = SampleOwner {
                event: connections,
                part: None,
            };
            (0..samples(&mut random, truth_ns)).for_each(|_| stacks.add(0, Some(owner), 1.0));
            let mut attribution = Attribution::default();
            let split = split_of(&mut attribution, &[0; CLOCK_KINDS], &stacks);
            let snapshot = snapshot(&attribution, &[split]);
            let (low, high) = confidence::of_component(&info, &snapshot, connections).unwrap();
            covered += u32::from((low..=high).contains(&(truth_ns as u64)));
        }
        assert!(covered >= LEAST_COVERED, "{samples_expected}: {covered}");
    }
}

#[test]
fn the_interval_of_what_is_carved_out_and_of_what_is_kept_contains_the_truth() {
    let info = info();
    let (net, softirq) = (row("net_hrtimer"), row("softirq_hrtimer"));
    for (time_ns, share) in [(500_000.0, 0.7), (30e6, 0.02), (200e6, 0.0)] {
        let mut attribution = Attribution::default();
        let mut random = SplitMix64(19);
        let mut covered = [0; 2];
        for _ in 0..ROUNDS {
            let split = hrtimer(&mut attribution, &mut random, time_ns, share);
            let snapshot = snapshot(&attribution, &[split]);
            for (covered, (row, share)) in covered
                .iter_mut()
                .zip([(net, share), (softirq, 1.0 - share)])
            {
                let (low, high) = confidence::of_component(&info, &snapshot, row).unwrap();
                let truth = (time_ns * share) as u64;
                *covered += u32::from((low..=high + 1).contains(&truth));
            }
        }
        assert!(
            covered.iter().all(|&rounds| rounds >= LEAST_COVERED),
            "{covered:?}"
        );
    }
}
