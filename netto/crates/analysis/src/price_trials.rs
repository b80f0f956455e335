//! What samples cost the load that is there: now and then, at random, some seconds are spared most of them, and
//! are compared with those before and after.
//!
//! A load shows its loss in one of two ways: fewer packets a second where it sends as fast as it can, more busy time
//! for each packet where it is paced. Each is a line through the origin ([`Slope`]) over what the samples were assumed
//! to cost ([`FeltPrice`]); the slope is the factor by which the assumed prices are wrong, 1 until it is known
//! better. The greater of both counts. Spans that are all sampled alike tell how much either varies anyway. Pure.

use netto_estimate::random::SplitMix64;
use netto_estimate::slope::{Estimate, Slope};

use crate::prices::FeltPrice;
use crate::rates::{FEWEST_HZ, Rate};

/// Length of a span, nanoseconds.
const SPAN_NS: f64 = 2e9;
/// A first interval that is no longer than this still has to do with the span before it, nanoseconds.
const SETTLES_NS: u64 = 1_000_000_000;
/// Chance that the second of three spans is spared, which makes 2 seconds in 60.
const SPARED: f64 = 1.0 / 15.0;
/// Standard error of the assumed prices, relative to them: no load is known for which they are off by more than twice
/// this.
const ASSUMED_ERROR: f64 = 1.0;
/// With fewer packets in a span, or less of a CPU for networking, there is nothing to compare.
const FEWEST_PACKETS: f64 = 1_000.0;
const LEAST_NETWORK: f64 = 0.1;
/// Another load has more or fewer packets a second by this ratio.
const ANOTHER_LOAD: f64 = 2.0;

/// An interval of the host.
#[derive(Debug, Clone, Copy)]
pub struct TrialInterval {
    /// Its length, nanoseconds.
    pub interval_ns: u64,
    /// Packets received on all CPUs, if known.
    pub packets: Option<u64>,
    /// Networking, in CPUs.
    pub network_cpus: f64,
    /// Busy CPUs, if known.
    pub busy_cpus: Option<f64>,
    /// What its samples are assumed to have cost, in CPUs.
    pub assumed_cpus: f64,
}

/// Some intervals: sums over their time, nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    ns: f64,
    packets: f64,
    network_ns: f64,
    busy_ns: Option<f64>,
    assumed_ns: f64,
    is_spared: bool,
}

/// See the head of this file.
#[derive(Debug)]
pub struct PriceTrials {
    by_packets: Slope,
    by_busy_time: Slope,
    /// The greater of both: each CPU asks for it in each interval.
    factor: Estimate,
    /// Up to two spans that ended, and the one under way.
    ended: Vec<Span>,
    span: Span,
    /// Whether the next interval comes too soon after a change of rates.
    settles: bool,
    /// Packets a second of the load for which the slopes hold.
    packets_hz: Option<f64>,
    random: SplitMix64,
}

impl PriceTrials {
    /// Begins with the assumed prices; `seed` is random.
    pub fn new(seed: u64) -> Self {
        let assumed = Slope::new(1.0, ASSUMED_ERROR);
        PriceTrials {
            factor: assumed.estimate(),
            by_packets: assumed.clone(),
            by_busy_time: assumed,
            ended: Vec::new(),
            span: Span::default(),
            settles: false,
            packets_hz: None,
            random: SplitMix64(seed),
        }
    }

    /// Ends an interval. One in which the load was not steady is not compared with others.
    pub fn end_interval(&mut self, interval: &TrialInterval, is_steady: bool) {
        let is_load = interval.network_cpus >= LEAST_NETWORK && is_steady;
        let Some(packets) = interval.packets.filter(|_| is_load) else {
            return self.interrupt();
        };
        if std::mem::take(&mut self.settles) && interval.interval_ns <= SETTLES_NS {
            return;
        }
        self.span.add(interval, packets);
        if self.span.ns < SPAN_NS {
            return;
        }
        let span = std::mem::take(&mut self.span);
        if span.packets < FEWEST_PACKETS {
            return self.interrupt();
        }
        if self.has_another_load(&span) {
            let seed = self.random.next_u64();
            *self = PriceTrials {
                packets_hz: Some(span.packets_hz()),
                ..PriceTrials::new(seed)
            };
            return;
        }
        self.ended.push(span);
        if let [before, between, after] = self.ended[..] {
            self.compare(&[before, after], &between);
            self.ended = vec![after];
        }
        let may_spare = self.ended.len() == 1 && self.by_packets.knows_error();
        self.span.is_spared = may_spare && self.random.ratio() < SPARED;
        self.settles = self.span.is_spared != span.is_spared;
    }

    /// Whether the coming interval is spared most samples.
    pub fn is_sparing(&self) -> bool {
        self.span.is_spared
    }

    /// The rate of a CPU in the coming interval, where this one was chosen.
    pub fn rate(&self, chosen: Rate) -> Rate {
        if !self.is_sparing() || chosen.is_look {
            return chosen;
        }
        Rate {
            hz: chosen.hz.min(FEWEST_HZ),
            ticks_hz: 0,
            ..chosen
        }
    }

    /// By which factor the assumed prices of this load are wrong.
    pub fn factor(&self) -> Estimate {
        self.factor
    }

    /// Number of trials that the factor rests on.
    pub fn number(&self) -> usize {
        self.by_packets.observations()
    }

    /// The price of which this one was assumed; a sample costs no less than its own time.
    pub fn corrected(&self, assumed: FeltPrice) -> FeltPrice {
        let whole_ns = self.factor().value * assumed.on(1.0);
        FeltPrice {
            stall_ns: (whole_ns - assumed.own_ns).max(0.0),
            ..assumed
        }
    }

    /// Spans before this one are no longer compared with those after it.
    fn interrupt(&mut self) {
        self.ended.clear();
        self.span = Span::default();
        self.settles = false;
    }

    /// Whether a span is of another load than that for which the slopes hold: those begin anew, and the change itself is
    /// not compared.
    fn has_another_load(&mut self, span: &Span) -> bool {
        let packets_hz = span.packets_hz();
        let ratio = packets_hz / *self.packets_hz.get_or_insert(packets_hz);
        !(1.0 / ANOTHER_LOAD..=ANOTHER_LOAD).contains(&ratio)
    }

    /// Compares a span with those beside it.
    fn compare(&mut self, beside: &[Span; 2], between: &Span) {
        let mean = |of: &dyn Fn(&Span) -> f64| (of(&beside[0]) + of(&beside[1])) / 2.0;
        let assumed = mean(&Span::assumed_cpus) - between.assumed_cpus();
        let packets = |span: &Span| span.packets_hz().ln();
        let lost = 1.0 - (mean(&packets) - packets(between)).exp();
        learn(
            &mut self.by_packets,
            between,
            assumed,
            mean(&Span::network_cpus) * lost,
        );
        let all = [beside[0], *between, beside[1]];
        if all.iter().all(|span| span.busy_ns.is_some()) {
            let of_packet = |span: &Span| (span.busy_cpus() / span.packets_hz()).ln();
            let saved = 1.0 - (of_packet(between) - mean(&of_packet)).exp();
            learn(
                &mut self.by_busy_time,
                between,
                assumed,
                mean(&Span::busy_cpus) * saved,
            );
        }
        let slopes = [&self.by_packets, &self.by_busy_time].map(Slope::estimate);
        let [by_packets, by_busy_time] = slopes;
        self.factor = if by_busy_time.value > by_packets.value {
            by_busy_time
        } else {
            by_packets
        };
    }
}

fn learn(slope: &mut Slope, between: &Span, assumed_cpus: f64, cpus: f64) {
    if !cpus.is_finite() {
        return;
    }
    if between.is_spared {
        slope.observe(assumed_cpus, cpus);
    } else {
        slope.observe_zero(cpus);
    }
}

impl Span {
    fn add(&mut self, interval: &TrialInterval, packets: u64) {
        let ns = interval.interval_ns as f64;
        let busy_ns = interval.busy_cpus.map(|cpus| cpus * ns);
        self.busy_ns = match self.busy_ns {
            None if self.ns == 0.0 => busy_ns,
            before => before.zip(busy_ns).map(|(before, more)| before + more),
        };
        self.ns += ns;
        self.packets += packets as f64;
        self.network_ns += interval.network_cpus * ns;
        self.assumed_ns += interval.assumed_cpus * ns;
    }

    fn packets_hz(&self) -> f64 {
        self.packets * 1e9 / self.ns
    }

    fn network_cpus(&self) -> f64 {
        self.network_ns / self.ns
    }

    fn busy_cpus(&self) -> f64 {
        self.busy_ns.unwrap_or_default() / self.ns
    }

    fn assumed_cpus(&self) -> f64 {
        self.assumed_ns / self.ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL_NS: u64 = 500_000_000;
    const ASSUMED: FeltPrice = FeltPrice {
        own_ns: 20_000.0,
        stall_ns: 480_000.0,
    };
    const CHOSEN: Rate = Rate {
        hz: 8,
        ticks_hz: 150,
        is_look: false,
    };

    /// A load of one CPU that samples make slower, or busier, by `factor` of the assumed price.
    struct Load {
        factor: f64,
        is_paced: bool,
        /// Standard deviation of what else changes in half a second, as a ratio.
        scatter: f64,
        random: SplitMix64,
    }

    impl Load {
        fn new(factor: f64, is_paced: bool, seed: u64) -> Load {
            Load {
                factor,
                is_paced,
                scatter: 0.01,
                random: SplitMix64(seed),
            }
        }

        fn interval(&mut self, rate: Rate) -> TrialInterval {
            let assumed_cpus = (rate.hz + rate.ticks_hz) as f64 * ASSUMED.on(1.0) / 1e9;
            let mut error = || {
                let even = (0..12).map(|_| self.random.ratio()).sum::<f64>() - 6.0;
                1.0 + self.scatter * even
            };
            let lost = self.factor * assumed_cpus;
            let (work, busy_cpus) = if self.is_paced {
                (0.5, (0.5 + lost) * error())
            } else {
                ((1.0 - lost) * error(), 1.0)
            };
            TrialInterval {
                interval_ns: INTERVAL_NS,
                packets: Some((work * 50_000.0) as u64),
                network_cpus: busy_cpus,
                busy_cpus: Some(busy_cpus),
                assumed_cpus,
            }
        }

        /// Trials of so many seconds, and the part of the time that they spared.
        fn run(&mut self, trials: &mut PriceTrials, seconds: u64) -> f64 {
            let intervals = 2 * seconds;
            let spared = (0..intervals).filter(|_| {
                let rate = trials.rate(CHOSEN);
                trials.end_interval(&self.interval(rate), true);
                rate != CHOSEN
            });
            spared.count() as f64 / intervals as f64
        }
    }

    #[test]
    fn without_a_trial_the_assumed_price_stands_with_an_interval_as_wide_as_twice_itself() {
        let trials = PriceTrials::new(1);
        assert_eq!(trials.corrected(ASSUMED), ASSUMED);
        assert_eq!(trials.factor().value, 1.0);
        assert!((1.9..2.0).contains(&trials.factor().half_width));
    }

    #[test]
    fn a_load_that_is_not_slowed_is_not_charged_for_and_one_that_is_pays_what_it_loses() {
        for is_paced in [false, true] {
            for truth in [0.1, 1.0, 1.8] {
                let mut trials = PriceTrials::new(7);
                let spared = Load::new(truth, is_paced, 11).run(&mut trials, 7_200);
                let factor = trials.factor();
                let what = format!("paced: {is_paced}, {truth}: {factor:?}");
                assert!(trials.number() > 100, "{what}");
                assert!((0.02..0.06).contains(&spared), "{what}: {spared}");
                // The greater of two is a little too great where one of them has nothing to show.
                let error = factor.value - truth;
                assert!(error.abs() < factor.half_width + 0.05, "{what}");
                assert!(factor.half_width < 0.3, "{what}");
            }
        }
    }

    #[test]
    fn the_interval_holds_the_price_in_94_of_100_loads() {
        let mut held = 0;
        for seed in 0..200 {
            let truth = 2.0 * SplitMix64(seed).ratio();
            let mut trials = PriceTrials::new(seed);
            Load::new(truth, false, 1_000 + seed).run(&mut trials, 900);
            let factor = trials.factor();
            held += u32::from((factor.value - truth).abs() <= factor.half_width);
        }
        assert!(held >= 188, "{held} of 200");
    }

    #[test]
    fn a_price_is_never_less_than_the_samples_themselves_take() {
        let mut trials = PriceTrials::new(3);
        Load::new(-1.0, false, 5).run(&mut trials, 7_200);
        assert!(trials.factor().value < 0.0, "{:?}", trials.factor());
        let price = trials.corrected(ASSUMED);
        assert_eq!((price.own_ns, price.stall_ns), (ASSUMED.own_ns, 0.0));
    }

    #[test]
    fn nothing_is_spared_in_the_first_half_minute_of_a_load() {
        let mut trials = PriceTrials::new(2);
        assert_eq!(Load::new(1.0, false, 2).run(&mut trials, 30), 0.0);
    }

    #[test]
    fn another_load_begins_with_the_assumed_price() {
        let mut trials = PriceTrials::new(7);
        let mut load = Load::new(0.0, false, 11);
        load.run(&mut trials, 3_600);
        assert!(trials.corrected(ASSUMED).stall_ns < 0.5 * ASSUMED.stall_ns);
        for _ in 0..8 {
            let interval = load.interval(CHOSEN);
            let packets = interval.packets.map(|packets| packets / 4);
            trials.end_interval(
                &TrialInterval {
                    packets,
                    ..interval
                },
                true,
            );
        }
        assert_eq!(trials.corrected(ASSUMED), ASSUMED);
    }

    #[test]
    fn a_pause_ends_a_trial_and_what_was_learned_stays() {
        let mut trials = PriceTrials::new(7);
        let mut load = Load::new(0.0, false, 11);
        load.run(&mut trials, 3_600);
        while !trials.is_sparing() {
            let rate = trials.rate(CHOSEN);
            trials.end_interval(&load.interval(rate), true);
        }
        let learned = trials.factor();
        let quiet = TrialInterval {
            network_cpus: 0.0,
            packets: Some(3),
            ..load.interval(CHOSEN)
        };
        trials.end_interval(&quiet, true);
        assert!(!trials.is_sparing());
        assert_eq!(trials.factor(), learned);
    }

    #[test]
    fn a_cpu_without_networking_is_only_looked_at_in_a_trial_too() {
        let mut trials = PriceTrials::new(7);
        trials.span.is_spared = true;
        let look = Rate {
            hz: 20,
            ticks_hz: 0,
            is_look: true,
        };
        assert_eq!(trials.rate(look), look);
        let spared = Rate {
            hz: 8,
            ticks_hz: 0,
            is_look: false,
        };
        assert_eq!(trials.rate(CHOSEN), spared);
    }
}
