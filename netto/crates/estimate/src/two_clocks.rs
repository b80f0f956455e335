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

/// The error of a part's ratio that is not known yet (95 %), relative to its whole's: by the tick, parts of softirqs
/// were up to a fifth off, beside the errors of their counts.
const UNKNOWN: f64 = 0.25;
/// The same of a whole: a task that competes for its CPU runs mostly after a tick, where none meets it, or until one.
/// Beside compilers, the tick met receives 0.55 to 0.73 times as often as perf's clock did, and sends up to 1.3 times.
const UNKNOWN_WHOLE: f64 = 0.5;
/// So many standard deviations from what is expected, a ratio is believed before it is known better than that.
const FAR: f64 = 3.0;
/// Observations of one clock from which it tells something alone.
const TELLING: f64 = 16.0;
/// The error of a ratio that only one of them has shown.
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
        if self.free() > 0.0 {
            (self.free() + self.stepped()) / (self.free() + self.stepped() * ratio)
        } else {
            // Nothing tells what the other one misses.
            1.0
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

/// What is known of how often the stepped clock meets something, relative to the free one.
#[derive(Debug, Clone)]
struct HitRatio {
    bias: Bias,
    /// Its error (95 %) until it is known.
    unknown: f64,
    /// The whole of which it is a part.
    whole: usize,
    /// As it was computed last.
    known: Option<Correction>,
    /// Weights of the stepped clock's recent observations, and of all.
    stepped: f64,
    all: f64,
}

impl HitRatio {
    fn new(unknown: f64) -> HitRatio {
        HitRatio {
            bias: Bias::of_ratio(),
            unknown,
            whole: 0,
            known: None,
            stepped: 0.0,
            all: 0.0,
        }
    }

    /// The relative standard deviation by the error of the ratio, as far as what was found rests on the stepped
    /// clock.
    fn deviation(&self) -> f64 {
        let error = self.known.map_or(self.unknown, |known| known.error_ratio);
        self.stepped / self.all.max(f64::MIN_POSITIVE) * error / NORMAL
    }

    fn begin_interval(&mut self, now_ns: u64, left: f64) {
        self.stepped *= left;
        self.all *= left;
        self.bias.begin_interval(now_ns);
    }

    fn add(&mut self, now_ns: u64, clock: Clock, clocks: Clocks, weight: f64) {
        if self.all == 0.0 {
            self.bias.begin_interval(now_ns);
        }
        self.all += weight;
        match (clock, clocks.stepped_ns) {
            (Clock::FreeAlone, _) | (_, None) => {}
            (Clock::Free, Some(_)) => self.bias.add(0.0, 1.0, clocks.free_ns),
            (Clock::Stepped, Some(stepped_ns)) => {
                self.stepped += weight;
                self.bias.add(stepped_ns, 0.0, clocks.free_ns);
            }
        }
    }

    /// Learns, once it is known better than by what is expected of it, or shows that it is far from that.
    fn learn(&mut self, expected: f64) {
        let (due, made) = self.bias.observations();
        let unknown = self.unknown / NORMAL;
        let is_far = || {
            let deviation = (1.0 / made.max(1.0) + unknown * unknown).sqrt();
            (due / made.max(0.5) / expected).ln().abs() > FAR * deviation
        };
        // What the stepped clock starts, or never meets, is met by one of both alone.
        let is_of_one = due.max(made) >= TELLING && (due <= 0.0 || made < TELLING && is_far());
        self.known = if is_of_one {
            Some(Correction {
                ratio: (due / made.max(1.0)).max(LEAST),
                error_ratio: POOR,
            })
        } else {
            let known = self.bias.correction();
            known.filter(|_| 1.0 / made < unknown * unknown || is_far())
        };
    }
}

/// A kind of work, and that of which it is a part: a load in step is met more or less often as a whole, whatever
/// its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// The whole's number.
    pub whole: usize,
    /// The part's number; that of a part has one whole only.
    pub part: usize,
}

/// How often the stepped clock meets each kind of work, relative to the free one: as often as its whole, of which
/// that is soon known, until a part is known to differ.
#[derive(Debug, Clone)]
pub struct Ratios {
    wholes: Vec<HitRatio>,
    parts: Vec<HitRatio>,
    now_ns: u64,
    anew_ns: u64,
}

impl Ratios {
    /// Nothing is known of so many wholes and parts.
    pub fn new(wholes: usize, parts: usize) -> Ratios {
        Ratios {
            wholes: vec![HitRatio::new(UNKNOWN_WHOLE); wholes],
            parts: vec![HitRatio::new(UNKNOWN); parts],
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
        let Ratios { wholes, parts, .. } = self;
        for whole in wholes.iter_mut().filter(|whole| whole.all > 0.0) {
            whole.begin_interval(now_ns, left);
            if is_due {
                whole.learn(1.0);
            }
        }
        for part in parts.iter_mut().filter(|part| part.all > 0.0) {
            part.begin_interval(now_ns, left);
            if is_due {
                let of_whole = wholes[part.whole].known;
                part.learn(of_whole.map_or(1.0, |known| known.ratio));
            }
        }
    }

    /// The ratio of a kind of work; 1 while it is not known.
    pub fn of(&self, work: Work) -> f64 {
        let part = self.parts.get(work.part).and_then(|part| part.known);
        let whole = || self.wholes.get(work.whole)?.known;
        part.or_else(whole).map_or(1.0, |known| known.ratio)
    }

    /// Adds an observation of this weight; where only one clock runs, it tells nothing.
    pub fn add(&mut self, work: Work, clock: Clock, clocks: Clocks, weight: f64) {
        let (Some(whole), Some(part)) = (
            self.wholes.get_mut(work.whole),
            self.parts.get_mut(work.part),
        ) else {
            return;
        };
        part.whole = work.whole;
        for hits in [whole, part] {
            hits.add(self.now_ns, clock, clocks, weight);
        }
    }

    /// The standard deviations of the times of a whole's parts, by number, that the errors of ratios make, and of
    /// the whole. Where the whole is known, what one part has too much, others lack.
    pub fn deviations(
        &self,
        whole: usize,
        parts: &[(usize, f64)],
        is_known: bool,
    ) -> (Vec<f64>, f64) {
        let time: f64 = parts.iter().map(|(_, time)| time).sum();
        let square = |&(part, time): &(usize, f64)| {
            let deviation = self.parts.get(part).map_or(0.0, HitRatio::deviation);
            (deviation * time).powi(2)
        };
        let all: f64 = parts.iter().map(square).sum();
        let of_whole = self.wholes.get(whole).map_or(0.0, HitRatio::deviation);
        let is_like_whole = |part: usize| {
            let part = self.parts.get(part);
            part.is_some_and(|part| part.known.is_none())
        };
        let of_part = |part: &(usize, f64)| {
            let share = part.1 / time.max(f64::MIN_POSITIVE);
            let others = (all - square(part)).max(0.0);
            if is_known {
                (square(part) * (1.0 - share).powi(2) + others * share.powi(2)).sqrt()
            } else if is_like_whole(part.0) {
                square(part).sqrt().hypot(of_whole * part.1)
            } else {
                square(part).sqrt()
            }
        };
        let of_time = if is_known { 0.0 } else { of_whole * time };
        (parts.iter().map(of_part).collect(), of_time)
    }
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

    const WORK: Work = Work { whole: 0, part: 0 };

    /// The standard deviation of all of the work, relative to its time.
    fn deviation(ratios: &Ratios) -> f64 {
        ratios.deviations(0, &[(0, 1.0)], false).1
    }

    /// A minute of one kind of work, of which each clock makes so many observations a second.
    fn learnt(free: u32, stepped: u32) -> Ratios {
        let mut ratios = Ratios::new(1, 1);
        for second in 0..=60 {
            ratios.begin_interval(second * SECOND_NS, SECOND_NS);
            let weight = CLOCKS.weight(ratios.of(WORK));
            for (clock, number) in [(Clock::Free, free), (Clock::Stepped, stepped)] {
                for _ in 0..number {
                    ratios.add(WORK, clock, CLOCKS, weight);
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
    fn a_ratio_is_one_until_it_is_known_and_its_error_a_half_or_a_quarter_of_a_part() {
        let ratios = Ratios::new(1, 1);
        assert_eq!((ratios.of(WORK), deviation(&ratios)), (1.0, 0.0));
        let mut first = Ratios::new(1, 1);
        first.begin_interval(0, SECOND_NS);
        first.add(WORK, Clock::Stepped, CLOCKS, 1.0);
        assert!((deviation(&first) - UNKNOWN_WHOLE / NORMAL).abs() < 1e-9);
        assert!((first.parts[0].deviation() - UNKNOWN / NORMAL).abs() < 1e-9);
        // Ten a second by the free clock, and by the other as much as eight.
        let ratios = learnt(10, 200);
        assert!((ratios.of(WORK) - 0.8).abs() < 0.02, "{}", ratios.of(WORK));
        assert!(deviation(&ratios) < deviation(&first));
    }

    #[test]
    fn work_that_the_stepped_clock_never_meets_or_starts_itself_is_left_to_the_free_one() {
        let never = learnt(1, 0);
        assert!(never.of(WORK) <= LEAST);
        assert_eq!(deviation(&never), 0.0, "it rests on the free clock");
        let started = learnt(0, 25);
        assert!(started.of(WORK) > 15.0, "{}", started.of(WORK));
        assert!(CLOCKS.weight(started.of(WORK)) < 0.1);
    }

    #[test]
    fn what_a_part_of_a_known_whole_has_too_much_others_lack() {
        let mut ratios = Ratios::new(1, 2);
        ratios.begin_interval(0, SECOND_NS);
        for part in [0, 1] {
            ratios.add(Work { whole: 0, part }, Clock::Stepped, CLOCKS, 1.0);
        }
        let parts = [(0, 300.0), (1, 700.0)];
        let (known, whole) = ratios.deviations(0, &parts, true);
        let [few, many] = known[..] else {
            panic!("two parts");
        };
        assert!((few - many).abs() < 1e-9, "{few} {many}");
        assert_eq!(whole, 0.0);
        let (alone, whole) = ratios.deviations(0, &parts, false);
        assert!(alone[1] > many && alone[0] > few && whole > alone[1]);
        let all = ratios.deviations(0, &[(0, 300.0)], true);
        assert_eq!(all, (vec![0.0], 0.0));
    }
}
