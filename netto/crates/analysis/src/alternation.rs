//! Decides whether counters are attached all the time, or in windows because they cost too much.
//! Pure.

/// They are attached all the time again once they would have taken this part of what they may,
const COMES_BACK: f64 = 0.5;
/// for this long, nanoseconds.
const CALM_NS: u64 = 10_000_000_000;
/// After a failure to attach them, the time without windows; it doubles with each further one, at
/// most this many times.
const REST_NS: u64 = 30_000_000_000;
const MOST_DOUBLINGS: u32 = 4;

/// See the head of this file.
#[derive(Debug, Clone, Default)]
pub struct Alternation {
    /// Since when they would have fitted, while they are attached in windows.
    in_windows: Option<Calm>,
    rests_until_ns: u64,
    /// Consecutive failures to attach.
    failures: u32,
}

#[derive(Debug, Clone, Copy)]
struct Calm {
    since_ns: u64,
}

impl Alternation {
    /// Whether they are attached in windows only.
    pub fn is_in_windows(&self) -> bool {
        self.in_windows.is_some()
    }

    /// Whether a window may be opened: not for some time after a failure.
    pub fn may_open(&self, now_ns: u64) -> bool {
        self.is_in_windows() && now_ns >= self.rests_until_ns
    }

    /// Ends an interval in which they took this share of a CPU, or would have taken it if they had
    /// always been attached.
    pub fn end_interval(&mut self, costs: f64, may_cost: f64, now_ns: u64) {
        let is_calm = costs <= COMES_BACK * may_cost && now_ns >= self.rests_until_ns;
        match &mut self.in_windows {
            None if costs > may_cost => self.in_windows = Some(Calm { since_ns: now_ns }),
            None => self.failures = 0,
            Some(calm) if !is_calm => calm.since_ns = now_ns,
            Some(calm) if now_ns - calm.since_ns >= CALM_NS => self.in_windows = None,
            Some(_) => {}
        }
    }

    /// Records that they could not be attached.
    pub fn fail(&mut self, now_ns: u64) {
        self.in_windows = Some(Calm { since_ns: now_ns });
        self.rests_until_ns = now_ns + (REST_NS << self.failures.min(MOST_DOUBLINGS));
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
    fn what_costs_too_much_is_counted_in_windows_until_it_has_fitted_well_for_a_while() {
        let mut alternation = Alternation::default();
        let mut is_in_windows = |costs, at| {
            alternation.end_interval(costs, 0.01, second(at));
            assert_eq!(
                alternation.may_open(second(at)),
                alternation.is_in_windows()
            );
            alternation.is_in_windows()
        };
        assert!(!is_in_windows(0.01, 1));
        assert!(is_in_windows(0.02, 2));
        assert!(is_in_windows(0.001, 3));
        assert!(is_in_windows(0.006, 11), "more than half");
        assert!(is_in_windows(0.001, 12));
        assert!(is_in_windows(0.001, 20));
        assert!(!is_in_windows(0.001, 21));
    }

    #[test]
    fn what_cannot_be_attached_is_tried_again_and_ever_later() {
        let mut alternation = Alternation::default();
        let mut now_s = 1;
        let mut rests = Vec::new();
        for _ in 0..7 {
            let begun_s = now_s;
            alternation.fail(second(now_s));
            while !alternation.may_open(second(now_s)) {
                now_s += 1;
                alternation.end_interval(0.0, 0.01, second(now_s));
            }
            rests.push(now_s - begun_s);
        }
        assert_eq!(rests, [30, 60, 120, 240, 480, 480, 480]);
        alternation.end_interval(0.0, 0.01, second(now_s + 10));
        assert!(!alternation.is_in_windows());
        alternation.end_interval(0.0, 0.01, second(now_s + 11));
        alternation.fail(second(now_s + 11));
        alternation.end_interval(0.0, 0.01, second(now_s + 40));
        alternation.end_interval(0.0, 0.01, second(now_s + 41));
        assert!(
            alternation.may_open(second(now_s + 41)),
            "it was attached meanwhile"
        );
    }
}
