//! Detaches probes for a while after they cost too much. Pure.

/// How long they stay detached, nanoseconds.
const REST_NS: u64 = 30_000_000_000;
/// After each failure to attach them again, the time doubles, at most this many times.
const MOST_DOUBLINGS: u32 = 4;

/// Decides when a group of probes is attached.
#[derive(Debug, Clone, Default)]
pub struct DutyCycle {
    rests_until_ns: Option<u64>,
    /// Consecutive failures to attach.
    failures: u32,
}

impl DutyCycle {
    /// Whether the probes should be detached.
    pub fn is_resting(&self) -> bool {
        self.rests_until_ns.is_some()
    }

    /// Ends an interval in which the probes took this share of a CPU, as a ratio.
    pub fn end_interval(&mut self, costs: f64, may_cost: f64, now_ns: u64) {
        match self.rests_until_ns {
            None if costs > may_cost => self.rests_until_ns = Some(now_ns + REST_NS),
            None => self.failures = 0,
            Some(until_ns) if now_ns >= until_ns => self.rests_until_ns = None,
            Some(_) => {}
        }
    }

    /// Records that the probes could not be attached.
    pub fn fail(&mut self, now_ns: u64) {
        self.rests_until_ns = Some(now_ns + (REST_NS << self.failures.min(MOST_DOUBLINGS)));
        self.failures += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn second(second: u64) -> u64 {
        second * 1_000_000_000
    }

    #[test]
    fn what_costs_too_much_rests_half_a_minute_and_is_tried_again() {
        let mut cycle = DutyCycle::default();
        let mut rests = |costs, at| {
            cycle.end_interval(costs, 0.01, second(at));
            cycle.is_resting()
        };
        assert!(!rests(0.01, 1));
        assert!(rests(0.02, 2));
        assert!(rests(0.0, 31));
        assert!(!rests(0.0, 32));
        assert!(rests(0.02, 33));
    }

    #[test]
    fn what_cannot_be_attached_is_tried_again_and_ever_later() {
        let mut cycle = DutyCycle::default();
        let mut now_s = 1;
        let mut rests = Vec::new();
        for _ in 0..7 {
            let begun_s = now_s;
            cycle.fail(second(now_s));
            while cycle.is_resting() {
                now_s += 1;
                cycle.end_interval(0.0, 0.01, second(now_s));
            }
            rests.push(now_s - begun_s);
        }
        assert_eq!(rests, [30, 60, 120, 240, 480, 480, 480]);
        cycle.end_interval(0.0, 0.01, second(now_s + 1));
        cycle.fail(second(now_s));
        cycle.end_interval(0.0, 0.01, second(now_s + 30));
        assert!(!cycle.is_resting(), "it was attached meanwhile");
    }
}
