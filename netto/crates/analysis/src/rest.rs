//! Counting that stops for a while where it would cost too much. Pure.

/// For so long nothing is counted after it cost more.
const REST_NS: u64 = 30_000_000_000;

/// What is to be done with the probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// They count on.
    Count,
    /// They are to go.
    Stop,
    /// They stay away.
    Rest,
    /// They are to come back.
    Begin,
}

/// Whether something is counted now.
#[derive(Debug, Default)]
pub struct Rest {
    until_ns: Option<u64>,
}

impl Rest {
    /// Whether nothing was counted in the interval that ends.
    pub fn is_resting(&self) -> bool {
        self.until_ns.is_some()
    }

    /// What follows from an interval in which counting took so much of a CPU, as a ratio.
    pub fn turn(&mut self, costs: f64, may_cost: f64, now_ns: u64) -> Turn {
        match self.until_ns {
            None if costs > may_cost => {
                self.until_ns = Some(now_ns + REST_NS);
                Turn::Stop
            }
            None => Turn::Count,
            Some(until_ns) if now_ns >= until_ns => {
                self.until_ns = None;
                Turn::Begin
            }
            Some(_) => Turn::Rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_costs_too_much_rests_half_a_minute_and_is_tried_again() {
        let mut rest = Rest::default();
        let second = |second: u64| second * 1_000_000_000;
        assert_eq!(rest.turn(0.01, 0.01, second(1)), Turn::Count);
        assert_eq!(rest.turn(0.02, 0.01, second(2)), Turn::Stop);
        assert!(rest.is_resting());
        assert_eq!(rest.turn(0.0, 0.01, second(31)), Turn::Rest);
        assert_eq!(rest.turn(0.0, 0.01, second(32)), Turn::Begin);
        assert!(!rest.is_resting());
        assert_eq!(rest.turn(0.02, 0.01, second(33)), Turn::Stop);
    }
}
