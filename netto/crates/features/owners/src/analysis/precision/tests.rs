//! A made-up host with known owners, whose packets are met in windows: intervals contain the truth
//! as often as they claim, and are not much wider than they must be.

use metrics_common::component::index_of;
use metrics_common::random::SplitMix64;
use metrics_common::sections::{Bounds, Caused, Columns, Interruption, Section};
use metrics_common::{COMPONENTS, Cost, Owner, OwnerKind, Owners};
use netto_estimate::crossed::Of;

use super::super::divide::{Attributed, Division, takes};
use super::super::owner_table::UNKNOWN;
use super::super::pool::{Evidence, Pair};

const INTERVAL_NS: u64 = 500_000_000;
/// RX softirq of each interval.
const BUSY_NS: u64 = 200_000_000;
/// True shares of causes 10, 11, 12, and of payers 20, 21.
const CAUSED: [f64; 3] = [0.7, 0.22, 0.08];
const PAID: [f64; 2] = [0.6, 0.4];

/// Number of hosts, and intervals before those that are looked at, so that the design effect is
/// known.
const HOSTS: u32 = 100;
const BEFORE: u32 = 40;

/// How a host is seen.
#[derive(Debug, Clone, Copy)]
enum Seen {
    /// By samples.
    Sampled,
    /// By time charged to packets, always.
    Charged,
    /// So in windows, every second interval.
    InWindows,
}

#[derive(Debug, Clone, Copy)]
struct Sampling {
    seen: Seen,
    /// Samples or charges of an interval or window.
    number: u32,
    /// How many of them show the same packet.
    run_length: u32,
}

fn drawn(random: &mut SplitMix64, shares: &[f64]) -> u32 {
    let mut left = random.ratio();
    let found = shares.iter().position(|share| {
        left -= share;
        left < 0.0
    });
    found.unwrap_or(shares.len() - 1) as u32
}

/// The section of one interval.
fn observed(
    random: &mut SplitMix64,
    division: &mut Division,
    sampling: Sampling,
    number: u32,
) -> Owners {
    let event = index_of("rx_softirq").unwrap();
    let leaf = index_of("gro").unwrap();
    division.begin(INTERVAL_NS, 1);
    let is_open = !matches!(sampling.seen, Seen::InWindows) || number.is_multiple_of(2);
    let mut cause = 0;
    for at in (0..sampling.number).filter(|_| is_open) {
        if at % sampling.run_length == 0 {
            cause = drawn(random, &CAUSED);
        }
        let pair = Pair {
            cause: 10 + cause,
            payer: 20 + drawn(random, &PAID),
        };
        let found = Evidence::Socket;
        match sampling.seen {
            Seen::Sampled => division.add(Attributed {
                cpu: 0,
                event,
                leaf,
                pair,
                found,
                is_of_window: false,
                weight: 1.0,
            }),
            Seen::Charged | Seen::InWindows => division.add_charge(0, pair, found, 150_000),
        }
    }
    let mut components = vec![None; COMPONENTS.len()];
    components[leaf] = Some(vec![BUSY_NS]);
    let cost = Cost {
        components,
        ..Cost::NOTHING
    };
    let mut owners = Owners::default();
    let mut portions = Vec::new();
    owners.basis = division.divide(&cost, &[0], |portion| portions.push(portion));
    let id = |who: u32| Owner {
        id: u64::from(who),
        ..Owner::single(OwnerKind::Cgroup)
    };
    for portion in portions {
        let [owner, payer] =
            [portion.pair.cause, portion.pair.payer].map(|who| owners.place_of(&id(who)));
        owners.caused.push(Caused {
            owner,
            component: portion.leaf as u32,
            cpu_ns: vec![portion.ns],
        });
        assert!(takes(portion.leaf));
        owners.taken.push(Interruption {
            cause: owner,
            payer,
            ns: portion.ns,
        });
    }
    let place = |who| Some(owners.owners.iter().position(|owner| owner.is(&id(who)))? as u32);
    owners.samples = Some(division.samples(place));
    owners
}

/// How often an interval had the truth, and its mean width, as a ratio of the true value.
#[derive(Debug, Default, Clone, Copy)]
struct Coverage {
    covered: u32,
    tried: u32,
    width: f64,
}

impl Coverage {
    fn add(&mut self, bounds: Option<Bounds>, truth_ns: f64) {
        let (low, high) = bounds.unwrap();
        self.tried += 1;
        self.covered += u32::from((low as f64..=high as f64).contains(&truth_ns));
        self.width += (high - low) as f64 / truth_ns;
    }

    fn ratio(self) -> f64 {
        f64::from(self.covered) / f64::from(self.tried)
    }

    fn width(self) -> f64 {
        self.width / f64::from(self.tried)
    }
}

/// Of the largest cause, the largest payer, and their pair, after this many intervals of many hosts.
fn coverage(sampling: Sampling, intervals: u32) -> [Coverage; 3] {
    let mut random = SplitMix64(7);
    let mut found = [Coverage::default(); 3];
    for _ in 0..HOSTS {
        let mut division = Division::default();
        let mut sum = Owners::default();
        for number in 0..BEFORE + intervals {
            let owners = observed(&mut random, &mut division, sampling, number);
            if number >= BEFORE {
                sum.add(&owners, &Columns::folded());
            }
        }
        let known = sum.intervals();
        let place = |id| sum.owners.iter().position(|owner| owner.id == id).unwrap();
        let (cause, payer) = (place(10), place(20));
        let pair = sum
            .taken
            .iter()
            .position(|owner| (owner.cause as usize, owner.payer as usize) == (cause, payer));
        let whole_ns = (u64::from(intervals) * BUSY_NS) as f64;
        let [of_cause, of_payer, of_pair] = &mut found;
        of_cause.add(
            known.accounts[cause].caused_interval_ns,
            whole_ns * CAUSED[0],
        );
        of_payer.add(
            known.accounts[payer].stalled_interval_ns,
            whole_ns * PAID[0],
        );
        of_pair.add(known.taken[pair.unwrap()], whole_ns * CAUSED[0] * PAID[0]);
    }
    found
}

/// The least possible width of a share's interval, as a ratio of the share.
fn least_width(share: f64, samples: f64) -> f64 {
    2.0 * 1.96 * ((1.0 - share) / share / samples).sqrt()
}

#[test]
fn intervals_contain_the_truth_as_often_as_they_say_and_are_hardly_wider_than_they_must_be() {
    let sampling = |seen, number, run_length| Sampling {
        seen,
        number,
        run_length,
    };
    for (sampling, intervals) in [
        (sampling(Seen::Sampled, 40, 1), 120),
        (sampling(Seen::Charged, 40, 1), 120),
        // Independent packets, five charges of each, all of one.
        (sampling(Seen::InWindows, 40, 1), 120),
        (sampling(Seen::InWindows, 40, 5), 120),
        (sampling(Seen::InWindows, 20, 20), 120),
        // A few seconds.
        (sampling(Seen::InWindows, 40, 5), 20),
    ] {
        let [cause, payer, pair] = coverage(sampling, intervals);
        let said = format!("{sampling:?}, {intervals}: {cause:?} {payer:?} {pair:?}");
        for found in [cause, payer, pair] {
            assert!(found.ratio() >= 0.93, "{said}");
        }
        let windows = match sampling.seen {
            Seen::Sampled | Seen::Charged => intervals,
            Seen::InWindows => intervals / 2,
        };
        let number = |run_length| f64::from(sampling.number / run_length * windows);
        for (found, share, samples) in [
            (cause, CAUSED[0], number(sampling.run_length)),
            (payer, PAID[0], number(1)),
        ] {
            let least = least_width(share, samples);
            assert!(found.width() <= 1.3 * least, "{least}; {said}");
        }
    }
}

#[test]
fn a_time_without_samples_has_an_interval_of_all_that_it_may_be() {
    let mut division = Division::default();
    let none = Sampling {
        seen: Seen::Sampled,
        number: 0,
        run_length: 1,
    };
    let owners = observed(&mut SplitMix64(1), &mut division, none, 0);
    let known = owners.intervals();
    assert_eq!(owners.owners[0].id, u64::from(UNKNOWN));
    assert_eq!(known.taken, [Some((0, BUSY_NS))]);
}

/// For how long a sample stands of what owner 10 caused, where each of two CPUs has a thousand charges of
/// 400 ms in all: milliseconds.
fn weight_ms(causes: [[u32; 2]; 2], is_estimate: bool, received: Option<u64>) -> f64 {
    let event = index_of("rx_softirq").unwrap();
    let mut division = Division::default();
    division.begin(INTERVAL_NS, 2);
    division.set_estimate(is_estimate, [UNKNOWN; 2]);
    for (cpu, causes) in causes.into_iter().enumerate() {
        for at in 0..1_000 {
            let pair = Pair {
                cause: causes[at % 2],
                payer: 20,
            };
            division.add_charge(cpu, pair, Evidence::Socket, 150_000);
        }
    }
    let mut components = vec![None; COMPONENTS.len()];
    components[event] = Some(vec![BUSY_NS; 2]);
    // Twenty samples tell the time of both CPUs.
    let mut sample_ns_ms = vec![0; COMPONENTS.len()];
    sample_ns_ms[event] = 2 * BUSY_NS * 20;
    let cost = Cost {
        components,
        sample_ns_ms: Some(sample_ns_ms),
        received_ns_ms: received,
        received_shared_ns: received.map(|_| 0),
        ..Cost::NOTHING
    };
    let mut ns = 0;
    division.divide(&cost, &[0, 1], |portion| {
        if portion.pair.cause == 10 {
            ns += portion.ns;
        }
    });
    let of_owner = |(_, figure, squares): &(usize, Of<u32>, f64)| {
        (*figure == Of::Cause(10)).then_some(*squares)
    };
    let squares: f64 = division.figures().iter().filter_map(of_owner).sum();
    squares / ns as f64 / 1e6
}

#[test]
fn what_is_estimated_on_two_cpus_is_as_sure_as_their_time_where_an_owner_differs_between_them() {
    // Each CPU has one owner, whose share there is certain.
    let apart = [[10, 10], [11, 11]];
    assert!(weight_ms(apart, false, None) < 0.01);
    assert!((weight_ms(apart, true, None) - 20.0).abs() < 0.3);
    // Both CPUs alike: 400 ms, of 2,000 charges.
    let same = [[10, 11], [11, 10]];
    for is_estimate in [false, true] {
        let found = weight_ms(same, is_estimate, None);
        assert!((found - 0.2).abs() < 0.01, "{found}");
    }
    // Of another owner of the same CPUs: its own difference counts, not that of all.
    let half = weight_ms([[10, 12], [11, 12]], true, None);
    assert!((half - 20.0 / 3.0).abs() < 0.3, "{half}");
    // A whole that is known to 5 %, as by 400 samples.
    let counted = weight_ms(apart, true, Some(400 * 1_000_000));
    assert!((counted - 1.0).abs() < 0.1, "{counted}");
}
