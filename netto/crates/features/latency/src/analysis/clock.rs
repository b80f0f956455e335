//! The offset of CLOCK_REALTIME from CLOCK_MONOTONIC.

/// Smaller differences are noise of reading two clocks one after the other, nanoseconds.
const STEP_NS: u64 = 2_000;

/// CLOCK_REALTIME, read between two readings of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bracket {
    /// CLOCK_MONOTONIC before.
    pub before_ns: u64,
    /// CLOCK_REALTIME.
    pub of_day_ns: u64,
    /// CLOCK_MONOTONIC after.
    pub after_ns: u64,
}

/// The offset by the closest of these readings; `None` if there are none. It wraps around if
/// CLOCK_REALTIME is behind.
pub fn offset_ns(readings: impl Iterator<Item = Bracket>) -> Option<u64> {
    let width = |reading: &Bracket| reading.after_ns.saturating_sub(reading.before_ns);
    let closest = readings.min_by_key(width)?;
    let middle = closest.before_ns + width(&closest) / 2;
    Some(closest.of_day_ns.wrapping_sub(middle))
}

/// Whether the clock was set between two offsets.
pub fn is_step(before_ns: u64, now_ns: u64) -> bool {
    let ahead = now_ns.wrapping_sub(before_ns);
    ahead.min(ahead.wrapping_neg()) > STEP_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_reading_tells() {
        let reading = |before_ns, of_day_ns, after_ns| Bracket {
            before_ns,
            of_day_ns,
            after_ns,
        };
        let readings = [reading(100, 1_900, 900), reading(1_000, 2_020, 1_040)];
        assert_eq!(offset_ns(readings.into_iter()), Some(1_000));
        assert_eq!(offset_ns(std::iter::empty()), None);
    }

    #[test]
    fn hours_and_leap_seconds_are_steps_in_both_directions_and_noise_is_none() {
        let offset = 1_700_000_000_000_000_000_u64;
        for step in [3_600_000_000_000, 1_000_000_000, 5_000] {
            assert!(is_step(offset, offset + step), "{step}");
            assert!(is_step(offset, offset - step), "{step}");
        }
        assert!(!is_step(offset, offset + 500) && !is_step(offset, offset - 500));
        assert!(is_step(0, offset), "nothing was told yet");
        assert!(is_step(5_000, 0_u64.wrapping_sub(5_000)));
    }
}
