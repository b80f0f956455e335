//! Observations by two clocks. The *free* one meets all work alike, but each of its observations is dear. The
//! *stepped* one is cheap and comes often, and is in step with the work: some it meets more often than the free
//! clock does, some less, and where it does not come at all only the free one looks.
//!
//! With rates F and S of both, and work that the stepped clock meets h times as often as the free one, time T
//! has F T and S h T observations on average, by independent Poisson distributions. The likeliest T is then the
//! number of both by F + S h: each observation stands for 1 / (F + S h), whichever clock made it. The ratio h of
//! each kind of work is learnt where both clocks look, and pooled over moments ([`Bias`]): corrected within one
//! interval alone, the estimate would be no better than that of the free clock.

use crate::bias::{Bias, Correction};
use crate::quantile::NORMAL;

/// The error of a ratio that is not known yet (95 %), as a ratio: by the tick, parts of softirqs were up to a
/// fifth off, beside the errors of their counts.
const UNKNOWN: f64 = 0.25;
/// Observations of one of the clocks from which a ratio far from 1 is believed before it is known well.
const TELLING: f64 = 16.0;
/// Such a ratio, or its inverse.
const FAR: f64 = 2.0;
/// Its error.
const POOR: f64 = 1.0;
/// A ratio that is taken for 0 gives the stepped clock no weight.
const LEAST: f64 = 0.01;
/// How often ratios are computed anew.
const ANEW_NS: u64 = 5_000_000_000;
/// Time in which the weight of what an estimate rests on falls to a third.
const MEMORY_NS: f64 = 30e9;

/// The clocks of a stratum (a CPU): time between two observations of each, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clocks {
    /// Of the free one.
    pub free_ns: f64,
    /// Of the stepped one; `None` if it does not run.
    pub stepped_ns: Option<f64>,
}

impl Clocks {
    fn free(&self) -> f64 {
        1.0 / self.free_ns.max(1.0)
    }

    fn stepped(&self) -> f64 {
        self.stepped_ns.map_or(0.0, |ns| 1.0 / ns.max(1.0))
    }

    /// Time between two observations of either, nanoseconds: that for which one of weight 1 stands.
    pub fn period_ns(&self) -> f64 {
        1.0 / (self.free() + self.stepped())
    }

    /// The weight of an observation of work that the stepped clock meets so many times as often as the free
    /// one; 0 where it never comes.
    pub fn weight(&self, ratio: f64) -> f64 {
        match self.free() > 0.0 {
            true => (self.free() + self.stepped()) / (self.free() + self.stepped() * ratio),
            // Nothing tells what the other one misses.
            false => 1.0,
        }
    }
}

/// Which clock made an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The one that meets all work alike.
    Free,
    /// That, where the other does not come.
    FreeAlone,
    /// The one in step.
    Stepped,
}

/// What is known of one kind of work.
#[derive(Debug, Clone, Default)]
struct Row {
    bias: Bias,
    /// The ratio of the last computation.
    ratio: Option<Correction>,
    /// Weights of the stepped clock's recent observations, and of all.
    stepped: f64,
    all: f64,
}

/// How often the stepped clock meets each kind of work (row), relative to the free one.
#[derive(Debug, Clone)]
pub struct Ratios {
    rows: Vec<Row>,
    now_ns: u64,
    anew_ns: u64,
}

impl Ratios {
    /// Nothing is known of so many kinds of work.
    pub fn new(rows: usize) -> Ratios {
        let row = Row {
            bias: Bias::of_ratio(),
            ..Row::default()
        };
        Ratios {
            rows: vec![row; rows],
            now_ns: 0,
            anew_ns: 0,
        }
    }

    /// Begins an interval of this length.
    pub fn begin_interval(&mut self, now_ns: u64, interval_ns: u64) {
        let is_due = now_ns >= self.anew_ns;
        if is_due {
            self.anew_ns = now_ns + ANEW_NS;
        }
        self.now_ns = now_ns;
        let left = (-(interval_ns as f64) / MEMORY_NS).exp();
        for row in self.rows.iter_mut().filter(|row| row.all > 0.0) {
            row.stepped *= left;
            row.all *= left;
            row.bias.begin_interval(now_ns);
            if is_due {
                row.ratio = ratio(&row.bias);
            }
        }
    }

    /// The ratio of a row; 1 while it is not known.
    pub fn of(&self, row: usize) -> f64 {
        let known = self.rows.get(row).and_then(|row| row.ratio);
        known.map_or(1.0, |known| known.ratio)
    }

    /// Adds an observation of this weight; where only one clock runs, it tells nothing.
    pub fn add(&mut self, row: usize, clock: Clock, clocks: Clocks, weight: f64) {
        let (Some(row), Some(stepped_ns)) = (self.rows.get_mut(row), clocks.stepped_ns) else {
            return;
        };
        if row.all == 0.0 {
            row.bias.begin_interval(self.now_ns);
        }
        row.all += weight;
        match clock {
            Clock::Free => row.bias.add(0.0, 1.0, clocks.free_ns),
            Clock::FreeAlone => {}
            Clock::Stepped => {
                row.stepped += weight;
                row.bias.add(stepped_ns, 0.0, clocks.free_ns);
            }
        }
    }

    /// The relative standard deviation of a row's time by that of its ratio: as far as its time rests on
    /// observations of the stepped clock.
    pub fn deviation(&self, row: usize) -> f64 {
        let Some(row) = self.rows.get(row).filter(|row| row.all > 0.0) else {
            return 0.0;
        };
        let error = row.ratio.map_or(UNKNOWN, |known| known.error_ratio);
        row.stepped / row.all * error / NORMAL
    }

    /// The standard deviations of parts with these rows and times, which the errors of ratios make: all of
    /// them where the whole is what they sum to; where the whole is known, what one has too much, others lack.
    pub fn of_parts(&self, parts: &[(usize, f64)], is_known: bool) -> Vec<f64> {
        let whole: f64 = parts.iter().map(|(_, time)| time).sum();
        let square = |&(row, time): &(usize, f64)| (self.deviation(row) * time).powi(2);
        let all: f64 = parts.iter().map(square).sum();
        let of_part = |part: &(usize, f64)| {
            let share = part.1 / whole.max(f64::MIN_POSITIVE);
            let others = (all - square(part)).max(0.0);
            match is_known {
                true => (square(part) * (1.0 - share).powi(2) + others * share.powi(2)).sqrt(),
                false => square(part).sqrt(),
            }
        };
        parts.iter().map(of_part).collect()
    }
}

/// What is learnt of a ratio. One far from 1 shows before it is known well: work that the stepped clock starts,
/// or never meets.
fn ratio(bias: &Bias) -> Option<Correction> {
    if let Some(known) = bias.correction() {
        return Some(known);
    }
    let (due, made) = bias.observations();
    if due.max(made) < TELLING {
        return None;
    }
    let ratio = due / made.max(1.0);
    (!(1.0 / FAR..=FAR).contains(&ratio)).then_some(Correction {
        ratio: ratio.max(LEAST),
        error_ratio: POOR,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;
    const SECOND_NS: u64 = 1_000_000_000;
    const CLOCKS: Clocks = Clocks {
        free_ns: 100.0 * MS,
        stepped_ns: Some(4.0 * MS),
    };

    /// A minute of one kind of work, of which each clock makes so many observations a second.
    fn learnt(free: u32, stepped: u32) -> Ratios {
        let mut ratios = Ratios::new(1);
        for second in 0..=60 {
            ratios.begin_interval(second * SECOND_NS, SECOND_NS);
            let weight = CLOCKS.weight(ratios.of(0));
            for (clock, number) in [(Clock::Free, free), (Clock::Stepped, stepped)] {
                for _ in 0..number {
                    ratios.add(0, clock, CLOCKS, weight);
                }
            }
        }
        ratios
    }

    #[test]
    fn weights_of_both_clocks_sum_to_the_time() {
        let time_ns = 1e9;
        for ratio in [0.0, 0.5, 1.0, 3.0] {
            let made = time_ns / CLOCKS.free_ns + ratio * time_ns / (4.0 * MS);
            let found = made * CLOCKS.weight(ratio) * CLOCKS.period_ns();
            assert!((found / time_ns - 1.0).abs() < 1e-9, "{ratio}");
        }
        let alone = Clocks {
            stepped_ns: None,
            ..CLOCKS
        };
        assert_eq!((alone.weight(0.3), alone.period_ns()), (1.0, 100.0 * MS));
    }

    #[test]
    fn a_ratio_is_one_until_it_is_known_and_its_error_a_quarter() {
        let ratios = Ratios::new(1);
        assert_eq!((ratios.of(0), ratios.deviation(0)), (1.0, 0.0));
        let mut first = Ratios::new(1);
        first.begin_interval(0, SECOND_NS);
        first.add(0, Clock::Stepped, CLOCKS, 1.0);
        assert!((first.deviation(0) - UNKNOWN / NORMAL).abs() < 1e-9);
        // Ten a second by the free clock, and by the other as much as eight.
        let ratios = learnt(10, 200);
        assert!((ratios.of(0) - 0.8).abs() < 0.02, "{}", ratios.of(0));
        assert!(ratios.deviation(0) < 0.15);
    }

    #[test]
    fn work_that_the_stepped_clock_never_meets_or_starts_itself_is_left_to_the_free_one() {
        let never = learnt(1, 0);
        assert!(never.of(0) <= LEAST);
        assert_eq!(never.deviation(0), 0.0, "it rests on the free clock");
        let started = learnt(0, 25);
        assert!(started.of(0) > 15.0, "{}", started.of(0));
        assert!(CLOCKS.weight(started.of(0)) < 0.1);
    }

    #[test]
    fn what_a_part_of_a_known_whole_has_too_much_others_lack() {
        let mut ratios = Ratios::new(2);
        ratios.begin_interval(0, SECOND_NS);
        for row in [0, 1] {
            ratios.add(row, Clock::Stepped, CLOCKS, 1.0);
        }
        let parts = [(0, 300.0), (1, 700.0)];
        let [few, many] = ratios.of_parts(&parts, true)[..] else {
            panic!("two parts");
        };
        assert!((few - many).abs() < 1e-9, "{few} {many}");
        let alone = ratios.of_parts(&parts, false);
        assert!(alone[1] > many && alone[0] < few * 1.1);
        assert_eq!(ratios.of_parts(&[(0, 300.0)], true), [0.0], "it is all");
    }
}
