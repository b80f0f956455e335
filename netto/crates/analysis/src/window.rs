//! The cost on each CPU over the last ten seconds. Pure.

/// The time over which cost is averaged, nanoseconds.
pub const WINDOW_NS: u64 = 10_000_000_000;
/// The step by which the window moves.
const STEP_NS: u64 = WINDOW_NS / STEPS as u64;
const STEPS: usize = 20;

/// Cost by CPU over the last ten seconds, or since the start if that is shorter.
#[derive(Debug, Clone, Default)]
pub struct Window {
    /// By CPU, the cost of each step, nanoseconds.
    paid_ns: Vec<[u64; STEPS]>,
    /// Length of each step, nanoseconds.
    length_ns: [u64; STEPS],
    step: usize,
}

impl Window {
    /// Adds an interval of this length with the cost of each CPU, by its number.
    pub fn add(&mut self, interval_ns: u64, paid_ns: impl Iterator<Item = (usize, u64)>) {
        if self.length_ns[self.step] >= STEP_NS {
            self.step = (self.step + 1) % STEPS;
            self.length_ns[self.step] = 0;
            for steps in &mut self.paid_ns {
                steps[self.step] = 0;
            }
        }
        // An interval longer than a step is one long step; older ones are then dropped at once.
        self.length_ns[self.step] += interval_ns;
        for (cpu, ns) in paid_ns {
            if self.paid_ns.len() <= cpu {
                self.paid_ns.resize(cpu + 1, [0; STEPS]);
            }
            self.paid_ns[cpu][self.step] += ns;
        }
        let mut kept_ns = 0;
        for back in 0..STEPS {
            let step = (self.step + STEPS - back) % STEPS;
            if kept_ns >= WINDOW_NS {
                self.length_ns[step] = 0;
                self.paid_ns.iter_mut().for_each(|steps| steps[step] = 0);
            }
            kept_ns += self.length_ns[step];
        }
    }

    /// The cost on a CPU as a share of its time; `None` before the first interval.
    pub fn ratio(&self, cpu: usize) -> Option<f64> {
        let length_ns: u64 = self.length_ns.iter().sum();
        let paid_ns: u64 = self.paid_ns.get(cpu)?.iter().sum();
        (length_ns > 0).then(|| paid_ns as f64 / length_ns as f64)
    }

    /// The CPU with the highest cost, and its share.
    pub fn costliest(&self) -> Option<(usize, f64)> {
        (0..self.paid_ns.len())
            .filter_map(|cpu| Some((cpu, self.ratio(cpu)?)))
            .max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn what_was_paid_is_forgotten_after_ten_seconds() {
        let mut window = Window::default();
        assert_eq!(window.costliest(), None);
        window.add(500 * MS, [(0, 5 * MS), (1, 50 * MS)].into_iter());
        assert_eq!(window.costliest(), Some((1, 0.1)));
        for _ in 0..19 {
            window.add(500 * MS, [(0, 5 * MS), (1, 0)].into_iter());
        }
        assert_eq!(window.ratio(0), Some(0.01));
        assert_eq!(window.ratio(1), Some(0.005));
        window.add(500 * MS, [(0, 5 * MS), (1, 0)].into_iter());
        assert_eq!(window.ratio(1), Some(0.0));
    }

    #[test]
    fn short_and_long_intervals_weigh_by_their_length() {
        for length in [50 * MS, 500 * MS, 3_000 * MS, 60_000 * MS] {
            let mut window = Window::default();
            for _ in 0..500 {
                window.add(length, [(2, length / 50)].into_iter());
            }
            let ratio = window.ratio(2).unwrap();
            assert!((ratio - 0.02).abs() < 1e-9, "{length}: {ratio}");
            // A CPU that does not pay any more is free of it in time.
            let mut passed = 0;
            while passed < WINDOW_NS + 2 * length.max(STEP_NS) {
                window.add(length, std::iter::empty());
                passed += length;
            }
            assert_eq!(window.ratio(2), Some(0.0), "{length}");
        }
    }
}
