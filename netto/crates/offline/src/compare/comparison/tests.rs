//! Changes found in made-up series.

use metrics_common::component::index_of;
use metrics_common::random::SplitMix64;
use metrics_common::sections::{Interface, InterfaceCounts, Interfaces, Traffic};
use metrics_common::{COMPONENTS, Cost, Info, Sections, Snapshot, fixture};
use netto_judges::efficiency::Work;

use super::*;
use crate::compare::side::MOST_CELLS;
use crate::compare::{Condition, Judgement};

const CPUS: usize = 4;
const INTERVAL_NS: u64 = 500_000_000;

/// Noise of a first-order autoregression with a variance of 1.
struct Noise {
    random: SplitMix64,
    last: Vec<f64>,
    correlation: f64,
}

impl Noise {
    fn new(seed: u64, rows: usize, correlation: f64) -> Self {
        let mut noise = Noise {
            random: SplitMix64(seed),
            last: vec![0.0; rows],
            correlation,
        };
        for row in 0..rows {
            noise.last[row] = noise.normal();
        }
        noise
    }

    fn normal(&mut self) -> f64 {
        let (a, b) = (self.random.ratio().max(1e-300), self.random.ratio());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    fn next(&mut self, row: usize) -> f64 {
        let rest = (1.0 - self.correlation * self.correlation).sqrt();
        self.last[row] = self.correlation * self.last[row] + rest * self.normal();
        self.last[row]
    }
}

/// The mean share of a component, different for each.
fn mean(row: usize) -> f64 {
    0.002 + 0.0005 * (row % 17) as f64
}

/// A side of this many intervals whose components vary around their means; `step` is added to one.
fn side(seed: u64, intervals: u64, correlation: f64, step: Option<(&str, f64)>) -> Side {
    let info: Info = fixture::info();
    let mut side = Side::default();
    side.describe(&info);
    let mut noise = Noise::new(seed, COMPONENTS.len(), correlation);
    let stepped = step.map(|(slug, by)| (index_of(slug).unwrap(), by));
    for sequence in 1..=intervals {
        let mut row = |row: usize| {
            let by = stepped
                .filter(|(other, _)| *other == row)
                .map_or(0.0, |(_, by)| by);
            let share = mean(row) * (1.0 + 0.3 * noise.next(row)) + by;
            let ns = (share.max(0.0) * INTERVAL_NS as f64) as u64;
            Some(vec![ns; CPUS])
        };
        side.interval(&Snapshot {
            sequence,
            time_unix_ns: sequence * INTERVAL_NS,
            interval_ns: INTERVAL_NS,
            cpus: (0..CPUS as u32).collect(),
            sections: Sections {
                cost: Some(Cost {
                    components: (0..COMPONENTS.len()).map(&mut row).collect(),
                    ..Cost::default()
                }),
                ..Sections::default()
            },
        });
    }
    side
}

/// A side in which each of 1,000 packets an interval takes so long in the RX softirq, and each of
/// 2,000,000 bytes over the wire half a nanosecond of all networking.
fn worked(packet_ns: u64) -> Side {
    let mut side = Side::default();
    side.describe(&fixture::info());
    for sequence in 1..=40 {
        let mut components = vec![None; COMPONENTS.len()];
        for (slug, ns) in [("rx_softirq", 1_000 * packet_ns), ("network", 1_000_000)] {
            components[index_of(slug).unwrap()] = Some(vec![ns, 0]);
        }
        let wire = Interface {
            counts: InterfaceCounts {
                rx_bytes: 1_500_000,
                tx_bytes: 500_000,
                ..InterfaceCounts::default()
            },
            ..Interface::default()
        };
        let traffic = Traffic {
            softnet: vec![Some(vec![600, 400])],
            interfaces: Some(Interfaces {
                named: vec![wire],
                ..Interfaces::default()
            }),
            ..Traffic::default()
        };
        side.interval(&Snapshot {
            sequence,
            time_unix_ns: sequence * INTERVAL_NS,
            interval_ns: INTERVAL_NS,
            cpus: vec![0, 1],
            sections: Sections {
                cost: Some(Cost {
                    components,
                    ..Cost::default()
                }),
                traffic: Some(traffic),
                ..Sections::default()
            },
        });
    }
    side
}

#[test]
fn a_price_is_the_time_of_a_packet_and_of_a_thousand_bytes() {
    let comparison = compare(&worked(400), &worked(500)).unwrap();
    let prices: Vec<(Work, f64, f64)> = comparison
        .prices
        .iter()
        .map(|price| (price.work, price.a_ns, price.b_ns))
        .collect();
    let expected = [
        (Work::Packets, 400.0, 500.0),
        (Work::WireBytes, 500.0, 500.0),
    ];
    assert_eq!(prices, expected);
    let change = comparison.prices[0].change_ns;
    assert_eq!(change.value, 100.0);
    let (low, high) = change.interval.unwrap();
    assert!(low > 99.0 && high < 101.0, "{low} to {high}");
}

fn real(comparison: &Comparison) -> Vec<&str> {
    let changes = comparison.changes.iter();
    let real = changes.filter(|change| change.is_real == Some(true));
    real.map(|change| change.component.as_str()).collect()
}

/// Number of comparisons of two equal runs in which any of 78 components is called changed.
fn false_alarms(seeds: u64, intervals: u64, correlation: f64) -> usize {
    let has_one = |seed: &u64| {
        let a = side(2 * seed, intervals, correlation, None);
        let b = side(2 * seed + 1, intervals, correlation, None);
        !real(&compare(&a, &b).unwrap()).is_empty()
    };
    (1..=seeds).filter(has_one).count()
}

#[test]
fn of_what_did_not_change_nothing_is_called_changed_in_19_of_20_tries() {
    for (intervals, correlation) in [(60, 0.0), (240, 0.5), (400, 0.9)] {
        let alarms = false_alarms(40, intervals, correlation);
        assert!(
            alarms <= 2,
            "{alarms} of 40: {intervals} intervals, {correlation}"
        );
    }
}

#[test]
fn a_step_is_found_and_nothing_else() {
    let mut others = 0;
    for seed in 1..=20 {
        let a = side(2 * seed, 240, 0.5, None);
        let b = side(2 * seed + 1, 240, 0.5, Some(("tc_classify", 0.01)));
        let comparison = compare(&a, &b).unwrap();
        let first = &comparison.changes[0];
        assert_eq!(first.component, "tc_classify");
        assert_eq!(first.is_real, Some(true));
        let (low, high) = first.share.interval.unwrap();
        assert!(low < 0.01 && 0.01 < high && high - low < 0.006, "{first:?}");
        others += usize::from(real(&comparison).len() > 1);
        // The same in CPU seconds per second, of four CPUs.
        let (low, high) = first.cpus.interval.unwrap();
        assert!(low < 0.04 && 0.04 < high, "{first:?}");
    }
    assert!(others <= 1, "{others} of 20 tries call others changed too");
}

#[test]
fn the_same_input_gives_the_same_output() {
    let compared = || compare(&side(1, 100, 0.3, None), &side(2, 100, 0.3, None)).unwrap();
    assert_eq!(compared(), compared());
}

#[test]
fn too_few_intervals_say_nothing_about_what_is_real() {
    let comparison = compare(&side(1, 7, 0.0, None), &side(2, 500, 0.0, None)).unwrap();
    assert_eq!(comparison.blocks, None);
    assert!(
        comparison
            .changes
            .iter()
            .all(|c| c.is_real.is_none() && c.share.interval.is_none())
    );
    let condition: Condition = "network>+5%".parse().unwrap();
    assert!(
        matches!(condition.judge(&comparison), Judgement::Unknown(why) if why.contains("too few"))
    );
    assert!(compare(&Side::default(), &side(1, 10, 0.0, None)).is_none());
}

#[test]
fn a_condition_is_met_by_a_real_change_beyond_its_limit_only() {
    let a = side(1, 240, 0.3, None);
    let b = side(2, 240, 0.3, Some(("gro", 0.01)));
    let comparison = compare(&a, &b).unwrap();
    let judged = |text: &str| text.parse::<Condition>().unwrap().judge(&comparison);
    assert!(matches!(judged("gro>+5%"), Judgement::Failed(why) if why.contains("GRO")));
    assert!(matches!(judged("gro>+0.5pp"), Judgement::Failed(_)));
    let passed = |text: &str| match judged(text) {
        Judgement::Passed(what) => what,
        other => panic!("{text}: {other:?}"),
    };
    for text in ["gro>+1.5pp", "gro<-5%"] {
        let what = passed(text);
        assert!(
            what.starts_with(text) && what.contains("GRO changed by +"),
            "{what}"
        );
    }
    // Every estimate deviates; that alone is no change.
    assert!(passed("network>-50%").ends_with("may be chance"));
    let back = compare(&b, &a).unwrap();
    let lower: Condition = "gro<-0.5pp".parse().unwrap();
    assert!(matches!(lower.judge(&back), Judgement::Failed(_)));
}

#[test]
fn however_long_a_log_is_its_cells_are_few_and_nothing_is_lost() {
    let info = fixture::info();
    let mut side = Side::default();
    side.describe(&info);
    let count = 50_000;
    for sequence in 1..=count {
        side.interval(&Snapshot {
            sequence,
            time_unix_ns: sequence,
            interval_ns: 10,
            cpus: vec![0],
            sections: Sections {
                cost: Some(Cost {
                    components: vec![Some(vec![sequence % 3])],
                    ..Cost::default()
                }),
                ..Sections::default()
            },
        });
    }
    assert!(side.cells().len() <= MOST_CELLS);
    let total = side.total();
    assert_eq!(
        total.ns(0),
        (1..=count).map(|sequence| sequence % 3).sum::<u64>()
    );
    assert_eq!(total.interval_ns, 10 * count);
}

#[test]
fn hostile_values_make_no_panic() {
    let info = fixture::info();
    let mut side = Side::default();
    side.describe(&info);
    for (sequence, ns) in [0, 1, u64::MAX, 7, u64::MAX / 2]
        .into_iter()
        .cycle()
        .take(50)
        .enumerate()
    {
        let mut components = vec![Some(vec![ns, ns]); COMPONENTS.len()];
        components[0] = Some(vec![1, 1]);
        side.interval(&Snapshot {
            sequence: sequence as u64,
            time_unix_ns: ns,
            interval_ns: u64::MAX >> (sequence % 60),
            cpus: vec![0, u32::MAX],
            sections: Sections {
                cost: Some(Cost {
                    components,
                    ..Cost::default()
                }),
                ..Sections::default()
            },
        });
    }
    if let Some(comparison) = compare(&side, &side) {
        assert!(real(&comparison).is_empty());
    }
}

#[test]
fn what_was_not_measured_is_not_compared_and_says_why() {
    let mut info = fixture::info();
    let gro = index_of("gro").unwrap();
    info.components[gro].availability = metrics_common::Availability::missing("no such function");
    let mut without = Side::default();
    without.describe(&info);
    for sequence in 1..=20 {
        let mut components = vec![Some(vec![sequence]); COMPONENTS.len()];
        components[gro] = None;
        without.interval(&Snapshot {
            sequence,
            time_unix_ns: sequence * 1_000,
            interval_ns: 1_000,
            cpus: vec![0],
            sections: Sections {
                cost: Some(Cost {
                    components,
                    ..Cost::default()
                }),
                ..Sections::default()
            },
        });
    }
    let comparison = compare(&without, &side(1, 20, 0.0, None)).unwrap();
    let gro = comparison
        .incomparable
        .iter()
        .find(|other| other.component == "gro");
    assert_eq!(gro.unwrap().unavailable, "no such function");
    let condition: Condition = "gro>+5%".parse().unwrap();
    assert!(
        matches!(condition.judge(&comparison), Judgement::Unknown(why) if why.contains("no such"))
    );
}
