//! For how much of an interval probes counted, and counts that stand for all of it.

use metrics_common::sections::{Estimable, Estimated, Variance};
use netto_estimate::windowed_counts::{Estimate, LEAST_NS};

/// For how much of an interval a group's probes counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Counting {
    /// All of it.
    Whole,
    /// A part: counts are estimated.
    Part(Estimated),
}

impl Counting {
    pub(super) fn part(estimate: Estimate, interval_ns: u64) -> Self {
        let hundredths = |freedom: f64| (100.0 * freedom).round() as u64;
        let events = estimate.events.unwrap_or_default();
        Counting::Part(Estimated {
            ns: interval_ns,
            counted_ns: estimate.counted_ns,
            events: events.value.round() as u64,
            variance: estimate.events.map(|events| Variance {
                events2: events.variance.ceil() as u64,
                freedom: [estimate.freedom_before, estimate.freedom].map(hundredths),
                weight: (1e3 * estimate.weight).round() as u64,
            }),
        })
    }
}

/// The counts of the newest window, which stand for the time until the next.
#[derive(Debug, Default)]
pub struct Held<S> {
    newest: Option<(S, u64)>,
    /// Of a time too short, to be added to the next.
    waiting: Option<(S, u64)>,
}

impl<S: Estimable> Held<S> {
    /// The counts of the interval in which `counted` was, on these CPUs.
    pub fn next(&mut self, counted: S, counting: Counting, cpus: &[u32]) -> S {
        let Counting::Part(estimated) = counting else {
            *self = Held {
                newest: None,
                waiting: None,
            };
            return counted;
        };
        let (mut counts, mut time_ns) = self.waiting.take().unwrap_or_default();
        counts.join(&counted, cpus);
        time_ns += estimated.counted_ns;
        if time_ns < LEAST_NS {
            self.waiting = Some((counts, time_ns))
        } else {
            self.newest = Some((counts, time_ns))
        }
        let (mut whole, factor, estimated) = match &self.newest {
            Some((counts, time_ns)) => (
                counts.clone(),
                estimated.ns as f64 / *time_ns as f64,
                estimated,
            ),
            // Nothing is known yet, which the estimate says.
            None => {
                let (events, variance) = (0, None);
                (
                    counted,
                    0.0,
                    Estimated {
                        events,
                        variance,
                        ..estimated
                    },
                )
            }
        };
        whole.stretch(factor);
        whole.set_estimated(estimated);
        whole
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::Drops;

    use super::*;

    const MS: u64 = 1_000_000;

    fn part(counted_ns: u64) -> Counting {
        Counting::Part(Estimated {
            ns: 500 * MS,
            counted_ns,
            events: 5,
            ..Estimated::default()
        })
    }

    fn drops(packets: u64) -> Drops {
        Drops {
            other_packets: packets,
            cpus: vec![0, packets],
            ..Drops::default()
        }
    }

    #[test]
    fn a_window_stands_for_the_time_until_the_next_and_no_packet_is_left_out() {
        let mut held = Held::default();
        let mut next = |packets, counting| held.next(drops(packets), counting, &[0, 1]);
        assert_eq!(next(7, Counting::Whole), drops(7));
        let shown = [
            next(10, part(10 * MS)),
            next(0, part(0)),
            next(2, part(0)),
            next(8, part(20 * MS)),
        ];
        let packets = shown
            .each_ref()
            .map(|drops| (drops.total(), drops.other_packets));
        assert_eq!(packets, [(500, 500), (500, 500), (500, 500), (250, 250)]);
        let events = |drops: &Drops| drops.estimated.map(|estimated| estimated.events);
        assert!(shown.iter().all(|drops| events(drops) == Some(5)));
        assert_eq!(next(9, Counting::Whole), drops(9));
        let none = next(9, part(0));
        assert_eq!(
            (none.total(), events(&none)),
            (0, Some(0)),
            "nothing is known yet"
        );
    }
}
