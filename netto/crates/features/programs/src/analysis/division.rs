//! Divides the time of each event and CPU between programs and everything else, in proportion to
//! its samples, as the feature cost divides it among its parts. To the nanosecond: no event has
//! less time than its programs.

use metrics_common::sections::MOST_PROGRAMS;
use netto_estimate::design_effect::Mass;
use netto_estimate::shares::{Design, HostPool, Pool, Whole};

/// The row of programs without a slot of their own.
pub(crate) const OTHERS: usize = MOST_PROGRAMS;
/// The row of work outside programs.
const REST: usize = MOST_PROGRAMS + 1;

/// An event on a CPU in the interval.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    pub(crate) cpu: usize,
    /// The event's place among all.
    pub(crate) place: usize,
    pub(crate) time_ns: u64,
    /// The time for which a sample of weight 1 stands.
    pub(crate) period_ns: u64,
    /// All samples, those in programs included.
    pub(crate) samples: Mass,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Division {
    /// By event.
    host: Vec<HostPool>,
    /// By CPU and event.
    cpus: Vec<Vec<Pool>>,
    /// By event.
    designs: Vec<Design>,
    now_ns: u64,
    // Scratch.
    samples: Vec<(usize, Mass)>,
}

impl Division {
    /// Begins an interval of this length, with all samples of each event, and the event, slot and weight of
    /// each one in a program.
    pub(crate) fn begin(
        &mut self,
        interval_ns: u64,
        samples: &[Mass],
        inside: impl Iterator<Item = (usize, usize, f64)>,
    ) {
        self.now_ns += interval_ns;
        self.host.resize(samples.len(), HostPool::default());
        self.host.iter_mut().for_each(|pool| pool.age(interval_ns));
        self.designs.resize(samples.len(), Design::default());
        self.designs.iter_mut().for_each(Design::clear);
        let mut rest = samples.to_vec();
        for (event, slot, weight) in inside {
            let sample = Mass::one(weight);
            self.host[event].add(slot, sample);
            rest[event] -= sample;
        }
        for (pool, rest) in self.host.iter_mut().zip(rest) {
            pool.add(REST, rest);
        }
    }

    /// Divides the time of an event among the slots of its samples in programs, and the rest.
    pub(crate) fn divide(
        &mut self,
        event: Event,
        inside: impl Iterator<Item = (usize, f64)>,
        mut hand_out: impl FnMut(usize, u64),
    ) {
        if event.time_ns == 0 && event.samples.sum() == 0.0 {
            return;
        }
        self.samples.clear();
        let mut rest = event.samples;
        for (slot, weight) in inside {
            let sample = Mass::one(weight);
            rest -= sample;
            match self.samples.iter_mut().find(|(known, _)| *known == slot) {
                Some((_, mass)) => *mass += sample,
                None => self.samples.push((slot, sample)),
            }
        }
        if rest.is_part_of(event.samples) {
            self.samples.push((REST, rest));
        }
        if self.cpus.len() <= event.cpu {
            let nothing = vec![Pool::default(); self.host.len()];
            self.cpus.resize(event.cpu + 1, nothing);
        }
        let whole = Whole {
            time_ns: event.time_ns,
            period_ns: event.period_ns,
            samples: &self.samples,
            rest: REST,
            now_ns: self.now_ns,
        };
        let (host, design) = (&self.host[event.place], &mut self.designs[event.place]);
        self.cpus[event.cpu][event.place].divide(whole, host, design, |slot, ns| {
            if slot != REST {
                hand_out(slot, ns);
            }
        });
    }

    /// The variance of a slot's time of an event, of which it has this much, square nanoseconds.
    pub(crate) fn variance(&self, place: usize, slot: usize, ns: u64) -> f64 {
        self.designs[place].variance(slot, ns as f64)
    }

    /// Forgets what had this slot.
    pub(crate) fn forget(&mut self, slot: usize) {
        let pools = self.cpus.iter_mut().flatten();
        pools.for_each(|pool| pool.forget(slot, REST));
        self.host.iter_mut().for_each(|pool| pool.forget(slot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_NS: u64 = 1_000_000;

    /// An interval of one event on one CPU with these samples in slots 0 and 1, of so many.
    fn divide(division: &mut Division, time_ns: u64, inside: [u32; 2], samples: u32) -> [u64; 2] {
        let slots = || (0..2).flat_map(|slot| (0..inside[slot]).map(move |_| slot));
        let samples = Mass::of(samples);
        let inside = slots().map(|slot| (0, slot, 1.0));
        division.begin(PERIOD_NS * 500, &[samples], inside);
        let event = Event {
            cpu: 0,
            place: 0,
            time_ns,
            period_ns: PERIOD_NS,
            samples,
        };
        let mut found = [0; 2];
        let slots = slots().map(|slot| (slot, 1.0));
        division.divide(event, slots, |slot, ns| found[slot] += ns);
        assert!(found.iter().sum::<u64>() <= time_ns);
        found
    }

    #[test]
    fn a_sample_that_stands_for_more_time_has_more_of_it() {
        let mut division = Division::default();
        let mut samples = Mass::default();
        samples.add_equal(15.0, 20.0);
        samples.add_equal(1.0, 100.0);
        let inside = || (0..20).map(|_| (0, 15.0));
        division.begin(
            PERIOD_NS * 500,
            &[samples],
            inside().map(|(slot, weight)| (0, slot, weight)),
        );
        let event = Event {
            cpu: 0,
            place: 0,
            time_ns: 400 * PERIOD_NS,
            period_ns: PERIOD_NS,
            samples,
        };
        let mut found = 0;
        division.divide(event, inside(), |_, ns| found += ns);
        assert_eq!(found, 300 * PERIOD_NS);
    }

    #[test]
    fn programs_have_the_share_of_their_samples() {
        let mut division = Division::default();
        let found = divide(&mut division, 80 * PERIOD_NS, [20, 40], 80);
        assert_eq!(found, [20 * PERIOD_NS, 40 * PERIOD_NS]);
        assert_eq!(divide(&mut division, 80 * PERIOD_NS, [0, 0], 80), [0, 0]);
        assert_eq!(divide(&mut division, 0, [0, 0], 0), [0, 0]);
    }

    #[test]
    fn rare_samples_are_right_in_the_sum() {
        let mut division = Division::default();
        let mut sum = [0; 2];
        // A millisecond and a half in each interval, of which a third is the first one's: two
        // samples in three intervals... one of which is in it every second time.
        for interval in 0..3_000_u32 {
            let samples = 1 + interval % 2;
            let inside = u32::from(interval % 2 == 0);
            let found = divide(&mut division, 3 * PERIOD_NS / 2, [inside, 0], samples);
            sum[0] += found[0];
            sum[1] += found[1];
        }
        let share = sum[0] as f64 / (3_000.0 * 1.5 * PERIOD_NS as f64);
        assert!((share - 1.0 / 3.0).abs() < 0.01, "{share}");
        assert_eq!(sum[1], 0);
    }

    #[test]
    fn a_slot_that_is_given_back_begins_with_nothing() {
        let mut division = Division::default();
        divide(&mut division, 80 * PERIOD_NS, [80, 0], 80);
        division.forget(0);
        let found = divide(&mut division, 2 * PERIOD_NS, [0, 0], 2);
        assert_eq!(found, [0, 0]);
    }
}
