//! Events of a whole interval, of probes that are attached for a part of it, and how sure that is.
//! Pure.
//!
//! A window stands for the time until the next. How much windows differ is seen from neighbours, so that a
//! load that changes slowly does not count as uncertainty: half the mean square of their differences is
//! the variance of what one window finds (J. von Neumann and others, *The mean square successive
//! difference*, Annals of Mathematical Statistics 12, 1941), whatever the events' own pattern is. One
//! pair alone says next to nothing, so the newest are averaged; and two equal windows are so by chance, so
//! one pair among them is of events that come independently of each other. A window with more events than
//! others has more variance, by as much as a count's follows the count.

use crate::figure::Figure;

/// The time attached below which nothing is concluded, nanoseconds: it is added to the next.
pub const LEAST_NS: u64 = 1_000_000;
/// The weight of a pair of windows relative to the next pair.
const FADING: f64 = 0.93;
/// The degrees of freedom of a pair: neighbouring pairs share a window (von Neumann and others, 1941).
const OF_PAIR: f64 = 2.0 / 3.0;

/// What an interval's counts are.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    /// For how long the probes were attached, nanoseconds.
    pub counted_ns: u64,
    /// The events of the whole interval; those of successive intervals may be added. `None` before the
    /// first window.
    pub events: Option<Figure>,
    /// Degrees of freedom of the variance that the interval added.
    pub freedom: f64,
    /// Those that it had before.
    pub freedom_before: f64,
    /// The time for which an event stands, by the time in which it was counted.
    pub weight: f64,
}

/// Follows the counts of probes from one interval to the next.
#[derive(Debug, Clone, Default)]
pub struct WindowedCounts {
    /// Events for each nanosecond, by column, of the newest window.
    rates: Vec<f64>,
    /// Decayed sums over pairs of windows: of half the squares of their differences, and of their weights.
    squares: f64,
    pairs: f64,
    /// Of the squares of these weights.
    pair_squares: f64,
    /// Those of windows' rates and weights.
    rate_sum: f64,
    windows: f64,
    /// Its length, nanoseconds.
    window_ns: f64,
    /// The time for which the window has stood already.
    held_ns: f64,
    /// Events and time that are too few.
    waiting: (Vec<u64>, u64),
}

impl WindowedCounts {
    /// Ends an interval for all of which the probes were attached.
    pub fn whole(&mut self, events: &[u64], interval_ns: u64) {
        self.waiting = (Vec::new(), 0);
        self.set(events, interval_ns);
    }

    /// Ends an interval in which the probes were attached for `counted_ns`.
    pub fn part(&mut self, events: &[u64], counted_ns: u64, interval_ns: u64) -> Estimate {
        let (mut counts, mut time_ns) = std::mem::take(&mut self.waiting);
        counts.resize(events.len(), 0);
        for (sum, more) in counts.iter_mut().zip(events) {
            *sum += more;
        }
        time_ns += counted_ns;
        let freedom_before = self.pairs * self.pairs / self.pair_squares.max(1.0) * OF_PAIR;
        let freedom = if time_ns < LEAST_NS {
            self.waiting = (counts, time_ns);
            0.0
        } else {
            self.learn(&counts, time_ns)
        };
        let interval_ns = interval_ns as f64;
        let held_ns = interval_ns * (2.0 * self.held_ns + interval_ns);
        self.held_ns += interval_ns;
        let figure = || Figure {
            value: self.rate() * interval_ns,
            // Intervals of one window have one error.
            variance: held_ns * self.variance(),
            ..Figure::default()
        };
        Estimate {
            counted_ns,
            events: (!self.rates.is_empty()).then(figure),
            freedom,
            freedom_before,
            weight: (self.held_ns / self.window_ns.max(1.0)).max(1.0),
        }
    }

    /// Events of an interval in this column, if the probes had always been attached.
    pub fn of(&self, column: usize, interval_ns: u64) -> u64 {
        let rate = self.rates.get(column).copied();
        (rate.unwrap_or(0.0) * interval_ns as f64).round() as u64
    }

    fn rate(&self) -> f64 {
        self.rates.iter().sum()
    }

    /// The variance of a window's rate.
    fn variance(&self) -> f64 {
        let rate = self.rate();
        // Of independent events, the variance of a count is the count.
        let of_count = |rate: f64| rate / self.window_ns.max(1.0);
        if self.pairs > 0.0 {
            let mean = self.rate_sum / self.windows;
            let known = (self.squares + of_count(mean)) / (self.pairs + 1.0);
            (known + of_count(rate - mean)).max(0.0)
        } else {
            // Of a first window only that it may be anything.
            (rate * rate).max(of_count(rate))
        }
    }

    /// Adds a window; returns the degrees of freedom that it adds.
    fn learn(&mut self, events: &[u64], time_ns: u64) -> f64 {
        let before = (!self.rates.is_empty()).then(|| self.rate());
        self.set(events, time_ns);
        self.rate_sum = self.rate_sum * FADING + self.rate();
        self.windows = self.windows * FADING + 1.0;
        let Some(before) = before else { return 0.0 };
        let difference = self.rate() - before;
        self.squares = self.squares * FADING + difference * difference / 2.0;
        self.pairs = self.pairs * FADING + 1.0;
        self.pair_squares = self.pair_squares * FADING * FADING + 1.0;
        OF_PAIR
    }

    fn set(&mut self, events: &[u64], time_ns: u64) {
        let rates = events.iter().map(|&count| count as f64 / time_ns as f64);
        self.rates = rates.collect();
        (self.window_ns, self.held_ns) = (time_ns as f64, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_window_stands_for_the_time_until_the_next() {
        let mut counts = WindowedCounts::default();
        counts.whole(&[500, 0], 500 * MS);
        let mut next = |events: [u64; 2], counted_ns| {
            let found = counts.part(&events, counted_ns, 500 * MS);
            (found.counted_ns, found.events.unwrap())
        };
        let (counted_ns, first) = next([20, 0], 10 * MS);
        assert_eq!((counted_ns, first.value.round()), (10 * MS, 1_000.0));
        let (counted_ns, held) = next([0, 0], 0);
        assert_eq!((counted_ns, held.value.round()), (0, 1_000.0));
        // Both are of one window: their errors are one.
        assert!((held.variance / first.variance - 3.0).abs() < 1e-9);
        let (_, third) = next([0, 5], 10 * MS);
        assert_eq!(third.value.round(), 250.0);
        assert_eq!([0, 1].map(|column| counts.of(column, 1_000 * MS)), [0, 500]);
    }

    #[test]
    fn less_than_a_millisecond_waits_for_more() {
        let mut counts = WindowedCounts::default();
        counts.whole(&[500], 500 * MS);
        let mut next = |events| counts.part(&[events], MS / 2, 500 * MS).events.unwrap();
        assert_eq!(next(3).value.round(), 500.0);
        assert_eq!(next(3).value.round(), 3_000.0);
    }

    #[test]
    fn before_the_first_window_nothing_is_known_and_equal_windows_are_not_certain() {
        let mut counts = WindowedCounts::default();
        assert_eq!(counts.part(&[0], 0, 500 * MS).events, None);
        let mut next = |events| counts.part(&[events], 10 * MS, 500 * MS);
        let bounds = |found: Estimate| found.events.unwrap().of_clusters(50.0);
        for _ in 0..2 {
            let (low, high) = bounds(next(0));
            assert_eq!(low, 0.0);
            // The rule of three: fifty times four or so.
            assert!((150.0..300.0).contains(&high), "{high}");
        }
        next(4);
        let (low, high) = bounds(next(4));
        assert!(low < 150.0 && high > 300.0, "{low} … {high}");
    }
}
