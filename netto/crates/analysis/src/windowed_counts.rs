//! Events of a whole interval, of probes that are attached for a part of it, and how sure that is.
//! Pure.
//!
//! A window stands for the time until the next. How much windows differ is seen from each and the one
//! before it: half the mean square of their difference is the variance of what one window finds,
//! whatever the events' own pattern is.

/// The time attached below which nothing is concluded, nanoseconds: it is added to the next.
pub const LEAST_NS: u64 = 1_000_000;

/// What an interval's counts are.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    /// For how long the probes were attached, nanoseconds.
    pub counted_ns: u64,
    /// The events of the whole interval.
    pub events: f64,
    /// The variance of that; variances of successive intervals may be added.
    pub variance: f64,
}

/// Follows the counts of probes from one interval to the next.
#[derive(Debug, Clone, Default)]
pub struct WindowedCounts {
    /// Events for each nanosecond, by column, of the newest window.
    rates: Vec<f64>,
    /// Variance of their sum.
    variance: f64,
    /// The time for which the window has stood already.
    held_ns: f64,
    /// Events and time that are too few.
    waiting: (Vec<u64>, u64),
}

impl WindowedCounts {
    /// Ends an interval for all of which the probes were attached.
    pub fn whole(&mut self, events: &[u64], interval_ns: u64) {
        self.waiting = (Vec::new(), 0);
        self.learn(events, interval_ns);
        self.variance = 0.0;
    }

    /// Ends an interval in which the probes were attached for `counted_ns`.
    pub fn part(&mut self, events: &[u64], counted_ns: u64, interval_ns: u64) -> Estimate {
        let (mut counts, mut time_ns) = std::mem::take(&mut self.waiting);
        counts.resize(events.len(), 0);
        for (sum, more) in counts.iter_mut().zip(events) {
            *sum += more;
        }
        time_ns += counted_ns;
        match time_ns < LEAST_NS {
            true => self.waiting = (counts, time_ns),
            false => self.learn(&counts, time_ns),
        }
        let interval_ns = interval_ns as f64;
        let variance = interval_ns * (2.0 * self.held_ns + interval_ns) * self.variance;
        self.held_ns += interval_ns;
        Estimate {
            counted_ns,
            events: self.rate() * interval_ns,
            variance,
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

    fn learn(&mut self, events: &[u64], time_ns: u64) {
        let before = (!self.rates.is_empty()).then(|| self.rate());
        let rates = events.iter().map(|&count| count as f64 / time_ns as f64);
        self.rates = rates.collect();
        let rate = self.rate();
        // Of a first window only that it may be anything.
        self.variance = before.map_or(rate * rate, |before| (rate - before).powi(2) / 2.0);
        self.held_ns = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::random::SplitMix64;

    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_window_stands_for_the_time_until_the_next() {
        let mut counts = WindowedCounts::default();
        counts.whole(&[500, 0], 500 * MS);
        let first = counts.part(&[20, 0], 10 * MS, 500 * MS);
        assert_eq!((first.counted_ns, first.events.round()), (10 * MS, 1_000.0));
        let held = counts.part(&[0, 0], 0, 500 * MS);
        assert_eq!((held.counted_ns, held.events.round()), (0, 1_000.0));
        // Both are of one window: their errors are one.
        let sum = first.variance + held.variance;
        assert!((sum - (1_000.0_f64).powi(2) / 2.0).abs() < 1e-3, "{sum}");
        let next = counts.part(&[0, 5], 10 * MS, 500 * MS);
        assert_eq!(next.events.round(), 250.0);
        assert_eq!([0, 1].map(|column| counts.of(column, 1_000 * MS)), [0, 500]);
    }

    #[test]
    fn less_than_a_millisecond_waits_for_more() {
        let mut counts = WindowedCounts::default();
        counts.whole(&[500], 500 * MS);
        assert_eq!(counts.part(&[3], MS / 2, 500 * MS).events.round(), 500.0);
        assert_eq!(counts.part(&[3], MS / 2, 500 * MS).events.round(), 3_000.0);
    }

    /// Events in each millisecond of a load that comes in bursts of 5 to 400 ms.
    fn bursts(random: &mut SplitMix64, length: usize) -> Vec<u64> {
        let mut events = Vec::new();
        while events.len() < length {
            let lasts = 5.0 + random.ratio() * 395.0;
            let rate = (random.ratio() * 3.0).floor() * 40.0;
            events.extend((0..lasts as usize).map(|_| (rate * random.ratio() * 2.0) as u64));
        }
        events.truncate(length);
        events
    }

    #[test]
    fn estimates_are_right_on_average_and_their_intervals_cover_the_truth() {
        const WINDOW: usize = 15;
        let (mut covered, mut error) = (0, 0.0);
        let runs = 200;
        for seed in 1..=runs {
            let mut random = SplitMix64(seed);
            let seconds = 60;
            let load = bursts(&mut random, seconds * 1_000);
            let mut counts = WindowedCounts::default();
            counts.whole(&[load[..500].iter().sum()], 500 * MS);
            let (mut events, mut variance) = (0.0, 0.0);
            for second in load.chunks(1_000) {
                // A window in one of the two intervals of a second stands for both.
                let from = (random.ratio() * (450 - WINDOW) as f64) as usize;
                let met = second[from..from + WINDOW].iter().sum::<u64>();
                for (met, ns) in [(met, WINDOW as u64 * MS), (0, 0)] {
                    let estimate = counts.part(&[met], ns, 500 * MS);
                    events += estimate.events;
                    variance += estimate.variance;
                }
            }
            let truth = load.iter().sum::<u64>() as f64;
            error += events / truth - 1.0;
            covered += u64::from((events - truth).abs() <= 1.96 * variance.sqrt());
        }
        let error = error / runs as f64;
        assert!(error.abs() < 0.02, "{error}");
        assert!((180..=200).contains(&covered), "{covered} of {runs}");
    }
}
