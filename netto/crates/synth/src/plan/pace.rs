//! From the records' clock to the sender's: how fast, and how many packets a second at most.

use std::fmt;
use std::str::FromStr;

const PICOSECONDS: u64 = 1_000_000_000_000;
const THOUSAND: u64 = 1000;
const FASTEST: u64 = 1_000_000 * THOUSAND;

/// How fast time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speed {
    /// In thousandths of real time, at least one.
    Thousandths(u64),
    /// As fast as it goes.
    Max,
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("max") {
            return Ok(Speed::Max);
        }
        let wrong = || format!("takes 0.001x to 1000000x, such as 2x, or max, not \"{text}\"");
        let number = text.strip_suffix(['x', 'X']).unwrap_or(text);
        let factor: f64 = number.parse().map_err(|_| wrong())?;
        let thousandths = (factor * THOUSAND as f64).round();
        if !(1.0..=FASTEST as f64).contains(&thousandths) {
            return Err(wrong());
        }
        Ok(Speed::Thousandths(thousandths as u64))
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Speed::Max => f.write_str("max"),
            Speed::Thousandths(count) => write!(f, "{}x", *count as f64 / THOUSAND as f64),
        }
    }
}

/// When packets are due, in nanoseconds since the first.
#[derive(Debug, Clone)]
pub struct Pace {
    speed: Speed,
    /// From one packet to the next at least.
    gap_ps: u64,
    /// Before this the next packet is not due.
    free_ps: u128,
}

impl Pace {
    /// This speed, and so many packets a second at most.
    pub fn new(speed: Speed, limit_pps: Option<u64>) -> Self {
        Pace {
            speed,
            gap_ps: limit_pps.map_or(0, |pps| PICOSECONDS / pps.max(1)),
            free_ps: 0,
        }
    }

    /// Whether packets are not waited for at all.
    pub fn is_unpaced(&self) -> bool {
        self.speed == Speed::Max && self.gap_ps == 0
    }

    /// When the next packet is due, whose time is so long after the first one's.
    pub fn due_ns(&mut self, offset_ns: u64) -> u64 {
        let own_ps = match self.speed {
            Speed::Max => 0,
            Speed::Thousandths(count) => {
                u128::from(offset_ns) * u128::from(THOUSAND * THOUSAND) / u128::from(count)
            }
        };
        let due_ps = own_ps.max(self.free_ps);
        self.free_ps = due_ps + u128::from(self.gap_ps);
        u64::try_from(due_ps / u128::from(THOUSAND)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_factors_or_max() {
        assert_eq!("2x".parse(), Ok(Speed::Thousandths(2000)));
        assert_eq!("0.5".parse(), Ok(Speed::Thousandths(500)));
        assert_eq!("max".parse(), Ok(Speed::Max));
        for text in ["", "x", "0", "-1x", "nan", "inf", "1e30", "fast"] {
            assert!(text.parse::<Speed>().is_err(), "{text}");
        }
        assert_eq!(Speed::Thousandths(2500).to_string(), "2.5x");
    }

    #[test]
    fn twice_the_speed_is_half_the_time() {
        let mut pace = Pace::new(Speed::Thousandths(2000), None);
        assert_eq!([0, 10, 10, 11].map(|ns| pace.due_ns(ns)), [0, 5, 5, 5]);
        let mut pace = Pace::new(Speed::Max, None);
        assert_eq!([0, 10, 1000].map(|ns| pace.due_ns(ns)), [0, 0, 0]);
    }

    #[test]
    fn a_limit_spreads_a_burst_and_leaves_slow_packets_where_they_are() {
        let mut pace = Pace::new(Speed::Thousandths(1000), Some(1_000_000));
        let due = [0, 0, 0, 9000, 9000].map(|ns| pace.due_ns(ns));
        assert_eq!(due, [0, 1000, 2000, 9000, 10000]);
        let mut pace = Pace::new(Speed::Max, Some(3));
        let due: Vec<u64> = (0..4).map(|ns| pace.due_ns(ns)).collect();
        assert_eq!(due, [0, 333_333_333, 666_666_666, 999_999_999]);
    }
}
