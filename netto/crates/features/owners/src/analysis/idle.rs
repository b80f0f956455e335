//! The part of each CPU's RX softirqs that ran on top of its idle task, by the clock that times
//! softirqs: nobody else paid for it. Where softirqs are sampled, the part that was last timed.

/// Half-life of times, nanoseconds.
const HALF_LIFE_NS: f64 = 2e9;
/// Least time from which a part is known, nanoseconds.
const LEAST_NS: f64 = 10_000.0;

/// Of one CPU: the clock's readings, and decayed times.
#[derive(Debug, Clone, Copy, Default)]
struct Timed {
    last: Option<(u64, u64)>,
    idle_ns: f64,
    rx_ns: f64,
}

/// See the head of this file.
#[derive(Debug, Clone, Default)]
pub struct IdleShares {
    cpus: Vec<Timed>,
    left: f64,
}

impl IdleShares {
    /// Starts an interval of this length.
    pub fn begin(&mut self, interval_ns: u64) {
        self.left = 0.5_f64.powf(interval_ns as f64 / HALF_LIFE_NS);
    }

    /// Adds a CPU's RX softirq time on top of its idle task, and all, nanoseconds since the start.
    pub fn add(&mut self, cpu: usize, idle_ns: u64, rx_ns: u64) {
        if self.cpus.len() <= cpu {
            self.cpus.resize(cpu + 1, Timed::default());
        }
        let own = &mut self.cpus[cpu];
        let (last_idle, last_rx) = own.last.replace((idle_ns, rx_ns)).unwrap_or_default();
        let new_rx = rx_ns.saturating_sub(last_rx) as f64;
        // Time that is not timed tells nothing, and lets nothing be forgotten.
        if new_rx > 0.0 {
            own.idle_ns = own.idle_ns * self.left + idle_ns.saturating_sub(last_idle) as f64;
            own.rx_ns = own.rx_ns * self.left + new_rx;
        }
    }

    /// The part of a CPU's time that was on top of its idle task, 0 to 1; `None` if too little was
    /// timed.
    pub fn ratio(&self, cpu: usize) -> Option<f64> {
        let own = self.cpus.get(cpu).filter(|own| own.rx_ns >= LEAST_NS)?;
        Some((own.idle_ns / own.rx_ns).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_on_top_of_the_idle_task_is_that_of_what_was_timed_last() {
        let mut shares = IdleShares::default();
        shares.begin(500_000_000);
        assert_eq!(shares.ratio(1), None);
        shares.add(1, 30_000, 120_000);
        assert_eq!((shares.ratio(0), shares.ratio(1)), (None, Some(0.25)));
        for _ in 0..1_000 {
            shares.begin(500_000_000);
            shares.add(1, 30_000, 120_000);
        }
        assert_eq!(shares.ratio(1), Some(0.25), "softirqs are sampled");
        for interval in 1..=40_u64 {
            shares.begin(500_000_000);
            shares.add(1, 30_000, 120_000 + interval * 100_000);
        }
        assert!(shares.ratio(1).is_some_and(|ratio| ratio < 0.001));
    }
}
