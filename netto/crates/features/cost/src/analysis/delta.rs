//! Computes the time in one interval from the running totals of the per-CPU clock.
//!
//! The totals grow for ever; the result is their growth, with two guarantees: no kind shrinks, and
//! no CPU gets more time than the interval had. Excess time (from a reading taken a moment late) is
//! not lost but added to the next interval.

use metrics_common::component::CLOCK_KINDS;

/// Totals of one CPU's clock, nanoseconds by clock kind, including the current kind's time so far.
pub type Totals = [u64; CLOCK_KINDS];

/// Turns readings into intervals.
#[derive(Debug, Clone, Default)]
pub struct Deltas {
    /// Totals reported so far, by possible CPU.
    reported: Vec<Option<Totals>>,
}

impl Deltas {
    /// Growth of a CPU's totals since the previous call for that CPU.
    ///
    /// The first reading of a CPU is the starting point. Kind 0, "none of these", is neither
    /// limited nor reported: it is the rest.
    pub fn growth(&mut self, cpu: usize, reading: &Totals, interval_ns: u64) -> Totals {
        if self.reported.len() <= cpu {
            self.reported.resize(cpu + 1, None);
        }
        let Some(reported) = &mut self.reported[cpu] else {
            self.reported[cpu] = Some(*reading);
            return [0; CLOCK_KINDS];
        };
        let mut left_ns = interval_ns;
        let mut grown = [0; CLOCK_KINDS];
        for kind in 1..CLOCK_KINDS {
            let growth = reading[kind].saturating_sub(reported[kind]).min(left_ns);
            left_ns -= growth;
            grown[kind] = growth;
            reported[kind] += growth;
        }
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn totals(kind: usize, ns: u64) -> Totals {
        let mut totals = [0; CLOCK_KINDS];
        totals[kind] = ns;
        totals
    }

    #[test]
    fn the_first_reading_of_a_cpu_is_where_counting_starts() {
        let mut deltas = Deltas::default();
        assert_eq!(deltas.growth(3, &totals(4, 900), 1000), totals(4, 0));
        assert_eq!(deltas.growth(3, &totals(4, 950), 1000), totals(4, 50));
    }

    #[test]
    fn a_total_that_shrinks_counts_nothing_until_it_has_caught_up() {
        let mut deltas = Deltas::default();
        deltas.growth(0, &totals(4, 100), 1000);
        assert_eq!(deltas.growth(0, &totals(4, 90), 1000), totals(4, 0));
        assert_eq!(deltas.growth(0, &totals(4, 130), 1000), totals(4, 30));
    }

    #[test]
    fn time_beyond_the_interval_is_handed_on_with_the_next() {
        let mut deltas = Deltas::default();
        deltas.growth(0, &totals(4, 0), 1000);
        assert_eq!(deltas.growth(0, &totals(4, 1005), 1000), totals(4, 1000));
        assert_eq!(deltas.growth(0, &totals(4, 1100), 1000), totals(4, 100));
    }

    proptest! {
        #[test]
        fn no_interval_holds_more_than_its_length_and_nothing_is_lost(
            steps in proptest::collection::vec((0_usize..CLOCK_KINDS, 0_u64..2_000), 1..60),
            interval_ns in 1_u64..1_500,
        ) {
            let mut deltas = Deltas::default();
            let mut reading = [0; CLOCK_KINDS];
            let mut seen = [0; CLOCK_KINDS];
            deltas.growth(0, &reading, interval_ns);
            let idle = std::iter::repeat_n((0, 0), 60 * 2_000 / interval_ns as usize + 1);
            for (kind, ns) in steps.into_iter().chain(idle) {
                reading[kind] += ns;
                let grown = deltas.growth(0, &reading, interval_ns);
                prop_assert!(grown.iter().sum::<u64>() <= interval_ns);
                seen.iter_mut().zip(grown).for_each(|(sum, g)| *sum += g);
            }
            prop_assert_eq!(&seen[1..], &reading[1..]);
        }
    }
}
